/**
 * One connection to Postgres: `pg.Client` with what it lacks. Statements are named and bounded in time, and a connection
 * leads to a server that takes writes or is none.
 */
import * as Pg from "pg"

/** The database did not answer a statement in time. The connection it ran on is gone with it. */
export class QueryDeadlineExceeded extends Error {
  override readonly name = "QueryDeadlineExceeded"
  readonly code = "QUERY_DEADLINE_EXCEEDED"
  constructor() {
    super("the database did not answer in time")
  }
}

/** SQLSTATE `read_only_sql_transaction`. */
const READ_ONLY = "25006"

/** The server takes no writes: a standby, or one that was made read-only. */
export class ReadOnlyServer extends Error {
  override readonly name = "ReadOnlyServer"
  readonly code = READ_ONLY
  constructor() {
    super("the database takes no writes")
  }
}

export interface Options {
  /** Where to connect, and how: what `pg` takes. */
  readonly connection: Pg.PoolConfig
  /** Connection strings of the hosts of this database, in the order in which they are tried; absent: `connection`'s. */
  readonly hosts?: ReadonlyArray<string>
  /**
   * Settings of a session by name, in milliseconds, made by a statement and not at the start of the connection: poolers
   * refuse them there. Absent: no statement is sent, and a server that takes no writes is taken as well.
   */
  readonly session?: Readonly<Record<string, number>>
  /** How long a connection may take to stand, in milliseconds. */
  readonly checkoutMillis: number
  /** How long a statement may take before its connection is destroyed, in milliseconds. */
  readonly deadlineMillis: number
  /**
   * How long the wait for a connection and the first statement on it may take together, in milliseconds; absent: each
   * has its own time. Whoever waited for a connection may get one to a server that hangs.
   */
  readonly togetherMillis?: number
}

/** What the connections to one database know together. */
export class Database {
  #host = 0
  #generation = 0
  readonly options: Options
  constructor(options: Options) {
    this.options = options
  }

