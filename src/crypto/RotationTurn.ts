/** What both rotations share: they go in turns, say how far they are, and wait for a vault or a lock. */
import type { SqlError } from "@effect/sql/SqlError"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Schedule from "effect/Schedule"
import type { VaultUnavailable } from "#schema/Vault.ts"

interface Progress {
  readonly done: number
  readonly total: number
}
export type OnProgress = (progress: Progress) => Effect.Effect<void>

/** What could not be opened and was left as it is. `name` is an id or a key id. */
export interface Refused {
  readonly table: string
  readonly name: string
}

/** One batch: where it ended (undefined: nothing was left), how many rows changed, which could not. */
export interface Turn<Position> {
  readonly last: Position | undefined
  readonly done: number
  readonly refused: ReadonlyArray<Refused>
}
export const nothingLeft = { last: undefined, done: 0, refused: [] }

/** A vault that restarts, or unwraps no more keys this second, is waited for. */
const patience = Schedule.intersect(Schedule.spaced("1 second"), Schedule.recurs(60))
/** A deadlock or a lost connection: the batch left nothing behind. */
const again = Schedule.intersect(Schedule.spaced("100 millis"), Schedule.recurs(3))

export const waiting = <A, E, R>(self: Effect.Effect<A, E | SqlError | VaultUnavailable, R>) =>
  self.pipe(
    Effect.retry({ schedule: again, while: (error) => Predicate.isTagged(error, "SqlError") }),
    Effect.retry({ schedule: patience, while: (error) => Predicate.isTagged(error, "VaultUnavailable") })
  )
