/** Traces of crashes, outages and restores raise no alarm; those of a writer of the database do. */
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, layer } from "@effect/vitest"
import type { SqlError } from "@effect/sql/SqlError"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { AuditAction } from "#schema/Audit.ts"
import { Audit } from "#src/trail/Audit.ts"
import * as Entry from "#src/trail/Entry.ts"
import * as TrailKey from "#src/trail/TrailKey.ts"
import { Seal } from "#src/trail/Seal.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"
import { columnsOf, type AuthorizationRow } from "#src/rows/AuthorizationRows.ts"
import * as TrailCut from "#src/trail/TrailCut.ts"
import * as Chain from "#src/audit/Chain.ts"
import type { ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import { hardLimit } from "#src/crypto/DataKeys.ts"
import * as Fixtures from "#test/support/Fixtures.ts"
import { auditEntry } from "#test/support/Json.ts"
import * as MovableClock from "#test/support/MovableClock.ts"
import * as TrailWorld from "./TrailWorld.ts"

const { append, record, verify } = TrailWorld

const app = TrailWorld.layer.pipe(Layer.provideMerge(Layer.merge(MovableClock.layer, TrailWorld.alarms)))

interface Row {
  readonly stream: string
  readonly seq: number
  readonly hash: Buffer
  readonly body: string
}

const entriesOf = (stream: string) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql<Row>`SELECT stream, seq, hash, body FROM audit_entries WHERE stream = ${stream} ORDER BY seq`
  )
const sealOf = (stream: string) =>
  Effect.map(
    Effect.flatMap(
      SqlClient.SqlClient,
      (sql) => sql<{ seq: number; final: boolean }>`SELECT seq, final FROM audit_seals WHERE stream = ${stream}`
    ),
    (rows) => rows[0]
  )

/** Another server: it reports that it lives, closes streams of others, and signs. */
const otherTurns = Effect.flatMap(Seal, (seal) => seal.now)

/** A minute at a time, as the processes that run would see it. */
const minutesPass = <R = never>(minutes: number, each: Effect.Effect<unknown, unknown, R> = Effect.void) =>
  Effect.forEach(Array.from({ length: minutes }), () =>
    MovableClock.advance("1 minute").pipe(Effect.zipRight(each), Effect.zipRight(otherTurns))
  )

const assertWhole = Effect.gen(function* () {
  const report = yield* verify()
  assert.deepStrictEqual(report.problems, [])
  assert.deepStrictEqual([report.unsealed, report.notClosed], [0, 0])
})
const assertNoAlarm = Effect.map(TrailWorld.Alarms, (alarms) => assert.deepStrictEqual(alarms, []))

const write = (audit: Audit, key: string) =>
  Effect.zipRight(record(audit, "secret.inject", [key]), append(audit, [key]))

/** An entry as the database would hold it, linked onto `last`, that claims to be of another time. */
const forged = (last: Row, at: number, seq = last.seq + 1) => {
  const body = JSON.stringify({ ...auditEntry(last), at: new Date(at).toISOString(), seq, keys: ["FORGED"] })
  return { stream: last.stream, seq, body, hash: Chain.chain(last.hash, body), at: new Date(at) }
}
/** With the MAC that servers give, as if their key had leaked: the rest is found without it. */
const insert = ({ at, body, hash, seq, stream }: ReturnType<typeof forged>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const mac = Entry.macOf((yield* yield* TrailKey.shared).newest, hash)
    const { action, id } = auditEntry({ body })
    yield* sql`
      INSERT INTO audit_entries (stream, seq, id, at, actor_id, action, body, hash, mac)
      VALUES (${stream}, ${seq}, ${id}, ${at}, 'system', ${action}, ${body}, ${hash}, ${mac})`
  })

