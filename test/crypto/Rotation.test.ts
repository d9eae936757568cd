import * as SqlClient from "@effect/sql/SqlClient"
import { assert, describe, layer } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import { randomBytes } from "node:crypto"
import * as RateLimitMemory from "#layers/RateLimitMemory.ts"
import { type Caller, CurrentCaller } from "#schema/Caller.ts"
import { SecretKey } from "#schema/Values.ts"
import { VaultUnavailable } from "#schema/Vault.ts"
import { Access } from "#src/access/Access.ts"
import { Audit } from "#src/trail/Audit.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { DataKeys } from "#src/crypto/DataKeys.ts"
import * as RootKey from "#src/crypto/RootKey.ts"
import { restMillis } from "#src/crypto/ResealValues.ts"
import { Rotation } from "#src/crypto/Rotation.ts"
import { ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import { SnapshotCipher } from "#src/crypto/SnapshotCipher.ts"
import * as Vault from "#src/crypto/Vault.ts"
import { SealingKeys } from "#src/projects/SealingKeys.ts"
import { Idempotency } from "#src/secrets/Idempotency.ts"
import { Snapshots } from "#src/secrets/Snapshots.ts"
import { secrets as fixtureSecrets, secretServices, world, type World } from "#test/support/Fixtures.ts"
import * as TestDatabase from "#test/support/TestDatabase.ts"

const newKey = () => RootKey.rootKey(RootKey.secretKeyFrom(randomBytes(32)))

/** The root keys of the vault under test, and a switch for it to fail. */
class Keys extends Context.Tag("test/Keys")<
  Keys,
  {
    held: RootKey.RootKeys
    /** Calls of `rewrap` and `unwrap` that still succeed. */
    left: number
  }
>() {}

const vault = Layer.effect(
  Vault.Vault,
  Effect.gen(function* () {
    const keys = yield* Keys
    const fresh = yield* Vault.make({ now: Effect.sync(() => keys.held), having: () => Effect.sync(() => keys.held) })
    const down = new VaultUnavailable({ reason: "The test's vault is down." })
    const counted = <A, E>(call: Effect.Effect<A, E>): Effect.Effect<A, E | VaultUnavailable> =>
      Effect.suspend(() => (keys.left-- > 0 ? Effect.void : down)).pipe(Effect.zipRight(call))
    return Vault.Vault.of({
      ...fresh,
      unwrap: (...call) => counted(fresh.unwrap(...call)),
      rewrap: (...call) => counted(fresh.rewrap(...call))
    })
  })
)

const app = Layer.mergeAll(secretServices, Rotation.Default).pipe(
  Layer.provideMerge(Layer.mergeAll(Access.Default, DataKeys.Default, SnapshotCipher.Default, RateLimitMemory.layer)),
  Layer.provideMerge(Layer.merge(Audit.Default, RowSeal.Default)),
  Layer.provideMerge(Layer.provideMerge(ServiceKeys.Default, vault)),
  Layer.provideMerge(Layer.mergeAll(Crypto.Default, TestDatabase.layer)),
  Layer.provideMerge(Layer.sync(Keys, () => ({ held: RootKey.rootKeys(newKey()), left: Number.POSITIVE_INFINITY })))
)

const silent = () => Effect.void
const as = (caller: Caller) => Effect.provideService(CurrentCaller, caller)

const write = (w: World, values: Readonly<Record<string, string>>, idempotencyKey?: string) =>
  Effect.flatMap(fixtureSecrets, (secrets) =>
    secrets
      .createBulk(
        {
          projectId: w.projectId,
          environment: w.development,
          secrets: Object.entries(values).map(([key, value]) => ({
            key: SecretKey.make(key),
            value: Redacted.make(value)
          }))
        },
        idempotencyKey
      )
      .pipe(as(w.owner))
  )

/** As a server reads that has just started: nothing is held, everything goes through rows and vault. */
const readCold = (w: World) =>
  Effect.gen(function* () {
    yield* (yield* Snapshots).forget(w.developmentId)
    yield* (yield* DataKeys).forget(w.developmentId)
    const secrets = yield* fixtureSecrets
    const page = yield* secrets.resolved({ projectId: w.projectId, environment: w.development }).pipe(as(w.owner))
    return page.values
  })

const generations = (w: World) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    return yield* sql<{
      readonly id: string
      readonly generation: number
      readonly state: string
      readonly values: number
    }>`
      SELECT d.id, d.generation, d.state,
        (SELECT count(*)::int FROM secret_versions v WHERE v.data_key_id = d.id) AS values
      FROM data_keys d WHERE d.environment_id = ${w.developmentId} ORDER BY d.generation`
  })

