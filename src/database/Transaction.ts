/**
 * Transactions of the database: one that runs again after a race, its notes, and the statement that ends it. Notes are
 * read before the end. They are dropped on rollback, and handed to the outer transaction on release of a savepoint.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Causes from "./Causes.ts"

/** The current transaction or savepoint. */
const current = Effect.contextWith((context: Context.Context<never>): object | undefined =>
  context.unsafeMap.get(SqlClient.TransactionConnection.key)
)

const handOvers: Array<(from: object, to: object) => void> = []

/** Notes of one kind. Outside a transaction, notes are dropped. */
export const notesOf = <A>() => {
  const byTransaction = new WeakMap<object, Array<A>>()
  const add = (transaction: object, notes: ReadonlyArray<A>) => {
    const before = byTransaction.get(transaction)
    if (before === undefined) byTransaction.set(transaction, [...notes])
    else for (const note of notes) before.push(note)
  }
  const takeFrom = (transaction: object): ReadonlyArray<A> => {
    const notes = byTransaction.get(transaction) ?? []
    byTransaction.delete(transaction)
    return notes
  }
  handOvers.push((from, to) => {
    const notes = takeFrom(from)
    if (notes.length > 0) add(to, notes)
  })
  return {
    note: (notes: ReadonlyArray<A>) =>
      Effect.map(current, (transaction) => {
        if (transaction !== undefined) add(transaction, notes)
      }),
    /** Notes since the last call. */
    take: Effect.map(current, (transaction) => (transaction === undefined ? [] : takeFrom(transaction)))
  }
}

/** SQLSTATE: a referenced row is gone; a deadlock; a serialization failure. */
const raceCodes = new Set(["23503", "40P01", "40001"])
const isRace = (cause: unknown) => Causes.some(cause, (error) => raceCodes.has(Causes.codeOf(error) ?? ""))

/** Most retries after a race with another transaction. */
const maxRetries = 2

/** Retries are safe: a failed transaction has changed nothing. */
const withRetries = <A, E, R>(whole: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  whole.pipe(Effect.sandbox, Effect.retry({ times: maxRetries, while: isRace }), Effect.unsandbox)

/** Runs `work` in a transaction, and again after a race with another one. Inside a transaction it uses a savepoint. */
export const run = <A, E, R>(
  sql: SqlClient.SqlClient,
  work: Effect.Effect<A, E, R>
): Effect.Effect<A, E | SqlError, R> =>
  Effect.flatMap(current, (outer) => {
    if (outer === undefined) return withRetries(sql.withTransaction(work))
    const handOver = Effect.map(current, (inner) => {
      if (inner !== undefined) for (const each of handOvers) each(inner, outer)
    })
    return sql.withTransaction(Effect.zipLeft(work, handOver))
  })

// --- the end ---

/** Read by the layers that send statements: COMMIT goes with the last one. */
export class EndsTransaction extends Context.Reference<EndsTransaction>()("src/EndsTransaction", {
  defaultValue: () => false
}) {}

/**
 * Marks the last statement of its transaction, which saves a round trip while locks are held. If it fails, nothing is
 * committed. No statement may follow, and nothing may fail after it, because it may be committed already. In a savepoint
 * it commits nothing.
 */
export const last = <A, E, R>(statement: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.provideService(statement, EndsTransaction, true)
