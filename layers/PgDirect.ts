/**
 * Runs statements with parameters directly on their connection: that of the transaction, or one of the pool. The
 * platform's way adds a span, a scope, and a copy of each row with camelCase names, which doubles the cost of a small
 * statement. Traced requests use the platform's way.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import { SqlError } from "@effect/sql/SqlError"
import type * as Statement from "@effect/sql/Statement"
import * as Effect from "effect/Effect"
import * as FiberRef from "effect/FiberRef"
import type * as Pg from "pg"
import type { StatementInput } from "#layers/PgStatement.ts"
import { EndsTransaction } from "#src/database/Transaction.ts"

type Rows = ReadonlyArray<unknown>
type Resume = (rows: Effect.Effect<Rows, SqlError>) => void
type OnRows = (error: Error | null | undefined, result?: { readonly rows: Rows }) => void

const failWith = (cause: Error, message: string) => Effect.fail(new SqlError({ cause, message }))

const send = (client: Pg.PoolClient, statement: StatementInput, resume: Resume, onEnd: () => void) => {
  const onResult: OnRows = (error, result) => {
    onEnd()
    resume(error == null ? Effect.succeed(result?.rows ?? []) : failWith(error, "Failed to execute statement"))
  }
  // `query` is overloaded; our connection accepts the statement's input (`PgConnection.ts`).
  const query = client.query.bind(client) as (asked: StatementInput, told: OnRows) => void
  query(statement, onResult)
}

const onPool = (pool: Pg.Pool, statement: StatementInput) =>
  Effect.async<Rows, SqlError>((resume) => {
    let isOver = false
    let client: Pg.PoolClient | undefined
    /** Called once: at the statement's end, or when its fiber is interrupted. */
    const release = () => {
      if (!isOver) client?.release()
      isOver = true
    }
    pool.connect((error, connection) => {
      if (error !== undefined || connection === undefined) {
        return resume(failWith(error ?? new Error("no connection was given"), "Failed to acquire connection"))
      }
      if (isOver) return connection.release()
      client = connection
      send(connection, statement, resume, release)
    })
    return Effect.sync(release)
  })

/** Connection of a transaction, in the form of @effect/sql-pg. */
interface Reserved {
  readonly pg?: Pg.PoolClient
}

const run = (pool: Pg.Pool, statement: Statement.Statement<object>, otherwise: () => Effect.Effect<Rows, SqlError>) =>
  Effect.withFiberRuntime<Rows, SqlError>((fiber) => {
    if (fiber.getFiberRef(FiberRef.currentTracerEnabled)) return otherwise()
    const [text, values] = statement.compile()
    // A statement without parameters uses the simple protocol, in which `pg` names the members of rows.
    if (values.length === 0) return otherwise()
    const services = fiber.currentContext.unsafeMap
    const transaction = services.get(SqlClient.TransactionConnection.key) as
      | readonly [connection: Reserved, depth: number]
      | undefined
    if (transaction === undefined) return onPool(pool, { text, values, inCamel: true })
    const [{ pg }, depth] = transaction
    const input: StatementInput = {
      text,
      values,
      inCamel: true,
      ends: depth === 0 && services.get(EndsTransaction.key) === true
    }
    return pg === undefined ? otherwise() : Effect.async((resume) => send(pg, input, resume, () => {}))
  })

/** A statement is an effect whose `commit` runs it (`effect/Effectable`). */
interface Committing {
  commit(): Effect.Effect<Rows, SqlError>
}

/**
 * The same client with direct statements for its template tag. `unsafe` is not covered, because our code does not use
 * it.
 */
export const make = <Client extends SqlClient.SqlClient>(client: Client, pool: Pg.Pool): Client => {
  const tag = (strings: TemplateStringsArray | string, ...parameters: ReadonlyArray<unknown>): unknown => {
    // An identifier, not a statement.
    if (typeof strings === "string") return client(strings)
    const statement = client<object>(strings, ...parameters)
    const commit = (statement as unknown as Committing).commit.bind(statement)
    return Object.assign(statement, { commit: () => run(pool, statement, commit) })
  }
  const direct = Object.assign(tag, client)
  // Safe cast: a copy of all members of the client, with the same names.
  return Object.assign(direct, { safe: direct }) as unknown as Client
}
