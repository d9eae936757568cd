/**
 * What the connections to one database know together: which of its hosts leads, which server that is, and whether it
 * still says something. Two servers may take themselves for the primary at once (the old one hung, and woke when another
 * was promoted); the one that was promoted last is on the later timeline, and whoever has met it uses the other no more.
 */
import type * as Pg from "pg"
import type { Shared } from "#layers/PgStatement.ts"

/** The database did not answer a statement in time. The connection it ran on is gone with it. */
export class QueryDeadlineExceeded extends Error {
  override readonly name = "QueryDeadlineExceeded"
  readonly code = "QUERY_DEADLINE_EXCEEDED"
  constructor() {
    super("the database did not answer in time")
  }
}

/** SQLSTATE `read_only_sql_transaction`. */
export const READ_ONLY = "25006"

/** The server takes no writes: a standby, or one that was made read-only. */
export class ReadOnlyServer extends Error {
  override readonly name = "ReadOnlyServer"
  readonly code = READ_ONLY
  constructor() {
    super("the database takes no writes")
  }
}

/** Another server has taken the place of this one, whatever this one takes itself for. */
export class ReplacedServer extends Error {
  override readonly name = "ReplacedServer"
  readonly code = "SERVER_REPLACED"
  constructor() {
    super("another server of the database has taken the place of this one")
  }
}

export interface Options {
  /** Where to connect, and how: what `pg` takes. */
  readonly connection: Pg.PoolConfig
  /** Connection strings of the hosts of this database, in the order of preference; absent: `connection`'s. */
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

/** A Postgres that was met. */
export interface Server {
  /** When it began: no two began in the same microsecond. */
  readonly began: string
  readonly isReadOnly: boolean
  /** Of which database it is a copy, and how often one of its copies was promoted; absent where it does not say so. */
  readonly system?: string
  readonly timeline?: number
}

/** Whether another copy was promoted since this one was the primary. */
const isOlder = (server: Server, than: Server) =>
  server.system !== undefined &&
  server.system === than.system &&
  server.timeline !== undefined &&
  than.timeline !== undefined &&
  server.timeline < than.timeline

export const codeOf = (error: Error) => ("code" in error && typeof error.code === "string" ? error.code : "")

/** The server's own words, and not the driver's. */
export const isWord = (error: Error) => "severity" in error

/** SQLSTATE class 53: too many connections, a full disk. It is there all the same. */
const isFull = (error: Error) => codeOf(error).startsWith("53")

/** What waits in the sockets speaks first: it came while the event loop was held. */
export const afterSockets = (go: () => void) => setImmediate(() => setImmediate(go))

export type Told = (error: Error | undefined, server?: Server) => void
/** Connects to a host to hear which server is there; what it answers gives that up. */
export type Ask = (database: Database, host: string | undefined, told: Told) => () => void

interface Open {
  readonly abandon: (error: Error) => void
}

/** Of the time that a connection may take: this part is given to the question which host leads. */
const SURVEYING = 0.5

export class Database {
  readonly statements = new StatementNames()
  readonly descriptions: Shared = new Map()
  readonly options: Options
  readonly #ask: Ask
  readonly #hosts: ReadonlyArray<string | undefined>
  #host: string | undefined
  #isLed: boolean
  #met: Server | undefined
  #generation = 0
  #epoch = 0
  readonly #open = new Set<Open>()
  readonly #waiting: Array<(nobody?: Error) => void> = []
  readonly #heardAt = new Map<string | undefined, number>()
  readonly #asking = new Map<string | undefined, Array<(answers: boolean) => void>>()
  readonly #silent: Array<() => void> = []

  constructor(options: Options, ask: Ask) {
    this.options = options
    this.#ask = ask
    this.#hosts = options.hosts ?? [undefined]
    this.#host = this.#hosts[0]
    this.#isLed = this.#hosts.length < 2
  }

  /** Where the next connection goes. Ask `lead` before. */
  get host(): string | undefined {
    return this.#host
  }

  /** A connection of an older generation may lead to a server that takes no writes any more. */
  get generation(): number {
    return this.#generation
  }

  /** Changes when another server answers (`src/database/DatabaseEpoch.ts`). */
  get epoch(): number {
    return this.#epoch
  }

