/**
 * A number that changes with the database server. After a fail-over to a standby that lagged, the database is an older
 * one: revisions and rows that a process caches may be gone, and their numbers may be used again. Caches of database
 * contents are dropped when it changes. A restart of the same server changes it too, which only costs the cache.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"

export class DatabaseEpoch extends Context.Reference<DatabaseEpoch>()("database/DatabaseEpoch", {
  /** An embedded database never changes its server. */
  defaultValue: (): (() => number) => () => 0
}) {}

/** Calls `forget` when the epoch has changed since the last look. Each look returns the current epoch. */
export const watch = (forget: () => void): Effect.Effect<() => number> =>
  Effect.map(DatabaseEpoch, (epoch) => {
    let lastEpoch = epoch()
    return () => {
      const now = epoch()
      if (now !== lastEpoch) {
        lastEpoch = now
        forget()
      }
      return now
    }
  })
