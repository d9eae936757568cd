/**
 * The trail in a database: sealed by the vault, signed into a file, and verified against a writer of the
 * database.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, describe, layer } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FastCheck from "effect/FastCheck"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Ref from "effect/Ref"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import { CurrentCaller } from "#schema/Caller.ts"
import { SecretKey, SecretText } from "#schema/Values.ts"
import { Audit } from "#src/trail/Audit.ts"
import * as Entry from "#src/trail/Entry.ts"
import * as TrailKey from "#src/trail/TrailKey.ts"
import { cut as cutTrail } from "#src/trail/TrailCut.ts"
import { type Acceptance, acceptRestore } from "#src/trail/TrailRestore.ts"
import { type DatabaseReport, verify as verifyTrail } from "#src/trail/TrailVerification.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Seal } from "#src/trail/Seal.ts"
import * as SealRows from "#src/trail/SealRows.ts"
import { chain, genesis } from "#src/audit/Chain.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { Vault } from "#src/crypto/Vault.ts"
import * as Fixtures from "#test/support/Fixtures.ts"
import { auditEntry } from "#test/support/Json.ts"
import * as Sampled from "#test/support/Sampled.ts"
import * as TrailWorld from "./TrailWorld.ts"

const { append, record, verify, verifyTampered } = TrailWorld

interface Row {
  readonly stream: string
  readonly seq: number
  readonly hash: Buffer
  readonly body: string
}
const rows = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql<Row>`SELECT stream, seq::float8 AS seq, hash, body FROM audit_entries ORDER BY stream, seq`
)

/** Two processes with some entries each, sealed and signed. */
const filled = Effect.gen(function* () {
  const audit = yield* Audit
  const seal = yield* Seal
  yield* Effect.scoped(
    Effect.gen(function* () {
      const other = yield* TrailWorld.otherProcess
      for (let i = 0; i < 12; i++) {
        yield* record(audit, "secret.inject", [`READ_${i}`])
        yield* append(audit, [`WRITE_${i}`])
        yield* record(other.audit, "secret.read", [`OTHER_${i}`])
        yield* append(other.audit, [`THEIRS_${i}`])
      }
    })
  )
  yield* seal.now
})

/** Runs a property that is an effect: `runs` random cases, each with its seed in the failure. */
const holds = <A, E, R>(
  arbitrary: FastCheck.Arbitrary<A>,
  runs: number,
  property: (value: A) => Effect.Effect<unknown, E, R>
) => Effect.forEach(FastCheck.sample(arbitrary, runs), (value) => property(value), { discard: true })

const relink = (stream: string, texts: ReadonlyArray<string>) => {
  let hash = genesis(stream)
  return texts.map((text, i) => {
    const body = text.replace(/"seq":\d+/, `"seq":${i + 1}`).replace(/"stream":"[0-9a-f-]+"/, `"stream":"${stream}"`)
    hash = chain(hash, body)
    return { stream, seq: i + 1, hash, body }
  })
}
/** With the MACs that servers give, as if their key had leaked: the rest is found without them. */
const put = (all: ReadonlyArray<Row>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { newest } = yield* yield* TrailKey.shared
    yield* sql`
      INSERT INTO audit_entries (stream, seq, id, at, actor_id, action, body, hash, mac)
      SELECT s, n, (b::jsonb ->> 'id')::uuid, (b::jsonb ->> 'at')::timestamptz, 'system', b::jsonb ->> 'action', b, h, m
      FROM unnest(${all.map((r) => r.stream)}::uuid[], ${all.map((r) => r.seq)}::bigint[],
        ${all.map((r) => r.body)}::text[], ${all.map((r) => r.hash)}::bytea[],
        ${all.map((r) => Entry.macOf(newest, r.hash))}::bytea[]) AS r (s, n, b, h, m)`
  })

const cases = Sampled.cases(150)

