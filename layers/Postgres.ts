/** A Postgres of the operator (`AMPOULE_DATABASE_URL`). */
import type { SqlError } from "@effect/sql/SqlError"
import * as SqlClient from "@effect/sql/SqlClient"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as EventBusPostgres from "#layers/EventBusPostgres.ts"
import { migrate } from "#layers/Migrations.ts"
import * as PgConnection from "#layers/PgConnection.ts"
import * as PgPool from "#layers/PgPool.ts"
import * as PostgresUrl from "#layers/PostgresUrl.ts"
import * as PrivateConnection from "#layers/PrivateConnection.ts"
import { isDatabaseUnavailable } from "#src/database/Dependency.ts"
import * as Rows from "#src/database/Rows.ts"
import { StartRefused } from "#src/AppConfig.ts"

export interface PostgresOptions {
  readonly url: Redacted.Redacted
  readonly poolSize: number
  /** Serve even if the database may lose acknowledged writes. */
  readonly unsafe: boolean
  /** Hosts that may be used without verified TLS; none by default. */
  readonly plaintextHosts?: ReadonlyArray<string>
  /** Timeout of a statement, in milliseconds. */
  readonly deadlineMillis?: number
  /** Longest wait of a query for a connection, in milliseconds. */
  readonly checkoutMillis?: number
  /** Longest wait of a query for its turn, in milliseconds. */
  readonly queueMillis?: number
  /** Longest wait for the database at the start. */
  readonly startWithin?: Duration.DurationInput
}

// Finds a hanging server within 3 s. A server that is only slow, or waits for a lock, has the time of a request
// (docs/contract/outages.md).
const SILENCE_MILLIS = 2_500
const CHECKOUT_MILLIS = 2_000
const QUEUE_MILLIS = 8_000
const DEADLINE_MILLIS = 10_000
const MIGRATION_MILLIS = 600_000

/** Of several hosts one must accept writes. A single host may be of any kind. */
export const hostsOf = (
  url: Redacted.Redacted
): Pick<PgPool.PoolOptions, "connection" | "hosts" | "session" | "readOnly"> => {
  // An address in another form was refused with the setting; `pg` handles everything else.
  const hosts = Option.getOrElse(PostgresUrl.addresses(Redacted.value(url)), () => [Redacted.value(url)])
  const connection = { keepAlive: true, keepAliveInitialDelayMillis: 5_000 }
  return { connection, hosts, session: {}, readOnly: hosts.length === 1 }
}

const poolOptions = (options: PostgresOptions): PgPool.PoolOptions => {
  const deadlineMillis = options.deadlineMillis ?? DEADLINE_MILLIS
  return {
    ...hostsOf(options.url),
    readOnly: false,
    // The server's limits are a little shorter than ours. A slow statement then costs no connection, and a transaction
    // whose client has vanished ends together with its locks.
    session: {
      statement_timeout: Math.max(1, deadlineMillis - 100),
      lock_timeout: Math.ceil(deadlineMillis / 2),
      idle_in_transaction_session_timeout: 10_000
    },
    size: options.poolSize,
    checkoutMillis: options.checkoutMillis ?? CHECKOUT_MILLIS,
    silenceMillis: SILENCE_MILLIS,
    queueMillis: options.queueMillis ?? QUEUE_MILLIS,
    deadlineMillis
  }
}

const migrationPool = (options: PostgresOptions): PgPool.PoolOptions => ({
  ...hostsOf(options.url),
  readOnly: false,
  session: { statement_timeout: 0, lock_timeout: 0, idle_in_transaction_session_timeout: 0 },
  size: 2,
  checkoutMillis: 5_000,
  deadlineMillis: MIGRATION_MILLIS
})

/** Code of the underlying error. Its text may hold an address or a user. */
const codeOf = (error: unknown): string => {
  for (let next = error; typeof next === "object" && next !== null; next = "cause" in next ? next.cause : undefined) {
    if ("code" in next && typeof next.code === "string") return next.code
  }
  return "no answer"
}

const refusals: ReadonlyMap<string, string> = new Map(
  Object.entries({
    "28P01": "Postgres refused the user or password of AMPOULE_DATABASE_URL.",
    "28000": "Postgres refused the user of AMPOULE_DATABASE_URL.",
    "3D000": "The database named in AMPOULE_DATABASE_URL does not exist. Create it first."
  })
)
const readOnly =
  "No host of AMPOULE_DATABASE_URL accepts writes: each is a standby, or read-only. Name the primary, or all hosts, separated by commas."

