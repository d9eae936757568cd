/**
 * Statements with parameters straight on their connection: that of the transaction, or one of the pool. As the platform runs
 * a statement it has a span, a scope, and a copy of each row with names in camelCase, which costs as much again as a small
 * statement itself; where requests are traced, that is how all of them run.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import { SqlError } from "@effect/sql/SqlError"
import type * as Statement from "@effect/sql/Statement"
import * as Effect from "effect/Effect"
import * as FiberRef from "effect/FiberRef"
import type * as Pg from "pg"
import type { Asked } from "#layers/PgStatement.ts"
import { EndsTransaction } from "#src/database/TransactionEnd.ts"

type Rows = ReadonlyArray<unknown>
type Resume = (rows: Effect.Effect<Rows, SqlError>) => void
type Told = (error: Error | null | undefined, result?: { readonly rows: Rows }) => void

const failed = (cause: Error, message: string) => Effect.fail(new SqlError({ cause, message }))

const ask = (client: Pg.PoolClient, asked: Asked, resume: Resume, ended: () => void) => {
  const told: Told = (error, result) => {
    ended()
    resume(error == null ? Effect.succeed(result?.rows ?? []) : failed(error, "Failed to execute statement"))
  }
  // `query` is overloaded; a connection of ours takes what a statement is asked with (`PgConnection.ts`).
  const query = client.query.bind(client) as (asked: Asked, told: Told) => void
  query(asked, told)
}

const onPool = (pool: Pg.Pool, asked: Asked) =>
  Effect.async<Rows, SqlError>((resume) => {
    let isOver = false
    let client: Pg.PoolClient | undefined
    /** Once: at the statement's end, or when its fiber is interrupted. */
    const leave = () => {
      if (!isOver) client?.release()
      isOver = true
    }
    pool.connect((error, given) => {
      if (error !== undefined || given === undefined) {
        return resume(failed(error ?? new Error("no connection was given"), "Failed to acquire connection"))
      }
      if (isOver) return given.release()
      client = given
      ask(given, asked, resume, leave)
    })
    return Effect.sync(leave)
  })

/** As @effect/sql-pg keeps the connection of a transaction. */
interface Reserved {
  readonly pg?: Pg.PoolClient
}

const run = (pool: Pg.Pool, statement: Statement.Statement<object>, otherwise: () => Effect.Effect<Rows, SqlError>) =>
  Effect.withFiberRuntime<Rows, SqlError>((fiber) => {
    if (fiber.getFiberRef(FiberRef.currentTracerEnabled)) return otherwise()
    const [text, values] = statement.compile()
    // Without parameters a statement goes by the simple protocol, in which `pg` names the members of rows.
    if (values.length === 0) return otherwise()
    const services = fiber.currentContext.unsafeMap
    const transaction = services.get(SqlClient.TransactionConnection.key) as
      | readonly [connection: Reserved, depth: number]
      | undefined
    if (transaction === undefined) return onPool(pool, { text, values, inCamel: true })
    const [{ pg }, depth] = transaction
    const asked: Asked = {
      text,
      values,
      inCamel: true,
      ends: depth === 0 && services.get(EndsTransaction.key) === true
    }
    return pg === undefined ? otherwise() : Effect.async((resume) => ask(pg, asked, resume, () => {}))
  })

/** A statement is an effect whose `commit` answers what it does (`effect/Effectable`). */
interface Committing {
  commit(): Effect.Effect<Rows, SqlError>
}

/** The same client, whose statements run like that: those of its tag, since nothing here asks by `unsafe`. */
export const make = <Client extends SqlClient.SqlClient>(client: Client, pool: Pg.Pool): Client => {
  const tag = (strings: TemplateStringsArray | string, ...parameters: ReadonlyArray<unknown>): unknown => {
    // A name, and no statement.
    if (typeof strings === "string") return client(strings)
    const statement = client<object>(strings, ...parameters)
    const commit = (statement as unknown as Committing).commit.bind(statement)
    return Object.assign(statement, { commit: () => run(pool, statement, commit) })
  }
  const direct = Object.assign(tag, client)
  // The cast: a copy of all that the client has, by the same names.
  return Object.assign(direct, { safe: direct }) as unknown as Client
}
