/** The activity of a project and what proves an entry, asked over HTTP. */
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { Seal } from "#src/trail/Seal.ts"
import * as AuditFile from "#src/cli/operator/AuditFile.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import * as Rooms from "./Rooms.ts"

const setUp = Effect.gen(function* () {
  const project = yield* World.project()
  const { text: session } = yield* World.session(project.team.owner)
  const caller = yield* Rooms.callerOf({ text: session })
  const here = `/app/projects/${project.id}` as const
  const audit = `/app/teams/${project.team.id}/audit` as const
  const get = (path: string, as = session) => TestApp.get(path as `/${string}`, { session: as })
  const post = (path: string, fields: Readonly<Record<string, string>>, as = session) =>
    TestApp.post(path as `/${string}`, {
      session: as,
      headers: { "content-type": "application/x-www-form-urlencoded", origin: TestApp.baseUrl },
      body: new URLSearchParams(fields).toString()
    })
  const valuesIn = (environment: string) =>
    Effect.map(
      TestApp.get(`/secrets/inject?projectId=${project.id}&environment=${environment}`, { session }),
      ({ json }) => json.values
    )
  const write = (environment: string, entries: Readonly<Record<string, string>>) =>
    Rooms.write(caller, project, environment, entries)
  /** Addresses of what can be undone, by what was done; newest first. */
  const undos = Effect.map(
    get(`${here}/activity`),
    ({ text }) =>
      new Map(
        [...text.matchAll(/href="([^"]+\/activity\/[0-9a-f-]{36})">Undo…<span class="hidden"> ([^<]+)</g)].map(
          ([, href, what]) => [what, href]
        )
      )
  )
  const undoOf = (what: string) =>
    Effect.map(undos, (found) => found.get(what) ?? assert.fail(`${what}: ${[...found.keys()].join()}`))
  const revisionOn = (page: string) => /name="expectedRevision" value="(\d+)"/.exec(page)?.[1] ?? assert.fail(page)
  const undo = (href: string, fields: Readonly<Record<string, string>> = {}) =>
    Effect.gen(function* () {
      const page = yield* get(href)
      return yield* post(href, { expectedRevision: revisionOn(page.text), ...fields })
    })
  return { project, session, here, audit, get, post, valuesIn, write, undos, undoOf, undo, revisionOn }
})

layer(TestApp.shared, { excludeTestServices: true, timeout: "60 seconds" })("the activity of a project", (it) => {
  it.effect("takes an added, a changed and a deleted secret back, after a preview by name", () =>
    Effect.gen(function* () {
      const { get, here, post, project, revisionOn, undo, undoOf, undos, valuesIn, write } = yield* setUp
      yield* write("development", { A: "canary-1", B: "canary-b" })
      yield* write("development", { A: "canary-2", C: "canary-c" })
      assert.notInclude((yield* get(`${here}/activity`)).text, "canary")
      // The change that added A and B was built on since: it cannot be taken back alone.
      assert.sameMembers([...(yield* undos).keys()], ["added C", "changed A"])
      const changed = yield* undoOf("changed A")
      const preview = yield* get(changed)
      assert.include(preview.text, "These keys get their earlier value")
      assert.notInclude(preview.text, "canary")
      assert.strictEqual((yield* undo(changed)).status, 303)
      assert.deepStrictEqual(yield* valuesIn("development"), { A: "canary-1", B: "canary-b", C: "canary-c" })
      assert.strictEqual((yield* undo(yield* undoOf("added C"))).status, 303)
      assert.deepStrictEqual(yield* valuesIn("development"), { A: "canary-1", B: "canary-b" })
      // They are changes of their own.
      assert.strictEqual((yield* undo(yield* undoOf("deleted C"))).status, 303)
      assert.strictEqual((yield* undo(yield* undoOf("rolled back A"))).status, 303)
      assert.deepStrictEqual(yield* valuesIn("development"), { A: "canary-2", B: "canary-b", C: "canary-c" })
      assert.include((yield* get(`${here}/activity`)).text, "an earlier change")

      // Somebody wrote in between.
      const open = yield* undoOf("restored C")
      const expectedRevision = revisionOn((yield* get(open)).text)
      yield* write("development", { OTHER: "x" })
      const refused = yield* post(open, { expectedRevision })
      assert.strictEqual(refused.status, 409)
      assert.include(refused.text, "was changed meanwhile")
      assert.include((yield* get(changed)).text, "what it wrote was changed since")

      const member = yield* World.session(yield* World.member(project.team, "member"))
      assert.strictEqual((yield* get(`${here}/activity`, member.text)).status, 403)
      assert.strictEqual((yield* get(open, member.text)).status, 403)
      const stranger = yield* World.session((yield* World.project()).team.owner)
      assert.strictEqual((yield* get(`${here}/activity`, stranger.text)).status, 404)
    })
  )

  it.effect("asks for the name of a protected environment, and takes a change of several keys back as one", () =>
    Effect.gen(function* () {
      const { get, undo, undoOf, valuesIn, write } = yield* setUp
      yield* write("production", { A: "1", B: "1" })
      yield* write("production", { A: "2", B: "2" })
      const changed = yield* undoOf("changed A, B")
      const refused = yield* undo(changed, { confirm: "staging" })
      assert.strictEqual(refused.status, 400)
      assert.include(refused.text, "Type production to confirm.")
      assert.deepStrictEqual(yield* valuesIn("production"), { A: "2", B: "2" })
      assert.strictEqual((yield* undo(changed, { confirm: "production" })).status, 303)
      assert.deepStrictEqual(yield* valuesIn("production"), { A: "1", B: "1" })
      assert.include((yield* get(changed)).text, "what it wrote was changed since")
    })
  )
})