  /**
   * Calls `tell` when it is known which host leads, or that none does. While it is not, all are asked at once: one that
   * hangs, or woke too late, is no reason not to meet the one that was promoted.
   */
  lead(tell: (nobody?: Error) => void) {
    if (this.#isLed) return tell()
    if (this.#waiting.push(tell) > 1) return
    const answers: Array<Error | Server | "silent"> = this.#hosts.map(() => "silent")
    let left = answers.length
    let ended = false
    const end = () => {
      if (ended) return
      ended = true
      clearTimeout(timer)
      for (const abandon of asked) abandon()
      const nobody = this.#choose(answers)
      for (const waits of this.#waiting.splice(0)) waits(nobody)
    }
    const asked = this.#hosts.map((host, i) =>
      this.#ask(this, host, (error, server) => {
        if (ended) return
        answers[i] = error ?? server ?? { began: "", isReadOnly: false }
        if (--left === 0) end()
      })
    )
    const timer = setTimeout(() => afterSockets(end), this.options.checkoutMillis * SURVEYING)
  }

  #choose(answers: ReadonlyArray<Error | Server | "silent">): Error | undefined {
    let best: Server | undefined
    for (const [i, answer] of answers.entries()) {
      if (answer === "silent" || answer instanceof Error || this.#refusal(answer) !== undefined) continue
      if (best !== undefined && !isOlder(best, answer)) continue
      best = answer
      this.#host = this.#hosts[i]
    }
    this.#isLed = best !== undefined
    if (best !== undefined) return void this.#reached(best)
    if (answers.includes("silent")) return new QueryDeadlineExceeded()
    return answers.find((answer) => answer instanceof Error) ?? new ReadOnlyServer()
  }

  #refusal(server: Server): Error | undefined {
    if (server.isReadOnly && this.options.readOnly !== true) return new ReadOnlyServer()
    return this.#met !== undefined && isOlder(server, this.#met) ? new ReplacedServer() : undefined
  }

  /** A connection stands that leads to this server; answers why it must not be used, if so. */
  accept(connection: Open, host: string | undefined, server: Server | undefined): Error | undefined {
    // While it was made, another host took the lead, or this one lost it.
    if (!this.#isLed || host !== this.#host) return new ReplacedServer()
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
   * Connections to one that was replaced lead to a server that is gone, or should be: they end. Not so where several servers
   * lead at once behind one address, which some databases that speak Postgres' protocol have.
   */
  #reached(server: Server) {
    const before = this.#met
    if (server.isReadOnly || server.began === "" || server.began === before?.began) return
    this.#met = server
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
   * No connection to this host could be made: another one may lead. Not so when it is only full, or slow to let somebody
   * in (an error without a code) while it answers others.
   */
  failed(host: string | undefined, error: Error) {
    if (this.#hosts.length < 2 || host !== this.#host || isFull(error)) return
    const isSlow = codeOf(error) === "" && this.#hasSpoken(host, this.options.checkoutMillis)
    if (!isSlow) this.#isLed = false
  }

  /** The server that connections lead to stopped taking writes: none of them is used again. */
  demoted() {
    this.#generation++
    this.#isLed = this.#hosts.length < 2
  }

  /** This host said something, if only a refusal. */
  heard(host: string | undefined) {
    this.#heardAt.set(host, performance.now())
  }

  #hasSpoken(host: string | undefined, within: number) {
    return performance.now() - (this.#heardAt.get(host) ?? -within) < within
  }

  /**
   * Whether this host has said something within so many milliseconds, or does when it is asked. One asks for all. When it
   * says nothing, its connections end, idle ones too.
   */
  answers(host: string | undefined, within: number, tell: (answers: boolean) => void) {
    if (this.#hasSpoken(host, within)) return tell(true)
    const asking = this.#asking.get(host)
    if (asking !== undefined) return void asking.push(tell)
    const all = [tell]
    this.#asking.set(host, all)
    let known = false
    const told = (answers: boolean) => {
      if (known) return
      known = true
      clearTimeout(timer)
      abandon()
      this.#asking.delete(host)
      for (const asked of all) asked(answers)
      if (!answers) this.#hangs(host)
    }
    const timer = setTimeout(() => afterSockets(() => told(false)), within)
    const abandon = this.#ask(this, host, (error, server) => {
      if (known) return
      if (error !== undefined) return told(isWord(error))
      if (server === undefined) return told(true)
      // Behind one address it may be another server: the connections to the one before have ended then.
      const isFit = this.#refusal(server) === undefined
      if (isFit) this.#reached(server)
      return told(isFit)
    })
  }

  #hangs(host: string | undefined) {
    if (host !== this.#host) return
    this.#isLed = this.#hosts.length < 2
    this.#drop(new QueryDeadlineExceeded())
    for (const silent of this.#silent) silent()
  }

  /** Calls `tell` each time that the server is found to hang. */
  onSilence(tell: () => void) {
    this.#silent.push(tell)
  }
}
