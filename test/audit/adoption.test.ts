/** Two processes on one database, and a writer of it who wants one to seal what they add to the stream of the other. */
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, layer } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Seal } from "#src/trail/Seal.ts"
import * as SealRows from "#src/trail/SealRows.ts"
import * as Chain from "#src/audit/Chain.ts"
import { Vault } from "#src/crypto/Vault.ts"
import { auditEntry } from "#test/support/Json.ts"
import * as MovableClock from "#test/support/MovableClock.ts"
import * as TrailWorld from "./TrailWorld.ts"

const { record, verify } = TrailWorld

const app = TrailWorld.layer.pipe(Layer.provideMerge(Layer.merge(MovableClock.layer, TrailWorld.alarms)))

interface Row {
  readonly stream: string
  readonly seq: number
  readonly hash: Buffer
  readonly body: string
}

const otherTurns = Effect.flatMap(Seal, (seal) => seal.now)
const minutesPass = (minutes: number) =>
  Effect.forEach(Array.from({ length: minutes }), () => Effect.zipRight(MovableClock.advance("1 minute"), otherTurns))

const sealOf = (stream: string) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql<{ seq: number; final: boolean }>`SELECT seq, final FROM audit_seals WHERE stream = ${stream}`
  ).pipe(Effect.map(([row]) => row))

/** Adds an entry that fits the last one of the stream. */
const forge = (stream: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const [last] = yield* sql<Row>`
      SELECT stream, seq, hash, body FROM audit_entries WHERE stream = ${stream} ORDER BY seq DESC LIMIT 1`
    const seq = last.seq + 1
    const entry = { ...auditEntry(last), seq, keys: ["FORGED"] }
    const body = JSON.stringify(entry)
    const hash = Chain.chain(last.hash, body)
    yield* sql`
      INSERT INTO audit_entries (stream, seq, id, at, actor_id, action, body, hash)
      VALUES (${stream}, ${seq}, ${entry.id}, ${new Date(entry.at)}, 'system', ${entry.action}, ${body}, ${hash})`
    return { stream, seq, hash }
  })

const setBack = (stream: string) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`UPDATE audit_seals SET seen_at = seen_at - interval '301 seconds' WHERE stream = ${stream}`
  )

/** A process with one sealed read, and the stream of it. */
const idle = Effect.gen(function* () {
  const process = yield* TrailWorld.mortalProcess
  yield* record(process.audit, "secret.inject", ["ORDINARY"])
  yield* process.seal.now
  yield* otherTurns
  const [stream] = yield* process.audit.seals.streams
  return { ...process, stream }
})

const notWritten = "is the last of its stream, and no server wrote it"

/** Findings of a verification of the stream. */
const problemsOf = (stream: string) =>
  Effect.map(verify(), ({ problems }) => problems.filter((problem) => problem.stream === stream))

const forgetAlarms = Effect.map(TrailWorld.Alarms, (alarms) => void (alarms.length = 0))

/** The alarm was raised once, and the forged entry is named, now and later. */
const assertFound = ({ seq, stream }: Chain.Head) =>
  Effect.gen(function* () {
    const alarms = yield* TrailWorld.Alarms
    assert.strictEqual(alarms.length, 1, alarms.join("\n"))
    assert.include(alarms[0], "The audit trail was altered")
    assert.deepStrictEqual(yield* sealOf(stream), { seq: seq - 1, final: true })
    yield* minutesPass(7)
    assert.deepStrictEqual(yield* problemsOf(stream), [{ stream, seq, what: "was added after the stream was closed" }])
  })

layer(app, { excludeTestServices: true, timeout: "60 seconds" })("an entry forged in an idle stream", (it) => {
  it.effect("is not sealed by another process on the word of the database that the stream's process is dead", () =>
    Effect.gen(function* () {
      const { kill, seal, stream } = yield* idle
      const entry = yield* forge(stream)
      yield* setBack(stream)
      yield* otherTurns
      assert.deepStrictEqual(yield* sealOf(stream), { seq: 1, final: false })
      yield* seal.now
      yield* assertFound(entry)
      yield* kill
      yield* forgetAlarms
    })
  )

  it.effect(
    "and sealed by a process of the release before, which believes the database, is an alarm and is named",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { kill, seal, stream } = yield* idle
        const entry = yield* forge(stream)
        const needs = { sql, vault: yield* Vault }
        assert.isTrue(yield* SealRows.put(needs, entry, true, yield* Clock.currentTimeMillis))
        assert.deepStrictEqual(yield* problemsOf(stream), [{ stream, seq: entry.seq, what: notWritten }])
        yield* seal.now
        yield* assertFound(entry)
        yield* kill
        yield* forgetAlarms
      })
  )

  it.effect(
    "is not sealed by another process while its own sleeps, which raises the alarm; its own ends the stream before it",
    () =>
      Effect.gen(function* () {
        const alarms = yield* TrailWorld.Alarms
        const { audit, kill, seal, stream } = yield* idle
        const entry = yield* forge(stream)
        yield* minutesPass(6)
        assert.deepStrictEqual(yield* sealOf(stream), { seq: 1, final: false })
        assert.deepStrictEqual(yield* problemsOf(stream), [{ stream, seq: entry.seq, what: notWritten }])
        assert.strictEqual(alarms.splice(0).length, 1)
        yield* record(audit, "secret.inject", ["WOKEN"])
        assert.notInclude(yield* audit.seals.streams, stream)
        yield* MovableClock.advance("31 seconds")
        yield* seal.now
        assert.deepStrictEqual(yield* sealOf(stream), { seq: 1, final: true })
        const [problem] = yield* problemsOf(stream)
        assert.strictEqual(problem?.what, "was added after the stream was closed")
        yield* kill
        yield* forgetAlarms
      })
  )
})

