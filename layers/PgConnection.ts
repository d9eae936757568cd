/**
 * One connection to Postgres: `pg.Client` with what it lacks. Statements are named and bounded in time, and a connection
 * leads to a server that takes writes or is none.
 */
import * as Pg from "pg"
import type { RequestOrigin } from "#src/access/RequestInfo.ts"

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
   * refuse them there. Absent: no statement is sent.
   */
  readonly session?: Readonly<Record<string, number>>
  /** A server that takes no writes is taken as well; it is in any case when no statement is sent. */
  readonly readOnly?: boolean
  /** How long a connection may take to stand, in milliseconds. */
  readonly checkoutMillis: number
  /** How long a statement may take before its connection is destroyed, in milliseconds. */
  readonly deadlineMillis: number
  /**
   * After how long without a word from the server, on any connection, it is taken to hang, in milliseconds; absent: it is
   * not asked. A statement that waits longer than that while the server answers others is only slow.
   */
  readonly silenceMillis?: number
}

const MAX_NAMED_STATEMENTS = 500

/**
 * A statement seen twice gets a name, so that Postgres parses and plans it once per connection. Bounded: no text can
 * grow it for ever. Of one database, so that another one of the same process takes no names from it.
 */
class StatementNames {
  readonly #names = new Map<string, string>()
  readonly #seenOnce = new Set<string>()

