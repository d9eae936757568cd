/**
 * One connection to Postgres: `pg.Client` with what it lacks. Statements are named and bounded in time, and a connection
 * leads to a server that takes writes or is none.
 */
import * as Pg from "pg"
import {
  afterSockets,
  type Ask,
  codeOf,
  Database,
  isWord,
  type Options,
  QueryDeadlineExceeded,
  READ_ONLY,
  type Server,
  type Told
} from "#layers/PgDatabase.ts"
import * as PgStatement from "#layers/PgStatement.ts"
import type { RequestOrigin } from "#src/database/RequestInfo.ts"

/** The part of the time of silence in which the server is asked. */
const ASKING = 0.4

const readsOnly =
  /^\s*(?:(?:SELECT|SAVEPOINT|RELEASE|ROLLBACK TO|SET LOCAL)\b|WITH\b(?![^]*\b(?:INSERT|UPDATE|DELETE)\b))/i

type Callback = (error: Error | null | undefined, result?: unknown) => void
type Query = (config: unknown, values?: unknown, callback?: Callback) => unknown
export type Release = (error?: Error | boolean) => void

/** A transaction ended with its last statement (`src/database/TransactionEnd.ts`): it is too late to go on with it, or to undo it. */
export class TransactionEnded extends Error {
  override readonly name = "TransactionEnded"
  constructor() {
    super("the transaction was committed with its last statement")
  }
}

const isEnd = (text: string | undefined) => text === "COMMIT" || text === "ROLLBACK"

/** What `pg` is asked with. */
interface Given {
  readonly text: string
  readonly values?: unknown
  readonly rowMode?: unknown
  readonly inCamel?: boolean
  readonly ends?: boolean
}

const givenOf = (config: unknown, values: unknown): Given =>
  typeof config === "string" ? { text: config, values } : (config as Given)

/**
 * After these SQLSTATEs the connection has to go: the server takes no writes; its prepared statements are stale because
 * another process changed the schema (0A000), or are those of another session (26000, 42P05).
 */
const spoiling = new Set([READ_ONLY, "0A000", "26000", "42P05"])
/** Connection exceptions, and an operator's shutdown: a pooler reports them as plain errors. */
const spoilingClass = /^(?:08...|57P0.)$/

const spoilsConnection = (error: Error) =>
  ("severity" in error && (error.severity === "FATAL" || error.severity === "PANIC")) ||
  spoiling.has(codeOf(error)) ||
  spoilingClass.test(codeOf(error))

/** The statement is undone. After a word that ends the connection, nobody knows. */
const isRefusal = (error: Error) => "severity" in error && error.severity === "ERROR"

const sessionOf = (settings: Readonly<Record<string, number>>) =>
  [
    // To compile a statement takes a second; none of ours runs that long.
    "SET jit = off",
    ...Object.entries(settings).map(([name, millis]) => `SET ${name} = ${millis}`),
    // No two servers began in the same microsecond, and whoever may connect may ask.
    "SELECT current_setting('transaction_read_only') AS read_only, pg_postmaster_start_time()::text AS began"
  ].join("; ")

interface Session {
  readonly read_only: string
  readonly began: string
}

/** Of several statements `pg` returns a list of results; the last one is the question. */
const rowOf = <Row extends object>(results: unknown): Row | undefined => {
  const last: unknown = Array.isArray(results) ? results.at(-1) : results
  return (last as Pg.QueryResult<Row>).rows[0]
}

/** A segment of the log is named by its timeline, in eight hexadecimal digits, and its place. */
const lineage =
  "SELECT system_identifier::text AS system, pg_walfile_name(pg_current_wal_lsn()) AS segment FROM pg_control_system()"

interface Lineage {
  readonly system: string
  readonly segment: string
}

/** `pg.Client` that names its statements, bounds them in time, and is not given back while one still runs. */
export class Connection extends Pg.Client {
  readonly #database: Database
  readonly #host: string | undefined
  readonly #begin: (answer: (error?: Error | null) => void) => void
  #generation: number
  /** Whose request has it now; undefined: the service. */
  #request: RequestOrigin | undefined
  readonly #descriptions: PgStatement.Descriptions
  #inTransaction = false
  /** BEGIN was asked for, and goes with the next statement. */
  #begins = false
  /** COMMIT went with the last statement. */
  #ended = false
  #wrote = false
  #running = 0
  #poisoned = false
  #left: (() => void) | undefined
  #release: Release | undefined
  #waitingRelease: Release | undefined