layer(app, { excludeTestServices: true, timeout: "60 seconds" })("a stream whose process was killed", (it) => {
  it.effect(
    "keeps what no seal covers when the trail is cut, and rows whose later entries are gone raise no alarm",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const own = yield* Audit
        const { teamId } = yield* Fixtures.world()
        const [team] = yield* sql<AuthorizationRow<"teams">>`
          SELECT ${sql.literal(columnsOf("teams"))} FROM teams WHERE id = ${teamId}`
        assert.isDefined(team)
        const other = { ...team, suspended: !team.suspended }
        const passing = { id: "passing", teamId, slug: "passing", visibility: "team" } as const
        const appendWith = (
          audit: Audit,
          action: AuditAction,
          ...notes: ReadonlyArray<Effect.Effect<unknown, SqlError>>
        ) =>
          sql.withTransaction(
            Effect.zipRight(
              Effect.all(notes),
              audit.append({ actor: "system", action, outcome: "allowed", teamId: null })
            )
          )
        const removed = RowJournal.noteEnds(sql, "projects")`SELECT ${passing.id} AS id`
        const { audit, kill, vaultIs } = yield* TrailWorld.mortalProcess
        yield* vaultIs("down")
        yield* appendWith(audit, "project.create", RowJournal.noteInsert("projects", passing))
        yield* appendWith(audit, "team.suspend", RowJournal.noteUpdate("teams", team, other))
        yield* kill
        yield* appendWith(own, "team.resume", RowJournal.noteUpdate("teams", other, team))
        yield* appendWith(own, "project.delete", removed)
        const cut = Effect.gen(function* () {
          yield* MovableClock.advance("1 second")
          const options = yield* TrailWorld.options
          yield* TrailCut.cut(new Date(options.now), { ...options, removed: () => Effect.void })
        })
        yield* cut
        const kept = yield* sql<{ readonly action: string }>`
          SELECT action FROM audit_entries WHERE action IN ('project.create', 'team.suspend', 'team.resume', 'project.delete')`
        assert.sameMembers(
          kept.map(({ action }) => action),
          ["project.create", "team.suspend"]
        )
        assert.deepStrictEqual((yield* verify()).problems, [])
        // A statement after the cut counts as ever.
        yield* appendWith(own, "project.create", RowJournal.noteInsert("projects", { ...passing, id: "another" }))
        const { problems } = yield* verify()
        assert.strictEqual(problems.length, 1)
        assert.include(problems[0].what, "is gone, and no entry says so")
        yield* appendWith(own, "project.delete", RowJournal.noteEnds(sql, "projects")`SELECT 'another' AS id`)
        yield* minutesPass(8)
        yield* assertWhole
      })
  )

  it.effect("is not closed yet for five minutes, which is no alteration, and is closed then", () =>
    Effect.gen(function* () {
      const { audit, kill, seal } = yield* TrailWorld.mortalProcess
      yield* write(audit, "SEALED")
      yield* seal.now
      yield* write(audit, "LAST")
      const [stream] = yield* audit.seals.streams
      yield* otherTurns
      yield* kill
      const problemsAfter = (time: Duration.DurationInput) =>
        Effect.gen(function* () {
          yield* MovableClock.advance(time)
          yield* otherTurns
          const { notClosed, problems, unsealed } = yield* verify()
          return { notClosed, problems, unsealed }
        })
      for (const time of ["27 seconds", "60 seconds"] as const) {
        assert.deepStrictEqual(yield* problemsAfter(time), { notClosed: 0, problems: [], unsealed: 2 })
      }
      // By now it is clear that it does not run any more.
      for (const time of ["52 seconds", "116 seconds"] as const) {
        assert.deepStrictEqual(yield* problemsAfter(time), { notClosed: 2, problems: [], unsealed: 2 })
      }
      assert.deepStrictEqual(yield* problemsAfter("71 seconds"), { notClosed: 0, problems: [], unsealed: 0 })
      assert.deepStrictEqual(yield* sealOf(stream), { seq: 2, final: true })
      yield* assertNoAlarm
    })
  )

  it.effect("while the vault was away for the promised quarter of an hour is closed all the same", () =>
    Effect.gen(function* () {
      assert.strictEqual(Chain.outageMillis, hardLimit)
      const { audit, kill, seal, vaultIs } = yield* TrailWorld.mortalProcess
      yield* write(audit, "SEALED")
      yield* seal.now
      yield* vaultIs("down")
      // It goes on, and says that it does.
      yield* minutesPass(15, Effect.zipRight(Effect.orDie(write(audit, "DURING")), Effect.ignore(seal.now)))
      const during = yield* verify()
      assert.deepStrictEqual([during.problems, during.unsealed, during.notClosed], [[], 30, 0])
      yield* write(audit, "LAST")
      yield* kill
      yield* minutesPass(3)
      const [between, after] = [yield* verify(), minutesPass(3)]
      assert.deepStrictEqual([between.problems, between.unsealed, between.notClosed], [[], 32, 2])
      yield* after
      yield* assertWhole
      yield* assertNoAlarm
    })
  )

  it.effect("with thousands of entries under no seal is closed: the vault was away from a busy process", () =>
    Effect.gen(function* () {
      const { audit, kill, seal, vaultIs } = yield* TrailWorld.mortalProcess
      yield* seal.now
      yield* vaultIs("down")
      const [stream] = yield* audit.seals.streams
      const event = { actor: "system", action: "secret.read", outcome: "allowed", teamId: null, keys: ["A"] } as const
      yield* Effect.forEach(Array.from({ length: 30 }), () => audit.record(...Array.from({ length: 500 }, () => event)))
      yield* kill
      assert.deepStrictEqual(yield* sealOf(stream), { seq: 0, final: false })
      yield* minutesPass(6)
      assert.deepStrictEqual(yield* sealOf(stream), { seq: 15_000, final: true })
      yield* assertWhole
      yield* assertNoAlarm
    })
  )

  it.effect("again and again, in a crash loop, raises no alarm at any time", () =>
    Effect.gen(function* () {
      // A first checkpoint, for the verifier to read.
      const first = yield* TrailWorld.mortalProcess
      yield* write(first.audit, "FIRST")
      yield* first.seal.now
      yield* first.kill
      for (let i = 0; i < 12; i++) {
        const { audit, kill } = yield* TrailWorld.mortalProcess
        yield* write(audit, `LOOP_${i}`)
        yield* MovableClock.advance("20 seconds")
        yield* write(audit, `LOOP_${i}`)
        yield* kill
        yield* MovableClock.advance("25 seconds")
        assert.deepStrictEqual((yield* verify()).problems, [])
      }
      yield* minutesPass(6)
      yield* assertWhole
      yield* assertNoAlarm
    })
  )

  it.effect("and came back from a backup made while it was busy is closed", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { audit, kill, seal, vaultIs } = yield* TrailWorld.mortalProcess
      yield* write(audit, "SEALED")
      yield* seal.now
      yield* vaultIs("down")
      for (let second = 0; second < 68; second += 4) {
        yield* MovableClock.advance("4 seconds")
        yield* write(audit, "BUSY")
      }
      const streams = yield* audit.seals.streams
      for (const table of ["entries", "seals"]) {
        yield* sql`CREATE TABLE ${sql(`backup_${table}`)} AS
          SELECT * FROM ${sql(`audit_${table}`)} WHERE stream = ANY(${[...streams]}::uuid[])`
      }
      yield* vaultIs("up")
      yield* write(audit, "LOST")
      yield* kill
      for (const table of ["entries", "seals"]) {
        yield* sql`DELETE FROM ${sql(`audit_${table}`)} WHERE stream = ANY(${[...streams]}::uuid[])`
        yield* sql`INSERT INTO ${sql(`audit_${table}`)} SELECT * FROM ${sql(`backup_${table}`)}`
        yield* sql`DROP TABLE ${sql(`backup_${table}`)}`
      }
      yield* MovableClock.advance("1 day")
      assert.deepStrictEqual((yield* verify()).problems, [])
      yield* otherTurns
      yield* minutesPass(5)
      yield* assertWhole
      yield* assertNoAlarm
    })
  )
})

