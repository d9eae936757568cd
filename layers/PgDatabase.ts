/**
 * Shared state of the connections to one database: the primary among its hosts, the identity of its server, and its
 * last response. Two servers may both act as the primary: the old one hung, and woke after another was promoted. The
 * one promoted last is on the later timeline, and a process that has met it stops using the other.
 */
import type * as Pg from "pg"
import type { Shared } from "#layers/PgStatement.ts"

/** The database did not answer a statement in time. The connection was destroyed. */
export class QueryDeadlineExceeded extends Error {
  override readonly name = "QueryDeadlineExceeded"
  readonly code = "QUERY_DEADLINE_EXCEEDED"
  constructor() {
    super("the database did not answer in time")
  }
}

/** SQLSTATE `read_only_sql_transaction`. */
export const READ_ONLY = "25006"

/** The server refuses writes: a standby, or one that was made read-only. */
class ReadOnlyServer extends Error {
  override readonly name = "ReadOnlyServer"
  readonly code = READ_ONLY
  constructor() {
    super("the database takes no writes")
  }
}

/** Another server has replaced this one, even if it still acts as the primary. */
class ReplacedServer extends Error {
  override readonly name = "ReplacedServer"
  readonly code = "SERVER_REPLACED"
  constructor() {
    super("another server of the database has taken the place of this one")
  }
}

export interface Options {
  /** Target and options of a connection, for `pg`. */
  readonly connection: Pg.PoolConfig
  /** Connection strings of the database's hosts, in order of preference. Default: that of `connection`. */
  readonly hosts?: ReadonlyArray<string>
  /**
   * Settings of a session by name, in milliseconds. They are set by a statement after connecting, because poolers
   * refuse them at the start. Absent: no statement is sent.
   */
  readonly session?: Readonly<Record<string, number>>
  /** Accept a server that refuses writes. Without `session` every server is accepted. */
  readonly readOnly?: boolean
  /** Milliseconds to establish a connection. */
  readonly checkoutMillis: number
  /** Milliseconds of a statement, after which its connection is destroyed. */
  readonly deadlineMillis: number
  /**
   * Milliseconds without any response on all connections, after which the server counts as hanging. Absent: no check. A
   * statement that waits longer while others are answered is only slow.
   */
  readonly silenceMillis?: number
}

const MAX_NAMED_STATEMENTS = 500

/**
 * Names for statements that were seen twice, so that Postgres parses and plans them once per connection. Bounded, so
 * that texts cannot fill the memory. One table per database, so that several databases in a process do not share the
 * bound.
 */
class StatementNames {
  readonly #names = new Map<string, string>()
  readonly #seenOnce = new Set<string>()

