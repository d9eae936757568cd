import * as PgClient from "@effect/sql-pg/PgClient"
import type * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Str from "effect/String"
import * as Pg from "pg"
import type { Endpoint } from "#layers/PrivateConnection.ts"
import * as Collectors from "#src/telemetry/Collectors.ts"
import * as Metrics from "#src/telemetry/Metrics.ts"

/** The database did not answer a statement in time. The connection it ran on is gone with it. */
export class QueryDeadlineExceeded extends Error {
  override readonly name = "QueryDeadlineExceeded"
  readonly code = "QUERY_DEADLINE_EXCEEDED"
  constructor() {
    super("the database did not answer in time")
  }
}

export interface PoolOptions {
  /** Where to connect: what `pg.Pool` takes. */
  readonly connection: Pg.PoolConfig
  /** Connections at most. */
  readonly size: number
  /** How long a query may wait for a connection, new or free, in milliseconds. */
  readonly checkoutMillis: number
  /** How long a statement may take before its connection is destroyed, in milliseconds. */
  readonly deadlineMillis: number
  /**
   * How long the wait for a connection and the first statement on it may take together, in milliseconds; absent: each
   * has its own time. Whoever waited for a connection may get one to a server that hangs.
   */
  readonly togetherMillis?: number
}

/** What is left for the statement of someone who waited for almost all of the time. */
const LEAST_MILLIS = 100

/**
 * A bigint of the database is beyond 2^53, where a JavaScript number would be another one. The value is not repeated.
 */
export class BigintOutOfRange extends Error {
  override readonly name = "BigintOutOfRange"
  constructor() {
    super("a bigint of the database is beyond the safe integers")
  }
}

const INT8 = 20

const parseInt8 = (text: string): number => {
  const number = Number(text)
  if (!Number.isSafeInteger(number)) throw new BigintOutOfRange()
  return number
}

/**
 * As `pg` parses columns, but int8 (`bigint`, `count(*)`) is a number instead of a text; one that does not fit fails
 * its statement.
 */
const types: Pg.CustomTypesConfig = {
  getTypeParser: (oid, format) =>
    // The overloads of pg's own type pair each oid with its result; a column's type is not known here.
    Number(oid) === INT8 && format !== "binary" ? parseInt8 : Pg.types.getTypeParser(oid, format as "text")
}

type Callback = (error: Error | null | undefined, result: unknown) => void
type Release = (error?: Error | boolean) => void

const MAX_NAMED_STATEMENTS = 500
const names = new Map<string, string>()
const seenOnce = new Set<string>()

/**
 * A statement seen twice gets a name, so that Postgres parses and plans it once per connection. Bounded: no text can
 * grow it for ever.
 */
const statementName = (text: string): string | undefined => {
  const known = names.get(text)
  if (known !== undefined || names.size >= MAX_NAMED_STATEMENTS) return known
  if (seenOnce.delete(text)) {
    const name = `a${names.size}`
    names.set(text, name)
    return name
  }
  if (seenOnce.size >= MAX_NAMED_STATEMENTS) seenOnce.clear()
  seenOnce.add(text)
  return undefined
}

/**
 * After these the connection has to go: the server says it ends it (FATAL), or its prepared statements are stale
 * because another process changed the schema.
 */
const spoilsConnection = (error: Error) =>
  ("severity" in error && (error.severity === "FATAL" || error.severity === "PANIC")) ||
  ("code" in error && (error.code === "0A000" || error.code === "26000"))

