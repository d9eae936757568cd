import * as SqlClient from "@effect/sql/SqlClient"
import { assert, describe, layer } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as VaultLocal from "#layers/VaultLocal.ts"
import { Audit } from "#src/trail/Audit.ts"
import type { AuditEvent } from "#src/trail/Entry.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import * as TestDatabase from "#test/support/TestDatabase.ts"

const auditLayer = Audit.Default.pipe(
  Layer.provide(Layer.provideMerge(ServiceKeys.Default, VaultLocal.layerMemory)),
  Layer.provideMerge(Layer.mergeAll(Crypto.Default, TestDatabase.layer))
)

const event = (name: string): AuditEvent => ({
  actor: "system",
  action: "backup.create",
  outcome: "allowed",
  teamId: null,
  target: { type: "backup", id: "", name }
})

/** Appends an entry in a transaction, which then stays open until `end`. */
const writing = (name: string, end: Effect.Effect<void>) =>
  Effect.gen(function* () {
    const [audit, sql] = yield* Effect.all([Audit, SqlClient.SqlClient])
    const appended = yield* Deferred.make<void>()
    const work = audit.append(event(name)).pipe(Effect.zipRight(Deferred.succeed(appended, undefined)))
    const ended = yield* Effect.fork(Effect.orDie(sql.withTransaction(Effect.zipRight(work, end))))
    return { appended: Deferred.await(appended), ended: Fiber.join(ended) }
  })

const turn = Effect.async<void>((resume) => void setImmediate(() => resume(Effect.void)))

describe("writes of one process", () => {
  layer(auditLayer)((it) => {
    // The embedded database has one connection: its transactions come one after the other.
    it.effect.skipIf(!TestDatabase.onPostgres)(
      "that are under way at once hold a stream each, as soon as the vault knows enough of them",
      () =>
        Effect.gen(function* () {
          const { seals } = yield* Audit
          const sql = yield* SqlClient.SqlClient
          assert.strictEqual((yield* seals.streams).length, 2)
          yield* (yield* writing("before", Effect.void)).ended
          const first = yield* Deferred.make<void>()
          const a = yield* writing("a", Deferred.await(first))
          yield* a.appended
          // It waits for the one stream of writes, and has a second one opened for those that come later.
          const b = yield* writing("b", Effect.void)
          while ((yield* seals.streams).length < 3) yield* turn
          yield* Deferred.succeed(first, undefined)
          yield* Effect.all([a.ended, b.ended])
          const before = yield* sql<{ readonly stream: string }>`SELECT DISTINCT stream FROM audit_entries`
          assert.strictEqual(before.length, 1)

          yield* seals.markReady(yield* seals.streams)
          const second = yield* Deferred.make<void>()
          const c = yield* writing("c", Deferred.await(second))
          yield* c.appended
          // The first that comes opens the new stream, the next takes it: neither waits for `c`.
          yield* (yield* writing("d", Effect.void)).ended
          yield* (yield* writing("e", Effect.void)).ended
          yield* Deferred.succeed(second, undefined)
          yield* c.ended
          const rows = yield* sql<{ readonly stream: string; readonly seq: number }>`
            SELECT s.id AS stream, s.seq FROM audit_streams s
            WHERE s.seq = (SELECT max(e.seq) FROM audit_entries e WHERE e.stream = s.id) ORDER BY s.seq`
          assert.deepStrictEqual(
            rows.map(({ seq }) => seq),
            [2, 4]
          )
        })
    )
  })
})
