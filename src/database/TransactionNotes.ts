/**
 * What is noted while a transaction goes on, for whoever takes it before the end. What is undone takes its notes along, a
 * savepoint too; a savepoint that ends well leaves them to what it is part of.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Causes from "./Causes.ts"

/** The transaction, or the savepoint of one, that this is part of. */
const current = Effect.contextWith((context: Context.Context<never>): object | undefined =>
  context.unsafeMap.get(SqlClient.TransactionConnection.key)
)

const handOvers: Array<(from: object, to: object) => void> = []

/** Notes of one kind. Outside of a transaction nothing is noted. */
export const make = <A>() => {
  const kept = new WeakMap<object, Array<A>>()
  const add = (transaction: object, notes: ReadonlyArray<A>) => {
    const before = kept.get(transaction)
    if (before === undefined) kept.set(transaction, [...notes])
    else for (const note of notes) before.push(note)
  }
  const takeFrom = (transaction: object): ReadonlyArray<A> => {
    const notes = kept.get(transaction) ?? []
    kept.delete(transaction)
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
    /** What was noted since the last time. */
    take: Effect.map(current, (transaction) => (transaction === undefined ? [] : takeFrom(transaction)))
  }
}

/** SQLSTATE: what a row refers to is gone; two waited for each other; an order that nobody could have worked in. */
const racedCodes = new Set(["23503", "40P01", "40001"])
const isRaced = (cause: unknown) => Causes.some(cause, (error) => racedCodes.has(Causes.codeOf(error) ?? ""))

/** How often a transaction is tried again that another one came in between of. */
const again = 2

/** What failed left nothing behind. */
const retried = <A, E, R>(whole: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  whole.pipe(Effect.sandbox, Effect.retry({ times: again, while: isRaced }), Effect.unsandbox)

/**
 * `work` in a transaction, and again from its beginning when another one came in between; or in a savepoint of the
 * caller's.
 */
export const transaction = <A, E, R>(
  sql: SqlClient.SqlClient,
  work: Effect.Effect<A, E, R>
): Effect.Effect<A, E | SqlError, R> =>
  Effect.flatMap(current, (outer) => {
    if (outer === undefined) return retried(sql.withTransaction(work))
    const handOver = Effect.map(current, (inner) => {
      if (inner !== undefined) for (const each of handOvers) each(inner, outer)
    })
    return sql.withTransaction(Effect.zipLeft(work, handOver))
  })
