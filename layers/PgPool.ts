import * as PgClient from "@effect/sql-pg/PgClient"
import type * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Str from "effect/String"
import * as Pg from "pg"
import * as PgConnection from "#layers/PgConnection.ts"
import type { Endpoint } from "#layers/PrivateConnection.ts"
import * as Collectors from "#src/telemetry/Collectors.ts"
import * as Metrics from "#src/telemetry/Metrics.ts"

const camelNames = new Map<string, string>()
const camel = (name: string) => {
  let known = camelNames.get(name)
  if (known === undefined) camelNames.set(name, (known = Str.snakeToCamel(name)))
  return known
}

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

export interface PoolOptions extends PgConnection.Options {
  /** Connections at most. */
  readonly size: number
}

type Connected = (error: Error | undefined, client: Pg.PoolClient | undefined, release: PgConnection.Release) => void

/**
 * Tells each connection how long its next user waited for it. One that may lead to a server which takes no writes any
 * more goes, and so does one that could not be made: while there are other hosts, the next one is tried at once.
 */
const telling = (pool: Pg.Pool, { checkoutMillis, hosts }: PoolOptions): Pg.Pool => {
  // `connect` is overloaded; both callers (sql-pg and pg-pool) use the callback form.
  const connect = pool.connect.bind(pool) as unknown as (answer: Connected) => void
  Object.defineProperty(pool, "connect", {
    value: (answer: Connected) => {
      const asked = performance.now()
      let tries = hosts?.length ?? 1
      const checkOut = () =>
        connect((error, client, release) => {
          const waited = performance.now() - asked
          if (error !== undefined && --tries > 0 && waited < checkoutMillis / 2) return checkOut()
          if (client instanceof PgConnection.Connection) {
            if (client.stale) {
              release(true)
              return checkOut()
            }
            client.waited = waited
          }
          return answer(error, client, release)
        })
      checkOut()
    }
  })
  return pool
}

export const acquirePool = (options: PoolOptions): Effect.Effect<Pg.Pool, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const database = new PgConnection.Database(options)
      const pool = new Pg.Pool({
        application_name: "ampoule",
        idleTimeoutMillis: 30_000,
        types: PgConnection.types,
        // To compile a statement takes a second; none of ours runs that long.
        options: "-c jit=off",
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
      return telling(pool, options)
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
