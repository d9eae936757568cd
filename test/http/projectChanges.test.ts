/** Changes of several environments in one transaction: all or none, by the rules of each environment. */
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { cliScopes } from "#schema/Scopes.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const refusal = TestApp.refusalOf
type Entry = Record<string, unknown>

const setUp = Effect.gen(function* () {
  const project = yield* World.project()
  const { team } = project
  const { text: owner } = yield* World.session(team.owner)
  const path = `/projects/${project.id}/changes` as const
  const change = (entries: ReadonlyArray<Entry>, as: TestApp.Asked = { session: owner }, more: object = {}) =>
    TestApp.post(path, { ...as, json: { entries, ...more } })
  const values = (environment: string) =>
    Effect.map(
      TestApp.get(`/secrets/inject?${new URLSearchParams({ projectId: project.id, environment })}`, { session: owner }),
      ({ json }) => json.values
    )
  const trail = Effect.map(
    TestApp.get(`/teams/${team.id}/audit?limit=200`, { session: owner }),
    ({ json }) => json.items
  )
  return { project, team, owner, change, values, trail }
})
const set = (environment: string, key: string, value: string, more: Entry = {}): Entry => ({
  environment,
  key,
  op: "set",
  value,
  ...more
})
const gone = (environment: string, key: string, more: Entry = {}): Entry => ({
  environment,
  key,
  op: "delete",
  ...more
})

