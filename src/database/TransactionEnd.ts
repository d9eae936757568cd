/**
 * The end of a transaction, where it is known beforehand: COMMIT goes with the last statement, which saves a round trip
 * while locks are held. When that statement fails, nothing is committed.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"

/** For the layers that send statements. */
export class EndsTransaction extends Context.Reference<EndsTransaction>()("src/EndsTransaction", {
  defaultValue: () => false
}) {}

/**
 * One statement, the last of its transaction: nothing may follow it there, and nothing may fail after it, since it may be
 * committed already. In a savepoint it commits nothing.
 */
export const last = <A, E, R>(statement: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.provideService(statement, EndsTransaction, true)