/** After everything that was made so far. */
const now = Effect.zipRight(
  TestClock.adjust("1 second"),
  Effect.map(Clock.currentTimeMillis, (millis) => new Date(millis))
)

const turn = Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))

const keypairOf = (w: World) =>
  Effect.gen(function* () {
    const sealingKeys = yield* SealingKeys
    return yield* sealingKeys.keypair(w.developmentId).pipe(as(w.owner))
  })

/** Opens every wrapped key by what its row says, as a vault would that holds `keys`. */
const everyKeyOpens = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { held } = yield* Keys
  const rows = yield* sql<
    { rootKeyId: string; wrapped: Buffer; purpose: string; keyId: string } & Record<string, string>
  >`
    SELECT 'data-key' AS purpose, e.team_id, e.project_id, e.id AS environment_id,
      d.id || '/' || i.instance_id AS key_id, d.root_key_id, d.wrapped
    FROM data_keys d JOIN environments e ON e.id = d.environment_id CROSS JOIN instance i
    UNION ALL
    SELECT 'sealing-key', e.team_id, e.project_id, e.id, k.key_id || '/' || i.instance_id, k.root_key_id, k.wrapped_private
    FROM sealing_keys k JOIN environments e ON e.id = k.environment_id CROSS JOIN instance i`
  for (const { keyId, purpose, rootKeyId, wrapped, ...at } of rows) {
    const context = {
      purpose: purpose === "data-key" ? ("data-key" as const) : ("sealing-key" as const),
      teamId: at["teamId"] ?? "",
      projectId: at["projectId"] ?? "",
      environmentId: at["environmentId"] ?? "",
      keyId
    }
    yield* RootKey.unwrap(held, context, wrapped, rootKeyId)
  }
  return rows.length
})

