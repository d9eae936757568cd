/**
 * One connection to Postgres: `pg.Client` with named statements, a time limit for each, and a check that its server
 * accepts writes.
 */
import type * as Pg from "pg"
import {
  afterSockets,
  type Probe,
  codeOf,
  Database,
  isServerError,
  type Options,
  QueryDeadlineExceeded,
  READ_ONLY,
  type Server,
  type OnServer
} from "#layers/PgDatabase.ts"
import { type Callback, Driver } from "#layers/PgDriver.ts"
import * as PgStatement from "#layers/PgStatement.ts"
import type { RequestOrigin } from "#src/database/RequestInfo.ts"

/** Share of the silence limit that is left for probing the server. */
const PROBE_SHARE = 0.4

const readsOnly =
  /^\s*(?:(?:SELECT|SAVEPOINT|RELEASE|ROLLBACK TO|SET LOCAL)\b|WITH\b(?![^]*\b(?:INSERT|UPDATE|DELETE)\b))/i

/**
 * The transaction ended with its last statement (`src/database/Transaction.ts`), so it can neither continue nor be
 * undone.
 */
export class TransactionEnded extends Error {
  override readonly name = "TransactionEnded"
  constructor() {
    super("the transaction was committed with its last statement")
  }
}

const isEnd = (text: string | undefined) => text === "COMMIT" || text === "ROLLBACK"

/** Input of `pg`'s query. */
interface QueryInput {
  readonly text: string
  readonly values?: unknown
  readonly rowMode?: unknown
  readonly inCamel?: boolean
  readonly ends?: boolean
}

const inputOf = (config: unknown, values: unknown): QueryInput =>
  typeof config === "string" ? { text: config, values } : (config as QueryInput)

/**
 * SQLSTATEs that end the use of a connection. The server refuses writes. Or its prepared statements are outdated
 * because another process changed the schema (0A000), or belong to another session (26000, 42P05).
 */
const spoiling = new Set([READ_ONLY, "0A000", "26000", "42P05"])
/** Connection exceptions, and a shutdown by the operator: a pooler reports them as plain errors. */
const spoilingClass = /^(?:08...|57P0.)$/

const spoilsConnection = (error: Error) =>
  ("severity" in error && (error.severity === "FATAL" || error.severity === "PANIC")) ||
  spoiling.has(codeOf(error)) ||
  spoilingClass.test(codeOf(error))

/** True when the statement was undone. After an error that ends the connection, the effect is unknown. */
const isRefusal = (error: Error) => "severity" in error && error.severity === "ERROR"

const sessionOf = (settings: Readonly<Record<string, number>>) =>
  [
    // Compiling a statement takes a second, longer than any of ours runs.
    "SET jit = off",
    ...Object.entries(settings).map(([name, millis]) => `SET ${name} = ${millis}`),
    // The start time identifies a server, since no two start in the same microsecond. Every user may read it.
    "SELECT current_setting('transaction_read_only') AS read_only, pg_postmaster_start_time()::text AS began"
  ].join("; ")

interface Session {
  readonly read_only: string
  readonly began: string
}

/** For several statements `pg` returns a list of results; the last one belongs to the query. */
const rowOf = <Row extends object>(results: unknown): Row | undefined => {
  const last: unknown = Array.isArray(results) ? results.at(-1) : results
  return (last as Pg.QueryResult<Row>).rows[0]
}

/** The name of a log segment consists of its timeline, in eight hexadecimal digits, and its position. */
const lineage =
  "SELECT system_identifier::text AS system, pg_walfile_name(pg_current_wal_lsn()) AS segment FROM pg_control_system()"

interface Lineage {
  readonly system: string
  readonly segment: string
}

/** `pg.Client` with named statements and time limits. Its release waits for a running statement. */
export class Connection extends Driver {
  readonly #database: Database
  readonly #host: string | undefined
  #generation: number
  /** Request that holds the connection; undefined: the service. */
  #request: RequestOrigin | undefined
  readonly #descriptions: PgStatement.Descriptions
  #inTransaction = false
  /** BEGIN was requested, and goes with the next statement. */
  #begins = false
  /** COMMIT went with the last statement. */
  #ended = false
  #wrote = false
  #running = 0
  #poisoned = false
  #left: (() => void) | undefined
  #waitsForRelease = false

  constructor(database: Database, config?: Pg.ClientConfig, host = database.host) {
    super(host === undefined ? config : { ...config, connectionString: host })
    this.#database = database
    this.#host = host
    this.#generation = database.generation
    this.#descriptions = new PgStatement.Descriptions(database.descriptions)
    // Between two owners there is no listener, and an 'error' without one would end the process.
    this.on("error", () => {})
  }

