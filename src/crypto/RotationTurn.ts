/** Common parts of both rotations: turns, progress, and waits for a vault or a lock. */
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

/** A row that did not open and was left unchanged. `name` is an id or a key id. */
export interface UnopenedRow {
  readonly table: string
  readonly name: string
}

/** One batch: its end (undefined: nothing was left), the number of changed rows, and the rows that failed. */
export interface Turn<Position> {
  readonly last: Position | undefined
  readonly done: number
  readonly refused: ReadonlyArray<UnopenedRow>
}
export const nothingLeft = { last: undefined, done: 0, refused: [] }

/** Waits for a vault that restarts, or that has reached its limit per second. */
const vaultRetries = Schedule.intersect(Schedule.spaced("1 second"), Schedule.recurs(60))
/** Retries after a deadlock or a lost connection: the batch was rolled back. */
const statementRetries = Schedule.intersect(Schedule.spaced("100 millis"), Schedule.recurs(3))

export const retrying = <A, E, R>(self: Effect.Effect<A, E | SqlError | VaultUnavailable, R>) =>
  self.pipe(
    Effect.retry({ schedule: statementRetries, while: (error) => Predicate.isTagged(error, "SqlError") }),
    Effect.retry({ schedule: vaultRetries, while: (error) => Predicate.isTagged(error, "VaultUnavailable") })
  )
