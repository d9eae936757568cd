/**
 * Statements to a database: every statement of every connection of this process to it, with the number of rows it
 * returned. Other servers of the process have databases of their own, and are not heard.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Pg from "pg"

export interface Statement {
  readonly text: string
  rows: number
}

let heard: Array<Statement> | undefined
/** The database that is heard; `asking`: the one that is asked next. */
let listenedTo: unknown
let asking = false

/** One object, or one name, for all connections to a database. */
const databaseOf = (client: Pg.Client): unknown => {
  const { stream } = (client as unknown as { readonly connection: { readonly stream: object } }).connection
  return "database" in stream ? stream.database : client.database
}

const mark = "whose statements are heard"

type Callback = (error: unknown, result: { readonly rows?: ReadonlyArray<unknown> } | undefined) => void

// `PgPool` takes the method of the prototype when it connects: this module has to be imported before that.
const query = Pg.Client.prototype.query as (this: Pg.Client, ...args: ReadonlyArray<unknown>) => unknown
Object.defineProperty(Pg.Client.prototype, "query", {
  configurable: true,
  value(this: Pg.Client, config: string | { readonly text: string }, values: unknown, callback?: Callback) {
    if (heard === undefined || callback === undefined) return query.call(this, config, values, callback)
    const text = typeof config === "string" ? config : config.text
    if (asking && text.includes(mark)) listenedTo = databaseOf(this)
    if (asking || databaseOf(this) !== listenedTo) return query.call(this, config, values, callback)
    const statement: Statement = { text, rows: 0 }
    heard.push(statement)
    return query.call(this, config, values, ((error, result) => {
      statement.rows = result?.rows?.length ?? 0
      callback(error, result)
    }) satisfies Callback)
  }
})

/** The statements of `work` to the database of the test, one caller at a time. */
export const during = <A, E, R>(
  work: Effect.Effect<A, E, R>
): Effect.Effect<ReadonlyArray<Statement>, E, R | SqlClient.SqlClient> =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const statements: Array<Statement> = []
    heard = statements
    asking = true
    yield* Effect.orDie(sql.unsafe(`SELECT '${mark}'`))
    asking = false
    yield* work
    return statements
  }).pipe(
    Effect.ensuring(
      Effect.sync(() => {
        heard = undefined
        listenedTo = undefined
        asking = false
      })
    )
  )
