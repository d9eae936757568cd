/** A team's list of allowed keys: no way of writing gives a secret another key, and no sealed file brings one. */
import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as SealedEnv from "#src/sealed/SealedEnv.ts"
import { auditEntry } from "#test/support/Json.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const codeOf = TestApp.refusalOf

const setUp = Effect.gen(function* () {
  const project = yield* World.project()
  const { team } = project
  const { text: session } = yield* World.session(team.owner)
  const at = { projectId: project.id, environment: "development" }
  const create = (key: string, value = "v") => TestApp.post("/secrets", { session, json: { ...at, key, value } })
  const allow = (allowedKeys: ReadonlyArray<string> | null, by = session) =>
    TestApp.patch(`/teams/${team.id}`, { session: by, json: { allowedKeys } })
  return { allow, at, create, project, session, team }
})

layer(TestApp.shared, { excludeTestServices: true, timeout: "60 seconds" })("a team's list of allowed keys", (it) => {
  it.effect("refuses every other key by each way of writing, names the member, and changes nothing", () =>
    Effect.gen(function* () {
      const { allow, at, create, project, session } = yield* setUp
      const gone = yield* create("GONE")
      assert.strictEqual((yield* TestApp.del(`/secrets/${gone.json.id}`, { session })).status, 200)
      const fine = yield* create("APP_FINE")
      assert.strictEqual((yield* create("APP_SOURCE")).status, 201)
      const set = yield* allow(["APP_*", "NODE_OPTIONS"])
      assert.deepStrictEqual(set.json.allowedKeys, ["APP_*", "NODE_OPTIONS"], set.text)

      const outside = { key: "LD_PRELOAD", value: "/tmp/x.so" }
      const production = { projectId: project.id, environment: "production" }
      const copied = { environment: "development", key: "APP_SOURCE" }
      const changes = `/projects/${project.id}/changes`
      const ofOther = { environment: "production", key: "OTHER", op: "set" }
      const ways: ReadonlyArray<readonly [name: string, path: string, json: object | undefined, field: string]> = [
        ["creation", "/secrets", { ...at, ...outside }, "key"],
        ["bulk", "/secrets/bulk", { ...at, secrets: [{ key: "APP_A", value: "1" }, outside] }, "secrets.1.key"],
        ["rename", `/secrets/${fine.json.id}/rename`, { key: "OTHER" }, "key"],
        ["restore", `/secrets/${gone.json.id}/restore`, undefined, "key"],
        [
          "changes of two environments",
          changes,
          {
            entries: [
              { environment: "development", key: "APP_B", op: "set", value: "1" },
              { environment: "production", ...outside, op: "set" }
            ]
          },
          "entries.1.key"
        ],
        ["generated value", changes, { entries: [{ ...ofOther, generate: { length: 20 } }] }, "entries.0.key"],
        ["copy", changes, { entries: [{ ...ofOther, copyFrom: copied }] }, "entries.0.key"]
      ]
      for (const [name, path, json, field] of ways) {
        const answer = yield* TestApp.post(path, { session, ...(json === undefined ? {} : { json }) })
        assert.deepStrictEqual(codeOf(answer), [400, "VALIDATION_FAILED", field], `${name}: ${answer.text}`)
        assert.include(answer.text, "list of allowed keys", name)
        assert.notInclude(answer.text, outside.value, name)
      }
      const names = yield* TestApp.get(`/secrets?${new URLSearchParams(at)}`, { session })
      assert.deepStrictEqual(
        names.json.items.map((one) => one.key),
        ["APP_FINE", "APP_SOURCE"]
      )
      const there = yield* TestApp.get(`/secrets?${new URLSearchParams(production)}`, { session })
      assert.deepStrictEqual(there.json.items, [])
      // A name that runs code is allowed where it is written out.
      assert.strictEqual((yield* create("NODE_OPTIONS", "--max-old-space-size=512")).status, 201)
      assert.strictEqual((yield* create("APP_NEW")).status, 201)
      assert.isNull((yield* allow(null)).json.allowedKeys)
      assert.strictEqual((yield* create("OTHER")).status, 201)
    })
  )

  it.effect("is judged again when a change is approved", () =>
    Effect.gen(function* () {
      const { allow, at, project, session, team } = yield* setUp
      const member = yield* World.session(yield* World.member(team, "member"))
      yield* TestApp.patch(`/environments/${project.development.id}`, { session, json: { changes: "proposed" } })
      const proposed = yield* TestApp.post("/secrets", {
        session: member.text,
        json: { ...at, key: "OTHER", value: "v" }
      })
      assert.strictEqual(proposed.status, 202, proposed.text)
      const [request] = (yield* TestApp.get("/change-requests", { session })).json.items
      assert.strictEqual((yield* allow(["APP_*"])).status, 200)
      const approve = TestApp.post(`/change-requests/${request?.id ?? ""}/approve`, { session })
      assert.deepStrictEqual(codeOf(yield* approve).slice(0, 2), [400, "VALIDATION_FAILED"])
      // A key outside of the list is refused before it waits.
      const again = yield* TestApp.post("/secrets", { session: member.text, json: { ...at, key: "MORE", value: "v" } })
      assert.deepStrictEqual(codeOf(again), [400, "VALIDATION_FAILED", "key"])
      assert.strictEqual((yield* allow(["APP_*", "OTHER"])).status, 200)
      assert.strictEqual((yield* approve).status, 200)
    })
  )

  it.effect("holds for a sealed file, whose names come from its maker", () =>
    Effect.gen(function* () {
      const { allow, project, session } = yield* setUp
      const { json } = yield* TestApp.get(`/environments/${project.development.id}/keypair`, { session })
      const key = Option.getOrThrow(SealedEnv.parsePublicKey(json.publicKey))
      const to = yield* Effect.orDie(SealedEnv.recipient(project.development.id, key))
      const entryOf = (name: string) => Effect.orDie(SealedEnv.sealEntry(to, name, Redacted.make("v")))
      const entries = { APP_A: yield* entryOf("APP_A"), BASH_ENV: yield* entryOf("BASH_ENV") }
      const open = TestApp.post(`/environments/${project.development.id}/sealed-values/open`, {
        session,
        json: { keyId: json.keyId, entries }
      })
      assert.strictEqual((yield* open).status, 200)
      assert.strictEqual((yield* allow(["*"])).status, 200)
      assert.deepStrictEqual(codeOf(yield* open), [400, "VALIDATION_FAILED", "entries.BASH_ENV"])
      assert.strictEqual((yield* allow(["APP_*", "BASH_ENV"])).status, 200)
      assert.strictEqual((yield* open).status, 200)
    })
  )

  it.effect("is set by an owner, in good form, and only where it covers the secrets that exist", () =>
    Effect.gen(function* () {
      const { allow, create, session, team } = yield* setUp
      const admin = yield* World.session(yield* World.member(team, "admin"))
      assert.deepStrictEqual(codeOf(yield* allow(["APP_*"], admin.text)), [403, "FORBIDDEN", undefined])
      for (const wrong of [[], ["app"], ["A*B"], ["**"], [""], ["A", "b c"]]) {
        const answer = yield* allow(wrong)
        assert.deepStrictEqual(codeOf(answer).slice(0, 2), [400, "VALIDATION_FAILED"], answer.text)
      }
      for (const key of ["GIT_SSH_COMMAND", "LEGACY"]) assert.strictEqual((yield* create(key)).status, 201)
      const refused = yield* allow(["GIT_*"])
      assert.deepStrictEqual(codeOf(refused), [400, "VALIDATION_FAILED", "allowedKeys"])
      assert.include(refused.text, "GIT_SSH_COMMAND, LEGACY")
      assert.strictEqual((yield* allow(["GIT_SSH_COMMAND", "LEGACY"])).status, 200)
      const sql = yield* SqlClient.SqlClient
      const rows = yield* sql<{ readonly body: string }>`
        SELECT body FROM audit_entries WHERE team_id = ${team.id} AND action = 'team.update' ORDER BY id DESC LIMIT 1`
      assert.deepStrictEqual(rows.map(auditEntry)[0]?.target, { type: "team", id: team.id, name: "allowedKeys" })
      // Of a deleted secret the list asks nothing.
      const { json } = yield* create("LEGACY2").pipe(
        Effect.zipRight(TestApp.get(`/teams/${team.id}/members`, { session }))
      )
      assert.lengthOf(json.items, 2)
    })
  )

  it.effect("is made wider only with a second person, where the team requires one", () =>
    Effect.gen(function* () {
      const { allow, session, team } = yield* setUp
      yield* World.member(team, "admin")
      assert.strictEqual((yield* allow(["APP_*"])).status, 200)
      yield* TestApp.patch(`/teams/${team.id}`, { session, json: { secondPerson: true } })
      assert.strictEqual((yield* allow(["APP_A"])).status, 200)
      for (const wider of [null, ["*"], ["APP_A", "NODE_OPTIONS"]]) {
        assert.strictEqual((yield* allow(wider)).status, 202, String(wider))
      }
    })
  )
})