// Each test looks at the trail that the ones before it wrote.
describe("the trail of a database", { shuffle: false }, () => {
  layer(TrailWorld.layer, { excludeTestServices: true, timeout: "60 seconds" })((it) => {
    it.effect(
      "verifies unaltered; checkpoints are private to the server's user, and seals are few",
      () =>
        Effect.gen(function* () {
          yield* filled
          const report = yield* verify()
          assert.deepStrictEqual(report.problems, [])
          assert.strictEqual(report.entries, 48)
          assert.strictEqual(report.unsealed, 0)
          assert.isAbove(report.checkpoints.count, 0)
          assert.strictEqual(fs.statSync(yield* TrailWorld.Checkpoints).mode & 0o777, 0o600)
          const sql = yield* SqlClient.SqlClient
          const [{ n }] = yield* sql<{ n: number }>`SELECT count(*)::int AS n FROM audit_seals`
          assert.strictEqual(n, 4)
        }),
      60_000
    )

    it.effect(
      "never verifies after a writer of the database was at it, whatever they did and where",
      () =>
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const all = yield* rows
          const streams = [...new Set(all.map((row) => row.stream))]
          const of = (stream: string) => all.filter((row) => row.stream === stream)
          const entry = FastCheck.nat(all.length - 1).map((i) => all[i])
          const stream = FastCheck.constantFrom(...streams)
          const wrong = (report: DatabaseReport, what: string) => assert.isAbove(report.problemCount, 0, what)

          yield* holds(FastCheck.tuple(entry, FastCheck.nat()), cases, ([row, where]) => {
            const at = 1 + (where % (row.body.length - 2))
            const body = row.body.slice(0, at) + (row.body[at] === "x" ? "y" : "x") + row.body.slice(at + 1)
            return Effect.map(
              verifyTampered(
                sql`UPDATE audit_entries SET body = ${body} WHERE stream = ${row.stream} AND seq = ${row.seq}`
              ),
              (report) => wrong(report, "modified")
            )
          })
          yield* holds(
            FastCheck.tuple(entry, FastCheck.constantFrom("action", "environment", "actor_id")),
            cases,
            ([row, column]) =>
              Effect.map(
                verifyTampered(
                  sql`UPDATE audit_entries SET ${sql(column)} = 'other' WHERE stream = ${row.stream} AND seq = ${row.seq}`
                ),
                (report) => wrong(report, `column ${column}`)
              )
          )
          yield* holds(entry, cases, (row) =>
            Effect.map(
              verifyTampered(sql`DELETE FROM audit_entries WHERE stream = ${row.stream} AND seq = ${row.seq}`),
              (report) => wrong(report, "deleted")
            )
          )
          yield* holds(entry, cases, (row) =>
            Effect.map(
              verifyTampered(sql`DELETE FROM audit_entries WHERE stream = ${row.stream} AND seq >= ${row.seq}`),
              (report) => wrong(report, "cut off")
            )
          )
          // Everything after it made to fit: insertion, deletion, reordering with the numbers and hashes closed up.
          yield* holds(FastCheck.tuple(entry, FastCheck.nat(2)), cases, ([row, how]) => {
            const bodies = of(row.stream).map((one) => one.body)
            const i = row.seq - 1
            // One entry alone has no other to change places with.
            const changed =
              how === 0 || (how === 2 && bodies.length === 1)
                ? bodies.toSpliced(i, 0, row.body)
                : how === 1
                  ? bodies.toSpliced(i, 1)
                  : bodies.with(i, bodies[(i + 1) % bodies.length]).with((i + 1) % bodies.length, row.body)
            return Effect.map(
              verifyTampered(
                Effect.zipRight(
                  sql`DELETE FROM audit_entries WHERE stream = ${row.stream}`,
                  put(relink(row.stream, changed))
                )
              ),
              (report) => wrong(report, "relinked")
            )
          })
          // Another label: of another stream, of a new one, with the seal taken along or left behind.
          yield* holds(FastCheck.tuple(stream, stream, FastCheck.nat(3)), cases, ([from, onto, how]) =>
            Effect.gen(function* () {
              const label = how === 0 ? yield* Effect.flatMap(Crypto, (crypto) => crypto.uuid) : onto
              if (label === from) return
              const bodies = of(from).map((one) => one.body)
              const report = yield* verifyTampered(
                Effect.gen(function* () {
                  yield* sql`DELETE FROM audit_entries WHERE stream = ANY(${[from, label]}::uuid[])`
                  yield* put(how === 1 ? of(from).map((row) => ({ ...row, stream: label })) : relink(label, bodies))
                  yield* sql`DELETE FROM audit_seals WHERE stream = ${label}`
                  if (how > 1) yield* sql`UPDATE audit_seals SET stream = ${label} WHERE stream = ${from}`
                  if (how === 3) {
                    const last = relink(label, bodies).at(-1)
                    yield* sql`UPDATE audit_seals SET hash = ${last?.hash ?? null} WHERE stream = ${label}`
                  }
                })
              )
              wrong(report, `relabelled, way ${how}`)
            })
          )
          // The whole table replaced by a forgery that fits in itself, with seals made up or without any.
          yield* holds(FastCheck.tuple(FastCheck.nat(2), FastCheck.nat()), cases, ([how, n]) =>
            Effect.gen(function* () {
              const label = yield* Effect.flatMap(Crypto, (crypto) => crypto.uuid)
              const forgery = relink(
                label,
                all.slice(n % 10, (n % 10) + 10).map((row) => row.body)
              )
              const report = yield* verifyTampered(
                Effect.gen(function* () {
                  yield* sql`DELETE FROM audit_entries`
                  yield* put(forgery)
                  if (how > 0) yield* sql`DELETE FROM audit_seals`
                  if (how > 1) {
                    const last = forgery.at(-1)
                    yield* sql`INSERT INTO audit_seals (stream, seq, hash, final, root_key_id, mac, sealed_at, seen_at)
                    VALUES (${label}, 10, ${last?.hash ?? null}, true, 'rk_00000000',
                      ${createHash("sha256").update(String(n)).digest()}, now(), now())`
                  }
                })
              )
              wrong(report, `replaced, way ${how}`)
            })
          )
          // Nothing of all this is left, and the trail is as it was.
          assert.deepStrictEqual((yield* verify()).problems, [])
        }),
      600_000
    )

    it.effect(
      "with an older copy of the whole database back in place is whole in itself, and behind its checkpoints",
      () =>
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const seal = yield* Seal
          const audit = yield* Audit
          yield* sql`CREATE TABLE old_entries AS SELECT * FROM audit_entries`
          yield* sql`CREATE TABLE old_seals AS SELECT * FROM audit_seals`
          yield* record(audit, "secret.inject", ["LATER"])
          yield* seal.now
          const back = Effect.gen(function* () {
            for (const table of ["entries", "seals"]) {
              yield* sql`DELETE FROM ${sql(`audit_${table}`)}`
              yield* sql`INSERT INTO ${sql(`audit_${table}`)} SELECT * FROM ${sql(`old_${table}`)}`
            }
          })
          assert.deepStrictEqual((yield* verifyTampered(back)).problems, [])
          const report = yield* verifyTampered(back, { checkpoints: true })
          assert.strictEqual(report.problemCount, 1)
          assert.include(report.problems[0].what, "the checkpoint of")
          yield* sql`DROP TABLE old_entries`
          yield* sql`DROP TABLE old_seals`
        }),
      60_000
    )

    it.effect(
      "is not sealed by its process once it was altered",
      () =>
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const { audit, seal } = yield* Effect.scoped(TrailWorld.otherProcess)
          yield* append(audit, ["A"])
          yield* append(audit, ["B"])
          yield* seal.now
          const [, stream] = yield* audit.seals.streams
          const sealed = sql<{ seq: number }>`SELECT seq::float8 AS seq FROM audit_seals WHERE stream = ${stream}`
          assert.strictEqual((yield* sealed)[0]?.seq, 2)
          const before = yield* rows
          // Back to the first entry, head and all; the process goes on from there.
          yield* sql`DELETE FROM audit_entries WHERE stream = ${stream} AND seq = 2`
          const first = before.find((row) => row.stream === stream && row.seq === 1)
          yield* sql`UPDATE audit_streams SET seq = 1, hash = ${first?.hash ?? null} WHERE id = ${stream}`
          yield* append(audit, ["C"])
          yield* append(audit, ["D"])
          yield* seal.now
          assert.strictEqual((yield* sealed)[0]?.seq, 2)
          assert.isAbove((yield* verify()).problemCount, 0)
          yield* sql`DELETE FROM audit_entries WHERE stream = ${stream}`
          yield* put(before.filter((row) => row.stream === stream))
          assert.deepStrictEqual((yield* verify()).problems, [])
        }),
      60_000
    )

    it.effect(
      "goes on while the vault is down, and is sealed when it is back",
      () =>
        Effect.gen(function* () {
          const { down, vault: switched } = yield* TrailWorld.switchedVault
          yield* Ref.set(down, true)
          yield* Effect.scoped(
            Effect.gen(function* () {
              const { audit, seal } = yield* Effect.provideService(TrailWorld.otherProcess, Vault, switched)
              for (let i = 0; i < 20; i++) yield* record(audit, "secret.inject", ["DURING"])
              assert.isTrue(Exit.isFailure(yield* Effect.exit(seal.now)))
              assert.deepStrictEqual((yield* verify()).problems, [])
              assert.isAbove((yield* verify()).unsealed, 19)
              yield* Ref.set(down, false)
              yield* seal.now
              const report = yield* verify({ later: 3_600_000 })
              assert.deepStrictEqual([report.problems, report.unsealed], [[], 0])
            })
          )
        }),
      60_000
    )

    it.effect(
      "tells a process that was taken for dead to go on in new streams",
      () =>
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          yield* Effect.scoped(
            Effect.gen(function* () {
              const { audit, seal } = yield* TrailWorld.otherProcess
              yield* record(audit, "secret.inject", ["BEFORE"])
              yield* seal.now
              const before = yield* audit.seals.streams
              // As another process does after it saw no sign of this one for five minutes.
              const [head] = yield* audit.seals.ownHeads(true)
              assert.isTrue(
                yield* SealRows.put({ sql, vault: yield* Vault }, head, true, yield* Clock.currentTimeMillis)
              )
              // Of one that was only asleep: nothing was written since, so that nothing is lost.
              yield* append(audit, ["WOKEN"])
              yield* seal.now
              assert.notInclude(yield* audit.seals.streams, before[0])
              yield* record(audit, "secret.inject", ["AFTER"])
              yield* seal.now
            })
          )
          const [{ n }] = yield* sql<{
            n: number
          }>`SELECT count(*)::int AS n FROM audit_entries WHERE body LIKE '%"AFTER"%'`
          assert.strictEqual(n, 1)
        }),
      60_000
    )
  })
})

