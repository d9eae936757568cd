import * as Reactivity from "@effect/experimental/Reactivity"
import * as PgClient from "@effect/sql-pg/PgClient"
import * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Pg from "pg"
import * as PgConnection from "#layers/PgConnection.ts"
import * as PgDirect from "#layers/PgDirect.ts"
import { type Database, type Options, QueryDeadlineExceeded } from "#layers/PgDatabase.ts"
import type { Release } from "#layers/PgDriver.ts"
import * as PgStatement from "#layers/PgStatement.ts"
import type { Endpoint } from "#layers/PrivateConnection.ts"
import { DatabaseEpoch } from "#src/database/DatabaseEpoch.ts"
import { Busy } from "#src/database/Dependency.ts"
import { RequestInfo, type RequestOrigin } from "#src/database/RequestInfo.ts"
import * as FairTurns from "#src/limits/FairTurns.ts"
import * as Collectors from "#src/telemetry/Collectors.ts"
import * as Metrics from "#src/telemetry/Metrics.ts"

/** Target of these options, and whether its certificate is checked. Throws when a file in them cannot be read. */
export const endpointOf = (connection: Pg.PoolConfig): Endpoint => {
  const client = new Pg.Client(connection)
  // pg declares a boolean, but it may also be the options of `tls.connect`.
  const ssl: unknown = client.ssl
  const verified =
    ssl === true ||
    (typeof ssl === "object" && ssl !== null && !("rejectUnauthorized" in ssl && ssl.rejectUnauthorized === false))
  return { host: client.host, verified }
}

export interface PoolOptions extends Options {
  /** Maximum number of connections. */
  readonly size: number
  /** Milliseconds that a request waits for a connection; default: as long as for a new one. */
  readonly queueMillis?: number
}

/** Set while a connection is reserved for a transaction. */
class InTransaction extends Context.Reference<InTransaction>()("layers/InTransaction", {
  defaultValue: () => false
}) {}

/** Share of connections for transactions, so that those waiting for a lock never block all readers. */
const shareOfTransactions = 0.6
/** Maximum number of requests that wait for a connection. */
const maximumWaiting = 2_000

/** Request behind a checkout: `pg.Pool` is called within its fiber. */
const currentRequest = () => {
  const services = Option.map(Fiber.getCurrentFiber(), (fiber) => fiber.currentContext.unsafeMap)
  const service = (key: string): unknown => Option.getOrUndefined(services)?.get(key)
  return {
    // Safe casts: the types behind these keys.
    request: service(RequestInfo.key) as RequestOrigin | undefined,
    inTransaction: (service(InTransaction.key) as boolean | undefined) ?? false
  }
}

type Connected = (error: Error | undefined, client: Pg.PoolClient | undefined, release: Release) => void

const noRelease = () => {}

/**
 * A pool behind a fair queue, in which teams take turns. Stale and failed connections are dropped. With several hosts a
 * failed one starts a new search for the primary. When the server hangs, all waiting requests fail.
 */
class Pool extends Pg.Pool {
  readonly queue: FairTurns.Queue
  readonly #database: Database
  readonly #settings: PoolOptions
  #hangs = false

  constructor(database: Database, settings: PoolOptions) {
    super({
      application_name: "ampoule",
      idleTimeoutMillis: 30_000,
      types: PgStatement.types,
      // With `session`, a statement sets this; poolers refuse it here.
      ...(settings.session === undefined ? { options: "-c jit=off" } : {}),
      ...settings.connection,
      max: settings.size,
      connectionTimeoutMillis: settings.checkoutMillis,
      Client: class extends PgConnection.Connection {
        constructor(config?: Pg.ClientConfig) {
          super(database, config)
        }
      }
    })
    this.#database = database
    this.#settings = settings
    this.queue = new FairTurns.Queue({
      atOnce: settings.size,
      longAtOnce: Math.max(1, Math.floor(settings.size * shareOfTransactions)),
      waiting: maximumWaiting
    })
    // The pool drops a broken idle connection; without a listener the error would end the process.
    this.on("error", () => {})
    database.onSilence(() => this.#failAll())
  }

  #failAll() {
    this.#hangs = true
    this.queue.refuse()
    this.#hangs = false
  }