layer(app, { excludeTestServices: true, timeout: "60 seconds" })("a process that runs", (it) => {
  it.effect("raises an alarm when somebody else writes when it was seen last, and closes its stream itself", () =>
    Effect.gen(function* () {
      const alarms = yield* TrailWorld.Alarms
      const { audit, kill, seal, stream } = yield* idle
      yield* setBack(stream)
      yield* seal.now
      assert.strictEqual(alarms.length, 1, alarms.join("\n"))
      assert.deepStrictEqual(yield* sealOf(stream), { seq: 1, final: true })
      yield* record(audit, "secret.inject", ["AFTER"])
      yield* seal.now
      assert.deepStrictEqual(yield* problemsOf(stream), [])
      yield* kill
      yield* forgetAlarms
    })
  )

  it.effect("and says so every minute raises no alarm, and is not closed by another one", () =>
    Effect.gen(function* () {
      const alarms = yield* TrailWorld.Alarms
      const { seal, stream } = yield* idle
      for (let i = 0; i < 12; i++) {
        yield* seal.now
        yield* minutesPass(1)
      }
      assert.deepStrictEqual(yield* sealOf(stream), { seq: 1, final: false })
      assert.deepStrictEqual(alarms, [])
    })
  )
})

/** The row of a stream's seal, as a writer of the database can keep it and put it back. */
const keptSeal = (stream: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* sql`DROP TABLE IF EXISTS kept_seals`
    yield* sql`CREATE TABLE kept_seals AS SELECT * FROM audit_seals WHERE stream = ${stream}`
    return Effect.zipRight(
      sql`DELETE FROM audit_seals WHERE stream = ${stream}`,
      sql`INSERT INTO audit_seals SELECT * FROM kept_seals`
    )
  })

/** The entry is named now and later, no process seals it, and one of them raises an alarm. */
const assertRefused = ({ seq, stream }: Chain.Head, final: boolean) =>
  Effect.gen(function* () {
    const alarms = yield* TrailWorld.Alarms
    for (let i = 0; i < 2; i++) {
      assert.deepStrictEqual(yield* problemsOf(stream), [{ stream, seq, what: notWritten }])
      yield* minutesPass(7)
    }
    if (final) return
    assert.deepStrictEqual(yield* sealOf(stream), { seq: 1, final: false })
    assert.strictEqual(alarms.length, 1, alarms.join("\n"))
    assert.include(alarms[0], "The audit trail was altered")
  })

layer(app, { excludeTestServices: true, timeout: "60 seconds" })("an entry that no server wrote is named", (it) => {
  it.effect("after a final seal over it was put back, which its process had corrected", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { kill, seal, stream } = yield* idle
      const entry = yield* forge(stream)
      const needs = { sql, vault: yield* Vault }
      assert.isTrue(yield* SealRows.put(needs, entry, true, yield* Clock.currentTimeMillis))
      const putBack = yield* keptSeal(stream)
      yield* seal.now
      assert.deepStrictEqual(yield* sealOf(stream), { seq: 1, final: true })
      yield* putBack
      yield* kill
      yield* assertRefused(entry, true)
      yield* forgetAlarms
    })
  )

  it.effect("after it was added to a closed stream under an open seal of before", () =>
    Effect.gen(function* () {
      const { stop, stream } = yield* idle
      const putBack = yield* keptSeal(stream)
      yield* stop
      assert.deepStrictEqual(yield* sealOf(stream), { seq: 1, final: true })
      yield* putBack
      yield* assertRefused(yield* forge(stream), false)
      yield* forgetAlarms
    })
  )

  it.effect("after it was added to the stream of a process that was killed", () =>
    Effect.gen(function* () {
      const { kill, stream } = yield* idle
      yield* kill
      yield* assertRefused(yield* forge(stream), false)
      yield* forgetAlarms
    })
  )
})
