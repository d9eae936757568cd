/** Metadata of secrets: the rights, the untouched parts, and the notices when a day has come. */
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, layer } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { cliScopes } from "#schema/Scopes.ts"
import { Maintenance } from "#src/secrets/Maintenance.ts"
import { auditEntry } from "#test/support/Json.ts"
import * as MovableClock from "#test/support/MovableClock.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const app = TestApp.server.pipe(
  Layer.provideMerge(Layer.merge(TestApp.backends, TestApp.config())),
  Layer.provideMerge(MovableClock.layer)
)
const { codeOf } = TestApp
const remind = Effect.flatMap(Maintenance, ({ rotationsDue }) => rotationsDue)
const day = (offset: number) =>
  Effect.map(Clock.currentTimeMillis, (now) => new Date(now + offset * 86_400_000).toISOString().slice(0, 10))

/** A project whose development has a secret DB_URL. */
const setUp = Effect.gen(function* () {
  const project = yield* World.project()
  const sessionOf = (person: World.Person) => Effect.map(World.session(person), ({ text }) => text)
  const owner = yield* sessionOf(project.team.owner)
  const query = (environment: string) => `${new URLSearchParams({ projectId: project.id, environment })}` as const
  const create = (key: string, environment = "development") =>
    Effect.map(
      TestApp.post("/secrets", { session: owner, json: { projectId: project.id, environment, key, value: "hunter2" } }),
      ({ json }) => json
    )
  const secret = yield* create("DB_URL")
  const path = `/secrets/${secret.id}/metadata` as const
  const list = Effect.map(TestApp.get(`/secrets?${query("development")}`, { session: owner }), ({ json }) => json.items)
  return { project, owner, query, create, secret, path, list, sessionOf }
})

