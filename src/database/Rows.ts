/**
 * The one decoder of rows, for cold queries; hot ones are typed at the statement (docs/architecture.md). A row that does
 * not match its schema is a defect. So is a failed statement, but for the functions that begin with `decode`: their
 * callers act on the failure.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import type { YieldWrap } from "effect/Utils"
import * as Transaction from "./Transaction.ts"

type Statement<E, R> = Effect.Effect<ReadonlyArray<unknown>, E, R>

const compile = <A, I>(Row: Schema.Schema<A, I>) => ParseResult.decodeUnknownEither(Schema.Array(Row))
/** One decoder per schema: a fresh array schema would be compiled with each statement. */
const decoders = new WeakMap<object, unknown>()
const decoderOf = <A, I>(Row: Schema.Schema<A, I>): ReturnType<typeof compile<A, I>> => {
  // The map stores each schema with its own decoder.
  const compiled = decoders.get(Row) as ReturnType<typeof compile<A, I>> | undefined
  if (compiled !== undefined) return compiled
  const decoder = compile(Row)
  decoders.set(Row, decoder)
  return decoder
}

export const decodeAll = <A, I, E, R>(Row: Schema.Schema<A, I>, statement: Statement<E, R>) =>
  Effect.flatMap(statement, (rows) => {
    const decoded = decoderOf(Row)(rows)
    return Either.isRight(decoded) ? Effect.succeed(decoded.right) : Effect.die(ParseResult.parseError(decoded.left))
  })

/** The first row, if any. */
export const decodeFirst = <A, I, E, R>(Row: Schema.Schema<A, I>, statement: Statement<E, R>) =>
  Effect.map(
    decodeAll(
      Row,
      Effect.map(statement, (rows) => rows.slice(0, 1))
    ),
    ([row]): A | undefined => row
  )

/** For a statement that always returns a row, such as a count or an INSERT with RETURNING. */
export const decodeSingle = <A, I, E, R>(Row: Schema.Schema<A, I>, statement: Statement<E, R>) =>
  Effect.flatMap(decodeFirst(Row, statement), (row) =>
    row === undefined ? Effect.dieMessage("a statement that always returns a row returned none") : Effect.succeed(row)
  )

export const findAll = <A, I, E, R>(Row: Schema.Schema<A, I>, statement: Statement<E, R>) =>
  Effect.orDie(decodeAll(Row, statement))

/** The first row, if any. */
export const findOne = <A, I, E, R>(Row: Schema.Schema<A, I>, statement: Statement<E, R>) =>
  Effect.orDie(decodeFirst(Row, statement))

/** For a statement that always returns a row, such as a count or an INSERT with RETURNING. */
export const single = <A, I, E, R>(Row: Schema.Schema<A, I>, statement: Statement<E, R>) =>
  Effect.orDie(decodeSingle(Row, statement))

/** Whether the statement returns a row. */
export const exists = <E, R>(statement: Statement<E, R>) =>
  Effect.map(Effect.orDie(statement), (rows) => rows.length > 0)

/** Runs a statement for its effect. */
export const run = <E, R>(statement: Statement<E, R>) => Effect.asVoid(Effect.orDie(statement))

export const CountRow = Schema.Struct({ n: Schema.Number })

/** The count that a statement returns as `n`. */
export const count = <E, R>(statement: Statement<E, R>) => Effect.map(single(CountRow, statement), ({ n }) => n)

/** A point in time, in the format of responses. */
export const Iso = Schema.transform(Schema.DateFromSelf, Schema.String, {
  strict: true,
  decode: (date) => date.toISOString(),
  encode: (text) => new Date(text)
})

/** One `yield*` of a generator of effects. */
export type Step = YieldWrap<Effect.Effect<unknown, unknown, unknown>>

/** Runs `work` in a transaction; failures of the database are defects. */
export const transaction = <S extends Step, A>(sql: SqlClient.SqlClient, work: () => Generator<S, A, never>) =>
  dieOfSql(Transaction.run(sql, Effect.gen(work)))

const dieOfSql = <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, Exclude<E, SqlError>, R> =>
  Effect.catchAll(self, (error) =>
    // The check excludes `SqlError`; the compiler does not narrow a type parameter.
    Predicate.isTagged(error, "SqlError") ? Effect.die(error) : Effect.fail(error as Exclude<E, SqlError>)
  )
