import { assert, describe, layer } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { freshAddress } from "#test/support/FreshAddress.ts"
import * as MovableClock from "#test/support/MovableClock.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const trusting = TestApp.config({ trustedProxies: ["127.0.0.0/8"] })
const clocked = TestApp.server.pipe(
  Layer.provideMerge(Layer.merge(TestApp.backends, trusting)),
  Layer.provideMerge(MovableClock.layer)
)

const limits = ({ headers }: TestApp.Answer) => [
  headers.get("ratelimit-limit"),
  headers.get("ratelimit-remaining"),
  headers.get("ratelimit-reset")
]
const repeat = <A, E, R>(times: number, effect: Effect.Effect<A, E, R>) =>
  Effect.all(Array.from({ length: times }, () => effect))

const fromFresh = () => ({ "x-forwarded-for": freshAddress() })

describe("rate limits over HTTP", () => {
  layer(clocked, { excludeTestServices: true })((it) => {
    it.effect(
      "of every kind of credential count in a bucket of its own, and stand in the headers of every answer",
      () =>
        Effect.gen(function* () {
          const team = yield* World.team()
          const teams = [{ team, scopes: ["identity:read"] as const }]
          const credentials: ReadonlyArray<TestApp.Asked> = [
            { bearer: (yield* World.token({ team })).text },
            { bearer: (yield* World.token({ team })).text },
            { bearer: (yield* World.grant({ person: team.owner, teams })).text },
            { session: (yield* World.session(team.owner)).text }
          ]
          for (const credential of credentials) {
            const answers = yield* repeat(50, TestApp.get("/me/verify", credential))
            assert.deepStrictEqual(
              answers.map((answer) => answer.status),
              answers.map(() => 200)
            )
            assert.deepStrictEqual(
              answers.map(limits),
              answers.map((_, i) => ["50", String(49 - i), "1"])
            )
            const refused = yield* TestApp.get("/me/verify", credential)
            assert.strictEqual(refused.status, 429)
            assert.deepStrictEqual(
              { ...refused.error, message: "" },
              { statusCode: 429, code: "RATE_LIMITED", message: "", retryAfterSeconds: 1 }
            )
            assert.strictEqual(refused.headers.get("retry-after"), "1")
            assert.deepStrictEqual(limits(refused), ["50", "0", "1"])
          }
          yield* MovableClock.advance("1 seconds")
          for (const credential of credentials) {
            assert.strictEqual((yield* TestApp.get("/me/verify", credential)).status, 200)
          }
        })
    )

    it.effect("of an address hold for every spelling of a path", () =>
      Effect.gen(function* () {
        const headers = fromFresh()
        const answers = yield* repeat(301, TestApp.post("/set%75p", { headers, json: {} }))
        assert.deepStrictEqual(
          [...new Set(answers.slice(0, 300).map((answer) => answer.error.code))],
          ["ROUTE_NOT_FOUND"]
        )
        assert.strictEqual(answers[300]?.status, 429)
        const plain = yield* TestApp.post("/setup", { headers, json: {} })
        assert.strictEqual(plain.status, 429)
      })
    )

    it.effect("hold for 10 seconds and for a minute as well; refused requests do not count", () =>
      Effect.gen(function* () {
        const bearer = (yield* World.token({ team: yield* World.team() })).text
        const statuses = Effect.fnUntraced(function* (times: number) {
          const answers = yield* repeat(times, TestApp.get("/me/verify", { bearer }))
          return answers.filter((answer) => answer.status === 200).length
        })
        let admitted = 0
        for (let second = 0; second < 5; second++) {
          admitted += yield* statuses(52)
          yield* MovableClock.advance("1 seconds")
        }
        assert.strictEqual(admitted, 250)
        const refused = yield* TestApp.get("/me/verify", { bearer })
        assert.strictEqual(refused.status, 429)
        assert.strictEqual(refused.error.retryAfterSeconds, 5)
        assert.deepStrictEqual(limits(refused), ["250", "0", "5"])
        yield* MovableClock.advance("5 seconds")
        assert.strictEqual(yield* statuses(52), 50)
      })
    )

    it.effect("hold on the stream of a device code too, for credentials that it does not take", () =>
      Effect.gen(function* () {
        const team = yield* World.team()
        const teams = [{ team, scopes: ["identity:read"] as const }]
        const credentials: ReadonlyArray<TestApp.Asked> = [
          { bearer: (yield* World.token({ team })).text },
          { bearer: (yield* World.grant({ person: team.owner, teams })).text },
          { session: (yield* World.session(team.owner)).text }
        ]
        for (const credential of credentials) {
          const answers = yield* repeat(51, TestApp.get("/auth/cli/device/events", credential))
          assert.deepStrictEqual(
            answers.map((answer) => [answer.status, ...limits(answer)]),
            answers.map((_, i) => (i < 50 ? [403, "50", String(49 - i), "1"] : [429, "50", "0", "1"]))
          )
          assert.strictEqual((yield* TestApp.get("/me/verify", credential)).status, 429)
        }
      })
    )

    it.effect("come before kind, shape, visibility and rights", () =>
      Effect.gen(function* () {
        const bearer = (yield* World.token({ team: yield* World.team(), accessLevel: "read" })).text
        yield* repeat(50, TestApp.get("/me/verify", { bearer }))
        const answers = [
          yield* TestApp.get("/me", { bearer }),
          yield* TestApp.get("/secrets?nonsense=1", { bearer }),
          yield* TestApp.post("/secrets", { bearer, json: {} })
        ]
        assert.deepStrictEqual(
          answers.map((answer) => answer.status),
          [429, 429, 429]
        )
      })
    )

    it.effect("of /secrets/diff are 30 a minute per credential, since it can be used to test guesses", () =>
      Effect.gen(function* () {
        const { id, team } = yield* World.project()
        const path = `/secrets/diff?projectId=${id}&sourceEnv=development&targetEnv=staging` as const
        const bearer = (yield* World.token({ team })).text
        const answers = yield* repeat(31, TestApp.get(path, { bearer }))
        assert.deepStrictEqual(
          answers.map((answer) => answer.status),
          answers.map((_, i) => (i < 30 ? 200 : 429))
        )
        assert.strictEqual(answers[30].error.retryAfterSeconds, 60)
        assert.strictEqual((yield* TestApp.get("/me/verify", { bearer })).status, 200)
        const another = (yield* World.token({ team })).text
        assert.strictEqual((yield* TestApp.get(path, { bearer: another })).status, 200)
      })
    )

    it.effect("of comparisons count each existing key that a credential without a right to values writes", () =>
      Effect.gen(function* () {
        const { id, team } = yield* World.project()
        const writer = (yield* World.token({ team })).text
        const place = { projectId: id, environment: "development" }
        const secret = yield* TestApp.post("/secrets", { bearer: writer, json: { ...place, key: "A", value: "known" } })
        const path = `/secrets/${secret.json.id}` as const
        const grant = yield* World.grant({
          person: team.owner,
          teams: [{ team, scopes: ["secrets:read", "secrets:write"] }]
        })
        const bulk = (bearer: string, key: string) =>
          TestApp.post("/secrets/bulk", { bearer, json: { ...place, secrets: [{ key, value: "guess" }] } })
        const bearer = grant.text

        const statuses = [
          ...(yield* repeat(10, bulk(bearer, "A"))),
          ...(yield* repeat(10, TestApp.patch(path, { bearer, json: { value: "guess" } }))),
          ...(yield* repeat(5, TestApp.post(`${path}/rollback`, { bearer, json: { version: 1 } }))),
          ...(yield* repeat(
            5,
            TestApp.get(`/secrets/diff?projectId=${id}&sourceEnv=development&targetEnv=staging`, { bearer })
          ))
        ].map((answer) => answer.status)
        assert.isTrue(
          statuses.every((status) => status === 200 || status === 201),
          String(statuses)
        )
        const { json: before } = yield* TestApp.get(`${path}/versions`, { bearer })
        for (const refused of [
          yield* bulk(bearer, "A"),
          yield* TestApp.patch(path, { bearer, json: { value: "another guess" } }),
          yield* TestApp.post(`${path}/rollback`, { bearer, json: { version: 1 } })
        ]) {
          assert.strictEqual(refused.status, 429)
          assert.strictEqual(refused.headers.get("retry-after"), String(refused.error.retryAfterSeconds))
        }
        assert.deepStrictEqual((yield* TestApp.get(`${path}/versions`, { bearer })).json, before)

        // A new key reveals nothing, and a reader of values guesses nothing.
        assert.strictEqual((yield* bulk(bearer, "B")).status, 201)
        const reads = yield* repeat(31, bulk(writer, "A"))
        assert.isTrue(reads.every((answer) => answer.status === 201))
      })
    )

    it.effect("of guesses refuse a request whole that has more existing keys than are left, and say what to do", () =>
      Effect.gen(function* () {
        const { id, team } = yield* World.project()
        const writer = (yield* World.token({ team })).text
        const scopes = ["secrets:read", "secrets:write"] as const
        const bearer = (yield* World.grant({ person: team.owner, teams: [{ team, scopes }] })).text
        const place = { projectId: id, environment: "development" }
        const bulk = (bearer: string, from: number, to: number, value: string) => {
          const secrets = Array.from({ length: to - from }, (_, i) => ({ key: `KEY_${from + i}`, value }))
          return TestApp.post("/secrets/bulk", { bearer, json: { ...place, secrets } })
        }
        assert.strictEqual((yield* bulk(bearer, 0, 40, "new keys reveal nothing")).status, 201)
        yield* bulk(writer, 0, 40, "known")
        const versions = Effect.map(
          TestApp.get(`/secrets?projectId=${id}&environment=development`, { bearer: writer }),
          ({ json }) => json.items.map((item) => item.version)
        )
        const before = yield* versions
        const refused = yield* bulk(bearer, 0, 31, "guess")
        assert.deepInclude(refused.error, { statusCode: 429, code: "RATE_LIMITED", retryAfterSeconds: 60 })
        assert.match(refused.error.message, /at most 30 existing keys per minute.*Send fewer keys/)
        assert.deepStrictEqual(yield* versions, before)
        // Equal and different values are answered alike.
        const equal = yield* bulk(bearer, 0, 5, "known")
        const different = yield* bulk(bearer, 5, 20, "guess")
        assert.deepInclude(equal.json, { created: 0, updated: 5, unchanged: 0 })
        assert.deepInclude(different.json, { created: 0, updated: 15, unchanged: 0 })
        const outcomes = (items: ReadonlyArray<{ outcome: string }>) => new Set(items.map(({ outcome }) => outcome))
        assert.deepStrictEqual(outcomes([...equal.json.items, ...different.json.items]), new Set(["updated"]))
        assert.strictEqual((yield* bulk(bearer, 20, 31, "guess")).status, 429)
        assert.strictEqual((yield* bulk(bearer, 20, 30, "guess")).status, 201)
        assert.strictEqual((yield* bulk(bearer, 30, 31, "guess")).status, 429)
        const again = yield* bulk(writer, 30, 40, "known")
        assert.deepInclude(again.json, { created: 0, updated: 0, unchanged: 10 })
      })
    )

    it.effect("of guesses count each key of a comparison that a credential without values could have steered", () =>
      Effect.gen(function* () {
        const { development, id, production, staging, team } = yield* World.project()
        const environments = [development, staging, production]
        const writer = (yield* World.token({ team, environments })).text
        const blind = Effect.map(
          World.grant({ person: team.owner, teams: [{ team, scopes: ["secrets:read", "secrets:write"] }] }),
          ({ text }) => text
        )
        const bearer = yield* blind
        const store = (bearer: string, environment: string, secrets: ReadonlyArray<{ key: string; value: string }>) =>
          Effect.map(
            TestApp.post("/secrets/bulk", { bearer, json: { projectId: id, environment, secrets } }),
            ({ status }) => assert.strictEqual(status, 201)
          )
        const compare = (bearer: string, targetEnv = "production") =>
          TestApp.get(`/secrets/diff?projectId=${id}&sourceEnv=development&targetEnv=${targetEnv}`, { bearer })
        const keys = (from: number, to: number, value: (n: number) => string) =>
          Array.from({ length: to - from }, (_, i) => ({ key: `P${from + i}`, value: value(from + i) }))
        yield* store(writer, "production", [{ key: "PIN", value: "7" }])
        const unchanged = Array.from({ length: 100 }, (_, i) => ({ key: `LITERAL_${i}`, value: "text of others" }))
        const templates = Array.from({ length: 40 }, (_, i) => ({ key: `URL_${i}`, value: "${LITERAL_1}" }))
        for (const environment of ["development", "production"]) {
          yield* store(writer, environment, unchanged)
          yield* store(writer, environment, templates)
        }
        // Others' writes are no guess, in any number: literals and templates.
        assert.strictEqual((yield* compare(bearer)).status, 200)
        assert.strictEqual((yield* compare(bearer)).status, 200)

        yield* store(
          bearer,
          "production",
          keys(0, 29, () => "${PIN}")
        )
        yield* store(bearer, "development", keys(0, 29, String))
        const refused = yield* compare(bearer)
        assert.deepInclude(refused.error, { statusCode: 429, code: "RATE_LIMITED", retryAfterSeconds: 60 })
        assert.match(
          refused.error.message,
          /at most 30 keys per minute.*Compare with a credential that may read values/
        )
        assert.notInclude(refused.text, "P7")
        // Refused whole: nothing was taken by it.
        assert.strictEqual((yield* repeat(28, compare(bearer, "staging")))[27]?.status, 200)
        assert.strictEqual((yield* compare(bearer, "staging")).status, 429)

        // Another credential without values takes over what the first prepared: it is counted alike.
        yield* store(
          bearer,
          "production",
          keys(29, 31, () => "${PIN}")
        )
        yield* store(bearer, "development", keys(29, 31, String))
        assert.match((yield* compare(yield* blind)).error.message, /at most 30 keys per minute/)
        const reader = yield* compare(writer)
        assert.strictEqual(reader.status, 200)
        assert.notDeepInclude(reader.json.changed, { key: "P7" })
      })
    )

    it.effect("of guesses count keys that build on what such a credential wrote, and what it flattened", () =>
      Effect.gen(function* () {
        const { development, id, staging, team } = yield* World.project()
        const writer = (yield* World.token({ team, environments: [development, staging] })).text
        const scopes = ["secrets:read", "secrets:write"] as const
        const bearer = (yield* World.grant({ person: team.owner, teams: [{ team, scopes }] })).text
        const store = (bearer: string, environment: string, secrets: ReadonlyArray<{ key: string; value: string }>) =>
          TestApp.post("/secrets/bulk", { bearer, json: { projectId: id, environment, secrets } })
        const compare = (targetEnv: string) =>
          TestApp.get(`/secrets/diff?projectId=${id}&sourceEnv=development&targetEnv=${targetEnv}`, { bearer })
        const many = (value: string) => Array.from({ length: 31 }, (_, i) => ({ key: `KEY_${i}`, value }))
        yield* store(writer, "development", [{ key: "BASE", value: "a" }])
        yield* store(writer, "development", many("${BASE}"))
        yield* store(writer, "staging", many("b"))
        assert.strictEqual((yield* compare("staging")).status, 200)
        assert.strictEqual((yield* store(bearer, "development", [{ key: "BASE", value: "b" }])).status, 201)
        assert.strictEqual((yield* compare("staging")).status, 429)

        yield* MovableClock.advance(Duration.minutes(1))
        yield* store(writer, "development", [{ key: "BASE", value: "c" }])
        yield* store(writer, "staging", many("c"))
        const { json } = yield* compare("staging")
        assert.deepInclude(json, { changed: [] })
        const listed = yield* TestApp.get(`/secrets?projectId=${id}&environment=development`, { bearer })
        const base = listed.json.items.find((item) => item.key === "BASE")
        if (base === undefined) return assert.fail("BASE is not listed")
        assert.deepStrictEqual(Object.keys(base.updatedBy).sort(), ["id", "name", "type"])
        const removed = yield* TestApp.del(`/secrets/${base.id}?disposition=flatten`, { bearer })
        assert.strictEqual(removed.status, 200)
        assert.strictEqual((yield* compare("staging")).status, 429)
      })
    )

    it.effect("are no way round: a stored text taken as a template names no key to a caller who may not read it", () =>
      Effect.gen(function* () {
        const { id, team } = yield* World.project()
        const writer = (yield* World.token({ team })).text
        const scopes = ["secrets:read", "secrets:write"] as const
        const bearer = (yield* World.grant({ person: team.owner, teams: [{ team, scopes }] })).text
        const json = { projectId: id, environment: "development", key: "A", kind: "literal", value: "x${HIDDEN_NAME}" }
        const { json: made } = yield* TestApp.post("/secrets", { bearer: writer, json })
        const path = `/secrets/${made.id}` as const
        const hidden = yield* TestApp.patch(path, { bearer, json: { kind: "template" } })
        assert.deepInclude(hidden.error, { code: "TEMPLATE_REFERENCE_MISSING", field: "kind", references: [] })
        assert.notInclude(hidden.text, "HIDDEN_NAME")
        const reader = yield* TestApp.patch(path, { bearer: writer, json: { kind: "template" } })
        assert.deepInclude(reader.error, { code: "TEMPLATE_REFERENCE_MISSING", references: ["HIDDEN_NAME"] })
        const sent = yield* TestApp.patch(path, { bearer, json: { source: "y${OTHER_NAME}" } })
        assert.deepInclude(sent.error, { code: "TEMPLATE_REFERENCE_MISSING", references: ["OTHER_NAME"] })
        // A text that refers to itself tells no name either.
        const loop = { ...json, key: "B", value: "${B}" }
        const { json: other } = yield* TestApp.post("/secrets", { bearer: writer, json: loop })
        const cycle = yield* TestApp.patch(`/secrets/${other.id}`, { bearer, json: { kind: "template" } })
        assert.deepInclude(cycle.error, { code: "TEMPLATE_CYCLE", cycle: [] })
      })
    )

    it.effect(
      "without a credential are 300 a minute per address; health is exempt, a good credential is not held up",
      () =>
        Effect.gen(function* () {
          const headers = fromFresh()
          const { json, status } = yield* TestApp.get("/openapi.json", { headers })
          assert.strictEqual(status, 200)
          assert.isDefined(json)
          const guesses = yield* repeat(299, TestApp.get("/me/verify", { headers, bearer: "amp_at_guess" }))
          assert.isTrue(guesses.every((answer) => answer.status === 401))
          for (const path of ["/openapi.json", "/me/verify", "/no-such-route"]) {
            const refused = yield* TestApp.get(path, { headers })
            assert.strictEqual(refused.status, 429, path)
            assert.strictEqual(refused.headers.get("retry-after"), String(refused.error.retryAfterSeconds))
          }
          assert.strictEqual((yield* TestApp.get("/health/live", { headers })).status, 200)
          const bearer = (yield* World.token({ team: yield* World.team() })).text
          assert.strictEqual((yield* TestApp.get("/me/verify", { headers, bearer })).status, 200)
          assert.strictEqual((yield* TestApp.get("/me/verify", { headers: fromFresh() })).status, 401)
          yield* MovableClock.advance(Duration.minutes(1))
          assert.strictEqual((yield* TestApp.get("/me/verify", { headers })).status, 401)
        })
    )
  })

  layer(TestApp.layer.pipe(Layer.provideMerge(MovableClock.layer)), { excludeTestServices: true })(
    "without a trusted proxy",
    (it) => {
      it.effect("X-Forwarded-For does not make another address of a client", () =>
        Effect.gen(function* () {
          const tries = Effect.all(
            Array.from({ length: 301 }, () => TestApp.get("/me/verify", { headers: fromFresh() }))
          )
          assert.isTrue((yield* tries).some((answer) => answer.status === 429))
        })
      )
    }
  )

  layer(TestApp.unlimited, { excludeTestServices: true })("switched off", (it) => {
    it.effect("nothing is counted and no header says so", () =>
      Effect.gen(function* () {
        const bearer = (yield* World.token({ team: yield* World.team() })).text
        const answers = yield* repeat(60, TestApp.get("/me/verify", { bearer }))
        assert.isTrue(answers.every((answer) => answer.status === 200))
        assert.deepStrictEqual(limits(answers[0]), [null, null, null])
      })
    )
  })
})
