import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { auditEntry } from "#test/support/Json.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import { app, setUp } from "./ProjectFolder.ts"

layer(app, { excludeTestServices: true })("ampoule seal", (it) => {
  it.scoped("seals a file, changes one line of it, opens it on the server and for a command", () =>
    Effect.gen(function* () {
      const { file, home, project, run } = yield* setUp()
      file(".env", 'A=one\nB="two words"\n')
      const sealed = yield* run(["seal", "--manifest", ".env"])
      assert.strictEqual(sealed.code, 0, sealed.stderr)
      assert.notInclude(sealed.stdout, "two words")
      file(".env.sealed", sealed.stdout)
      assert.strictEqual((yield* run(["seal", "check"])).code, 0)
      assert.strictEqual((yield* run(["unseal"])).stdout, "A='one'\nB='two words'\n")
      assert.strictEqual((yield* run(["unseal", "--env", "development"])).code, 0)
      for (const command of [
        ["unseal", "--env", "staging"],
        ["run", "--sealed", ".env.sealed", "--env", "staging", "--", "true"],
        ["seal", "set", "A", "--env", "staging"],
        ["seal", "manifest", "--env", "staging"]
      ]) {
        const foreign = yield* run(command, { stdin: "value" })
        assert.notStrictEqual(foreign.code, 0)
        assert.include(foreign.stderr, "an environment other than staging")
        assert.strictEqual(foreign.stdout, "")
      }
      const elsewhere = yield* World.project({ team: project.team })
      const otherProject = yield* run(["unseal", "--project", elsewhere.id])
      assert.deepStrictEqual([otherProject.code, otherProject.stdout], [1, ""])
      assert.include(otherProject.stderr, "sealed in a project other than")
      assert.strictEqual((yield* run(["unseal", "--project", project.slug])).code, 0)
      assert.strictEqual((yield* run(["seal", "set", "A"])).code, 1)

      const before = fs.readFileSync(path.join(home, ".env.sealed"), "utf8").split("\n")
      assert.strictEqual((yield* run(["seal", "set", "C", "--offline"], { stdin: "three" })).code, 0)
      const after = fs.readFileSync(path.join(home, ".env.sealed"), "utf8").split("\n")
      assert.deepStrictEqual(after.slice(0, before.length - 2), before.slice(0, -2))
      assert.match(after[before.length - 2] ?? "", /^C="sealed:v1:/)
      assert.strictEqual(fs.statSync(path.join(home, ".env.sealed")).mode & 0o777, 0o644)
      const ran = yield* run(["run", "--sealed", ".env.sealed", "--", "sh", "-c", 'printf %s "$A $B $C"'])
      assert.deepStrictEqual([ran.code, ran.stdout], [0, "one two words three"])
      assert.isEmpty(fs.readdirSync(home).filter((name) => name.startsWith("..env")))
    })
  )

  it.scoped("finds what is not sealed, and refuses a file that was altered", () =>
    Effect.gen(function* () {
      const { file, home, run } = yield* setUp()
      file(".env", "A=one\nB=two\n")
      file(".env.sealed", (yield* run(["seal", "--manifest", ".env"])).stdout)
      const text = fs.readFileSync(path.join(home, ".env.sealed"), "utf8")
      const check = (content: string) => run(["seal", "check", "--offline", file("other.sealed", content)])
      const plain = yield* check(text.replace(/^A=.*$/m, "A=canary"))
      assert.strictEqual(plain.code, 1)
      assert.match(plain.stdout, /other\.sealed:\d+: the value of A is not sealed/)
      assert.notInclude(plain.stdout, "canary")
      assert.strictEqual((yield* check(text.replace(/^# ampoule environment.*$/m, ""))).code, 1)
      assert.strictEqual((yield* check("")).code, 1)
      const [, a = ""] = /^A="(.*)"$/m.exec(text) ?? []
      const [, b = ""] = /^B="(.*)"$/m.exec(text) ?? []
      for (const changed of [
        text.replace(a, "#").replace(b, a).replace("#", b),
        text.replace(/^A=.*\n/m, ""),
        text.replace(a, `${a.slice(0, -1)}${a.endsWith("A") ? "Q" : "A"}`),
        text.replace(/^A=/m, "C=")
      ]) {
        file("changed.sealed", changed)
        const opened = yield* run(["unseal", "changed.sealed"])
        assert.deepStrictEqual([opened.code, opened.stdout], [1, ""])
        const ran = yield* run(["run", "--sealed", "changed.sealed", "--", "echo", "ran"])
        assert.deepStrictEqual([ran.code, ran.stdout], [125, ""])
      }
    })
  )

  it.scoped("notices a rotated key, and seals again with the active one", () =>
    Effect.gen(function* () {
      const { file, home, project, run } = yield* setUp()
      file(".env", "A=one\n")
      file(".env.sealed", (yield* run(["seal", "--manifest", ".env"])).stdout)
      const { text: session } = yield* World.session(project.team.owner)
      const rotated = yield* TestApp.post(`/environments/${project.development.id}/keypair/rotate`, { session })
      assert.strictEqual(rotated.status, 200)
      const stale = yield* run(["seal", "check"])
      assert.strictEqual(stale.code, 1)
      assert.include(stale.stdout, rotated.json.keyId)
      assert.include((yield* run(["seal", "set", "B"], { stdin: "two" })).stderr, "reseal")
      assert.include((yield* run(["unseal"])).stderr, "sealed with an old key")
      assert.strictEqual((yield* run(["reseal"])).code, 0)
      assert.include(fs.readFileSync(path.join(home, ".env.sealed"), "utf8"), `# ampoule key: ${rotated.json.keyId}`)
      assert.strictEqual((yield* run(["seal", "check"])).code, 0)
      assert.strictEqual((yield* run(["unseal"])).stdout, "A='one'\n")
      assert.include((yield* run(["reseal"])).stderr, "has the active key")
    })
  )

  it.scoped("exports stored values that the server seals, and hands out none", () =>
    Effect.gen(function* () {
      const { file, home, project, run } = yield* setUp()
      const writer = yield* World.token({ team: project.team, accessLevel: "write" })
      const at = { projectId: project.id, environment: "development" }
      const secrets = [
        { key: "PASS", value: "canary-of-an-export" },
        { key: "URL", value: "pg://${PASS}" }
      ]
      yield* TestApp.post("/secrets/bulk", { bearer: writer.text, json: { ...at, secrets } })
      file(".env", "OLD='kept'\n")
      file(".env.sealed", `# a comment\n${(yield* run(["seal", "--manifest", ".env"])).stdout}`)
      const exported = yield* run(["seal", "export", "--only", "URL"])
      assert.deepStrictEqual([exported.code, exported.stdout], [0, ""])
      assert.match(exported.stderr, /^\.env\.sealed: 1 value, sealed with ek_/)
      const text = fs.readFileSync(path.join(home, ".env.sealed"), "utf8")
      assert.match(text, /^# a comment\n/)
      assert.notInclude(text, "canary")
      const missing = yield* run(["seal", "export", "--only", "GONE"])
      assert.deepStrictEqual([missing.code, missing.stdout], [1, ""])
      const sql = yield* SqlClient.SqlClient
      const rows = yield* sql<{ readonly body: string }>`
        SELECT body FROM audit_entries WHERE environment_id = ${project.development.id}
          AND action IN ('secret.inject', 'sealed.open', 'sealed.export') ORDER BY at, seq`
      assert.deepStrictEqual(
        rows.map(auditEntry).map(({ action, contains, keys }) => [action, keys, contains]),
        [["sealed.export", ["URL"], { PASS: 1 }]]
      )
      assert.strictEqual((yield* run(["unseal"])).stdout, "OLD='kept'\nURL='pg://canary-of-an-export'\n")
      fs.rmSync(path.join(home, ".env.sealed"))
      assert.strictEqual((yield* run(["seal", "export", "--json"])).code, 0)
      assert.strictEqual((yield* run(["seal", "check"])).code, 0)
      assert.include((yield* run(["unseal"])).stdout, "canary-of-an-export")
    })
  )
})