layer(app, { excludeTestServices: true })("what is said of a secret", (it) => {
  it.effect("is listed at once, and leaves the value, its version and the revision alone", () =>
    Effect.gen(function* () {
      const { list, owner: session, path, query, secret } = yield* setUp
      const none = { owner: null, note: null, rotateBy: null, alias: null, tags: [] }
      assert.deepInclude((yield* list)[0], { key: "DB_URL", ...none })
      const before = yield* TestApp.get(`/secrets/inject?${query("development")}`, { session })
      const about = {
        owner: "platform team",
        note: "Role app of the database",
        rotateBy: "2030-02-28",
        alias: "ConnectionStrings__Default"
      }
      const written = yield* TestApp.patch(path, { session, json: about })
      assert.strictEqual(written.status, 200, written.text)
      assert.deepInclude(written.json, { ...secret, ...about })
      assert.deepInclude((yield* list)[0], { ...about, version: 1 })
      const after = yield* TestApp.get(`/secrets/inject?${query("development")}`, {
        session,
        headers: { "if-none-match": before.headers.get("etag") ?? "" }
      })
      assert.strictEqual(after.status, 304)

      // An absent member stays, and null takes it away.
      yield* TestApp.patch(path, { session, json: { note: null } })
      assert.deepInclude((yield* TestApp.get(path, { session })).json, { ...about, note: null })
      assert.deepInclude((yield* list)[0], { ...about, note: null })
      const versions = yield* TestApp.get(`/secrets/${secret.id}/versions`, { session })
      assert.lengthOf(versions.json.items, 1)

      // It comes back with the secret, and a deleted one has none to write.
      yield* TestApp.del(`/secrets/${secret.id}`, { session })
      assert.deepStrictEqual(codeOf(yield* TestApp.patch(path, { session, json: about })), [404, "SECRET_NOT_FOUND"])
      assert.deepStrictEqual(codeOf(yield* TestApp.get(path, { session })), [404, "SECRET_NOT_FOUND"])
      yield* TestApp.post(`/secrets/${secret.id}/restore`, { session })
      assert.deepInclude((yield* list)[0], { owner: about.owner, rotateBy: about.rotateBy })

      const sql = yield* SqlClient.SqlClient
      const entries = yield* sql<{ readonly body: string }>`
        SELECT body FROM audit_entries WHERE action = 'secret.describe' AND body LIKE ${`%${secret.projectId}%`}`
      assert.lengthOf(entries, 2)
      for (const entry of entries) {
        assert.deepStrictEqual(auditEntry(entry).keys, ["DB_URL"])
        assert.notInclude(entry.body, "platform team")
      }
    })
  )

  it.effect("is written by who may write, without a right to values; where changes wait, by owners and admins", () =>
    Effect.gen(function* () {
      const { create, owner, path, project, sessionOf } = yield* setUp
      const json = { owner: "ada" }
      const writer = yield* World.grant({
        person: project.team.owner,
        teams: [{ team: project.team, scopes: cliScopes.filter((scope) => !/values|run/.test(scope)) }]
      })
      assert.strictEqual((yield* TestApp.patch(path, { bearer: writer.text, json })).status, 200)
      const viewer = yield* sessionOf(yield* World.member(project.team, "viewer"))
      assert.deepStrictEqual(codeOf(yield* TestApp.patch(path, { session: viewer, json })), [403, "FORBIDDEN"])
      assert.strictEqual((yield* TestApp.get(path, { session: viewer })).json.owner, "ada")

      const secret = yield* create("TOKEN", "production")
      const author = yield* sessionOf(yield* World.member(project.team, "member"))
      yield* TestApp.patch(`/environments/${project.production.id}`, { session: owner, json: { changes: "proposed" } })
      const refused = yield* TestApp.patch(`/secrets/${secret.id}/metadata`, { session: author, json })
      assert.deepStrictEqual(codeOf(refused), [403, "FORBIDDEN"])
      assert.include(refused.text, "wait for an approval")
      assert.strictEqual((yield* TestApp.patch(`/secrets/${secret.id}/metadata`, { session: owner, json })).status, 200)
    })
  )

  it.effect("is bounded, on one line, and a day of the calendar", () =>
    Effect.gen(function* () {
      const { list, owner: session, path } = yield* setUp
      for (const [json, field] of [
        [{}, "owner"],
        [{ owner: "" }, "owner"],
        [{ owner: "x".repeat(201) }, "owner"],
        [{ note: "x".repeat(1_001) }, "note"],
        [{ note: "two\nlines" }, "note"],
        [{ note: "right\u202eleft" }, "note"],
        [{ alias: "a b" }, "alias"],
        [{ alias: "1a" }, "alias"],
        [{ alias: "A=B" }, "alias"],
        [{ alias: "a".repeat(256) }, "alias"],
        [{ rotateBy: "2027-02-30" }, "rotateBy"],
        [{ rotateBy: "2027-02-03T00:00:00Z" }, "rotateBy"],
        [{ rotateBy: "tomorrow" }, "rotateBy"],
        [{ value: "x" }, "value"]
      ] as const) {
        const refused = yield* TestApp.patch(path, { session, json })
        assert.deepStrictEqual([refused.status, refused.error.field], [400, field], JSON.stringify(json))
      }
      assert.deepInclude((yield* list)[0], { owner: null, note: null, rotateBy: null })
    })
  )

  it.effect("has up to ten tags, in their order, which the trail names", () =>
    Effect.gen(function* () {
      const { list, owner: session, path, project } = yield* setUp
      assert.deepInclude((yield* list)[0], { tags: [] })
      const write = (tags: ReadonlyArray<unknown>) => TestApp.patch(path, { session, json: { tags } })
      const written = yield* write(["pci", "billing"])
      assert.deepStrictEqual(written.json.tags, ["billing", "pci"], written.text)
      assert.deepInclude((yield* list)[0], { tags: ["billing", "pci"], owner: null, version: 1 })
      yield* TestApp.patch(path, { session, json: { owner: "ada" } })
      assert.deepInclude((yield* list)[0], { tags: ["billing", "pci"], owner: "ada" })
      const eleven = Array.from({ length: 11 }, (_, i) => `tag-${i}`)
      for (const [tags, field] of [
        [eleven, "tags"],
        [["a", "a"], "tags.1"],
        [["Upper"], "tags.0"],
        [["two words"], "tags.0"],
        [["x".repeat(41)], "tags.0"],
        [[""], "tags.0"]
      ] as const) {
        const refused = yield* write(tags)
        assert.deepStrictEqual([refused.status, refused.error.field], [400, field], JSON.stringify(tags))
      }
      assert.strictEqual((yield* write(eleven.slice(1))).status, 200)
      assert.strictEqual((yield* write([])).status, 200)
      assert.deepInclude((yield* list)[0], { tags: [] })
      const sql = yield* SqlClient.SqlClient
      const entries = yield* sql<{ readonly name: string | null }>`
        SELECT body::jsonb -> 'target' ->> 'name' AS name FROM audit_entries
        WHERE action = 'secret.describe' AND project_id = ${project.id} ORDER BY id`
      assert.deepStrictEqual(
        entries.map(({ name }) => name),
        ["billing, pci", null, eleven.slice(1).sort().join(", "), ""]
      )
    })
  )

  it.effect("tells the team's webhooks once for each day, and not of what is deleted", () =>
    Effect.gen(function* () {
      const { create, owner: session, path, project, sessionOf } = yield* setUp
      const sql = yield* SqlClient.SqlClient
      const hook = yield* TestApp.post(`/teams/${project.team.id}/webhooks`, {
        session,
        json: { name: "told", url: "https://hooks.example.com/told", events: ["secret.rotation_due"] }
      })
      assert.strictEqual(hook.status, 201, hook.text)
      const notified = Effect.map(
        sql<{ readonly keys: ReadonlyArray<string> }>`
          SELECT body::jsonb -> 'keys' AS keys FROM webhook_deliveries
          WHERE webhook_id = ${hook.json.id} AND event = 'secret.rotation_due' ORDER BY event_id`,
        (rows) => rows.map(({ keys }) => keys)
      )
      const gone = yield* create("GONE")
      const elsewhere = yield* create("ELSEWHERE", "staging")
      for (const { id } of [gone, elsewhere]) {
        yield* TestApp.patch(`/secrets/${id}/metadata`, { session, json: { rotateBy: yield* day(2) } })
      }
      yield* TestApp.patch(path, { session, json: { rotateBy: yield* day(2) } })
      yield* TestApp.del(`/secrets/${gone.id}`, { session })
      yield* TestApp.del(`/environments/${project.staging.id}`, { session })
      yield* remind
      assert.deepStrictEqual(yield* notified, [])
      yield* MovableClock.advance("2 days")
      yield* remind
      yield* remind
      assert.deepStrictEqual(yield* notified, [["DB_URL"]])
      // The same day said again is no other day. (A session does not outlive two days without a use.)
      const later = yield* sessionOf(project.team.owner)
      const say = (rotateBy: string) => TestApp.patch(path, { session: later, json: { rotateBy } })
      assert.strictEqual((yield* say(yield* day(0))).status, 200)
      yield* remind
      assert.lengthOf(yield* notified, 1)
      assert.strictEqual((yield* say(yield* day(1))).status, 200)
      yield* MovableClock.advance("1 day")
      yield* remind
      assert.deepStrictEqual(yield* notified, [["DB_URL"], ["DB_URL"]])

      const session2 = yield* sessionOf(project.team.owner)
      const page = yield* TestApp.get(`/app/projects/${project.id}/env/development`, { session: session2 })
      assert.include(page.text, "The value of one secret is due for replacement")
    })
  )
})