  constructor(database: Database, config?: Pg.ClientConfig, host = database.host) {
    super(host === undefined ? config : { ...config, connectionString: host })
    this.#database = database
    this.#host = host
    this.#generation = database.generation
    this.#descriptions = new PgStatement.Descriptions(database.descriptions)
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
    const query = super.query.bind(this) as Query
    Object.defineProperty(this, "query", {
      value: (config: unknown, values: unknown, callback?: Callback) => {
        const answer = callback ?? (typeof values === "function" ? (values as Callback) : undefined)
        const given = givenOf(config, callback === undefined ? undefined : values)
        const known = this.#ofTransaction(given.text)
        if (known !== undefined) return answer?.(known, { rows: [] })
        if (answer === undefined) {
          if (this.#begins) this.#sendBegin(undefined, query)
          return query(config, values)
        }
        const committed = this.#request?.committed ?? false
        const asked = this.#named(given)
        if (this.#begins) this.#sendBegin(asked, query)
        const told = asked instanceof PgStatement.Statement ? this.#hearing(asked, committed, answer) : answer
        return query(asked, undefined, this.#watched(told))
      }
    })
    // `connect` is overloaded; both callers (pg-pool and our own) use the callback form.
    this.#begin = super.connect.bind(this) as (answer: (error?: Error | null) => void) => void
    Object.defineProperty(this, "connect", { value: (answer: (error?: Error) => void) => this.#stand(answer) })
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

  /** Connects, and hears which server that is; whether it will do is another question. */
  meet(told: Told) {
    const { session } = this.#database.options
    this.#begin((error) => {
      if (error != null) return told(error)
      if (session === undefined) return told(undefined)
      this.query(sessionOf(session), (error: Error | null | undefined, results: unknown) => {
        if (error != null) return told(error)
        const { began = "", read_only } = rowOf<Session>(results) ?? {}
        const server: Server = { began, isReadOnly: read_only === "on" }
        return server.isReadOnly ? told(undefined, server) : this.#hearLineage(server, told)
      })
    })
  }

  /** Not every service that calls itself Postgres tells; without, the order of hosts counts. */
  #hearLineage(server: Server, told: Told) {
    this.query(lineage, (error: Error | null | undefined, results: unknown) => {
      if (error != null) return isWord(error) ? told(undefined, server) : told(error)
      const row = rowOf<Lineage>(results)
      const timeline = parseInt(row?.segment.slice(0, 8) ?? "", 16)
      return told(undefined, row && timeline > 0 ? { ...server, system: row.system, timeline } : server)
    })
  }

  #stand(answer: (error?: Error) => void) {
    const database = this.#database
    this.meet((error, server) => {
      const refusal = error ?? database.accept(this, this.#host, server)
      if (refusal === undefined) {
        this.#generation = database.generation
        this.once("end", () => database.closed(this))
        return answer()
      }
      database.failed(this.#host, refusal)
      this.abandon()
      return answer(refusal)
    })
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
    this.#begins = false
    this.#ended = false
    release(error ?? (this.#spoiled || undefined))
    left?.()
  }

  get #spoiled() {
    return this.#poisoned || this.stale
  }

  /**
   * What is answered without the server: BEGIN, since it goes with the statement after it, and the end of a transaction
   * that sent nothing, or that ended with its last statement.
   */
  #ofTransaction(text: string | undefined): Error | null | undefined {
    if (text === "BEGIN") this.#begins = true
    else if (this.#ended) {
      if (isEnd(text)) this.#ended = false
      if (text !== "COMMIT") return new TransactionEnded()
    } else if (this.#begins && isEnd(text)) this.#begins = false
    else return undefined
    this.#note(text)
    return null
  }

  /** With the statement, or before it: nothing that belongs into the transaction runs outside of it. */
  #sendBegin(asked: unknown, query: Query) {
    this.#begins = false
    if (asked instanceof PgStatement.Statement && asked.isSendable) asked.begins = true
    else
      query(
        "BEGIN",
        undefined,
        this.#watched((error) => error != null && this.abandon(error))
      )
  }

  /**
   * Hears what became of BEGIN and COMMIT where they went with a statement. `committed`: what was known of the request before
   * it was sent; what the server refuses to end has changed nothing.
   */
  #hearing(asked: PgStatement.Statement, committed: boolean, answer: Callback): Callback {
    const request = this.#request
    return (error, result) => {
      if (asked.hasEnded) this.#ended = true
      else if (asked.ends && request !== undefined && error != null && isRefusal(error)) request.committed = committed
      if (asked.begins && !asked.hasBegun) {
        // Others were sent as statements of this transaction.
        if (this.#running > 0) this.abandon(error ?? undefined)
        this.#begins = true
      }
      answer(error, result)
    }
  }

  #named(given: Given) {
    this.#note(given.text)
    if (given.ends === true) this.#note("COMMIT")
    // Without parameters the simple protocol serves best: transaction control, and migrations' DDL.
    if (!Array.isArray(given.values) || given.values.length === 0) return given
    const name = this.#database.statements.nameOf(given.text)
    if (given.rowMode !== undefined) return name === undefined ? given : { ...given, name }
    return new PgStatement.Statement({ ...given, values: given.values }, name, this.#descriptions)
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
      return database.answers(this.#host, silenceMillis * ASKING, (answers) => (answers ? again() : giveUp()))
    }
    const again = () => {
      if (settled) return
      const left = deadlineMillis - (performance.now() - started)
      timer = setTimeout(later, Math.min(left, silenceMillis * (1 - ASKING)))
    }
    const later = () => afterSockets(look)
    let timer = setTimeout(later, silenceMillis < deadlineMillis ? silenceMillis * (1 - ASKING) : deadlineMillis)
    return (error, result) => {
      if (settled) return
      settled = true
      clearTimeout(timer)
      this.#running--
      if (error == null || isWord(error)) database.heard(this.#host)
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

/** A single connection with the same deadline, for what a pool cannot do. Ask the database for its `lead` before. */
export const make = (database: Database, host = database.host) =>
  new Connection(
    database,
    {
      application_name: "ampoule",
      types: PgStatement.types,
      ...database.options.connection,
      connectionTimeoutMillis: database.options.checkoutMillis
    },
    host
  )

const ask: Ask = (database, host, told) => {
  const connection = make(database, host)
  connection.meet(told)
  return () => connection.abandon()
}

export const database = (options: Options) => new Database(options, ask)