layer(TrailWorld.layer, { excludeTestServices: true, timeout: "60 seconds" })(
  "checkpoints on standard output",
  (it) => {
    it.effect("are lines of JSON that verify the trail, and find that a whole stream was deleted", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const lines: Array<string> = []
        const write = process.stdout.write.bind(process.stdout)
        const spied: typeof process.stdout.write = (chunk, ...rest) => {
          if (!String(chunk).includes("auditCheckpoint")) return write(chunk, ...(rest as []))
          lines.push(String(chunk))
          for (const one of rest) if (typeof one === "function") one()
          return true
        }
        yield* Effect.acquireRelease(
          Effect.sync(() => (process.stdout.write = spied)),
          () => Effect.sync(() => (process.stdout.write = write))
        )
        const settings = { ...(yield* AppConfig), auditCheckpoints: Option.some("stdout") }
        yield* Effect.scoped(
          Effect.gen(function* () {
            const { audit } = yield* Effect.provideService(TrailWorld.otherProcess, AppConfig, settings)
            yield* record(audit, "secret.inject", ["A"])
            yield* append(audit, ["B"])
          })
        )
        assert.isAbove(lines.length, 0)
        const log = yield* TrailWorld.Checkpoints
        fs.writeFileSync(`${log}.log`, `{"message":"started"}\n${lines.join("")}`)
        const options = { ...(yield* TrailWorld.options), checkpoints: [`${log}.log`], values: false }
        const check = Effect.flatMap(Vault, (vault) => verifyTrail({ ...options, vault }))
        assert.deepStrictEqual((yield* check).problems, [])
        for (const table of ["entries", "seals"]) yield* sql`DELETE FROM ${sql(`audit_${table}`)}`
        yield* sql`DELETE FROM audit_streams`
        const { problems } = yield* check
        assert.strictEqual(problems.length, 2)
        assert.include(problems[0].what, "the checkpoint of")
      }).pipe(Effect.scoped)
    )
  }
)