// Each test goes on with the keys that the one before left.
describe("rotation of the root key", { shuffle: false }, () => {
  layer(app)((it) => {
    it.effect("wraps all keys again, and the old root key can go: cold readers see every value", () =>
      Effect.gen(function* () {
        const keys = yield* Keys
        const rotation = yield* Rotation
        const w = yield* world()
        yield* write(w, { A: "1", B: "x-${A}" })
        const keypair = yield* keypairOf(w)
        const service = yield* (yield* ServiceKeys).ring("mcp-request-state")
        const old = keys.held.current
        const seen: Array<string> = []
        keys.held = RootKey.rootKeys(newKey(), [old])
        const result = yield* rotation.rewrapAll(({ done, total }) => Effect.sync(() => seen.push(`${done}/${total}`)))
        assert.strictEqual(result.rootKeyId, keys.held.current.id)
        assert.deepStrictEqual(result.refused, [])
        assert.strictEqual(result.remaining, 0)
        assert.strictEqual(seen.at(-1), `${result.done}/${result.done}`)
        assert.deepStrictEqual([...(yield* rotation.named).keys()], [keys.held.current.id])
        keys.held = RootKey.rootKeys(keys.held.current)
        assert.deepStrictEqual(yield* readCold(w), { A: "1", B: "x-1" })
        assert.deepStrictEqual(yield* keypairOf(w), keypair)
        const vault = yield* Vault.Vault
        const sql = yield* SqlClient.SqlClient
        const [row] = yield* sql<{ readonly wrapped: Buffer; readonly rootKeyId: string }>`
        SELECT wrapped, root_key_id FROM service_key_generations WHERE name = 'mcp-request-state'`
        const context = { purpose: "service-key", teamId: "", projectId: "", environmentId: "" } as const
        const { generation, instance, key } = service.newest
        const keyId = `mcp-request-state/${generation}/${instance ?? ""}`
        const opened = yield* vault.unwrapBytes({ ...context, keyId }, row.wrapped, row.rootKeyId)
        assert.isTrue(key.export().equals(Redacted.value(opened)))
      })
    )

    it.effect.prop(
      "can be cut off anywhere: each row opens by the key it names, and the next run finishes",
      [FastCheck.nat(60), FastCheck.integer({ min: 1, max: 12 })],
      ([turns, environments]) =>
        Effect.gen(function* () {
          const keys = yield* Keys
          const rotation = yield* Rotation
          const worlds = yield* Effect.replicateEffect(world(), environments)
          for (const [i, w] of worlds.entries()) yield* write(w, { N: `${i}` })
          keys.held = RootKey.rootKeys(newKey(), [keys.held.current])
          const run = yield* Effect.fork(rotation.rewrapAll(silent))
          for (let i = 0; i < turns; i++) yield* turn
          yield* Fiber.interrupt(run)
          assert.isAtLeast(yield* everyKeyOpens, environments)
          for (const [i, w] of worlds.entries()) assert.deepStrictEqual(yield* readCold(w), { N: `${i}` })
          const result = yield* rotation.rewrapAll(silent)
          assert.strictEqual(result.remaining, 0)
          keys.held = RootKey.rootKeys(keys.held.current)
          for (const [i, w] of worlds.entries()) assert.deepStrictEqual(yield* readCold(w), { N: `${i}` })
        }),
      { fastCheck: { numRuns: 12 } }
    )

    it.effect("waits for a vault that is away in the middle, and stores nothing half", () =>
      Effect.gen(function* () {
        const keys = yield* Keys
        const rotation = yield* Rotation
        const worlds = yield* Effect.replicateEffect(world(), 3)
        for (const w of worlds) yield* write(w, { A: "1" })
        keys.held = RootKey.rootKeys(newKey(), [keys.held.current])
        keys.left = 2
        const run = yield* Effect.fork(rotation.rewrapAll(silent))
        while (keys.left > -1) yield* turn
        for (let i = 0; i < 20; i++) yield* turn
        const named = yield* rotation.named
        assert.isFalse(named.has(keys.held.current.id), "what the batch got is rolled back with it")
        keys.left = Number.POSITIVE_INFINITY
        // The pause of a second passes on the test's clock, as soon as the program has come to it.
        const ticking = yield* Effect.fork(Effect.forever(Effect.zipRight(TestClock.adjust("1 second"), turn)))
        const result = yield* Fiber.join(run)
        yield* Fiber.interrupt(ticking)
        assert.strictEqual(result.remaining, 0)
      })
    )

    it.effect("leaves what it cannot open as it is, says so, and finishes the rest", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const keys = yield* Keys
        const rotation = yield* Rotation
        const [broken, whole] = [yield* world(), yield* world()]
        yield* write(broken, { A: "1" })
        yield* write(whole, { A: "1" })
        const [{ id }] = yield* generations(broken)
        yield* sql`UPDATE data_keys SET wrapped = set_byte(wrapped, 70, get_byte(wrapped, 70) # 1) WHERE id = ${id}`
        const old = keys.held.current
        keys.held = RootKey.rootKeys(newKey(), [old])
        const result = yield* rotation.rewrapAll(silent)
        assert.deepStrictEqual(result.refused, [{ table: "data_keys", name: id }])
        assert.strictEqual(result.remaining, 1)
        assert.strictEqual((yield* rotation.named).get(old.id), 1)
        assert.deepStrictEqual(yield* readCold(whole), { A: "1" })
        yield* sql`DELETE FROM secret_versions WHERE data_key_id = ${id}`
        yield* sql`DELETE FROM data_keys WHERE id = ${id}`
      })
    )

    it.effect("knows every table that names a root key for what it wraps", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const tables = yield* sql<{ readonly tableName: string }>`
        SELECT DISTINCT c.table_name FROM information_schema.columns c
        JOIN information_schema.columns w ON w.table_name = c.table_name AND w.table_schema = c.table_schema
        WHERE c.column_name = 'root_key_id' AND c.table_schema = current_schema()
          AND w.data_type = 'bytea' AND (w.column_name LIKE 'wrapped%' OR w.column_name = 'canary')`
        assert.sameMembers(
          tables.map(({ tableName }) => tableName),
          ["data_keys", "sealing_keys", "service_keys", "service_key_generations", "webhook_secrets", "vault_canary"]
        )
      })
    )
  })
})

