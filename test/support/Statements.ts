/** What the database is asked: every statement of every connection of this process, with the number of rows it returned. */
import * as Effect from "effect/Effect"
import * as Pg from "pg"

export interface Statement {
  readonly text: string
  rows: number
}

let heard: Array<Statement> | undefined

type Callback = (error: unknown, result: { readonly rows?: ReadonlyArray<unknown> } | undefined) => void

// `PgPool` takes the method of the prototype when it connects: this module has to be imported before that.
const query = Pg.Client.prototype.query as (this: Pg.Client, ...args: ReadonlyArray<unknown>) => unknown
Object.defineProperty(Pg.Client.prototype, "query", {
  configurable: true,
  value(this: Pg.Client, config: string | { readonly text: string }, values: unknown, callback?: Callback) {
    if (heard === undefined || callback === undefined) return query.call(this, config, values, callback)
    const statement: Statement = { text: typeof config === "string" ? config : config.text, rows: 0 }
    heard.push(statement)
    return query.call(this, config, values, ((error, result) => {
      statement.rows = result?.rows?.length ?? 0
      callback(error, result)
    }) satisfies Callback)
  }
})

/** The statements of `work`, one caller at a time. */
export const during = <A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<ReadonlyArray<Statement>, E, R> =>
  Effect.suspend(() => {
    const statements: Array<Statement> = []
    heard = statements
    return Effect.as(work, statements)
  }).pipe(Effect.ensuring(Effect.sync(() => void (heard = undefined))))
