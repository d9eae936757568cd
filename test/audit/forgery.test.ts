/** A writer of the database adds entries to streams that a running server writes: they are never sealed, and found. */
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, layer } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { Seal } from "#src/trail/Seal.ts"
import * as TrailVerification from "#src/trail/TrailVerification.ts"
import * as Chain from "#src/audit/Chain.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { Vault } from "#src/crypto/Vault.ts"
import { auditEntry } from "#test/support/Json.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import * as TrailWorld from "./TrailWorld.ts"

const app = TestApp.server.pipe(
  Layer.provideMerge(
    // As several processes on a Postgres.
    Layer.merge(
      TestApp.backends,
      TestApp.config({ databaseUrl: Option.some(Redacted.make("postgres://nowhere/ampoule")) })
    )
  ),
  Layer.provideMerge(TrailWorld.alarms)
)

interface Row {
  readonly stream: string
  readonly seq: number
  readonly hash: Buffer
  readonly body: string
}

/** Findings of `ampoule audit verify --values` now, or an hour later. */
const verify = (later = 0) =>
  Effect.gen(function* () {
    return yield* TrailVerification.verify({
      vault: yield* Vault,
      keys: [],
      checkpoints: [],
      values: true,
      alone: false,
      now: (yield* Clock.currentTimeMillis) + later,
      progress: () => Effect.void
    })
  })

const lastEntry = (action: string) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql<Row>`
      SELECT stream, seq, hash, body FROM audit_entries e
      WHERE stream = (SELECT stream FROM audit_entries WHERE action = ${action} ORDER BY id DESC LIMIT 1)
      ORDER BY seq DESC LIMIT 1`
  ).pipe(Effect.map(([row]) => row))

/** Linked onto the last entry of a stream, as the server itself would do it. */
const forge = (last: Row, changes: Readonly<Record<string, unknown>>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const id = yield* Effect.flatMap(Crypto, (crypto) => crypto.uuid)
    const at = new Date(yield* Clock.currentTimeMillis)
    const entry = { ...auditEntry(last), ...changes, id, at: at.toISOString(), seq: last.seq + 1 }
    const body = JSON.stringify(entry)
    const hash = Chain.chain(last.hash, body)
    yield* sql`
      INSERT INTO audit_entries
        (stream, seq, id, at, team_id, project_id, environment_id, environment, actor_id, action, body, hash)
      VALUES (${last.stream}, ${entry.seq}, ${id}, ${at}, ${entry.team}, ${entry.project}, ${entry.environmentId},
        ${entry.environment}, ${entry.actor.id}, ${entry.action}, ${body}, ${hash})`
    return { seq: last.seq + 1, stream: last.stream, hash }
  })

const setUp = Effect.gen(function* () {
  const project = yield* World.project()
  const bearer = (yield* World.token({ team: project.team })).text
  const place = { projectId: project.id, environment: "development" }
  const query = new URLSearchParams(place)
  const write = (key: string) =>
    Effect.map(TestApp.post("/secrets", { bearer, json: { ...place, key, value: "v1" } }), (answer) => {
      assert.strictEqual(answer.status, 201)
      return answer.json
    })
  const read = Effect.map(TestApp.get(`/secrets/inject?${query}`, { bearer }), ({ status }) => status)
  return { bearer, project, read, write }
})

const sealed = (stream: string) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql<{ seq: number; final: boolean }>`SELECT seq, final FROM audit_seals WHERE stream = ${stream}`
  ).pipe(Effect.map(([row]) => row))

/**
 * The stream is closed before the forged entry, which is named; the server goes on, and what it writes then is sealed.
 */
const assertFound = (entry: { readonly stream: string; readonly seq: number }, raised: number) =>
  Effect.gen(function* () {
    const alarms = yield* TrailWorld.Alarms
    yield* Effect.flatMap(Seal, (seal) => seal.now)
    assert.strictEqual(alarms.length, raised)
    assert.include(alarms.at(-1), "The audit trail was altered")
    assert.deepStrictEqual(yield* sealed(entry.stream), { seq: entry.seq - 1, final: true })
    for (const later of [0, 3_600_000]) {
      const { problems } = yield* verify(later)
      assert.deepStrictEqual(problems, [{ ...entry, what: "was added after the stream was closed" }])
    }
  })

const counted = Effect.map(Metric.snapshot, (pairs) =>
  pairs
    .filter(({ metricKey }) => metricKey.name === "ampoule_audit_alarms_total")
    .map(({ metricState }) => ("count" in metricState ? Number(metricState.count) : 0))
    .reduce((sum, n) => sum + n, 0)
)