  override connect(): Promise<Pg.PoolClient>
  override connect(callback: Connected): void
  override connect(callback?: Connected): Promise<Pg.PoolClient> | void {
    if (callback !== undefined) return this.#join(callback)
    return new Promise((resolve, reject) =>
      this.#join((error, client) => (client === undefined ? reject(error) : resolve(client)))
    )
  }

  #join(answer: Connected) {
    const { checkoutMillis, queueMillis = checkoutMillis } = this.#settings
    const { inTransaction, request } = currentRequest()
    let timer: NodeJS.Timeout | undefined
    const turn: FairTurns.Turn = this.queue.join(
      request?.owner,
      (runs) => {
        clearTimeout(timer)
        // Next tick: `turn` is assigned by then.
        if (runs) process.nextTick(() => this.#checkOut(request, () => this.queue.leave(turn), answer))
        else answer(this.#hangs ? new QueryDeadlineExceeded() : new Busy(), undefined, noRelease)
      },
      inTransaction
    )
    if (turn.state === "waiting") timer = setTimeout(() => this.queue.refuse(turn), queueMillis)
  }

  #checkOut(request: RequestOrigin | undefined, onRelease: () => void, answer: Connected) {
    const { checkoutMillis, hosts } = this.#settings
    const startedAt = performance.now()
    let tries = hosts?.length ?? 1
    const attempt = () =>
      this.#database.findPrimary((failure) => {
        if (failure === undefined) return super.connect(onConnected)
        onRelease()
        // Without a primary, waiting requests would fail in the same way.
        this.#failAll()
        return answer(failure, undefined, noRelease)
      })
    const onConnected: Connected = (error, client, release) => {
      const elapsed = performance.now() - startedAt
      if (error !== undefined && --tries > 0 && elapsed < checkoutMillis / 2) return attempt()
      if (!(client instanceof PgConnection.Connection)) {
        onRelease()
        // The time limit is used up, so waiting requests would fail in the same way.
        if (elapsed >= checkoutMillis) this.#failAll()
        return answer(error, client, release)
      }
      if (client.stale) {
        release(true)
        return attempt()
      }
      client.assign(request, onRelease)
      return answer(error, client, release)
    }
    attempt()
  }
}

/** Marks requests for a transaction's connection. */
const withTransactionMark = <A extends SqlClient.SqlClient>(client: A): A => {
  const { withTransaction } = client
  return Object.assign(client, {
    withTransaction: <R, E, B>(self: Effect.Effect<B, E, R>) =>
      Effect.provideService(withTransaction(self), InTransaction, true)
  })
}

const acquirePool = (options: PoolOptions, database: Database): Effect.Effect<Pool, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => new Pool(database, options)),
    (pool) => Effect.promise(() => pool.end()).pipe(Effect.interruptible, Effect.timeoutOption("2 seconds"))
  ).pipe(
    Effect.tap((pool) =>
      Collectors.register(() =>
        Metrics.databasePool({
          total: pool.totalCount,
          idle: pool.idleCount,
          waiting: pool.queue.waiting + pool.waitingCount,
          size: options.size
        })
      )
    )
  )

/**
 * SqlClient on such a pool. Its database may be shared. Result columns are in camelCase; JSON documents are unchanged.
 */
export const layer = (
  options: PoolOptions,
  shared?: Database
): Layer.Layer<PgClient.PgClient | SqlClient.SqlClient | DatabaseEpoch, SqlError> =>
  Layer.scopedContext(
    Effect.gen(function* () {
      const database = shared ?? PgConnection.database(options)
      const pool = yield* acquirePool(options, database)
      const acquire = Effect.succeed(pool)
      const theirs = yield* PgClient.fromPool({
        acquire,
        transformResultNames: PgStatement.camel,
        transformJson: false
      })
      const client = withTransactionMark(PgDirect.make(theirs, pool))
      return Context.make(PgClient.PgClient, client).pipe(
        Context.add(SqlClient.SqlClient, client),
        Context.add(DatabaseEpoch, () => database.epoch)
      )
    })
  ).pipe(Layer.provide(Reactivity.layer))