const app = Layer.provideMerge(TestApp.shared, Crypto.Default)
layer(app, { excludeTestServices: true })("changes across environments", (it) => {
  it.effect("are written together, copied and made on the server, each with its entry and why", () =>
    Effect.gen(function* () {
      const { change, trail, values } = yield* setUp
      const first = yield* change([
        set("development", "BASE", "one", { expectedVersion: 0 }),
        set("development", "URL", "x-${BASE}"),
        set("production", "BASE", "two")
      ])
      assert.strictEqual(first.status, 200, first.text)
      assert.deepStrictEqual(
        first.json.environments.map(({ environment, items, request }) => [environment, items, request]),
        [
          [
            "development",
            [
              { key: "BASE", outcome: "created", version: 1 },
              { key: "URL", outcome: "created", version: 1 }
            ],
            null
          ],
          ["production", [{ key: "BASE", outcome: "created", version: 1 }], null]
        ]
      )
      const second = yield* change(
        [
          { environment: "staging", key: "URL", op: "set", copyFrom: { environment: "development", key: "URL" } },
          { environment: "staging", key: "BASE", op: "set", copyFrom: { environment: "production", key: "BASE" } },
          { environment: "staging", key: "TOKEN", op: "set", generate: { length: 32, charset: "hex" } },
          set("development", "BASE", "one", { expectedVersion: 1 }),
          gone("development", "URL", { expectedVersion: 1 }),
          set("production", "BASE", "three", { expectedVersion: 1 })
        ],
        undefined,
        { reason: "INC-204" }
      )
      assert.deepStrictEqual(
        second.json.environments.flatMap(({ environment, items }) => items.map((i) => [environment, i.key, i.outcome])),
        [
          ["staging", "URL", "created"],
          ["staging", "BASE", "created"],
          ["staging", "TOKEN", "created"],
          ["development", "BASE", "unchanged"],
          ["development", "URL", "deleted"],
          ["production", "BASE", "updated"]
        ]
      )
      const staging = yield* values("staging")
      assert.deepInclude(staging, { BASE: "two", URL: "x-two" })
      assert.match(staging["TOKEN"] ?? "", /^[0-9a-f]{32}$/)
      assert.deepStrictEqual(yield* values("development"), { BASE: "one" })
      assert.deepStrictEqual(yield* values("production"), { BASE: "three" })
      assert.notInclude(second.text, "two")
      const entries = (yield* trail)
        .filter(({ reason }) => reason === "INC-204")
        .map(({ action, environment, keys }) => `${environment} ${action} ${keys.join()}`)
      assert.sameMembers(entries, [
        "staging secret.create URL,BASE,TOKEN",
        "development secret.delete URL",
        "development secret.unchanged BASE",
        "production secret.update BASE"
      ])
    })
  )

  it.effect("name every secret that changed meanwhile, and the entry of any other refusal; nothing is written", () =>
    Effect.gen(function* () {
      const { change, values } = yield* setUp
      yield* change([set("development", "A", "a"), set("staging", "A", "a"), set("staging", "T", "t-${A}")])
      const conflict = yield* change([
        set("development", "A", "mine", { expectedVersion: 3 }),
        set("development", "FINE", "mine", { expectedVersion: 0 }),
        set("staging", "A", "mine", { expectedVersion: 0 }),
        gone("staging", "NEVER", { expectedVersion: 2 })
      ])
      assert.deepStrictEqual(refusal(conflict), [409, "SECRETS_CHANGED", undefined])
      assert.deepStrictEqual(conflict.error["conflicts"], [
        { environment: "development", key: "A", currentVersion: 1 },
        { environment: "staging", key: "A", currentVersion: 1 },
        { environment: "staging", key: "NEVER", currentVersion: 0 }
      ])
      const fine = set("development", "FINE", "mine")
      const refused = (...entries: ReadonlyArray<Entry>) => Effect.map(change([fine, ...entries]), refusal)
      assert.deepStrictEqual(yield* refused(set("staging", "B", "${NOT}")), [
        400,
        "TEMPLATE_REFERENCE_MISSING",
        "entries.1.value"
      ])
      assert.deepStrictEqual(yield* refused(gone("staging", "A")), [409, "SECRET_HAS_DEPENDENTS", "entries.1.key"])
      assert.deepStrictEqual(yield* refused(gone("staging", "NEVER")), [404, "SECRET_NOT_FOUND", "entries.1.key"])
      assert.deepStrictEqual(
        yield* refused({
          environment: "staging",
          key: "C",
          op: "set",
          copyFrom: { environment: "development", key: "NO" }
        }),
        [404, "SECRET_NOT_FOUND", "entries.1.copyFrom.key"]
      )
      assert.deepStrictEqual(yield* refused(set("nowhere", "A", "x")), [404, "ENVIRONMENT_NOT_FOUND", undefined])
      for (const [entry, field] of [
        [{ ...gone("staging", "A"), value: "x" }, "entries.1.value"],
        [{ environment: "staging", key: "A", op: "set" }, "entries.1.value"],
        [{ ...set("staging", "A", "x"), generate: { length: 32 } }, "entries.1.generate"],
        [set("development", "FINE", "again"), "entries.1.key"]
      ] as const) {
        assert.deepStrictEqual(yield* refused(entry), [400, "VALIDATION_FAILED", field])
      }
      assert.deepStrictEqual(yield* values("development"), { A: "a" })
      // A template of the deleted one is rewritten in the same request.
      assert.strictEqual((yield* change([gone("staging", "A"), set("staging", "T", "plain")])).status, 200)
      assert.deepStrictEqual(yield* values("staging"), { T: "plain" })
    })
  )

  it.effect("follow the rule of each environment: refused whole, or its part waits and the others are written", () =>
    Effect.gen(function* () {
      const { change, owner, project, team, trail, values } = yield* setUp
      const member = yield* World.member(team, "member")
      const { text: session } = yield* World.session(member)
      const both = [set("development", "A", "a"), set("production", "A", "a")]
      assert.deepStrictEqual(refusal(yield* change(both, { session })), [403, "FORBIDDEN", undefined])
      const token = yield* World.token({ team })
      assert.deepStrictEqual(refusal(yield* change(both, { bearer: token.text })), [
        403,
        "API_TOKEN_NOT_SCOPED_TO_PROTECTED_ENVIRONMENT",
        undefined
      ])
      assert.deepStrictEqual(yield* values("development"), {})
      yield* TestApp.patch(`/environments/${project.production.id}`, {
        session: owner,
        json: { changes: "proposed", readers: "team" }
      })
      const half = yield* change(both, { session }, { reason: "asked for by support" })
      assert.strictEqual(half.status, 200, half.text)
      const [written, waits] = half.json.environments
      assert.deepStrictEqual(written.items, [{ key: "A", outcome: "created", version: 1 }])
      assert.deepStrictEqual(waits.items, [])
      assert.deepStrictEqual(waits.request?.changes, [
        { key: "A", change: "create", kind: "literal", references: [], warnings: [], conflict: false }
      ])
      assert.strictEqual(waits.request?.reason, "asked for by support")
      assert.deepStrictEqual(yield* values("production"), {})
      const approved = yield* TestApp.post(`/change-requests/${waits.request?.id ?? ""}/approve`, { session: owner })
      assert.strictEqual(approved.status, 200, approved.text)
      assert.deepStrictEqual(yield* values("production"), { A: "a" })
      const entry = (yield* trail).find(({ action }) => action === "change.request")
      assert.strictEqual(entry?.reason, "asked for by support")
    })
  )

  it.effect("count guesses of all environments together, and tell no caller without values what was equal", () =>
    Effect.gen(function* () {
      const { change, team } = yield* setUp
      const keys = Array.from({ length: 16 }, (_, i) => `K${i}`)
      const entries = ["development", "staging"].flatMap((environment) => keys.map((key) => set(environment, key, "v")))
      yield* change(entries)
      const scopes = cliScopes.filter((scope) => scope !== "secrets:read_values" && scope !== "secrets:run")
      const blind = { bearer: (yield* World.grant({ person: team.owner, teams: [{ team, scopes }] })).text }
      const guess = yield* change([entries[0]], blind)
      assert.deepStrictEqual(guess.json.environments[0]?.items, [{ key: "K0", outcome: "updated", version: 1 }])
      // 32 guesses are more than 29 that are left, though each environment has 16: none is taken.
      assert.deepStrictEqual(refusal(yield* change(entries, blind)), [429, "RATE_LIMITED", undefined])
      assert.strictEqual((yield* change(entries.slice(0, 29), blind)).status, 200)
      assert.deepStrictEqual(refusal(yield* change([entries[0]], blind)), [429, "RATE_LIMITED", undefined])
    })
  )

  it.effect("of many at once never wait for each other in a circle, whatever their order", () =>
    Effect.gen(function* () {
      const { change, project, values } = yield* setUp
      const environments = ["development", "staging", "production"]
      const answers = yield* Effect.forEach(
        Array.from({ length: 12 }, (_, i) => i),
        (i) => {
          const order = [0, 1, 2].map((n) => environments[(n + i) % 3])
          return change((i % 2 === 0 ? order : order.reverse()).map((at) => set(at, `K${i}`, `${i}`)))
        },
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual([...new Set(answers.map(({ status }) => status))], [200])
      for (const environment of environments) assert.lengthOf(Object.keys(yield* values(environment)), 12)
      // Each environment counted its revisions one by one.
      const sql = yield* SqlClient.SqlClient
      const rows = yield* sql<{ readonly revision: string }>`
        SELECT revision::text FROM environments WHERE project_id = ${project.id}`
      assert.deepStrictEqual(
        rows.map(({ revision }) => revision),
        ["12", "12", "12"]
      )
    })
  )
})