// Apart, with a database of its own: the checkpoints go on vouching for the streams that it takes away.
layer(app, { excludeTestServices: true, timeout: "60 seconds" })(
  "a stream whose end was written to by others",
  (it) => {
    it.effect("is not closed, and is reported", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const alarms = yield* TrailWorld.Alarms
        const attacks: ReadonlyArray<
          (end: Row, killedAt: number) => Effect.Effect<unknown, unknown, SqlClient.SqlClient | ServiceKeys>
        > = [
          // Of another time than the process can have written in.
          (end, killedAt) => insert(forged(end, killedAt - 3_600_000)),
          (end, killedAt) => insert(forged(end, killedAt + 3_600_000)),
          (end, killedAt) => insert(forged(end, killedAt + 1_000, end.seq + 2)),
          // Its unsealed entries, altered.
          (end) => sql`UPDATE audit_entries SET body = replace(body, 'LAST', 'LESS') WHERE stream = ${end.stream}`,
          (end) => sql`DELETE FROM audit_entries WHERE stream = ${end.stream} AND seq = ${end.seq - 1}`,
          // Its sealed entries.
          (end) => sql`DELETE FROM audit_entries WHERE stream = ${end.stream} AND seq = 1`,
          (end) => sql`UPDATE audit_seals SET seq = 0, hash = ${Chain.genesis(end.stream)} WHERE stream = ${end.stream}`
        ]
        for (const attack of attacks) {
          const { audit, kill, seal } = yield* TrailWorld.mortalProcess
          yield* record(audit, "secret.inject", ["SEALED"])
          yield* seal.now
          yield* record(audit, "secret.inject", ["LAST"])
          yield* record(audit, "secret.inject", ["LAST"])
          const [stream] = yield* audit.seals.streams
          yield* kill
          const rows = yield* entriesOf(stream)
          const killedAt = Date.parse(auditEntry(rows[2]).at)
          yield* attack(rows[2], killedAt)
          yield* MovableClock.advance("2 minutes")
          assert.include(
            (yield* verify()).problems.map((problem) => problem.stream),
            stream
          )
          const before = alarms.length
          yield* minutesPass(6)
          assert.strictEqual(alarms.length, before + 1)
          assert.isFalse((yield* sealOf(stream))?.final)
          assert.include(
            (yield* verify()).problems.map((problem) => problem.stream),
            stream
          )
          yield* sql`DELETE FROM audit_entries WHERE stream = ${stream}`
          yield* sql`DELETE FROM audit_seals WHERE stream = ${stream}`
        }
        alarms.length = 0
      })
    )
  }
)

