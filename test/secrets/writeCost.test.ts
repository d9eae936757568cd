import { during, type Statement } from "#test/support/Statements.ts"
import { assert, describe, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { CurrentCaller } from "#schema/Caller.ts"
import { SecretIdOut } from "#schema/Ids.ts"
import { SecretKey } from "#schema/Values.ts"
import type { EnvironmentTarget } from "#src/access/Target.ts"
import { DataKeys } from "#src/crypto/DataKeys.ts"
import { tokenRows } from "#src/credentials/CredentialRows.ts"
import * as Envelope from "#src/crypto/Envelope.ts"
import * as SecretBoxes from "#src/secrets/SecretBoxes.ts"
import * as SecretRowChanges from "#src/secrets/SecretRowChanges.ts"
import type { SealedRow } from "#src/secrets/SecretRows.ts"
import { onPostgres } from "#test/support/TestDatabase.ts"
import { anotherProcess, secrets as services, secretsLayer, world } from "#test/support/Fixtures.ts"

const key = (text: string) => SecretKey.make(text)
const numbers = (n: number) => Array.from({ length: n }, (_, i) => i)

/** Every verb on a few secrets of an environment that holds `besides` others, a third of them templates. */
const costs = Effect.fnUntraced(function* (besides: number) {
  const w = yield* world()
  const all = yield* services
  const at = { projectId: w.projectId, environment: w.development }
  const as = Effect.provideService(CurrentCaller, w.owner)
  const bulk = (entries: ReadonlyArray<readonly [string, string]>) =>
    all
      .createBulk({ ...at, secrets: entries.map(([name, value]) => ({ key: key(name), value: Redacted.make(value) })) })
      .pipe(as)
  const create = (name: string, value: string) =>
    all.create({ ...at, key: key(name), value: Redacted.make(value) }).pipe(as)
  yield* bulk([["OTHER", "x"]])
  for (let from = 0; from < besides; from += 100) {
    yield* bulk(numbers(100).map((i) => [`B${from + i}`, i % 3 === 0 ? "${OTHER}!" : `value ${i}`] as const))
  }
  const a = yield* create("A", "1")
  yield* create("USER", "${A}${OTHER}")
  const b = yield* create("B", "1")
  const cost: Record<string, ReadonlyArray<Statement>> = {
    create: yield* during(create("NEW", "text")),
    "create a template": yield* during(create("NEW_TEMPLATE", "${A}")),
    update: yield* during(all.update(a.id, { value: Redacted.make("2") }).pipe(as)),
    "update to a template": yield* during(all.update(b.id, { value: Redacted.make("${A}") }).pipe(as)),
    "update to the same": yield* during(all.update(a.id, { value: Redacted.make("2") }).pipe(as)),
    rollback: yield* during(all.rollback(a.id, { version: 1 }).pipe(as)),
    "delete with dependents": yield* during(all.remove(a.id, "flatten").pipe(as)),
    delete: yield* during(all.remove(b.id).pipe(as)),
    restore: yield* during(all.restore(b.id).pipe(as)),
    "bulk of 100": yield* during(bulk(numbers(100).map((i) => [`MANY${i}`, `value ${i}`] as const)))
  }
  const inject = (by: typeof all | (typeof other)["secrets"]) => by.inject(at).pipe(as)
  const other = yield* anotherProcess
  yield* Effect.all([inject(all), inject(other.secrets)])
  yield* all.update(b.id, { value: Redacted.make("3") }).pipe(as)
  cost["inject after a write"] = yield* during(inject(all))
  cost["inject after a write of another process"] = yield* during(inject(other.secrets))
  cost["diff"] = yield* during(
    other.secrets.diff({ projectId: w.projectId, sourceEnv: w.development, targetEnv: w.development }).pipe(as)
  )
  return cost
})

const targetIn = (w: Effect.Effect.Success<ReturnType<typeof world>>): EnvironmentTarget => ({
  type: "environment",
  teamId: w.teamId,
  plan: "team",
  projectId: w.projectId,
  environmentId: w.developmentId,
  slug: w.development,
  protected: false,
  revision: 0,
  described: 0,
  readers: "team",
  changes: "direct",
  visibility: "team"
})

/** How often the statements with this text were planned and how often a plan was kept, on the connection of `work`. */
const plansOf = (sql: SqlClient.SqlClient, text: string, work: Effect.Effect<unknown, SqlError>) =>
  Effect.gen(function* () {
    const now = Effect.map(
      sql<{ readonly made: number; readonly kept: number }>`
        SELECT coalesce(sum(custom_plans), 0)::int AS made, coalesce(sum(generic_plans), 0)::int AS kept
        FROM pg_prepared_statements WHERE position(${text} IN statement) > 0`,
      ([counts]) => counts ?? { made: 0, kept: 0 }
    )
    const before = yield* now
    yield* Effect.repeatN(work, 29)
    const after = yield* now
    return { made: after.made - before.made, kept: after.kept - before.kept }
  })

const counted = (cost: Record<string, ReadonlyArray<Statement>>) =>
  Object.fromEntries(
    Object.entries(cost).map(([verb, statements]) => [
      verb,
      { statements: statements.length, rows: statements.reduce((sum, { rows }) => sum + rows, 0) }
    ])
  )

describe("a write, and a read after it", () => {
  layer(secretsLayer, { timeout: 120_000 })((it) => {
    it.scoped("asks the database as often, and reads as many rows, whatever else the environment holds", () =>
      Effect.gen(function* () {
        const small = counted(yield* costs(100))
        assert.deepStrictEqual(counted(yield* costs(2_000)), small)
        assert.deepStrictEqual(
          Object.fromEntries(Object.entries(small).map(([verb, { statements }]) => [verb, statements])),
          {
            // With the authentication of its request, four: BEGIN goes with the lock, COMMIT with the changes.
            create: 3,
            "create a template": 3,
            update: 3,
            "update to a template": 3,
            "update to the same": 3,
            rollback: 4,
            "delete with dependents": 3,
            delete: 3,
            restore: 5,
            "bulk of 100": 3,
            // The environment of the request, and the entry.
            "inject after a write": 2,
            "inject after a write of another process": 3,
            diff: 3
          }
        )
      })
    )

    // The embedded database is asked without names, and keeps no plan.
    it.effect.skipIf(!onPostgres)(
      "its lock, and the look-up of the credential before it, are planned a few times and not at each execution",
      () =>
        Effect.gen(function* () {
          const w = yield* world()
          const sql = yield* SqlClient.SqlClient
          // Then Postgres knows that other environments hold much (the test before) and this one nothing.
          yield* sql`ANALYZE`
          const free = sql`SELECT NULL::text AS stream, 0 AS seq, ''::bytea AS hash, false AS followed WHERE false`
          const named = { keys: ["A"], ids: [], mentions: [] }
          const lookup = tokenRows(sql)
          const look = (size: number) => lookup(numbers(size).map((i) => ({ id: `${i}`, named: undefined })))
          const alone = "(SELECT $1::text, $2::uuid, $3::text, 1)"
          const place = { projectId: w.projectId, environment: "development" } as const
          const plans = yield* sql.withTransaction(
            Effect.all([
              plansOf(sql, alone, look(1)),
              plansOf(sql, alone, lookup([{ id: "1", named: place }])),
              plansOf(sql, "FROM unnest(", look(3)),
              plansOf(sql, "WITH RECURSIVE environment", SecretRowChanges.lock(sql, targetIn(w), named, free))
            ])
          )
          for (const { kept, made } of plans) {
            // Postgres makes five before it compares; the first execution has no name yet.
            assert.isAtMost(made, 5)
            assert.isAtLeast(kept, 20)
          }
        })
    )

    it.effect("other requests have their turn while many values are opened", () =>
      Effect.gen(function* () {
        const w = yield* world()
        const dataKeys = yield* DataKeys
        const target = targetIn(w)
        const dataKey = yield* dataKeys.active(target)
        const rows = numbers(320).map((i): SealedRow => {
          const at = new Date(0)
          const secret = { id: SecretIdOut.make(w.developmentId), key: `K${i}`, kind: "literal", version: 1 } as const
          const row = { ...secret, createdAt: at, updatedAt: at, dataKeyId: dataKey.id }
          const box = Envelope.sealValue(
            dataKey.key,
            SecretBoxes.contextOf(target, row, dataKey),
            "x",
            new Uint8Array(32)
          )
          return { ...row, sealed: box }
        })
        // The data key is held: nothing below waits for anything but its turn.
        let turns = 0
        let going = true
        const count = () => {
          turns++
          if (going) setImmediate(count)
        }
        setImmediate(count)
        const opened = yield* SecretBoxes.open(dataKeys, target, rows)
        going = false
        assert.strictEqual(opened.length, rows.length)
        assert.isAtLeast(turns, 9)
      })
    )
  })
})
