/**
 * Which server of the database answers, as a number that changes with it. After a fail-over to a standby that had not got
 * everything, the database is an older one: revisions and rows that a process remembers may be gone, and are given out
 * anew. Whoever remembers something of the database forgets it when this changes. A restart of the same server changes it
 * too, which costs no more than that.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"

export class DatabaseEpoch extends Context.Reference<DatabaseEpoch>()("access/DatabaseEpoch", {
  /** A database that is part of this process is always the same one. */
  defaultValue: (): (() => number) => () => 0
}) {}

/** Has `forget` called when it changed since the last look; a look answers the number of now. */
export const watch = (forget: () => void): Effect.Effect<() => number> =>
  Effect.map(DatabaseEpoch, (epoch) => {
    let seen = epoch()
    return () => {
      const now = epoch()
      if (now !== seen) {
        seen = now
        forget()
      }
      return now
    }
  })
