/**
 * Sends COMMIT with the last statement of a transaction, which saves a round trip while locks are held. If that
 * statement fails, nothing is committed.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"

/** Read by the layers that send statements. */
export class EndsTransaction extends Context.Reference<EndsTransaction>()("src/EndsTransaction", {
  defaultValue: () => false
}) {}

/**
 * Marks the last statement of its transaction. No statement may follow, and nothing may fail after it, because it may
 * be committed already. In a savepoint it commits nothing.
 */
export const last = <A, E, R>(statement: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.provideService(statement, EndsTransaction, true)