layer(app, { excludeTestServices: true, timeout: "60 seconds" })("a process that runs", (it) => {
  it.effect("is sealed while the next commit is under way: at most the last batch is under no seal", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { audit, kill, seal } = yield* TrailWorld.mortalProcess
      const [stream] = yield* audit.seals.streams
      const committed = Effect.map(
        sql<{ n: number }>`SELECT count(*)::int AS n FROM audit_entries WHERE stream = ${stream}`,
        ([row]) => row.n
      )
      const busy = Effect.forever(record(audit, "secret.inject", ["BUSY"]))
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* Effect.forEach(Array.from({ length: 16 }), () => Effect.forkScoped(busy))
          for (let i = 0; i < 5; i++) {
            yield* Effect.sleep("50 millis")
            const before = yield* committed
            yield* seal.now
            assert.isAtLeast((yield* sealOf(stream))?.seq ?? 0, before - 256)
          }
        })
      )
      assert.isAbove(yield* committed, 256)
      yield* kill
      yield* minutesPass(6)
      yield* assertWhole
    })
  )

  it.effect("goes on in new streams when it could not say for minutes that it runs: they may have been closed", () =>
    Effect.gen(function* () {
      const { audit, seal } = yield* TrailWorld.mortalProcess
      yield* write(audit, "BEFORE")
      yield* seal.now
      const before = yield* audit.seals.streams
      // The database was away for this process alone.
      yield* minutesPass(6)
      assert.deepStrictEqual(yield* sealOf(before[0]), { seq: 1, final: true })
      yield* write(audit, "AFTER")
      const after = yield* audit.seals.streams
      assert.notInclude(after, before[0])
      assert.notInclude(after, before[1])
      yield* seal.now
      yield* minutesPass(1)
      yield* seal.now
      yield* assertWhole
      yield* assertNoAlarm
    })
  )

  it.effect("is not taken for dead while its vault is away and another one's is back", () =>
    Effect.gen(function* () {
      const { audit, seal, vaultIs } = yield* TrailWorld.mortalProcess
      yield* write(audit, "BEFORE")
      yield* seal.now
      yield* vaultIs("down")
      yield* minutesPass(10, Effect.ignore(seal.now))
      yield* write(audit, "AFTER")
      yield* vaultIs("up")
      yield* seal.now
      yield* assertWhole
      yield* assertNoAlarm
    })
  )

  it.effect("goes on in its stream after a statement that failed", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { audit, seal } = yield* TrailWorld.mortalProcess
      yield* record(audit, "secret.inject", ["FIRST"])
      const [stream] = yield* audit.seals.streams
      yield* sql`ALTER TABLE audit_entries ADD CONSTRAINT none CHECK (seq < 2) NOT VALID`
      assert.strictEqual((yield* Effect.exit(record(audit, "secret.inject", ["FAILED"])))._tag, "Failure")
      yield* sql`ALTER TABLE audit_entries DROP CONSTRAINT none`
      yield* record(audit, "secret.inject", ["SECOND"])
      yield* seal.now
      assert.deepStrictEqual((yield* sealOf(stream))?.seq, 2)
      yield* assertWhole
      yield* assertNoAlarm
    })
  )
})
