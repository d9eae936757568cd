import * as SqlClient from "@effect/sql/SqlClient"
import { assert, layer } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Ref from "effect/Ref"
import * as TestClock from "effect/TestClock"
import * as VaultLocal from "#layers/VaultLocal.ts"
import { VaultUnavailable } from "#schema/Vault.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as DataKeys from "#src/crypto/DataKeys.ts"
import { ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import { Vault } from "#src/crypto/Vault.ts"
import * as TestDatabase from "#test/support/TestDatabase.ts"
import * as World from "#test/support/World.ts"

/** A vault in front of the real one that can be down or hang, and counts what reaches it. */
const switched = Effect.gen(function* () {
  const vault = yield* Vault
  const state = yield* Ref.make<"up" | "down" | "hangs">("up")
  const unwraps = yield* Ref.make(0)
  const hanging = yield* Deferred.make<void>()
  const guard = <A, E>(call: Effect.Effect<A, E>) =>
    Effect.flatMap(Ref.get(state), (now): Effect.Effect<A, E | VaultUnavailable> =>
      now === "up"
        ? call
        : now === "down"
          ? new VaultUnavailable({ reason: "down" })
          : Effect.zipRight(Deferred.succeed(hanging, undefined), Effect.never)
    )
  return {
    vault: Vault.of({
      ...vault,
      generateDataKey: (context) => guard(vault.generateDataKey(context)),
      unwrap: (context, wrapped, rootKeyId) =>
        Effect.zipRight(
          Ref.update(unwraps, (n) => n + 1),
          // Yields, as a vault in another process would: callers overlap.
          Effect.zipRight(Effect.yieldNow(), guard(vault.unwrap(context, wrapped, rootKeyId)))
        ),
      status: guard(vault.status)
    }),
    set: (to: "up" | "down" | "hangs") => Ref.set(state, to),
    unwraps: Ref.get(unwraps),
    /** Waits until a call hangs. */
    hanging: Deferred.await(hanging)
  }
})

/** A server: a cache of its own before the vault given. */
const server = (vault: Vault["Type"]) =>
  Effect.map(
    Layer.build(
      Layer.fresh(DataKeys.DataKeys.Default).pipe(
        Layer.provide(Layer.fresh(ServiceKeys.Default)),
        Layer.provide(Layer.succeed(Vault, vault))
      )
    ),
    Context.get(DataKeys.DataKeys)
  )

const environment = Effect.gen(function* () {
  const { development, id, team } = yield* World.project()
  return { teamId: team.id, projectId: id, environmentId: development.id }
})

const keyCount = (environmentId: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const [{ count }] = yield* sql<{
      count: number
    }>`SELECT count(*)::int AS count FROM data_keys WHERE environment_id = ${environmentId}`
    return count
  })

const services = Layer.mergeAll(TestDatabase.layer, Layer.provideMerge(VaultLocal.layerMemory, Crypto.Default))