  protected ask(config: unknown, values: unknown, answer: Callback | undefined): unknown {
    const input = inputOf(config, values)
    const local = this.#ofTransaction(input.text)
    if (local !== undefined) return answer?.(local, { rows: [] })
    if (answer === undefined) {
      if (this.#begins) this.#sendBegin(undefined)
      return this.queryDriver(config, values)
    }
    const committed = this.#request?.committed ?? false
    const statement = this.#prepare(input)
    if (this.#begins) this.#sendBegin(statement)
    const onAnswer = statement instanceof PgStatement.Statement ? this.#recordEnd(statement, committed, answer) : answer
    return this.queryDriver(statement, undefined, this.#watched(onAnswer))
  }

  /** Assigns the connection to a request until its release, which calls `onRelease`. */
  assign(request: RequestOrigin | undefined, onRelease: () => void) {
    this.#request = request
    this.#left = onRelease
  }

  /** True when the server may have stopped accepting writes. */
  get stale(): boolean {
    return this.#generation !== this.#database.generation
  }

  /** Connects and identifies the server, without deciding whether to use it. */
  identify(onResult: OnServer) {
    const { session } = this.#database.options
    this.connectDriver((error) => {
      if (error != null) return onResult(error)
      if (session === undefined) return onResult(undefined)
      this.ask(sessionOf(session), undefined, (error, results) => {
        if (error != null) return onResult(error)
        const { began = "", read_only } = rowOf<Session>(results) ?? {}
        const server: Server = { began, isReadOnly: read_only === "on" }
        return server.isReadOnly ? onResult(undefined, server) : this.#readLineage(server, onResult)
      })
    })
  }

  /** Optional, because not every service with Postgres' protocol has it. Without it the order of hosts decides. */
  #readLineage(server: Server, onResult: OnServer) {
    this.ask(lineage, undefined, (error, results) => {
      if (error != null) return isServerError(error) ? onResult(undefined, server) : onResult(error)
      const row = rowOf<Lineage>(results)
      const timeline = parseInt(row?.segment.slice(0, 8) ?? "", 16)
      return onResult(undefined, row && timeline > 0 ? { ...server, system: row.system, timeline } : server)
    })
  }

  protected open(answer: (error?: Error) => void) {
    const database = this.#database
    this.identify((error, server) => {
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

  /** An interrupted fiber releases while its statement still runs: the next user gets the connection once it is free. */
  protected leave(error: Error | boolean | undefined) {
    if (error === undefined && this.#running > 0) this.#waitsForRelease = true
    else this.#return(error)
  }

  #return(error?: Error | boolean) {
    this.#waitsForRelease = false
    const onReturn = this.#left
    this.#left = undefined
    this.#request = undefined
    this.#begins = false
    this.#ended = false
    this.giveBack(error ?? (this.#spoiled || undefined))
    onReturn?.()
  }

  get #spoiled() {
    return this.#poisoned || this.stale
  }

  /**
   * Handles a command without the server: BEGIN, which goes with the next statement, and the end of a transaction that
   * sent nothing or that ended with its last statement. Undefined: send it.
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

  /** Sends BEGIN with the statement, or before it, so that no statement of the transaction runs outside of it. */
  #sendBegin(statement: unknown) {
    this.#begins = false
    if (statement instanceof PgStatement.Statement && statement.isSendable) statement.begins = true
    else
      this.queryDriver(
        "BEGIN",
        undefined,
        this.#watched((error) => error != null && this.abandon(error))
      )
  }

  /**
   * Records the result of BEGIN and COMMIT that went with a statement. `committed`: state of the request before; a
   * refused statement has changed nothing.
   */
  #recordEnd(statement: PgStatement.Statement, committed: boolean, answer: Callback): Callback {
    const request = this.#request
    return (error, result) => {
      if (statement.hasEnded) this.#ended = true
      else if (statement.ends && request !== undefined && error != null && isRefusal(error))
        request.committed = committed
      if (statement.begins && !statement.hasBegun) {
        // Other statements were already sent as part of this transaction.
        if (this.#running > 0) this.abandon(error ?? undefined)
        this.#begins = true
      }
      answer(error, result)
    }
  }

  #prepare(input: QueryInput) {
    this.#note(input.text)
    if (input.ends === true) this.#note("COMMIT")
    // Without parameters the simple protocol is best: for transaction control, and for DDL of migrations.
    if (!Array.isArray(input.values) || input.values.length === 0) return input
    const name = this.#database.statements.nameOf(input.text)
    if (input.rowMode !== undefined) return name === undefined ? input : { ...input, name }
    return new PgStatement.Statement({ ...input, values: input.values }, name, this.#descriptions)
  }

  /** Called before sending: afterwards it is unknown whether anything was changed. */
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
    const checkSilence = () => {
      if (settled || silenceMillis >= deadlineMillis || performance.now() - started >= deadlineMillis) return giveUp()
      return database.answers(this.#host, silenceMillis * PROBE_SHARE, (answers) => (answers ? again() : giveUp()))
    }
    const again = () => {
      if (settled) return
      const remaining = deadlineMillis - (performance.now() - started)
      timer = setTimeout(later, Math.min(remaining, silenceMillis * (1 - PROBE_SHARE)))
    }
    const later = () => afterSockets(checkSilence)
    let timer = setTimeout(later, silenceMillis < deadlineMillis ? silenceMillis * (1 - PROBE_SHARE) : deadlineMillis)
    return (error, result) => {
      if (settled) return
      settled = true
      clearTimeout(timer)
      this.#running--
      if (error == null || isServerError(error)) database.recordResponse(this.#host)
      if (error != null && spoilsConnection(error)) this.#spoil(error)
      callback(error, result)
      // Next tick, because `pg` updates its own state after this callback.
      if (this.#waitsForRelease && this.#running === 0) process.nextTick(() => this.#waitsForRelease && this.#return())
    }
  }

  #spoil(error: Error) {
    if (codeOf(error) === READ_ONLY && !this.stale) this.#database.demoted()
    this.#poisoned = true
  }
}

/**
 * A single connection with the same time limits, for uses that a pool cannot serve. Call the database's `findPrimary`
 * first.
 */
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

const probe: Probe = (database, host, onResult) => {
  const connection = make(database, host)
  connection.identify(onResult)
  return () => connection.abandon()
}

export const database = (options: Options) => new Database(options, probe)