layer(TrailWorld.layer, { excludeTestServices: true, timeout: "60 seconds" })("the secrets of a database", (it) => {
  const key = (i: number) => SecretKey.make(`KEY_${i}`)
  const text = (value: string) => Redacted.make(value) as SecretText

  it.effect(
    "stand as their last writes on record say, and no row is pointed elsewhere unnoticed; also after a cut",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const secrets = yield* Fixtures.secrets
        const seal = yield* Seal
        const world = yield* Fixtures.world()
        const place = { projectId: world.projectId, environment: world.development }
        const as = Effect.provideService(CurrentCaller, world.owner)
        const ids: Array<Effect.Effect.Success<ReturnType<typeof secrets.create>>> = []
        for (let i = 0; i < 12; i++) {
          ids.push(yield* as(secrets.create({ ...place, key: key(i), value: text(`v1 ${i}`) })))
        }
        for (let round = 2; round < 5; round++) {
          for (const [i, { id }] of ids.entries()) {
            if (i % round === 0) yield* as(secrets.update(id, { value: text(`v${round} ${i}`) }))
          }
        }
        yield* as(secrets.remove(ids[10].id, undefined))
        yield* as(secrets.remove(ids[11].id, undefined))
        yield* as(secrets.restore(ids[11].id))
        yield* as(secrets.rollback(ids[0].id, { version: 1 }))
        yield* as(secrets.update(ids[1].id, { value: text("v1 1") }))
        yield* seal.now
        assert.deepStrictEqual((yield* verify({ values: true })).problems, [])

        const live = yield* sql<{ id: string; key: string; version: number }>`
          SELECT id, key, version FROM secrets WHERE deleted_at IS NULL ORDER BY key`
        const older = live.filter(({ version }) => version > 1)
        assert.isAbove(older.length, 3)
        const tampering = FastCheck.oneof(
          FastCheck.tuple(FastCheck.constantFrom(...older), FastCheck.nat()).map(([row, n]) => ({
            key: row.key,
            does: sql`UPDATE secrets SET version = ${1 + (n % (row.version - 1))} WHERE id = ${row.id}`
          })),
          FastCheck.constantFrom(...live).map((row) => ({
            key: row.key,
            does: sql`UPDATE secrets SET deleted_at = now() WHERE id = ${row.id}`
          })),
          FastCheck.constantFrom(...live).map((row) => ({
            key: row.key,
            does: sql`UPDATE secrets SET version = version + 1 WHERE id = ${row.id}`
          })),
          FastCheck.constant({
            key: "KEY_10",
            does: sql`UPDATE secrets SET deleted_at = NULL, purge_at = NULL WHERE key = 'KEY_10'`
          })
        )
        const rolledBack = holds(tampering, 250, ({ does, key }) =>
          Effect.map(verifyTampered(does, { values: true }), ({ problems }) => {
            assert.strictEqual(problems.length, 1)
            assert.include(problems[0].what, key)
          })
        )
        yield* rolledBack

        // Refused while anything is wrong; then what is cut is said again, so that values verify as before.
        const cut = Effect.flatMap(TrailWorld.options, (options) =>
          cutTrail(new Date(options.now), { ...options, removed: () => Effect.void })
        )
        yield* sql`UPDATE secrets SET version = 1 WHERE id = ${older[0].id}`
        assert.isTrue(Exit.isFailure(yield* Effect.exit(cut)))
        assert.strictEqual((yield* verify()).cuts.length, 0)
        yield* sql`UPDATE secrets SET version = ${older[0].version} WHERE id = ${older[0].id}`
        const { entries } = yield* verify()
        assert.strictEqual(yield* cut, entries)
        const after = yield* verify({ values: true })
        assert.deepStrictEqual(after.problems, [])
        assert.isAbove(after.cuts.length, 0)
        assert.isBelow(after.entries, entries)
        yield* rolledBack
        // A cut that nobody signed, and one moved along.
        for (const does of [
          sql`UPDATE audit_cuts SET seq = seq + 1`,
          sql`UPDATE audit_cuts SET note = replace(note, 'before 2', 'before 1')`,
          sql`DELETE FROM audit_cuts`
        ]) {
          assert.isAbove((yield* verifyTampered(does)).problemCount, 0)
        }
        // Writes go on after it.
        yield* as(secrets.update(ids[2].id, { value: text("after the cut") }))
        yield* seal.now
        assert.deepStrictEqual((yield* verify({ values: true })).problems, [])
      }),
    300_000
  )

  it.effect(
    "that were restored from an older copy are accepted once the operator says so, with both heads on record",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const seal = yield* Seal
        yield* Effect.scoped(
          Effect.gen(function* () {
            const { audit, seal } = yield* TrailWorld.otherProcess
            yield* record(audit, "secret.inject", ["A"])
            yield* seal.now
            yield* record(audit, "secret.inject", ["B"])
            yield* record(audit, "secret.inject", ["C"])
          })
        )
        const [last] =
          yield* sql<Row>`SELECT stream, seq::float8 AS seq, hash, body FROM audit_entries WHERE body LIKE '%"C"%'`
        yield* sql`DELETE FROM audit_entries WHERE stream = ${last.stream} AND seq > 1`
        yield* sql`DELETE FROM audit_seals WHERE stream = ${last.stream}`
        assert.isAbove((yield* verify()).problemCount, 0)
        const options = yield* TrailWorld.options
        const seen: Array<Acceptance> = []
        const decide = (answer: boolean) => (found: Acceptance) =>
          Effect.sync(() => {
            seen.push(found)
            return answer
          })
        assert.isFalse(yield* acceptRestore(options, decide(false)))
        assert.isAbove((yield* verify()).problemCount, 0)
        assert.isTrue(yield* acceptRestore(options, decide(true)))
        assert.deepStrictEqual(
          seen[1].accepted.map(({ present: held, signed }) => [held.stream, held.seq, signed.seq]),
          [[last.stream, 1, 3]]
        )
        assert.deepStrictEqual((yield* verify()).problems, [])
        const [row] = yield* sql<{ body: string }>`
          SELECT body FROM audit_entries WHERE action = 'audit.accept_restore' ORDER BY id LIMIT 1`
        assert.deepStrictEqual(auditEntry(row).target, { type: "audit_stream", id: last.stream, name: "1 of 3" })
        assert.isFalse(yield* acceptRestore(yield* TrailWorld.options, decide(true)))
        // An altered database is no restored one.
        yield* sql`UPDATE audit_entries SET body = replace(body, '"A"', '"X"') WHERE stream = ${last.stream}`
        assert.isTrue(Exit.isFailure(yield* Effect.exit(acceptRestore(options, decide(true)))))
        yield* sql`UPDATE audit_entries SET body = replace(body, '"X"', '"A"') WHERE stream = ${last.stream}`
        yield* seal.now
        assert.deepStrictEqual((yield* verify()).problems, [])
      }),
    60_000
  )

  it.effect(
    "that a fail-over took entries of are accepted while their processes run, which vouch for the lost ones no more",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        // One has heard of it and vouches for what it wrote before the operator decides; one hears of it afterwards.
        for (const hears of ["before", "after"] as const) {
          yield* Effect.scoped(
            Effect.gen(function* () {
              const { audit, seal } = yield* TrailWorld.otherProcess
              yield* record(audit, "secret.inject", [`A ${hears}`])
              yield* seal.now
              const [first] = yield* sql<Row>`
                SELECT stream, seq::float8 AS seq, hash, body FROM audit_entries WHERE body LIKE ${`%"A ${hears}"%`}`
              // As the standby has it, which gets nothing of the rest.
              yield* sql`CREATE TABLE standby AS SELECT * FROM audit_seals WHERE stream = ${first.stream}`
              yield* record(audit, "secret.inject", [`B ${hears}`])
              yield* seal.now
              yield* record(audit, "secret.inject", [`C ${hears}`])
              yield* sql`DELETE FROM audit_entries WHERE stream = ${first.stream} AND seq > ${first.seq}`
              yield* sql`DELETE FROM audit_seals WHERE stream = ${first.stream}`
              yield* sql`INSERT INTO audit_seals SELECT * FROM standby`
              yield* sql`DROP TABLE standby`
              const goesOn = record(audit, "secret.inject", [`D ${hears}`])
              if (hears === "before") yield* goesOn
              assert.isAbove((yield* verify()).problemCount, 0)
              assert.isTrue(yield* acceptRestore(yield* TrailWorld.options, () => Effect.succeed(true)))
              assert.deepStrictEqual((yield* verify()).problems, [])
              yield* goesOn
              yield* seal.now
              assert.deepStrictEqual((yield* verify()).problems, [])
            })
          )
          // They have closed their streams.
          assert.deepStrictEqual((yield* verify()).problems, [])
        }
      }),
    60_000
  )
})