layer(services)("data keys", (it) => {
  it.scoped("are made on first use and come back as the same key from another server", () =>
    Effect.gen(function* () {
      const at = yield* environment
      const { vault } = yield* switched
      const key = yield* (yield* server(vault)).active(at)
      const other = yield* server(vault)
      const active = yield* other.active(at)
      const named = (yield* other.byId(at, [key.id])).get(key.id)
      assert.strictEqual(key.generation, 1)
      assert.strictEqual(active.id, key.id)
      assert.isTrue(active.key.equals(key.key))
      assert.isTrue(named?.key.equals(key.key))
    })
  )

  it.scoped("are one per environment, however many servers and requests come first at once", () =>
    Effect.gen(function* () {
      const at = yield* environment
      const { vault } = yield* switched
      const servers = [yield* server(vault), yield* server(vault), yield* server(vault)]
      const keys = yield* Effect.forEach(
        Array.from({ length: 30 }, (_, i) => servers[i % 3]),
        (keys) => keys.active(at),
        { concurrency: "unbounded" }
      )
      assert.strictEqual(new Set(keys.map(({ id }) => id)).size, 1)
      assert.isTrue(keys.every(({ key }) => key.equals(keys[0].key)))
      assert.strictEqual(yield* keyCount(at.environmentId), 1)
    })
  )

  it.scoped("are found from inside transactions too, with none waiting for another's connection", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const at = yield* environment
      const { vault } = yield* switched
      const maker = yield* server(vault)
      const { id } = yield* maker.active(at)
      const keys = yield* server(vault)
      const answers = yield* Effect.forEach(
        Array.from({ length: 12 }, (_, i) => i),
        (i) => (i % 2 === 0 ? sql.withTransaction(keys.byId(at, [id])) : keys.byId(at, [id])),
        { concurrency: "unbounded" }
      )
      assert.isTrue(answers.every((byId) => byId.get(id) !== undefined))
    })
  )

  it.scoped("differ between environments, and one of another environment is refused, held or not", () =>
    Effect.gen(function* () {
      const [one, two] = [yield* environment, yield* environment]
      const { vault } = yield* switched
      const keys = yield* server(vault)
      const [first, second] = [yield* keys.active(one), yield* keys.active(two)]
      assert.isFalse(first.key.equals(second.key))
      const failure = yield* Effect.flip(keys.byId(two, [second.id, first.id]))
      const fresh = yield* Effect.flip((yield* server(vault)).byId(two, [first.id]))
      assert.strictEqual(failure._tag, "INTEGRITY_FAILURE")
      assert.strictEqual(fresh._tag, "INTEGRITY_FAILURE")
      assert.strictEqual((yield* keys.byId(one, [first.id])).size, 1)
    })
  )

  it.scoped(
    "are refused when their rows were swapped, relabelled or altered, or belong to another team or project",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const [one, two] = [yield* environment, yield* environment]
        const { vault } = yield* switched
        const maker = yield* server(vault)
        const first = yield* maker.active(one)
        const second = yield* maker.active(two)
        const refused = (at: DataKeys.EnvironmentRef, id: string) =>
          Effect.gen(function* () {
            const error = yield* Effect.flip((yield* server(vault)).byId(at, [id]))
            assert.strictEqual(error._tag, "INTEGRITY_FAILURE")
          })
        yield* refused({ ...one, teamId: two.teamId }, first.id)
        yield* refused({ ...one, projectId: two.projectId }, first.id)
        yield* sql`
        UPDATE data_keys SET wrapped = (SELECT wrapped FROM data_keys WHERE id = ${second.id}) WHERE id = ${first.id}`
        yield* refused(one, first.id)
        yield* sql`UPDATE data_keys SET root_key_id = 'rk_00000000' WHERE id = ${second.id}`
        yield* refused(two, second.id)
      })
  )

  it.scoped("are asked of the vault once, and again only after their time", () =>
    Effect.gen(function* () {
      const at = yield* environment
      const { unwraps, vault } = yield* switched
      const { id } = yield* (yield* server(vault)).active(at)
      const keys = yield* server(vault)
      yield* keys.byId(at, [id])
      assert.strictEqual(yield* unwraps, 1)
      // The jitter takes at most a fifth.
      yield* TestClock.adjust(DataKeys.timeToLive * 0.8 - 1)
      yield* keys.byId(at, [id])
      assert.strictEqual(yield* unwraps, 1)
      yield* TestClock.adjust(DataKeys.timeToLive * 0.2 + 1)
      yield* keys.byId(at, [id])
      assert.strictEqual(yield* unwraps, 2)
    })
  )

  it.scoped("are asked of the vault once for all who wait at the same time", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const at = yield* environment
      const { unwraps, vault } = yield* switched
      const { id } = yield* (yield* server(vault)).active(at)
      const gate = yield* Effect.makeLatch(false)
      const slow = Vault.of({ ...vault, unwrap: (...call) => Effect.zipLeft(vault.unwrap(...call), gate.await) })
      const keys = yield* server(slow)
      const callers = yield* Effect.forEach(Array.from({ length: 20 }), () => Effect.fork(keys.byId(at, [id])))
      // The vault answers nobody before all of them have read their row.
      yield* Effect.replicateEffect(sql`SELECT 1`, 40)
      yield* gate.open
      const answers = yield* Effect.forEach(callers, Fiber.join)
      assert.isTrue(answers.every((byId) => byId.size === 1))
      assert.strictEqual(yield* unwraps, 1)
    })
  )

  it.scoped("leave memory when their time is over, though nobody asks", () =>
    Effect.gen(function* () {
      const at = yield* environment
      const { vault } = yield* switched
      const keys = yield* server(vault)
      yield* keys.active(at)
      assert.strictEqual(yield* keys.cachedCount, 1)
      yield* TestClock.adjust(DataKeys.timeToLive - 1)
      yield* keys.sweep
      assert.strictEqual(yield* keys.cachedCount, 1)
      yield* TestClock.adjust(1)
      yield* keys.sweep
      assert.strictEqual(yield* keys.cachedCount, 0)
    })
  )

  it.scoped("serve on while the vault is down, for 15 minutes and no longer", () =>
    Effect.gen(function* () {
      const at = yield* environment
      const { set, vault } = yield* switched
      const keys = yield* server(vault)
      const { id } = yield* keys.active(at)
      yield* set("down")
      yield* TestClock.adjust("14 minutes")
      yield* keys.sweep
      assert.strictEqual((yield* keys.byId(at, [id])).size, 1)
      assert.strictEqual((yield* keys.active(at)).id, id)
      yield* TestClock.adjust("59 seconds")
      assert.strictEqual((yield* keys.byId(at, [id])).size, 1)
      yield* TestClock.adjust("1 second")
      assert.strictEqual((yield* Effect.flip(keys.byId(at, [id])))._tag, "VaultUnavailable")
      assert.strictEqual(yield* keys.cachedCount, 0)
      yield* set("up")
      assert.strictEqual((yield* keys.byId(at, [id])).size, 1)
    })
  )

  it.scoped("leave memory after 15 minutes of an outage, though nobody asks", () =>
    Effect.gen(function* () {
      const at = yield* environment
      const { set, vault } = yield* switched
      const keys = yield* server(vault)
      yield* keys.active(at)
      yield* set("down")
      yield* TestClock.adjust(DataKeys.hardLimit - 1)
      yield* keys.sweep
      assert.strictEqual(yield* keys.cachedCount, 1)
      yield* TestClock.adjust(1)
      yield* keys.sweep
      assert.strictEqual(yield* keys.cachedCount, 0)
    })
  )

  it.scoped("spare an unreachable vault while they are held: it is asked again only after a pause", () =>
    Effect.gen(function* () {
      const at = yield* environment
      const { set, unwraps, vault } = yield* switched
      const keys = yield* server(vault)
      const { id } = yield* keys.active(at)
      yield* set("down")
      yield* TestClock.adjust("6 minutes")
      yield* Effect.forEach(Array.from({ length: 50 }), () => keys.byId(at, [id]))
      assert.strictEqual(yield* unwraps, 1)
      yield* TestClock.adjust("5 seconds")
      yield* keys.byId(at, [id])
      assert.strictEqual(yield* unwraps, 2)
    })
  )

  it.scoped("fail as VaultUnavailable when not held: at once when it is down, in 2 seconds when it hangs", () =>
    Effect.gen(function* () {
      const at = yield* environment
      const { hanging, set, vault } = yield* switched
      const { id } = yield* (yield* server(vault)).active(at)
      const keys = yield* server(vault)
      yield* set("down")
      assert.strictEqual((yield* Effect.flip(keys.byId(at, [id])))._tag, "VaultUnavailable")
      assert.strictEqual((yield* Effect.flip(keys.active(yield* environment)))._tag, "VaultUnavailable")
      yield* set("hangs")
      const waiting = yield* Effect.fork(Effect.flip(keys.byId(at, [id])))
      yield* hanging
      yield* TestClock.adjust("2 seconds")
      assert.strictEqual((yield* Fiber.join(waiting))._tag, "VaultUnavailable")
      yield* set("up")
      assert.strictEqual((yield* keys.byId(at, [id])).size, 1)
    })
  )

  it.scoped("reach the others who wait when the first to ask goes away", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const at = yield* environment
      const { vault } = yield* switched
      const { id } = yield* (yield* server(vault)).active(at)
      const unwrapping = yield* Effect.makeLatch(false)
      const gate = yield* Effect.makeLatch(false)
      const slow = Vault.of({
        ...vault,
        unwrap: (...call) => unwrapping.open.pipe(Effect.zipRight(gate.await), Effect.zipRight(vault.unwrap(...call)))
      })
      const keys = yield* server(slow)
      const first = yield* Effect.fork(keys.byId(at, [id]))
      yield* unwrapping.await
      const second = yield* Effect.fork(keys.byId(at, [id]))
      // Time for the second to read its row and start to wait.
      yield* Effect.replicateEffect(sql`SELECT 1`, 5)
      yield* Fiber.interrupt(first)
      yield* gate.open
      assert.strictEqual((yield* Fiber.join(second)).size, 1)
    })
  )

  it.scoped("of an environment are dropped when told to", () =>
    Effect.gen(function* () {
      const [one, two] = [yield* environment, yield* environment]
      const { vault } = yield* switched
      const keys = yield* server(vault)
      yield* keys.active(one)
      yield* keys.active(two)
      yield* keys.forget(one.environmentId)
      assert.strictEqual(yield* keys.cachedCount, 1)
    })
  )

  it.scoped("of environments that were deleted leave memory with the next sweep, on every server", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { vault } = yield* switched
      const servers = [yield* server(vault), yield* server(vault)]
      const [kept, gone, inProject] = yield* Effect.replicateEffect(environment, 3)
      for (const keys of servers) for (const one of [kept, gone, inProject]) yield* keys.active(one)
      yield* sql`UPDATE environments SET deleted_at = ${new Date(1)} WHERE id = ${gone.environmentId}`
      for (const keys of servers) {
        yield* keys.sweep
        assert.strictEqual(yield* keys.cachedCount, 2)
      }
      yield* sql`UPDATE projects SET deleted_at = ${new Date(1)} WHERE id = ${inProject.projectId}`
      for (const keys of servers) {
        yield* keys.sweep
        assert.strictEqual(yield* keys.cachedCount, 1)
      }
    })
  )

  it.scoped("of the newest generation count from the commit of a rotation on", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const at = yield* environment
      const { vault } = yield* switched
      const keys = yield* server(vault)
      const first = yield* keys.active(at)
      yield* sql`UPDATE data_keys SET state = 'decrypt_only' WHERE id = ${first.id}`
      const second = yield* keys.active(at)
      assert.strictEqual(second.generation, 2)
      assert.isFalse(second.key.equals(first.key))
      assert.strictEqual((yield* keys.byId(at, [first.id, second.id])).size, 2)
    })
  )
})

