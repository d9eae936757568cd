import { during } from "#test/support/Statements.ts"
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, describe, layer } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Redacted from "effect/Redacted"
import { CurrentCaller } from "#schema/Caller.ts"
import { SecretKey } from "#schema/Values.ts"
import { RequestInfo, type RequestOrigin } from "#src/database/RequestInfo.ts"
import { secrets as services, secretsLayer, world } from "#test/support/Fixtures.ts"
import { auditEntry } from "#test/support/Json.ts"

type World = Effect.Effect.Success<ReturnType<typeof world>>

const originOf = (id: string): RequestOrigin => ({ id, ip: "", userAgent: null, via: "rest" })

/** Creates secrets at once, in this order, each as a request of its own that has the name of its place. */
const atOnce = Effect.fnUntraced(function* (w: World, wanted: ReadonlyArray<readonly [string, string, number?]>) {
  const all = yield* services
  const origins = wanted.map((_, i) => originOf(`request ${i}`))
  const creations = wanted.map(([key, value, expectedVersion], i) =>
    all
      .create({
        projectId: w.projectId,
        environment: w.development,
        key: SecretKey.make(key),
        value: Redacted.make(value),
        ...(expectedVersion === undefined ? {} : { expectedVersion })
      })
      .pipe(Effect.provideService(CurrentCaller, w.owner), Effect.provideService(RequestInfo, origins[i]), Effect.exit)
  )
  return { origins, exits: yield* Effect.all(creations, { concurrency: "unbounded" }) }
})

const errorOf = (exit: Exit.Exit<unknown, { readonly _tag: string }>) =>
  Exit.match(exit, {
    onSuccess: () => "created",
    onFailure: (cause) => (cause._tag === "Fail" ? cause.error._tag : cause._tag)
  })

const valuesOf = Effect.fnUntraced(function* (w: World) {
  const all = yield* services
  const { answer } = yield* all
    .inject({ projectId: w.projectId, environment: w.development })
    .pipe(Effect.provideService(CurrentCaller, w.owner))
  return answer?.value().values
})

const entriesOf = Effect.fnUntraced(function* (w: World) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly body: string }>`
    SELECT body FROM audit_entries WHERE team_id = ${w.teamId} AND action = 'secret.create' ORDER BY stream, seq`
  return rows.map(auditEntry)
})

const numbers = (n: number) => Array.from({ length: n }, (_, i) => i)

