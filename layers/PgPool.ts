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
import * as PgStatement from "#layers/PgStatement.ts"
import type { Endpoint } from "#layers/PrivateConnection.ts"
import { DatabaseEpoch } from "#src/database/DatabaseEpoch.ts"
import { Busy } from "#src/database/Dependency.ts"
import { RequestInfo, type RequestOrigin } from "#src/database/RequestInfo.ts"
import * as FairTurns from "#src/limits/FairTurns.ts"
import * as Collectors from "#src/telemetry/Collectors.ts"
import * as Metrics from "#src/telemetry/Metrics.ts"

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

export interface PoolOptions extends Options {
  /** Connections at most. */
  readonly size: number
  /** How long a request may wait for a connection, in milliseconds; absent: as long as for a new one. */
  readonly queueMillis?: number
}

/** Set while a connection is reserved for a transaction. */
class InTransaction extends Context.Reference<InTransaction>()("layers/InTransaction", {
  defaultValue: () => false
}) {}

/** Connections that transactions leave to single statements: those who wait for a lock starve no reader. */
const shareOfTransactions = 0.6
/** Requests that wait for a connection, at most. */
const mostWaiting = 2_000

/** Who wants a connection: `pg.Pool` is asked within the fiber that wants one. */
const asking = () => {
  const services = Option.map(Fiber.getCurrentFiber(), (fiber) => fiber.currentContext.unsafeMap)
  const service = (key: string): unknown => Option.getOrUndefined(services)?.get(key)
  return {
    // The casts: what is kept under these keys.
    request: service(RequestInfo.key) as RequestOrigin | undefined,
    inTransaction: (service(InTransaction.key) as boolean | undefined) ?? false
  }
}

type Connected = (error: Error | undefined, client: Pg.PoolClient | undefined, release: PgConnection.Release) => void

const noRelease = () => {}

/**
 * Puts a fair queue before the pool, in which teams take turns. A connection that may lead to a server which takes no
 * writes any more goes, and so does one that could not be made: while there are other hosts, the one that leads is looked
 * for at once. When the server is found to hang, everybody who waits is told.
 */
const queued = (pool: Pg.Pool, database: Database, options: PoolOptions): FairTurns.Queue => {
  const { checkoutMillis, hosts, queueMillis = checkoutMillis, size } = options
  const queue = new FairTurns.Queue({
    atOnce: size,
    longAtOnce: Math.max(1, Math.floor(size * shareOfTransactions)),
    waiting: mostWaiting
  })
  let hangs = false
  const tellAll = () => {
    hangs = true
    queue.refuse()
    hangs = false
  }
  database.onSilence(tellAll)
  // `connect` is overloaded; both callers (sql-pg and pg-pool) use the callback form.
  const connect = pool.connect.bind(pool) as unknown as (answer: Connected) => void
  const checkOut = (request: RequestOrigin | undefined, left: () => void, answer: Connected) => {
    const asked = performance.now()
    let tries = hosts?.length ?? 1
    const attempt = () =>
      database.lead((nobody) => {
        if (nobody === undefined) return connect(given)
        left()
        // Nobody leads: who waits behind would only hear the same.
        tellAll()
        return answer(nobody, undefined, noRelease)
      })
    const given: Connected = (error, client, release) => {
      if (error !== undefined && --tries > 0 && performance.now() - asked < checkoutMillis / 2) return attempt()
      if (!(client instanceof PgConnection.Connection)) {
        left()
        // It took all the time that there is: who waits behind would only meet the same.
        if (performance.now() - asked >= checkoutMillis) tellAll()
        return answer(error, client, release)
      }
      if (client.stale) {
        release(true)
        return attempt()
      }
      client.given(request, left)
      return answer(error, client, release)
    }
    attempt()
  }
  Object.defineProperty(pool, "connect", {
    value: (answer: Connected) => {
      const { inTransaction, request } = asking()
      let timer: NodeJS.Timeout | undefined
      const turn: FairTurns.Turn = queue.join(
        request?.owner,
        (runs) => {
          clearTimeout(timer)
          // Next tick: `turn` is known by then.
          if (runs) process.nextTick(() => checkOut(request, () => queue.leave(turn), answer))
          else answer(hangs ? new QueryDeadlineExceeded() : new Busy(), undefined, noRelease)
        },
        inTransaction
      )
      if (turn.state === "waiting") timer = setTimeout(() => queue.refuse(turn), queueMillis)
    }
  })
  return queue
}

/** Marks what wants a connection for a transaction. */
const marked = <A extends SqlClient.SqlClient>(client: A): A => {
  const { withTransaction } = client
  return Object.assign(client, {
    withTransaction: <R, E, B>(self: Effect.Effect<B, E, R>) =>
      Effect.provideService(withTransaction(self), InTransaction, true)
  })
}

const acquirePool = (options: PoolOptions, database: Database): Effect.Effect<Pg.Pool, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const pool = new Pg.Pool({
        application_name: "ampoule",
        idleTimeoutMillis: 30_000,
        types: PgStatement.types,
        // A session that is settled by a statement has this from there: poolers refuse it here.
        ...(options.session === undefined ? { options: "-c jit=off" } : {}),
        ...options.connection,
        max: options.size,
        connectionTimeoutMillis: options.checkoutMillis,
        Client: class extends PgConnection.Connection {
          constructor(config?: Pg.ClientConfig) {
            super(database, config)
          }
        }
      })
      // An idle connection that breaks is dropped by the pool; without a listener it would end the process.
      pool.on("error", () => {})
      return { pool, queue: queued(pool, database, options) }
    }),
    ({ pool }) => Effect.promise(() => pool.end()).pipe(Effect.interruptible, Effect.timeoutOption("2 seconds"))
  ).pipe(
    Effect.tap(({ pool, queue }) =>
      Collectors.register(() =>
        Metrics.databasePool({
          total: pool.totalCount,
          idle: pool.idleCount,
          waiting: queue.waiting + pool.waitingCount,
          size: options.size
        })
      )
    ),
    Effect.map(({ pool }) => pool)
  )

/**
 * SqlClient over such a pool, of a database that others may know too. Result columns come back in camelCase; JSON documents
 * are left alone.
 */
export const layer = (
  options: PoolOptions,
  known?: Database
): Layer.Layer<PgClient.PgClient | SqlClient.SqlClient | DatabaseEpoch, SqlError> =>
  Layer.scopedContext(
    Effect.gen(function* () {
      const database = known ?? PgConnection.database(options)
      const pool = yield* acquirePool(options, database)
      const acquire = Effect.succeed(pool)
      const theirs = yield* PgClient.fromPool({
        acquire,
        transformResultNames: PgStatement.camel,
        transformJson: false
      })
      const client = marked(PgDirect.make(theirs, pool))
      return Context.make(PgClient.PgClient, client).pipe(
        Context.add(SqlClient.SqlClient, client),
        Context.add(DatabaseEpoch, () => database.epoch)
      )
    })
  ).pipe(Layer.provide(Reactivity.layer))