// Apart: the test clock keeps a sleeper for each of its calls of the vault, which would slow down every other test.
layer(services)("very many data keys", (it) => {
  it.scoped("are held up to the bound only, the least recently used going first", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const crypto = yield* Crypto
      const at = yield* environment
      const { vault } = yield* switched
      const { key } = yield* vault.generateDataKey({ purpose: "data-key", ...at, keyId: "any" })
      let opened = 0
      const quick = Vault.of({ ...vault, unwrap: () => Effect.sync(() => (opened++, key)) })
      const ids = yield* crypto.uuids(DataKeys.capacity + 1)
      yield* sql`
        INSERT INTO data_keys (id, environment_id, generation, bound, root_key_id, wrapped, state, created_at)
        SELECT id, ${at.environmentId}::uuid, n, true, 'any', ''::bytea, 'decrypt_only', ${new Date(0)}::timestamptz
        FROM unnest(${ids}::uuid[]) WITH ORDINALITY AS key (id, n)`
      const keys = yield* server(quick)
      yield* keys.byId(at, ids.slice(0, -1))
      assert.strictEqual(yield* keys.cachedCount, DataKeys.capacity)
      yield* keys.byId(at, [ids[0]])
      yield* keys.byId(at, ids.slice(-1))
      assert.strictEqual(yield* keys.cachedCount, DataKeys.capacity)
      const before = opened
      yield* keys.byId(at, [ids[0]])
      assert.strictEqual(opened, before)
      yield* keys.byId(at, [ids[1]])
      assert.strictEqual(opened, before + 1)
    })
  )
})