  nameOf(text: string): string | undefined {
    const existing = this.#names.get(text)
    if (existing !== undefined || this.#names.size >= MAX_NAMED_STATEMENTS) return existing
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

/** A server that was identified. */
export interface Server {
  /** Start time, which differs for any two servers. */
  readonly began: string
  readonly isReadOnly: boolean
  /** Identity of the database, and number of promotions of its copies; absent when the service does not have them. */
  readonly system?: string
  readonly timeline?: number
}

/** True when another copy was promoted after this one was the primary. */
const isOlder = (server: Server, than: Server) =>
  server.system !== undefined &&
  server.system === than.system &&
  server.timeline !== undefined &&
  than.timeline !== undefined &&
  server.timeline < than.timeline

export const codeOf = (error: Error) => ("code" in error && typeof error.code === "string" ? error.code : "")

/** True for an error from the server, rather than from the driver. */
export const isServerError = (error: Error) => "severity" in error

/** SQLSTATE class 53 (too many connections, a full disk): the server is alive. */
const isFull = (error: Error) => codeOf(error).startsWith("53")

/** Lets pending socket reads run first, after the event loop was blocked. */
export const afterSockets = (go: () => void) => setImmediate(() => setImmediate(go))

export type OnServer = (error: Error | undefined, server?: Server) => void
/** Connects to a host and identifies its server. Returns a function that cancels it. */
export type Probe = (database: Database, host: string | undefined, onResult: OnServer) => () => void

interface Open {
  readonly abandon: (error: Error) => void
}

/** Share of the connection time for finding the primary. */
const SURVEY_SHARE = 0.5

export class Database {
  readonly statements = new StatementNames()
  readonly descriptions: Shared = new Map()
  readonly options: Options
  readonly #probe: Probe
  readonly #hosts: ReadonlyArray<string | undefined>
  #host: string | undefined
  #hasPrimary: boolean
  #server: Server | undefined
  #generation = 0
  #epoch = 0
  readonly #open = new Set<Open>()
  readonly #waiting: Array<(nobody?: Error) => void> = []
  readonly #lastResponseAt = new Map<string | undefined, number>()
  readonly #probing = new Map<string | undefined, Array<(answers: boolean) => void>>()
  readonly #onSilence: Array<() => void> = []

  constructor(options: Options, probe: Probe) {
    this.options = options
    this.#probe = probe
    this.#hosts = options.hosts ?? [undefined]
    this.#host = this.#hosts[0]
    this.#hasPrimary = this.#hosts.length < 2
  }

  /** Host of the next connection. Call `findPrimary` before. */
  get host(): string | undefined {
    return this.#host
  }

  /** A connection of an older generation may lead to a server that no longer accepts writes. */
  get generation(): number {
    return this.#generation
  }

  /** Changes when another server responds (`src/database/DatabaseEpoch.ts`). */
  get epoch(): number {
    return this.#epoch
  }

  /**
   * Calls back when the primary is known, or known to be missing. Until then it probes all hosts at once, so that a
   * hanging or outdated one does not hide the promoted one.
   */
  findPrimary(callback: (nobody?: Error) => void) {
    if (this.#hasPrimary) return callback()
    if (this.#waiting.push(callback) > 1) return
    const answers: Array<Error | Server | "silent"> = this.#hosts.map(() => "silent")
    let remaining = answers.length
    let ended = false
    const end = () => {
      if (ended) return
      ended = true
      clearTimeout(timer)
      for (const abandon of cancels) abandon()
      const nobody = this.#choose(answers)
      for (const waits of this.#waiting.splice(0)) waits(nobody)
    }
    const cancels = this.#hosts.map((host, i) =>
      this.#probe(this, host, (error, server) => {
        if (ended) return
        answers[i] = error ?? server ?? { began: "", isReadOnly: false }
        if (--remaining === 0) end()
      })
    )
    const timer = setTimeout(() => afterSockets(end), this.options.checkoutMillis * SURVEY_SHARE)
  }

  #choose(answers: ReadonlyArray<Error | Server | "silent">): Error | undefined {
    let best: Server | undefined
    for (const [i, answer] of answers.entries()) {
      if (answer === "silent" || answer instanceof Error || this.#refusal(answer) !== undefined) continue
      if (best !== undefined && !isOlder(best, answer)) continue
      best = answer
      this.#host = this.#hosts[i]
    }
    this.#hasPrimary = best !== undefined
    if (best !== undefined) return void this.#reached(best)
    if (answers.includes("silent")) return new QueryDeadlineExceeded()
    return answers.find((answer) => answer instanceof Error) ?? new ReadOnlyServer()
  }

  #refusal(server: Server): Error | undefined {
    if (server.isReadOnly && this.options.readOnly !== true) return new ReadOnlyServer()
    return this.#server !== undefined && isOlder(server, this.#server) ? new ReplacedServer() : undefined
  }

  /** Registers an open connection. Returns an error when its server must not be used. */
  accept(connection: Open, host: string | undefined, server: Server | undefined): Error | undefined {
    // The primary has changed during the connection attempt.
    if (!this.#hasPrimary || host !== this.#host) return new ReplacedServer()
    const refusal = server && this.#refusal(server)
    if (refusal !== undefined) return refusal
    if (server !== undefined) this.#reached(server)
    this.#open.add(connection)
    return undefined
  }

  closed(connection: Open) {
    this.#open.delete(connection)
  }

  /**
   * Connections to a replaced server are ended. Not so if several primaries share one address, as with some databases
   * that use Postgres' protocol.
   */
  #reached(server: Server) {
    const before = this.#server
    if (server.isReadOnly || server.began === "" || server.began === before?.began) return
    this.#server = server
    if (before === undefined) return
    this.#epoch++
    if (isOlder(before, server)) this.#drop(new ReplacedServer())
  }

  #drop(error: Error) {
    this.#generation++
    const dropped = [...this.#open]
    this.#open.clear()
    for (const connection of dropped) connection.abandon(error)
  }

  /**
   * Records a failed connection: another host may be the primary. A full host, or a slow one (an error without a code)
   * that answers others, keeps its role.
   */
  failed(host: string | undefined, error: Error) {
    if (this.#hosts.length < 2 || host !== this.#host || isFull(error)) return
    const isSlow = codeOf(error) === "" && this.#hasResponded(host, this.options.checkoutMillis)
    if (!isSlow) this.#hasPrimary = false
  }

  /** The primary stopped accepting writes: all its connections are dropped. */
  demoted() {
    this.#generation++
    this.#hasPrimary = this.#hosts.length < 2
  }

  /** Records a response of this host, even a refusal. */
  recordResponse(host: string | undefined) {
    this.#lastResponseAt.set(host, performance.now())
  }

  #hasResponded(host: string | undefined, within: number) {
    return performance.now() - (this.#lastResponseAt.get(host) ?? -within) < within
  }

  /**
   * Whether this host has responded within so many milliseconds, or responds to a probe. Callers share a probe. Without
   * a response all its connections end, including idle ones.
   */
  answers(host: string | undefined, within: number, callback: (answers: boolean) => void) {
    if (this.#hasResponded(host, within)) return callback(true)
    const asking = this.#probing.get(host)
    if (asking !== undefined) return void asking.push(callback)
    const all = [callback]
    this.#probing.set(host, all)
    let isDone = false
    const finish = (answers: boolean) => {
      if (isDone) return
      isDone = true
      clearTimeout(timer)
      abandon()
      this.#probing.delete(host)
      for (const waiting of all) waiting(answers)
      if (!answers) this.#hangs(host)
    }
    const timer = setTimeout(() => afterSockets(() => finish(false)), within)
    const abandon = this.#probe(this, host, (error, server) => {
      if (isDone) return
      if (error !== undefined) return finish(isServerError(error))
      if (server === undefined) return finish(true)
      // Behind one address it may be another server. The connections to the previous one have then ended.
      const isFit = this.#refusal(server) === undefined
      if (isFit) this.#reached(server)
      return finish(isFit)
    })
  }

  #hangs(host: string | undefined) {
    if (host !== this.#host) return
    this.#hasPrimary = this.#hosts.length < 2
    this.#drop(new QueryDeadlineExceeded())
    for (const listener of this.#onSilence) listener()
  }

  /** Calls `listener` each time that the server is found to hang. */
  onSilence(listener: () => void) {
    this.#onSilence.push(listener)
  }
}