layer(app, { excludeTestServices: true, timeout: "60 seconds" })("an entry forged in a live stream", (it) => {
  it.effect(
    "of writes, to hide a secret that was rolled back, is not linked onto, is never sealed, and is an alarm",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const alarms = yield* TrailWorld.Alarms
        const { bearer, read, write } = yield* setUp
        const secret = yield* write("API_KEY")
        const updated = yield* TestApp.patch(`/secrets/${secret.id}`, { bearer, json: { value: "v2" } })
        assert.strictEqual(updated.json.version, 2)
        yield* Effect.flatMap(Seal, (seal) => seal.now)
        assert.deepStrictEqual((yield* verify()).problems, [])

        const last = yield* lastEntry("secret.update")
        yield* sql`UPDATE secrets SET version = 1 WHERE id = ${secret.id}`
        const entry = yield* forge(last, { action: "secret.update", keys: ["API_KEY"], versions: [1], revision: 1_000 })
        yield* sql`UPDATE audit_streams SET seq = ${entry.seq}, hash = ${entry.hash} WHERE id = ${entry.stream}`
        const before = yield* counted
        // Nobody notices the attack but the trail.
        yield* write("ORDINARY")
        assert.strictEqual(yield* read, 200)
        yield* assertFound({ stream: entry.stream, seq: entry.seq }, 1)
        assert.strictEqual((yield* counted) - before, 1)
        const after = yield* lastEntry("secret.create")
        assert.notStrictEqual(after.stream, entry.stream)
        assert.deepStrictEqual(yield* sealed(after.stream), { seq: 1, final: false })

        yield* sql`DELETE FROM audit_entries WHERE stream = ${entry.stream} AND seq = ${entry.seq}`
        assert.include((yield* verify()).problems[0]?.what, "API_KEY version 1")
        yield* sql`UPDATE secrets SET version = 2 WHERE id = ${secret.id}`
        assert.deepStrictEqual((yield* verify()).problems, [])
        alarms.length = 0
      })
  )

  it.effect("of writes, without its head moved, does not stop the writes that follow", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const alarms = yield* TrailWorld.Alarms
      const { write } = yield* setUp
      yield* write("FIRST")
      const entry = yield* forge(yield* lastEntry("secret.create"), { keys: ["FORGED"], versions: [1] })
      yield* write("SECOND")
      yield* assertFound({ stream: entry.stream, seq: entry.seq }, 1)
      yield* sql`DELETE FROM audit_entries WHERE stream = ${entry.stream} AND seq = ${entry.seq}`
      assert.deepStrictEqual((yield* verify()).problems, [])
      alarms.length = 0
    })
  )

  it.effect(
    "of reads, to frame somebody, is not linked onto, is never sealed, and is an alarm; nobody gets a 500",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const alarms = yield* TrailWorld.Alarms
        const { project, read, write } = yield* setUp
        yield* write("ROOT_CA_KEY")
        assert.strictEqual(yield* read, 200)
        const member = yield* World.member(project.team, "member")
        const entry = yield* forge(yield* lastEntry("secret.inject"), {
          action: "secret.read",
          actor: { type: "user", id: member.id, name: member.email },
          keys: ["ROOT_CA_KEY"]
        })
        assert.deepStrictEqual([yield* read, yield* read], [200, 200])
        yield* assertFound({ stream: entry.stream, seq: entry.seq }, 1)
        const after = yield* lastEntry("secret.inject")
        assert.notStrictEqual(after.stream, entry.stream)
        assert.deepStrictEqual(yield* sealed(after.stream), { seq: after.seq, final: false })
        yield* sql`DELETE FROM audit_entries WHERE stream = ${entry.stream} AND seq = ${entry.seq}`
        alarms.length = 0
      })
  )

  it.effect("of reads, while nobody reads, is noticed by the server itself", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const alarms = yield* TrailWorld.Alarms
      const { read } = yield* setUp
      assert.strictEqual(yield* read, 200)
      const entry = yield* forge(yield* lastEntry("secret.inject"), { action: "secret.read", keys: ["ROOT_CA_KEY"] })
      yield* assertFound({ stream: entry.stream, seq: entry.seq }, 1)
      yield* sql`DELETE FROM audit_entries WHERE stream = ${entry.stream} AND seq = ${entry.seq}`
      alarms.length = 0
    })
  )
})

// Apart, with a database of its own: the entries of what it writes are gone afterwards.
layer(app, { excludeTestServices: true, timeout: "60 seconds" })("a stream whose head is moved back", (it) => {
  it.effect("to an older one of the same process is an alarm too", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const alarms = yield* TrailWorld.Alarms
      const { write } = yield* setUp
      yield* write("FIRST")
      const first = yield* lastEntry("secret.create")
      yield* write("SECOND")
      yield* Effect.flatMap(Seal, (seal) => seal.now)
      yield* sql`DELETE FROM audit_entries WHERE stream = ${first.stream} AND seq > ${first.seq}`
      yield* sql`UPDATE audit_streams SET seq = ${first.seq}, hash = ${first.hash} WHERE id = ${first.stream}`
      yield* write("THIRD")
      assert.strictEqual(alarms.length, 1)
      yield* Effect.flatMap(Seal, (seal) => seal.now)
      assert.strictEqual((yield* sealed(first.stream))?.seq, first.seq + 1)
      assert.include((yield* verify()).problems[0]?.what, "is missing")
      yield* sql`DELETE FROM audit_entries WHERE stream = ${first.stream}`
      yield* sql`DELETE FROM audit_seals WHERE stream = ${first.stream}`
      alarms.length = 0
    })
  )
})