  nameOf(text: string): string | undefined {
    const known = this.#names.get(text)
    if (known !== undefined || this.#names.size >= MAX_NAMED_STATEMENTS) return known
    if (this.#seenOnce.delete(text)) {
      const name = `a${this.#names.size}`
      this.#names.set(text, name)
      return name
    }
    if (this.#seenOnce.size >= MAX_NAMED_STATEMENTS) this.#seenOnce.clear()
    this.#seenOnce.add(text)
    return undefined
  }
}

/** What the connections to one database know together. */
export class Database {
  #host = 0
  #generation = 0
  #server: string | undefined
  #epoch = 0
  #heardAt = 0
  readonly #asking: Array<(answers: boolean) => void> = []
  readonly #silent: Array<() => void> = []
  readonly statements = new StatementNames()
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

  /** Changes when another server answers (`src/access/DatabaseEpoch.ts`). */
  get epoch(): number {
    return this.#epoch
  }

  /** A new connection leads to the server that began then. */
  reached(server: string) {
    if (this.#server !== undefined && this.#server !== server) this.#epoch++
    this.#server = server
  }

  /** This host is away or takes no writes; who comes next tries the next one. */
  avoid(host: string | undefined) {
    if (host !== undefined && host === this.host) this.#host = (this.#host + 1) % (this.options.hosts?.length ?? 1)
  }

  /** The server said something, if only a refusal. */
  heard() {
    this.#heardAt = performance.now()
  }

  /** Whether the server has said something within this many milliseconds, or does when it is asked. One asks for all. */
  answers(within: number, tell: (answers: boolean) => void) {
    if (performance.now() - this.#heardAt < within) return tell(true)
    this.#asking.push(tell)
    if (this.#asking.length > 1) return
    const connection = make(this)
    let known = false
    const told = (answers: boolean) => {
      if (known) return
      known = true
      clearTimeout(timer)
      connection.abandon()
      for (const asked of this.#asking.splice(0)) asked(answers)
      if (!answers) for (const silent of this.#silent) silent()
    }
    const timer = setTimeout(() => told(false), within)
    connection.connect((error: Error | undefined) => told(error === undefined || isWord(error)))
  }

  /** Calls `tell` each time that the server is found to hang. */
  onSilence(tell: () => void) {
    this.#silent.push(tell)
  }

  /** The server that connections lead to stopped taking writes: none of them is used again. */
  demoted() {
    this.#generation++
  }
}

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

/** The part of the time of silence in which the server is asked. */
const ASKING = 0.4

const readsOnly =
  /^\s*(?:(?:SELECT|SAVEPOINT|RELEASE|ROLLBACK TO|SET LOCAL)\b|WITH\b(?![^]*\b(?:INSERT|UPDATE|DELETE)\b))/i

type Callback = (error: Error | null | undefined, result: unknown) => void
export type Release = (error?: Error | boolean) => void

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

/** The server's own words, and not the driver's. */
const isWord = (error: Error) => "severity" in error

const sessionOf = (settings: Readonly<Record<string, number>>) =>
  [
    // To compile a statement takes a second; none of ours runs that long.
    "SET jit = off",
    ...Object.entries(settings).map(([name, millis]) => `SET ${name} = ${millis}`),
    // No two servers began in the same microsecond, and whoever may connect may ask.
    "SELECT current_setting('transaction_read_only') AS read_only, pg_postmaster_start_time()::text AS began"
  ].join("; ")

interface Server {
  readonly read_only: string
  readonly began: string
}

/** Of several statements `pg` returns a list of results; the last one is the question. */
const serverOf = (results: unknown) => {
  const last: unknown = Array.isArray(results) ? results.at(-1) : results
  return (last as Pg.QueryResult<Server>).rows[0]
}

/** `pg.Client` that names its statements, bounds them in time, and is not given back while one still runs. */
export class Connection extends Pg.Client {
  readonly #database: Database
  readonly #host: string | undefined
  readonly #generation: number
  /** Whose request has it now; undefined: the service. */
  #request: RequestOrigin | undefined
  #inTransaction = false
  #wrote = false
  #running = 0
  #poisoned = false
  #left: (() => void) | undefined
  #release: Release | undefined
  #waitingRelease: Release | undefined

  constructor(database: Database, config?: Pg.ClientConfig) {
    const { host } = database
    super(host === undefined ? config : { ...config, connectionString: host })
    this.#database = database
    this.#host = host
    this.#generation = database.generation
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

  /** From now on, and until its release, it belongs to this request. `left` is called at its release. */
  given(request: RequestOrigin | undefined, left: () => void) {
    this.#request = request
    this.#left = left
  }

  /** It may lead to a server that stopped taking writes. */
  get stale(): boolean {
    return this.#generation !== this.#database.generation
  }

  #stand(connect: (answer: (error?: Error | null) => void) => void, answer: (error?: Error) => void) {
    const { readOnly = false, session } = this.#database.options
    const refuse = (error: Error) => {
      this.#database.avoid(this.#host)
      this.abandon()
      answer(error)
    }
    connect((error) => {
      if (error != null) return refuse(error)
      if (session === undefined) return answer()
      this.query(sessionOf(session), (error: Error | null | undefined, results: unknown) =>
        error != null
          ? refuse(error)
          : this.#meet(serverOf(results), readOnly)
            ? answer()
            : refuse(new ReadOnlyServer())
      )
    })
  }

  /** Whether this server will do. Called before anything is asked of it. */
  #meet(server: Server | undefined, readOnly: boolean) {
    if (server?.read_only === "on" && !readOnly) return false
    if (server !== undefined) this.#database.reached(server.began)
    return true
  }

  readonly #releaseWhenIdle: Release = (error) => {
    const release = this.#release
    if (release === undefined) return
    if (error === undefined && this.#running > 0) this.#waitingRelease = release
    else this.#giveBack(release, error)
  }

  #giveBack(release: Release, error?: Error | boolean) {
    const left = this.#left
    this.#left = undefined
    this.#request = undefined
    release(error ?? (this.#spoiled || undefined))
    left?.()
  }

  get #spoiled() {
    return this.#poisoned || this.stale
  }

  #named(config: unknown, values: unknown) {
    const given =
      typeof config === "string"
        ? { text: config, values: Array.isArray(values) ? values : [] }
        : (config as { text: string; values?: unknown })
    this.#note(given.text)
    // Without parameters the simple protocol serves best: transaction control, and migrations' DDL.
    if (!Array.isArray(given.values) || given.values.length === 0) return given
    const name = this.#database.statements.nameOf(given.text)
    return name === undefined ? given : { ...given, name }
  }

  /** Before it is sent: from then on nobody knows that nothing was changed. */
  #note(text: string) {
    if (this.#request === undefined) return
    if (text === "BEGIN") {
      this.#inTransaction = true
      this.#wrote = false
    } else if (text === "COMMIT" || text === "ROLLBACK") {
      this.#inTransaction = false
      if (text === "COMMIT" && this.#wrote) this.#request.committed = true
    } else if (!readsOnly.test(text)) {
      this.#wrote = true
      if (!this.#inTransaction) this.#request.committed = true
    }
  }

  #watched(callback: Callback): Callback {
    this.#running++
    let settled = false
    const database = this.#database
    const { deadlineMillis, silenceMillis = deadlineMillis } = database.options
    const started = performance.now()
    const giveUp = () => settled || this.abandon(new QueryDeadlineExceeded())
    const look = () => {
      if (settled || silenceMillis >= deadlineMillis || performance.now() - started >= deadlineMillis) return giveUp()
      return database.answers(silenceMillis * ASKING, (answers) => (answers ? again() : giveUp()))
    }
    const again = () => {
      if (settled) return
      const left = deadlineMillis - (performance.now() - started)
      timer = setTimeout(later, Math.min(left, silenceMillis * (1 - ASKING)))
    }
    // The answer may already be here, behind work that held the event loop: let the sockets speak first.
    const later = () => setImmediate(() => setImmediate(look))
    let timer = setTimeout(later, silenceMillis < deadlineMillis ? silenceMillis * (1 - ASKING) : deadlineMillis)
    return (error, result) => {
      if (settled) return
      settled = true
      clearTimeout(timer)
      this.#running--
      if (error == null || isWord(error)) database.heard()
      if (error != null && spoilsConnection(error)) this.#spoil(error)
      callback(error, result)
      const waiting = this.#waitingRelease
      if (waiting !== undefined && this.#running === 0) {
        this.#waitingRelease = undefined
        // Next tick: `pg` puts its own state in order after this callback.
        process.nextTick(() => this.#giveBack(waiting))
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
