/**
 * The one file that depends on the inside of `pg`: everything that its documentation does not promise. It was read from
 * the releases in `readFrom`; `test/layers/PgDriver.test.ts` fails when others are installed. Read these places again
 * then, in this order, because the first ones break first:
 *
 * 1. `Wire` (pg/lib/connection.js and query.js): messages of the protocol, `parsedStatements`, and the `handle…` members
 *    that `pg.Client` calls on a query (`PgStatement.ts`). A change fails each statement with parameters.
 * 2. `release` (pg-pool, `_acquireClient`): the pool assigns it at each checkout. Without the setter an interrupted fiber
 *    returns a connection while its statement still runs.
 * 3. `processID` (@effect/sql-pg, `makeCancel`): undefined keeps it from cancelling a backend that may run the query of
 *    another request by then.
 * 4. `connection.stream` (pg/lib/client.js): destroying the socket fails all queries of the connection.
 * 5. `prepareValue` (pg/lib/utils.js): encodes parameters.
 */
import * as Pg from "pg"
import { prepareValue as prepare } from "pg/lib/utils.js"

export const readFrom = { pg: "8.23.1", "pg-pool": "3.14.0", "@effect/sql-pg": "0.53.0" } as const

export type Callback = (error: Error | null | undefined, result?: unknown) => void
export type Release = (error?: Error | boolean) => void

/** A parameter as it is sent. Throws on a value that cannot be sent. */
export const prepareValue = (value: unknown): string | Buffer | null => prepare(value)

/** The connection of a query. The declared type lacks `parsedStatements`, and messages without `more`. */
export interface Wire {
  readonly stream: { cork(): void; uncork(): void }
  readonly parsedStatements: Readonly<Record<string, string | undefined>>
  parse(message: { readonly name: string; readonly text: string }): void
  bind(message: { readonly statement: string; readonly values: ReadonlyArray<string | Buffer | null> }): void
  describe(message: { readonly type: "P"; readonly name: string }): void
  execute(message: { readonly rows: number }): void
  sync(): void
}

export const wireOf = (connection: Pg.Connection): Wire => connection as unknown as Wire

/** `pg.Client`, with its own ways to connect, to query and to be released replaced by those of a subclass. */
export abstract class Driver extends Pg.Client {
  #release: Release | undefined
  readonly #leave: Release = (error) => {
    if (this.#release !== undefined) this.leave(error)
  }

  /** Connects, and decides whether the server will do. */
  protected abstract open(callback: (error?: Error) => void): void
  protected abstract ask(config: unknown, values: unknown, callback: Callback | undefined): unknown
  /** Calls `giveBack` as soon as the connection is free. */
  protected abstract leave(error: Error | boolean | undefined): void

  protected connectDriver(callback: Callback): void {
    super.connect(callback)
  }

  protected queryDriver(config: unknown, values?: unknown, callback?: Callback): unknown {
    // The cast: pg declares a dozen overloads, and passes all of them on like this.
    return (super.query as (config: unknown, values?: unknown, callback?: Callback) => unknown).call(
      this,
      config,
      values,
      callback
    )
  }

  override connect(): Promise<Pg.Client>
  override connect(callback: ((error: Error) => void) | ((error: null, client: Pg.Client) => void)): void
  override connect(callback?: ((error: Error) => void) | ((error: null, client: Pg.Client) => void)) {
    // The cast: pg calls it with an error, or with nothing that a caller of ours reads.
    if (callback !== undefined) return this.open(callback as (error?: Error) => void) as never
    return new Promise<Pg.Client>((resolve, reject) =>
      this.open((error) => (error === undefined ? resolve(this) : reject(error)))
    )
  }

  // `never` is assignable to the result of each of pg's overloads.
  override query(config: unknown, values?: unknown, callback?: unknown): never {
    // The casts: with two parameters, the second one is the callback or the values.
    const answer = (callback ?? (typeof values === "function" ? values : undefined)) as Callback | undefined
    return this.ask(config, typeof values === "function" ? undefined : values, answer) as never
  }

  get processID(): undefined {
    return undefined
  }
  set processID(_: unknown) {
    // pg assigns it at the start of a connection.
  }

  get release(): Release {
    return this.#leave
  }
  set release(release: Release) {
    this.#release = release
  }

  /** To the pool. */
  protected giveBack(error: Error | boolean | undefined): void {
    this.#release?.(error)
  }

  /** Destroys the socket: pg then fails all queries of this connection with `error`, and the pool drops it. */
  abandon(error?: Error): void {
    const { connection } = this as unknown as { readonly connection: { readonly stream: Destroyable } }
    connection.stream.destroy(error)
  }
}

interface Destroyable {
  destroy(error?: Error): void
}
