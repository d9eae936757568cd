/**
 * Whether the trail can be written: without an entry no value leaves, so a server that cannot commit one is not ready
 * (docs/contract/outages.md).
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as FiberId from "effect/FiberId"
import { Crypto } from "#src/crypto/Crypto.ts"
import { DependencyDown } from "./Dependency.ts"

/**
 * An entry is inserted and taken back, and the rest is committed: the table, its indexes, the disk, the log and a
 * synchronous standby have had their say, and no row stays. (The transaction has a number and has written, so its commit
 * is written to the disk like any other.)
 */
const commitOne = Effect.fnUntraced(
  function* (sql: SqlClient.SqlClient, crypto: Crypto) {
    const [stream, id] = yield* crypto.uuids(2)
    const insert = sql`
      INSERT INTO audit_entries (stream, seq, id, at, actor_id, action, body, hash)
      VALUES (${stream}::uuid, ${1}, ${id}::uuid, now(), 'system', 'audit.probe', '', ''::bytea)`
    yield* sql.withTransaction(
      sql.withTransaction(Effect.zipRight(insert, Effect.fail("taken back" as const))).pipe(
        Effect.catchIf(
          (error): error is "taken back" => error === "taken back",
          () => Effect.void
        )
      )
    )
  },
  Effect.mapError((cause) => new DependencyDown({ dependency: "database", cause }))
)

/** However many ask, and however often: the trail is tried once in this time. */
const pause = "2 seconds"

export class AuditProbe extends Effect.Service<AuditProbe>()("access/AuditProbe", {
  scoped: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const crypto = yield* Crypto
    const scope = yield* Effect.scope
    let tried: Deferred.Deferred<void, DependencyDown> | undefined

    /** Fails when the last try failed. Who asks while one is under way waits for that one. */
    const check = Effect.suspend(() => {
      if (tried !== undefined) return Deferred.await(tried)
      const answer = (tried = Deferred.unsafeMake<void, DependencyDown>(FiberId.none))
      return commitOne(sql, crypto).pipe(
        Effect.intoDeferred(answer),
        Effect.zipRight(Effect.sleep(pause)),
        Effect.ensuring(Effect.sync(() => (tried = undefined))),
        Effect.forkIn(scope),
        Effect.zipRight(Deferred.await(answer))
      )
    })
    return { check }
  })
}) {}
