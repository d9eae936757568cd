/**
 * The end of a transaction, known beforehand. A database at the other end of a connection can be told to commit along with
 * the last statement, which saves a round trip under the locks; one that fails commits nothing.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"

/** For the layers that send statements. */
export class EndsTransaction extends Context.Reference<EndsTransaction>()("src/EndsTransaction", {
  defaultValue: () => false
}) {}

/**
 * One statement, the last of its transaction: after it that transaction has nothing to say or to fail by, since it may be
 * committed already. Of a savepoint it ends nothing.
 */
export const last = <A, E, R>(statement: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.provideService(statement, EndsTransaction, true)
