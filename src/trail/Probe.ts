/**
 * Checks that the trail can be written. No value leaves without an entry, so a server that cannot commit one is not
 * ready (docs/contract/outages.md).
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Data from "effect/Data"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FiberId from "effect/FiberId"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Causes from "#src/database/Causes.ts"
import { DependencyDown } from "#src/database/Dependency.ts"

/** Undoes the entry of a probe. */
class ProbeUndone extends Data.TaggedError("ProbeUndone")<{}> {}

/**
 * Inserts an entry, rolls it back to a savepoint, and commits. The table, its indexes, the disk, the log and a
 * synchronous standby are all tested, and no row remains. (The transaction has an id and has written, so its commit
 * goes to disk.) Plain statements: a database without procedural languages passes too.
 */
const commitOne = (sql: SqlClient.SqlClient, body: string) => {
  const insert = sql`
    INSERT INTO audit_entries (stream, seq, id, at, actor_id, action, body, hash)
    VALUES (gen_random_uuid(), 1, gen_random_uuid(), now(), 'system', 'audit.probe', ${body}, ''::bytea)`
  return sql.withTransaction(
    Effect.catchTag(sql.withTransaction(Effect.zipRight(insert, new ProbeUndone())), "ProbeUndone", () => Effect.void)
  )
}

/** Bytes that do not compress. 16 KB of text need new pages, while a small entry still fits on a full disk. */
const largeBytes = 12_288

const databaseDown = (cause: unknown) => new DependencyDown({ dependency: "database", cause })

/** Results are valid for this time, for all callers. */
const pause = "400 millis"
/** Time limit of a probe. With the pause before, readiness takes at most 2 s. */
const deadline = "1400 millis"

const tooSlow = "no answer within 1.4 s"

/** Names a failure by its SQLSTATE or socket error: messages of a database may repeat input. */
const reasonOf = (cause: unknown): string =>
  cause === tooSlow ? tooSlow : (Causes.firstCode(cause) ?? "unknown error")

/** Logs the first probe of an outage and the first after it, not each probe. */
const makeReport = () => {
  let outage: string | undefined
  return (reason: string | undefined) =>
    Effect.suspend(() => {
      const previous = outage
      outage = reason
      if (reason === previous) return Effect.void
      return reason === undefined
        ? Effect.logInfo("Entries of the audit trail can be written again: this process is ready")
        : Effect.logWarning(`No entry of the audit trail can be written (${reason}): this process is not ready`)
    })
}

export class Probe extends Effect.Service<Probe>()("trail/Probe", {
  scoped: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const crypto = yield* Crypto
    const scope = yield* Effect.scope
    const largeBody = Effect.map(crypto.randomBytes(largeBytes), (bytes) => bytes.toString("base64"))
    const report = makeReport()
    let current: Deferred.Deferred<void, DependencyDown> | undefined
    let isInDoubt = false

    /** The next probe waits until this one has ended, however late: a hanging database gets only one at a time. */
    const attempt = Effect.fnUntraced(function* (result: Deferred.Deferred<void, DependencyDown>) {
      const isThorough = isInDoubt
      isInDoubt = false
      const work = yield* Effect.flatMap(isThorough ? largeBody : Effect.succeed(""), (body) =>
        commitOne(sql, body)
      ).pipe(
        Effect.tapErrorCause(() => Effect.sync(() => (isInDoubt ||= isThorough))),
        Effect.mapError(databaseDown),
        Effect.fork
      )
      yield* Fiber.join(work).pipe(
        Effect.disconnect,
        Effect.timeoutFail({ duration: deadline, onTimeout: () => databaseDown(tooSlow) }),
        Effect.asVoid,
        Effect.tapBoth({ onFailure: ({ cause }) => report(reasonOf(cause)), onSuccess: () => report(undefined) }),
        Effect.intoDeferred(result)
      )
      yield* Fiber.await(work)
      yield* Effect.sleep(pause)
    })

    /** Fails when the last probe failed or took too long. Callers share a probe in flight. */
    const check = Effect.suspend(() => {
      if (current !== undefined) return Deferred.await(current)
      const result = (current = Deferred.unsafeMake<void, DependencyDown>(FiberId.none))
      return attempt(result).pipe(
        Effect.ensuring(Effect.sync(() => (current = undefined))),
        Effect.forkIn(scope),
        Effect.zipRight(Deferred.await(result))
      )
    })
    return {
      check,
      /** After a failure of the database elsewhere: probes insert a large entry until one succeeds. */
      doubt: () => void (isInDoubt = true)
    }
  })
}) {}