describe("creations that come at once", () => {
  layer(secretsLayer, { timeout: 120_000 })((it) => {
    it.scoped("have one transaction for many, and each its own revision, entry and answer", () =>
      Effect.gen(function* () {
        const w = yield* world()
        yield* atOnce(w, [["FIRST", "x"]])
        const pairs = numbers(20).map((i) => [`K${i}`, `value ${i}`] as const)
        let done: Effect.Effect.Success<ReturnType<typeof atOnce>> | undefined
        const statements = yield* during(Effect.map(atOnce(w, pairs), (made) => void (done = made)))
        assert.deepStrictEqual(done?.exits.map(errorOf), Array(20).fill("created"))
        const ids = done?.exits.map((exit) => Exit.match(exit, { onFailure: () => "", onSuccess: ({ id }) => id }))
        assert.strictEqual(new Set(ids).size, 20)
        // One for the first, and one for those that came meanwhile.
        assert.isAtMost(statements.filter(({ text }) => text === "COMMIT").length, 2)
        // For each transaction four, and the look-ups of the environment.
        assert.isAtMost(statements.length, 10)
        assert.deepStrictEqual(yield* valuesOf(w), Object.fromEntries([["FIRST", "x"], ...pairs].sort()))
        const entries = (yield* entriesOf(w)).filter(({ keys }) => keys[0] !== "FIRST")
        assert.deepStrictEqual(
          entries.map(({ keys, requestId, versions }) => [keys, versions, requestId]).sort(),
          pairs.map(([key], i) => [[key], [1], `request ${i}`]).sort()
        )
        assert.deepStrictEqual(
          entries.map(({ revision }) => revision).sort((a, b) => (a ?? 0) - (b ?? 0)),
          numbers(20).map((i) => i + 2)
        )
        assert.isTrue(done?.origins.every(({ committed }) => committed === true))
      })
    )

    it.scoped("are checked in their order, each against what those before it leave", () =>
      Effect.gen(function* () {
        const w = yield* world()
        const { exits, origins } = yield* atOnce(w, [
          ["FIRST", "1"],
          ["BASE", "b"],
          ["USER", "${BASE}!"],
          ["BASE", "again"],
          ["LOST", "${NOBODY}"],
          ["EXPECTED", "e", 3],
          ["SELF", "${SELF}"],
          ["LAST", "${USER}${FIRST}"]
        ])
        assert.deepStrictEqual(exits.map(errorOf), [
          "created",
          "created",
          "created",
          "SECRET_ALREADY_EXISTS",
          "TEMPLATE_REFERENCE_MISSING",
          "SECRET_VERSION_CONFLICT",
          "TEMPLATE_CYCLE",
          "created"
        ])
        assert.deepStrictEqual(yield* valuesOf(w), { BASE: "b", FIRST: "1", LAST: "b!1", USER: "b!" })
        assert.deepStrictEqual(
          origins.map(({ committed }) => committed === true),
          [true, true, true, false, false, false, false, true]
        )
        const sql = yield* SqlClient.SqlClient
        const [counted] = yield* sql<{ readonly live: number; readonly bytes: number; readonly revision: number }>`
          SELECT live_secrets AS live, expanded_bytes::int AS bytes, revision::int AS revision
          FROM environments WHERE id = ${w.developmentId}`
        assert.deepStrictEqual(counted, { live: 4, bytes: 7, revision: 4 })
      })
    )

    it.scoped("fail alone, where a row that one of them builds on was altered, or the database refuses one", () =>
      Effect.gen(function* () {
        const w = yield* world()
        const sql = yield* SqlClient.SqlClient
        yield* atOnce(w, [["BAD", "1"]])
        yield* sql`UPDATE secret_versions v SET sealed = set_byte(sealed, 40, 255 - get_byte(sealed, 40))
          FROM secrets s WHERE s.id = v.secret_id AND s.environment_id = ${w.developmentId}`
        yield* sql`ALTER TABLE secret_counters ADD CONSTRAINT refused CHECK (key <> 'REFUSED')`
        const { exits } = yield* atOnce(w, [
          ["FIRST", "1"],
          ["A", "1"],
          ["ON_BAD", "${BAD}"],
          ["B", "2"],
          ["REFUSED", "x"],
          ["C", "3"]
        ]).pipe(Effect.ensuring(Effect.orDie(sql`ALTER TABLE secret_counters DROP CONSTRAINT refused`)))
        assert.deepStrictEqual(exits.map(errorOf), [
          "created",
          "created",
          "INTEGRITY_FAILURE",
          "created",
          "Die",
          "created"
        ])
        const entries = yield* entriesOf(w)
        const of = (outcome: string) => entries.flatMap((entry) => (entry.outcome === outcome ? entry.keys : [])).sort()
        assert.deepStrictEqual(of("allowed"), ["A", "B", "BAD", "C", "FIRST"])
        assert.deepStrictEqual(of("denied"), ["BAD"])
      })
    )

    it.scoped("go on without those that nobody waits for any more", () =>
      Effect.gen(function* () {
        const w = yield* world()
        const sql = yield* SqlClient.SqlClient
        const gate = yield* Deferred.make<void>()
        const locked = yield* Deferred.make<void>()
        const other = yield* sql`SELECT 1 FROM environments WHERE id = ${w.developmentId} FOR UPDATE`.pipe(
          Effect.zipRight(Deferred.succeed(locked, undefined)),
          Effect.zipRight(Deferred.await(gate)),
          sql.withTransaction,
          Effect.fork
        )
        yield* Deferred.await(locked)
        const gone = yield* Effect.fork(
          atOnce(w, [
            ["GONE", "1"],
            ["GONE_TOO", "2"]
          ])
        )
        // They have come as far as the lock.
        for (let i = 0; i < 50; i++) yield* Effect.async<void>((resume) => void setImmediate(() => resume(Effect.void)))
        const stays = yield* Effect.fork(atOnce(w, [["STAYS", "3"]]))
        for (let i = 0; i < 50; i++) yield* Effect.async<void>((resume) => void setImmediate(() => resume(Effect.void)))
        yield* Fiber.interruptFork(gone)
        yield* Deferred.succeed(gate, undefined)
        yield* Fiber.join(other)
        assert.deepStrictEqual((yield* Fiber.join(stays)).exits.map(errorOf), ["created"])
        yield* Fiber.await(gone)
        assert.deepStrictEqual(yield* valuesOf(w), { STAYS: "3" })
      })
    )
  })
})