/** `pg.Client` that names its statements, bounds them in time, and is not given back while one still runs. */
const makeClientClass = ({ deadlineMillis, togetherMillis = Number.POSITIVE_INFINITY }: PoolOptions) =>
  class BoundedClient extends Pg.Client {
    /** Of the next statement. */
    #deadline = deadlineMillis
    #running = 0
    #poisoned = false
    #release: Release | undefined
    #waitingRelease: Release | undefined

    constructor(config?: Pg.ClientConfig) {
      super(config)
      // @effect/sql-pg asks the pool to cancel this backend when a fiber is interrupted; by then the backend may run
      // somebody else's query. Without a process id it does not ask.
      Object.defineProperty(this, "processID", { get: () => undefined, set: () => {} })
      // The pool sets `release` at each checkout. An interrupted fiber releases while its statement still runs:
      // the connection must not reach the next user before it is free again.
      Object.defineProperty(this, "release", {
        get: () => this.#releaseWhenIdle,
        set: (release: Release) => {
          this.#release = release
        }
      })
      // pg's `query` has a dozen overloads; both callers (sql-pg and pg-pool) use the callback form handled here.
      const query = super.query.bind(this) as (config: unknown, values?: unknown, callback?: Callback) => unknown
      Object.defineProperty(this, "query", {
        value: (config: unknown, values: unknown, callback?: Callback) => {
          const answer = callback ?? (typeof values === "function" ? (values as Callback) : undefined)
          return answer === undefined
            ? query(config, values)
            : query(this.#named(config, callback === undefined ? undefined : values), undefined, this.#watched(answer))
        }
      })
      // Between two owners nobody listens; an 'error' without a listener would end the process.
      this.on("error", () => {})
    }

    /** Whoever has the connection now waited this long for it, in milliseconds. */
    set waited(millis: number) {
      this.#deadline = Math.min(deadlineMillis, Math.max(LEAST_MILLIS, Math.ceil(togetherMillis - millis)))
    }

    readonly #releaseWhenIdle: Release = (error) => {
      const release = this.#release
      if (release === undefined) return
      if (error === undefined && this.#running > 0) this.#waitingRelease = release
      else release(error ?? (this.#poisoned || undefined))
    }

    #named(config: unknown, values: unknown) {
      const given =
        typeof config === "string"
          ? { text: config, values: Array.isArray(values) ? values : [] }
          : (config as { text: string; values?: unknown })
      // Without parameters the simple protocol serves best: transaction control, and migrations' DDL.
      if (!Array.isArray(given.values) || given.values.length === 0) return given
      const name = statementName(given.text)
      return name === undefined ? given : { ...given, name }
    }

    #watched(callback: Callback): Callback {
      this.#running++
      let settled = false
      const deadline = this.#deadline
      this.#deadline = deadlineMillis
      const timer = setTimeout(() => {
        // The answer may already be here, behind work that held the event loop: let the sockets speak first.
        setImmediate(() => setImmediate(() => settled || this.abandon(new QueryDeadlineExceeded())))
      }, deadline)
      return (error, result) => {
        if (settled) return
        settled = true
        clearTimeout(timer)
        this.#running--
        if (error != null && spoilsConnection(error)) this.#poisoned = true
        callback(error, result)
        const waiting = this.#waitingRelease
        if (waiting !== undefined && this.#running === 0) {
          this.#waitingRelease = undefined
          // Next tick: `pg` puts its own state in order after this callback.
          process.nextTick(() => waiting(this.#poisoned || undefined))
        }
      }
    }

    /** Ends the socket: pg then fails everything on this connection with `error`, and the pool drops it. */
    abandon(error?: Error) {
      const { stream } = (
        this as unknown as { readonly connection: { readonly stream: { destroy(error?: Error): void } } }
      ).connection
      stream.destroy(error)
    }
  }

const camelNames = new Map<string, string>()
const camel = (name: string) => {
  let known = camelNames.get(name)
  if (known === undefined) camelNames.set(name, (known = Str.snakeToCamel(name)))
  return known
}

/** A single connection with the same deadline, for what a pool cannot do. */
export const makeClient = (options: PoolOptions) =>
  new (makeClientClass(options))({
    application_name: "ampoule",
    types,
    ...options.connection,
    connectionTimeoutMillis: options.checkoutMillis
  })

/**
 * Where these options lead, and whether the certificate there is checked. Throws when a file that they name cannot be
 * read.
 */
export const endpointOf = (connection: Pg.PoolConfig): Endpoint => {
  const client = new Pg.Client(connection)
  // pg declares a boolean; it is also the options of `tls.connect`, or false.
  const ssl: unknown = client.ssl
  const verified =
    ssl === true ||
    (typeof ssl === "object" && ssl !== null && !("rejectUnauthorized" in ssl && ssl.rejectUnauthorized === false))
  return { host: client.host, verified }
}

type Connected = (error: Error | undefined, client: Pg.PoolClient | undefined, release: Release) => void

/** Tells each connection how long its next user waited for it. */
const telling = (pool: Pg.Pool): Pg.Pool => {
  // `connect` is overloaded; both callers (sql-pg and pg-pool) use the callback form.
  const connect = pool.connect.bind(pool) as unknown as (answer: Connected) => void
  Object.defineProperty(pool, "connect", {
    value: (answer: Connected) => {
      const asked = performance.now()
      connect((error, client, release) => {
        if (client !== undefined && "waited" in client) client.waited = performance.now() - asked
        answer(error, client, release)
      })
    }
  })
  return pool
}

export const acquirePool = (options: PoolOptions): Effect.Effect<Pg.Pool, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const pool = new Pg.Pool({
        application_name: "ampoule",
        idleTimeoutMillis: 30_000,
        types,
        ...options.connection,
        max: options.size,
        connectionTimeoutMillis: options.checkoutMillis,
        Client: makeClientClass(options)
      })
      // An idle connection that breaks is dropped by the pool; without a listener it would end the process.
      pool.on("error", () => {})
      return telling(pool)
    }),
    (pool) => Effect.promise(() => pool.end()).pipe(Effect.interruptible, Effect.timeoutOption("2 seconds"))
  ).pipe(
    Effect.tap((pool) =>
      Collectors.register(() =>
        Metrics.databasePool({
          total: pool.totalCount,
          idle: pool.idleCount,
          waiting: pool.waitingCount,
          size: options.size
        })
      )
    )
  )

/** SqlClient over such a pool. Result columns come back in camelCase; JSON documents are left alone. */
export const layer = (options: PoolOptions): Layer.Layer<PgClient.PgClient | SqlClient.SqlClient, SqlError> =>
  PgClient.layerFromPool({ acquire: acquirePool(options), transformResultNames: camel, transformJson: false })
