/**
 * Checks that the trail can be written. No value leaves without an entry, so a server that cannot commit one is not
 * ready (docs/contract/outages.md).
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FiberId from "effect/FiberId"
import { DependencyDown } from "#src/database/Dependency.ts"

/**
 * Inserts an entry, rolls it back in a savepoint, and commits. The table, its indexes, the disk, the log and a
 * synchronous standby are all tested, and no row remains. (The transaction has an id and has written, so its commit
 * goes to disk.) One statement, so that a distant database passes in time. The rollback uses an error code of our own;
 * any other error, even of a trigger, fails the probe.
 */
const commitOne = (sql: SqlClient.SqlClient, body: string) => sql`
  DO $$ BEGIN
    INSERT INTO audit_entries (stream, seq, id, at, actor_id, action, body, hash)
    VALUES (gen_random_uuid(), 1, gen_random_uuid(), now(), 'system', 'audit.probe', ${sql.literal(body)}, ''::bytea);
    RAISE EXCEPTION USING ERRCODE = 'AMPPR';
  EXCEPTION WHEN SQLSTATE 'AMPPR' THEN
    NULL;
  END $$`

const small = "''"
/** 16 KB that do not compress. They need new pages, while a small entry still fits on a full disk. */
const large = "(SELECT string_agg(gen_random_uuid()::text, '') FROM generate_series(1, 450))"

const databaseDown = (cause: unknown) => new DependencyDown({ dependency: "database", cause })

/** Results are valid for this time, for all callers. */
const pause = "400 millis"
/** Time limit of a probe. With the pause before, readiness takes at most 2 s. */
const deadline = "1400 millis"

export class Probe extends Effect.Service<Probe>()("trail/Probe", {
  scoped: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const scope = yield* Effect.scope
    let current: Deferred.Deferred<void, DependencyDown> | undefined
    let isInDoubt = false

    /** The next probe waits until this one has ended, however late: a hanging database gets only one at a time. */
    const attempt = Effect.fnUntraced(function* (result: Deferred.Deferred<void, DependencyDown>) {
      const isThorough = isInDoubt
      isInDoubt = false
      const work = yield* commitOne(sql, isThorough ? large : small).pipe(
        Effect.tapErrorCause(() => Effect.sync(() => (isInDoubt ||= isThorough))),
        Effect.mapError(databaseDown),
        Effect.fork
      )
      yield* Fiber.join(work).pipe(
        Effect.disconnect,
        Effect.timeoutFail({ duration: deadline, onTimeout: () => databaseDown("It took too long.") }),
        Effect.asVoid,
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