// Each test goes on with the keys that the one before left.
describe("rotation of data keys", { shuffle: false }, () => {
  layer(app)((it) => {
    it.effect("seals every version by a new generation: current, earlier and deleted ones", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const rotation = yield* Rotation
        const secrets = yield* fixtureSecrets
        const w = yield* world()
        yield* write(w, { A: "1", B: "x-${A}", GONE: "g" })
        yield* write(w, { A: "2" })
        const list = yield* secrets.list({ projectId: w.projectId, environment: w.development }).pipe(as(w.owner))
        const idOf = (key: string) => list.items.find((item) => item.key === key)!.id
        yield* secrets.remove(idOf("GONE"), undefined).pipe(as(w.owner))
        const [{ revision }] = yield* sql<{ readonly revision: string }>`
        SELECT revision FROM environments WHERE id = ${w.developmentId}`
        const result = yield* rotation.rotateDataKeys({ environmentId: w.developmentId, before: yield* now }, silent)
        assert.deepStrictEqual(result, { environments: 1, values: 4, refused: [] })
        assert.deepStrictEqual(
          (yield* generations(w)).map(({ generation, state, values }) => [generation, state, values]),
          [
            [1, "decrypt_only", 0],
            [2, "active", 4]
          ]
        )
        const after = yield* sql<{ readonly revision: string }>`
        SELECT revision FROM environments WHERE id = ${w.developmentId}`
        assert.strictEqual(after[0].revision, revision, "no value changed: what clients hold stays valid")
        assert.deepStrictEqual(yield* readCold(w), { A: "2", B: "x-2" })
        yield* secrets.rollback(idOf("A"), { version: 1 }).pipe(as(w.owner))
        yield* secrets.restore(idOf("GONE")).pipe(as(w.owner))
        assert.deepStrictEqual(yield* readCold(w), { A: "1", B: "x-1", GONE: "g" })
      })
    )

    it.effect("keeps the older key while a change that waits for an approval is sealed under it", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const rotation = yield* Rotation
        const w = yield* world()
        yield* write(w, { A: "1" })
        const [{ id: dataKeyId }] = yield* generations(w)
        const at = new Date(yield* Clock.currentTimeMillis)
        const request = yield* (yield* Crypto).uuid
        yield* sql`
          INSERT INTO change_requests (id, team_id, user_id, environment_id, changes, data_key_id, sealed, created_at, expires_at)
          SELECT ${request}, e.team_id, m.user_id, e.id, '[]', ${dataKeyId}, ${Buffer.from("box")}, ${at},
            ${new Date(at.getTime() + 10 * restMillis)}
          FROM environments e JOIN memberships m ON m.team_id = e.team_id WHERE e.id = ${w.developmentId} LIMIT 1`
        yield* rotation.rotateDataKeys({ environmentId: w.developmentId, before: yield* now }, silent)
        const hasOlderKey = Effect.map(generations(w), (rows) => rows.some(({ id }) => id === dataKeyId))
        yield* TestClock.adjust(2 * restMillis)
        yield* rotation.removeUnused
        assert.isTrue(yield* hasOlderKey, "the change can still be decided")
        assert.lengthOf(yield* sql`SELECT 1 FROM change_requests WHERE id = ${request}`, 1)
        yield* sql`UPDATE change_requests SET status = 'denied', sealed = NULL WHERE id = ${request}`
        yield* rotation.removeUnused
        assert.isFalse(yield* hasOlderKey)
      })
    )

    it.effect("concerns the environments chosen, and only keys of before", () =>
      Effect.gen(function* () {
        const rotation = yield* Rotation
        const [one, two] = [yield* world(), yield* world()]
        yield* write(one, { A: "1" })
        yield* write(two, { A: "1" })
        const count = (w: World) => Effect.map(generations(w), (rows) => rows.length)
        yield* rotation.rotateDataKeys({ projectId: one.projectId, before: yield* now }, silent)
        assert.deepStrictEqual([yield* count(one), yield* count(two)], [2, 1])
        const before = yield* now
        yield* rotation.rotateDataKeys({ environmentId: two.developmentId, before }, silent)
        yield* rotation.rotateDataKeys({ environmentId: two.developmentId, before }, silent)
        assert.strictEqual(yield* count(two), 2, "the same call again does nothing more")
      })
    )

    it.effect.prop(
      "can be cut off anywhere: every value is readable then, and the same call finishes",
      [FastCheck.nat(120), FastCheck.integer({ min: 1, max: 160 })],
      ([turns, size]) =>
        Effect.gen(function* () {
          const rotation = yield* Rotation
          const w = yield* world()
          const values = Object.fromEntries(Array.from({ length: size }, (_, i) => [`KEY_${i}`, `value ${i}`]))
          yield* write(w, values)
          const at = { environmentId: w.developmentId, before: yield* now }
          const run = yield* Effect.fork(rotation.rotateDataKeys(at, silent))
          for (let i = 0; i < turns; i++) yield* turn
          yield* Fiber.interrupt(run)
          assert.deepStrictEqual(yield* readCold(w), values)
          yield* rotation.rotateDataKeys(at, silent)
          assert.deepStrictEqual(
            (yield* generations(w)).map(({ state, values }) => [state, values]),
            [
              ["decrypt_only", 0],
              ["active", size]
            ]
          )
          assert.deepStrictEqual(yield* readCold(w), values)
        }),
      { fastCheck: { numRuns: 15 } }
    )

    it.effect("goes on under readers and writers: each sees what was written last, and nothing fails", () =>
      Effect.gen(function* () {
        const rotation = yield* Rotation
        const w = yield* world()
        const size = 60
        let written = 0
        const at = (round: number) =>
          Object.fromEntries(Array.from({ length: size }, (_, i) => [`KEY_${i}`, `${round}`]))
        yield* write(w, at(0))
        const others = { run: true }
        const writer = Effect.gen(function* () {
          while (others.run) {
            yield* write(w, at(written + 1))
            written++
            yield* turn
          }
        })
        const reads: Array<number> = []
        const reader = Effect.gen(function* () {
          while (others.run) {
            const least = written
            const values = yield* readCold(w)
            const rounds = new Set(Object.values(values))
            assert.strictEqual(Object.keys(values).length, size)
            assert.strictEqual(rounds.size, 1, "one round, as a whole")
            const round = Number([...rounds][0])
            assert.isAtLeast(round, least)
            reads.push(round)
            yield* turn
          }
        })
        const busy = yield* Effect.fork(Effect.all([writer, reader, reader], { concurrency: "unbounded" }))
        for (let i = 0; i < 3; i++) {
          yield* rotation.rotateDataKeys({ environmentId: w.developmentId, before: yield* now }, silent)
        }
        others.run = false
        yield* Fiber.join(busy)
        assert.isAbove(reads.length, 3)
        assert.isAbove(written, 0)
        const rows = yield* generations(w)
        assert.strictEqual(rows.length, 4)
        assert.deepStrictEqual(yield* readCold(w), at(written))
      })
    )

    it.effect("leaves an altered value as it is and keeps its key, and seals the rest", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const rotation = yield* Rotation
        const w = yield* world()
        yield* write(w, { A: "1", B: "2" })
        yield* sql`
        UPDATE secret_versions v SET sealed = set_byte(sealed, 80, get_byte(sealed, 80) # 1) FROM secrets s
        WHERE s.id = v.secret_id AND s.environment_id = ${w.developmentId} AND s.key = 'B'`
        const result = yield* rotation.rotateDataKeys({ environmentId: w.developmentId, before: yield* now }, silent)
        assert.deepStrictEqual(result, {
          environments: 1,
          values: 1,
          refused: [{ table: "secret_versions", name: "B version 1" }]
        })
        yield* TestClock.adjust(restMillis)
        yield* rotation.removeUnused
        assert.deepStrictEqual(
          (yield* generations(w)).map(({ values }) => values),
          [1, 1]
        )
      })
    )

    it.effect("removes an old key when it has rested and nothing names it, also no stored request", () =>
      Effect.gen(function* () {
        const rotation = yield* Rotation
        const idempotency = yield* Idempotency
        const w = yield* world()
        const first = yield* write(w, { A: "1" }, "once")
        yield* rotation.rotateDataKeys({ environmentId: w.developmentId, before: yield* now }, silent)
        const states = Effect.map(generations(w), (rows) => rows.map(({ state }) => state))
        yield* TestClock.adjust(restMillis)
        yield* rotation.removeUnused
        assert.deepStrictEqual(yield* states, ["decrypt_only", "active"], "a request of the last 24 h names it")
        assert.deepStrictEqual(yield* write(w, { A: "1" }, "once"), first, "and is still answered the same")
        yield* TestClock.adjust("24 hours")
        yield* idempotency.purge
        yield* rotation.removeUnused
        assert.deepStrictEqual(yield* states, ["active"])

        yield* rotation.rotateDataKeys({ environmentId: w.developmentId, before: yield* now }, silent)
        yield* rotation.removeUnused
        assert.deepStrictEqual(yield* states, ["decrypt_only", "active"], "a reader may still ask for it")
        yield* TestClock.adjust(restMillis)
        yield* rotation.removeUnused
        assert.deepStrictEqual(yield* states, ["active"])
        assert.deepStrictEqual(yield* readCold(w), { A: "1" })
      })
    )
  })
})