const verified = (text: string) =>
  Effect.gen(function* () {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), "ampoule-proof-"))
    const file = path.join(folder, "proof.jsonl")
    fs.writeFileSync(file, text)
    const report = yield* AuditFile.verifyFile(file, { checkpoints: [], keys: [] })
    fs.rmSync(folder, { recursive: true })
    return report
  }).pipe(Effect.provide(NodeContext.layer))

layer(TestApp.shared, { excludeTestServices: true, timeout: "60 seconds" })("an entry of the trail", (it) => {
  it.effect("is shown with its links to the sealed head, and its file is verified offline", () =>
    Effect.gen(function* () {
      const { audit, get, project, write } = yield* setUp
      yield* write("development", { API_KEY: "canary" })
      const find = Effect.map(
        get(`${audit}?action=secret.create`),
        ({ text }) => /href="([^"]+\/audit\/[0-9a-f-]{36})"/.exec(text)?.[1] ?? assert.fail(text)
      )
      const entry = yield* find
      yield* Effect.flatMap(Seal, (seal) => seal.now)
      const page = yield* get(entry)
      assert.include(page.text, "Every link from this entry to the sealed head of its stream holds.")
      assert.include(page.text, `/app/projects/${project.id}/env/development/key/API_KEY`)
      assert.notInclude(page.text, "canary")
      const { text } = yield* get(`${entry}/proof.jsonl`)
      const report = yield* verified(text)
      assert.deepInclude(report, { problemCount: 0 })
      assert.isAtLeast(report.entries, 1)
      const altered = yield* verified(text.replace("API_KEY", "API_KEX"))
      assert.isAtLeast(altered.problemCount, 1)

      const stranger = yield* World.session((yield* World.project()).team.owner)
      assert.strictEqual((yield* get(entry, stranger.text)).status, 404)
      const other = yield* World.project()
      const { text: theirs } = yield* World.session(other.team.owner)
      const id = entry.slice(-36)
      assert.strictEqual((yield* get(`/app/teams/${other.team.id}/audit/${id}`, theirs)).status, 404)
    })
  )

  it.effect("is found by filters that people keep, each their own and those of the team", () =>
    Effect.gen(function* () {
      const { audit, get, post, project } = yield* setUp
      const admin = yield* World.session(yield* World.member(project.team, "admin"))
      const member = yield* World.session(yield* World.member(project.team, "member"))
      const save = (name: string, more: Readonly<Record<string, string>> = {}, as?: string) =>
        post(`${audit}/views`, { name, action: "secret.read", ...more }, as)
      const pills = (as?: string) =>
        Effect.map(get(audit, as), ({ text }) => {
          const nav = /aria-label="Saved views">([\s\S]*?)<\/nav>/.exec(text)?.[1] ?? ""
          return [...nav.matchAll(/href="([^"]*)"[^>]*><bdi>([^<]*)/g)].map(([, href, name]) => [
            name,
            href.replaceAll("&amp;", "&").split("?")[1]
          ])
        })
      assert.strictEqual((yield* save("mine")).status, 303)
      assert.strictEqual((yield* save("ours", { shared: "yes", key: "API_KEY" })).status, 303)
      assert.deepStrictEqual(yield* pills(), [
        ["mine", "action=secret.read"],
        ["ours", "action=secret.read&key=API_KEY"]
      ])
      assert.deepStrictEqual(yield* pills(admin.text), [["ours", "action=secret.read&key=API_KEY"]])
      // The same name is the same view.
      yield* save("mine", { action: "secret.create" })
      assert.deepStrictEqual((yield* pills())[0], ["mine", "action=secret.create"])
      for (const [fields, words] of [
        [{ name: "" }, "name"],
        [{ name: "x".repeat(61) }, "Must be 1 to 60 characters"],
        [{ action: "no.such" }, `role="alert"`]
      ] as const) {
        const refused = yield* save("x", fields)
        assert.strictEqual(refused.status, 400)
        assert.include(refused.text, words)
      }
      for (let i = 1; i < 20; i++) yield* save(`v${i}`)
      const full = yield* save("one more")
      assert.strictEqual(full.status, 400)
      assert.include(full.text, "There are 20 views")
      assert.strictEqual((yield* save("mine", {}, member.text)).status, 403)
      const idOf = (name: string) =>
        Effect.map(
          get(audit),
          ({ text }) =>
            new RegExp(`name="view" value="([^"]+)"[^>]*><button[^>]*>Delete<span[^>]*> the view ${name}<`).exec(
              text
            )?.[1] ?? assert.fail(name)
        )
      const mine = yield* idOf("mine")
      // Another person's is not touched.
      yield* post(`${audit}/views/delete`, { view: mine }, admin.text)
      assert.strictEqual((yield* pills())[0]?.[0], "mine")
      yield* post(`${audit}/views/delete`, { view: mine })
      yield* post(`${audit}/views/delete`, { view: yield* idOf("ours") }, admin.text)
      assert.notInclude(JSON.stringify(yield* pills()), "ours")
    })
  )
})
