/**
 * Whether the trail can be written: without an entry no value leaves, so a server that cannot commit one is not ready
 * (docs/contract/outages.md).
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FiberId from "effect/FiberId"
import { DependencyDown } from "#src/database/Dependency.ts"

/**
 * An entry is inserted and taken back, and the rest is committed: the table, its indexes, the disk, the log and a
 * synchronous standby have had their say, and no row stays. (The transaction has a number and has written, so its commit
 * is written to the disk like any other.) One statement, so that a database which is far away is not taken for one that
 * is away. What is taken back has a code of its own: any other error, that of a trigger too, is the answer.
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
/** 16 KB that cannot be compressed: it needs pages of its own, where a small entry finds room on a full disk. */
const large = "(SELECT string_agg(gen_random_uuid()::text, '') FROM generate_series(1, 450))"

const down = (cause: unknown) => new DependencyDown({ dependency: "database", cause })

/** However many ask, and however often: what was found holds for this time. */
const pause = "400 millis"
/** Who did not answer by then is down. With the pause before, this is what readiness may take to tell (2 s). */
const deadline = "1400 millis"

export class AuditProbe extends Effect.Service<AuditProbe>()("trail/AuditProbe", {
  scoped: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const scope = yield* Effect.scope
    let tried: Deferred.Deferred<void, DependencyDown> | undefined
    let doubted = false

    /** The next try waits until this one has ended, however late: a database that hangs gets no second one. */
    const attempt = Effect.fnUntraced(function* (answer: Deferred.Deferred<void, DependencyDown>) {
      const isThorough = doubted
      doubted = false
      const work = yield* commitOne(sql, isThorough ? large : small).pipe(
        Effect.tapErrorCause(() => Effect.sync(() => (doubted ||= isThorough))),
        Effect.mapError(down),
        Effect.fork
      )
      yield* Fiber.join(work).pipe(
        Effect.disconnect,
        Effect.timeoutFail({ duration: deadline, onTimeout: () => down("It took too long.") }),
        Effect.asVoid,
        Effect.intoDeferred(answer)
      )
      yield* Fiber.await(work)
      yield* Effect.sleep(pause)
    })

    /** Fails when the last try failed, or came too late. Who asks while one is under way waits for that one. */
    const check = Effect.suspend(() => {
      if (tried !== undefined) return Deferred.await(tried)
      const answer = (tried = Deferred.unsafeMake<void, DependencyDown>(FiberId.none))
      return attempt(answer).pipe(
        Effect.ensuring(Effect.sync(() => (tried = undefined))),
        Effect.forkIn(scope),
        Effect.zipRight(Deferred.await(answer))
      )
    })
    return {
      check,
      /** The database failed somebody: from now on an entry of some size has to pass, until one does. */
      doubt: () => void (doubted = true)
    }
  })
}) {}