  /** Where the next connection goes. */
  get host(): string | undefined {
    return this.options.hosts?.[this.#host]
  }

  /** A connection of an older generation may lead to a server that takes no writes any more. */
  get generation(): number {
    return this.#generation
  }

  /** This host is away or takes no writes; who comes next tries the next one. */
  avoid(host: string | undefined) {
    if (host !== undefined && host === this.host) this.#host = (this.#host + 1) % (this.options.hosts?.length ?? 1)
  }

  /** The server that connections lead to stopped taking writes: none of them is used again. */
  demoted() {
    this.#generation++
  }
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
export const types: Pg.CustomTypesConfig = {
  getTypeParser: (oid, format) =>
    // The overloads of pg's own type pair each oid with its result; a column's type is not known here.
    Number(oid) === INT8 && format !== "binary" ? parseInt8 : Pg.types.getTypeParser(oid, format as "text")
}

type Callback = (error: Error | null | undefined, result: unknown) => void
export type Release = (error?: Error | boolean) => void

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
 * After these SQLSTATEs the connection has to go: the server takes no writes; its prepared statements are stale because
 * another process changed the schema (0A000), or are those of another session (26000, 42P05).
 */
const spoiling = new Set([READ_ONLY, "0A000", "26000", "42P05"])
/** Connection exceptions, and an operator's shutdown: a pooler reports them as plain errors. */
const spoilingClass = /^(?:08...|57P0.)$/

const codeOf = (error: Error) => ("code" in error && typeof error.code === "string" ? error.code : "")

const spoilsConnection = (error: Error) =>
  ("severity" in error && (error.severity === "FATAL" || error.severity === "PANIC")) ||
  spoiling.has(codeOf(error)) ||
  spoilingClass.test(codeOf(error))

const sessionOf = (settings: Readonly<Record<string, number>>) =>
  [
    ...Object.entries(settings).map(([name, millis]) => `SET ${name} = ${millis}`),
    "SELECT current_setting('transaction_read_only') AS read_only"
  ].join("; ")

/** Of several statements `pg` returns a list of results; the last one is the question. */
const isReadOnly = (results: unknown) => {
  const last: unknown = Array.isArray(results) ? results.at(-1) : results
  return (last as Pg.QueryResult<{ read_only: string }>).rows[0]?.read_only === "on"
}

/** `pg.Client` that names its statements, bounds them in time, and is not given back while one still runs. */
export class Connection extends Pg.Client {
  readonly #database: Database
  readonly #host: string | undefined
  readonly #generation: number
  /** Of the next statement. */
  #deadline: number
  #running = 0
  #poisoned = false
  #release: Release | undefined
  #waitingRelease: Release | undefined

  constructor(database: Database, config?: Pg.ClientConfig) {
    const { host } = database
    super(host === undefined ? config : { ...config, connectionString: host })
    this.#database = database
    this.#host = host
    this.#generation = database.generation
    this.#deadline = database.options.deadlineMillis
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
    // `connect` is overloaded; both callers (pg-pool and our own) use the callback form.
    const connect = super.connect.bind(this) as (answer: (error?: Error | null) => void) => void
    Object.defineProperty(this, "connect", { value: (answer: (error?: Error) => void) => this.#stand(connect, answer) })
    // Between two owners nobody listens; an 'error' without a listener would end the process.
    this.on("error", () => {})
  }

  /** Whoever has the connection now waited this long for it, in milliseconds. */
  set waited(millis: number) {
    const { deadlineMillis, togetherMillis = Number.POSITIVE_INFINITY } = this.#database.options
    this.#deadline = Math.min(deadlineMillis, Math.max(LEAST_MILLIS, Math.ceil(togetherMillis - millis)))
  }

  /** It may lead to a server that stopped taking writes. */
  get stale(): boolean {
    return this.#generation !== this.#database.generation
  }

  #stand(connect: (answer: (error?: Error | null) => void) => void, answer: (error?: Error) => void) {
    const { session } = this.#database.options
    const refuse = (error: Error) => {
      this.#database.avoid(this.#host)
      this.abandon()
      answer(error)
    }
    connect((error) => {
      if (error != null) return refuse(error)
      if (session === undefined) return answer()
      this.query(sessionOf(session), (error: Error | null | undefined, results: unknown) =>
        error != null ? refuse(error) : isReadOnly(results) ? refuse(new ReadOnlyServer()) : answer()
      )
    })
  }

  readonly #releaseWhenIdle: Release = (error) => {
    const release = this.#release
    if (release === undefined) return
    if (error === undefined && this.#running > 0) this.#waitingRelease = release
    else release(error ?? (this.#spoiled || undefined))
  }

  get #spoiled() {
    return this.#poisoned || this.stale
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
    this.#deadline = this.#database.options.deadlineMillis
    const timer = setTimeout(() => {
      // The answer may already be here, behind work that held the event loop: let the sockets speak first.
      setImmediate(() => setImmediate(() => settled || this.abandon(new QueryDeadlineExceeded())))
    }, deadline)
    return (error, result) => {
      if (settled) return
      settled = true
      clearTimeout(timer)
      this.#running--
      if (error != null && spoilsConnection(error)) this.#spoil(error)
      callback(error, result)
      const waiting = this.#waitingRelease
      if (waiting !== undefined && this.#running === 0) {
        this.#waitingRelease = undefined
        // Next tick: `pg` puts its own state in order after this callback.
        process.nextTick(() => waiting(this.#spoiled || undefined))
      }
    }
  }

  #spoil(error: Error) {
    if (codeOf(error) === READ_ONLY && !this.stale) this.#database.demoted()
    this.#poisoned = true
  }

  /** Ends the socket: pg then fails everything on this connection with `error`, and the pool drops it. */
  abandon(error?: Error) {
    const { stream } = (
      this as unknown as { readonly connection: { readonly stream: { destroy(error?: Error): void } } }
    ).connection
    stream.destroy(error)
  }
}

/** A single connection with the same deadline, for what a pool cannot do. */
export const make = (database: Database) =>
  new Connection(database, {
    application_name: "ampoule",
    types,
    ...database.options.connection,
    connectionTimeoutMillis: database.options.checkoutMillis
  })
