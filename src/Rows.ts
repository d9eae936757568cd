/**
 * Rows of cold queries, decoded by their schema. A statement that fails, and a row that is not as its schema says, are
 * defects: no caller can act on either.
 */
import * as SqlSchema from "@effect/sql/SqlSchema"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"

type Statement<E, R> = Effect.Effect<ReadonlyArray<unknown>, E, R>

const Request = Schema.Void

export const findAll = <A, I, E, R>(Row: Schema.Schema<A, I>, statement: Statement<E, R>) =>
  Effect.orDie(SqlSchema.findAll({ Request, Result: Row, execute: () => statement })())

export const findOne = <A, I, E, R>(Row: Schema.Schema<A, I>, statement: Statement<E, R>) =>
  Effect.map(
    Effect.orDie(SqlSchema.findOne({ Request, Result: Row, execute: () => statement })()),
    Option.getOrUndefined
  )

/** For a statement that always returns a row: a count, an INSERT with RETURNING. */
export const single = <A, I, E, R>(Row: Schema.Schema<A, I>, statement: Statement<E, R>) =>
  Effect.orDie(SqlSchema.single({ Request, Result: Row, execute: () => statement })())

/** Whether the statement returns a row. */
export const exists = <E, R>(statement: Statement<E, R>) =>
  Effect.map(Effect.orDie(statement), (rows) => rows.length > 0)

/** A statement that is run for its effect. */
export const run = <E, R>(statement: Statement<E, R>) => Effect.asVoid(Effect.orDie(statement))

export const CountRow = Schema.Struct({ n: Schema.Number })