/** Waiting helps after an outage, not with a wrong password or certificate. */
const isTemporary = (error: SqlError) => !refusals.has(codeOf(error)) && isDatabaseUnavailable(error)

const cannotConnect = (error: SqlError) => {
  const code = codeOf(error)
  return new StartRefused({
    message:
      refusals.get(code) ??
      (code === "25006" ? readOnly : undefined) ??
      `Postgres (AMPOULE_DATABASE_URL) cannot be reached (${code}). Check the address, and that it is running.`
  })
}

const firstContact = (options: PostgresOptions) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* sql`SELECT 1`.pipe(
      Effect.tapError((error) =>
        isTemporary(error)
          ? Effect.logWarning(`Postgres cannot be reached yet (${codeOf(error)}); trying again`)
          : Effect.void
      ),
      Effect.retry({
        while: isTemporary,
        schedule: Schedule.exponential("250 millis").pipe(
          Schedule.union(Schedule.spaced("3 seconds")),
          Schedule.upTo(options.startWithin ?? "60 seconds")
        )
      }),
      Effect.mapError(cannotConnect)
    )
  })

/** Settings whose `off` lets Postgres lose acknowledged writes. */
export const lossySettings = (current: Record<"fsync" | "fullPageWrites" | "synchronousCommit", string>) => [
  ...(current.fsync === "off" ? ["fsync"] : []),
  ...(current.fullPageWrites === "off" ? ["full_page_writes"] : []),
  ...(current.synchronousCommit === "off" ? ["synchronous_commit"] : [])
]

const DurabilityRow = Schema.Struct({
  version: Schema.Number,
  fsync: Schema.String,
  fullPageWrites: Schema.String,
  synchronousCommit: Schema.String
})

/** Refuses a database that may lose acknowledged writes, unless a setting allows it. */
const checkDurability = (options: PostgresOptions) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const current = yield* Rows.decodeSingle(
      DurabilityRow,
      sql`
        SELECT current_setting('server_version_num')::int AS version, current_setting('fsync') AS fsync,
        current_setting('full_page_writes') AS full_page_writes, current_setting('synchronous_commit') AS synchronous_commit`
    )
    if (current.version < 140_000) {
      return yield* new StartRefused({ message: "Ampoule needs PostgreSQL 14 or newer." })
    }
    const off = lossySettings(current)
    if (off.length === 0) return
    const problem = `This Postgres may lose acknowledged writes: ${off.join(", ")} ${off.length === 1 ? "is" : "are"} off.`
    if (options.unsafe) return yield* Effect.logWarning(problem)
    return yield* new StartRefused({
      message: `${problem} Switch it on, or set AMPOULE_UNSAFE_DATABASE=allow to use it anyway.`
    })
  })

/**
 * Detects a pooler that shares sessions between transactions, which would lose notifications, settings and prepared
 * statements. Behind one, two connections share a server process, or one of them moves to another. Otherwise neither
 * can happen.
 */
const checkSessions = Effect.scoped(
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const connections = [yield* sql.reserve, yield* sql.reserve]
    const processes = Effect.forEach(connections, (connection) =>
      connection.executeValues("SELECT pg_backend_pid()", [])
    )
    const seen = new Set((yield* Effect.replicateEffect(processes, 3)).map((pids) => pids.join(" ")))
    const [one, two] = yield* processes
    if (seen.size === 1 && String(one) !== String(two)) return
    return yield* new StartRefused({
      message:
        "AMPOULE_DATABASE_URL leads to a pooler that shares sessions between transactions. Ampoule needs a session per connection: set that in the pooler (pgbouncer: pool_mode=session), or connect to Postgres directly."
    })
  })
)

/** Checks that the connection is protected, before anything is sent. */
export const privateConnection = ({ plaintextHosts, url }: Pick<PostgresOptions, "plaintextHosts" | "url">) =>
  PrivateConnection.required(
    "postgres",
    () => (hostsOf(url).hosts ?? []).map((connectionString) => PgPool.endpointOf({ connectionString })),
    plaintextHosts
  )

/** SqlClient and EventBus on a Postgres that is reachable, durable and migrated. */
export const layer = (options: PostgresOptions) =>
  Layer.unwrapEffect(
    Effect.all([firstContact(options), checkSessions, checkDurability(options)]).pipe(
      Effect.zipRight(migrate()),
      Effect.provide(PgPool.layer(migrationPool(options))),
      (start) => Effect.zipRight(privateConnection(options), start),
      Effect.map(() => {
        const serving = poolOptions(options)
        const database = PgConnection.database(serving)
        return EventBusPostgres.layer(database).pipe(Layer.provideMerge(PgPool.layer(serving, database)))
      })
    )
  )
