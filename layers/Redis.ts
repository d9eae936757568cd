/**
 * Redis that may vanish at any time without delaying a request by more than `budgetMillis`. After some calls without an
 * answer no more are made, until a probe shows that it works again.
 *
 * Events between processes do not use it: they leave with their commit (`EventBusPostgres.ts`), and several processes
 * need Postgres anyway.
 */
import { Redis as Client } from "ioredis"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Runtime from "effect/Runtime"
import type * as Scope from "effect/Scope"
import type { Endpoint } from "#layers/PrivateConnection.ts"
import * as Housekeeping from "#src/Housekeeping.ts"
import * as Metrics from "#src/telemetry/Metrics.ts"

export interface Options {
  /** `redis://user:password@host:port/database`, or `rediss://` for TLS. */
  readonly url: Redacted.Redacted
  /** Tests whether Redis can do its job: a ping also succeeds with a read-only or full one. */
  readonly probe: (client: Client) => Promise<boolean>
}

export interface Redis {
  /** Result decoded by `read`; undefined when Redis is down, too slow, or returned something else. Never fails. */
  readonly ask: <A>(
    send: (client: Client) => Promise<unknown>,
    read: (reply: unknown) => A | undefined
  ) => Effect.Effect<A | undefined>
  readonly status: Effect.Effect<"up" | "down">
}

/** Milliseconds. Longest wait of a request for Redis. */
const budgetMillis = 50
/** Number of calls without a timely answer, and none with one, that mean an outage. */
const missesAllowed = 2
/** Longer than a request waits, since a slow moment of an idle connection is harmless. */
const heartbeatMillis = 500
const reconnectMillis = 250

/** Error code of Node or Redis (`ECONNREFUSED`, `NOAUTH`, `READONLY`). Messages may hold an address. */
const codeOf = (error: unknown): string => {
  if (!(error instanceof Error)) return "no answer"
  if ("code" in error && typeof error.code === "string") return error.code
  return /^([A-Z]{3,20}) /.exec(error.message)?.[1] ?? "no answer"
}

/** Target of a URL, and whether its certificate is checked. */
export const endpointOf = (url: Redacted.Redacted): Endpoint => {
  const { options } = new Client(Redacted.value(url), { lazyConnect: true })
  return { host: options.path ?? options.host ?? "", verified: Boolean(options.tls) }
}

const makeClient = (url: Redacted.Redacted) =>
  Effect.acquireRelease(
    Effect.sync(
      () =>
        new Client(Redacted.value(url), {
          connectTimeout: 1_000,
          // Waiting for the answers to these would block the connection forever if none came.
          disableClientInfo: true,
          // A peer that has vanished does not answer the closing of the connection.
          disconnectTimeout: 100,
          retryStrategy: () => reconnectMillis,
          enableReadyCheck: false,
          // No queue, because each caller has a fallback.
          enableOfflineQueue: false,
          autoResendUnfulfilledCommands: false,
          maxRetriesPerRequest: 0
        })
    ),
    (client) => Effect.sync(() => client.disconnect())
  )

/** Settles once: with the result of `call`, or with `late` after `millis`. Returns a function that cancels it. */
const within = (
  millis: number,
  call: () => Promise<unknown>,
  on: { readonly reply: (reply: unknown) => void; readonly error: (error: unknown) => void; readonly late: () => void }
) => {
  let open = true
  const once = (settle: () => void) => {
    if (!open) return
    open = false
    clearTimeout(timer)
    settle()
  }
  // The answer may have arrived while the event loop was blocked: read the sockets first.
  const timer = setTimeout(() => setImmediate(() => setImmediate(() => once(on.late))), millis)
  call().then(
    (reply) => once(() => on.reply(reply)),
    (error: unknown) => once(() => on.error(error))
  )
  return () => once(() => {})
}

/** State of one connection: a mutable record that its functions share. */
interface Connection {
  readonly client: Client
  readonly probe: Options["probe"]
  readonly log: (message: Effect.Effect<void>) => void
  /** Completed when Redis works for the first time. */
  readonly first: Deferred.Deferred<void>
  up: boolean
  /** True when the log shows the present state. */
  isLogged: boolean
  misses: number
  lastError: unknown
  closing: boolean
}

const goUp = (connection: Connection) => {
  connection.misses = 0
  if (connection.up) return
  connection.up = true
  Metrics.cacheUp(true)
  Deferred.unsafeDone(connection.first, Effect.void)
  if (!connection.isLogged) connection.log(Effect.logInfo("Redis answers again: rate limits are shared again"))
  connection.isLogged = true
}

const say = (connection: Connection, reason: string) => {
  connection.isLogged = false
  connection.log(
    Effect.logWarning(`Redis is down (${reason}): rate limits are counted in this process until it is back`)
  )
}

const goDown = (connection: Connection, reason: string) => {
  if (!connection.up || connection.closing) return
  connection.up = false
  Metrics.cacheUp(false)
  say(connection, reason)
}

/** Replaces a connection that was late once: it may be stuck, or out of step, and a new one is cheap. */
const replace = ({ client }: Connection) => client.status === "ready" && client.disconnect(true)

const probe = (connection: Connection) =>
  Effect.async<void>((resume) => {
    const { client } = connection
    if (client.status !== "ready") {
      goDown(connection, codeOf(connection.lastError))
      return resume(Effect.void)
    }
    const bad = (reason: string) => {
      goDown(connection, reason)
      replace(connection)
      resume(Effect.void)
    }
    return Effect.sync(
      within(connection.up ? heartbeatMillis : budgetMillis, () => connection.probe(client), {
        reply: (works) => {
          if (works !== true) return bad("wrong answer")
          goUp(connection)
          resume(Effect.void)
        },
        error: (error) => {
          connection.lastError = error
          bad(codeOf(error))
        },
        late: () => bad("no answer")
      })
    )
  })

const ask = <A>(
  connection: Connection,
  send: (client: Client) => Promise<unknown>,
  read: (reply: unknown) => A | undefined
): Effect.Effect<A | undefined> =>
  Effect.async((resume) => {
    if (!connection.up) return resume(Effect.succeed(undefined))
    const without = (outcome: "error" | "late") => {
      Metrics.cacheCall(outcome)
      resume(Effect.succeed(undefined))
    }
    return Effect.sync(
      within(budgetMillis, () => send(connection.client), {
        reply: (reply) => {
          const answer = read(reply)
          if (answer === undefined) {
            goDown(connection, "wrong answer")
            return without("error")
          }
          connection.misses = 0
          Metrics.cacheCall("ok")
          resume(Effect.succeed(answer))
        },
        error: (error) => {
          goDown(connection, codeOf(error))
          without("error")
        },
        late: () => {
          if (++connection.misses > missesAllowed) {
            goDown(connection, "no answer")
            replace(connection)
          }
          without("late")
        }
      })
    )
  })

/** Waits briefly for Redis and continues without it, since the start does not need it. */
export const make = (options: Options): Effect.Effect<Redis, never, Scope.Scope> =>
  Effect.gen(function* () {
    const client = yield* makeClient(options.url)
    const fork = Runtime.runFork(yield* Effect.runtime<never>())
    const connection: Connection = {
      client,
      probe: options.probe,
      log: (message) => void fork(message),
      first: yield* Deferred.make<void>(),
      up: false,
      isLogged: true,
      misses: 0,
      lastError: undefined,
      closing: false
    }
    yield* Effect.addFinalizer(() => Effect.sync(() => (connection.closing = true)))

    // `say` logs connection errors; without a listener they would be printed with the address.
    client.on("error", (error: unknown) => (connection.lastError = error))
    client.on("close", () => goDown(connection, codeOf(connection.lastError)))
    client.on("ready", () => fork(probe(connection)))
    yield* Housekeeping.every("500 millis", probe(connection))

    yield* Effect.timeoutOption(Deferred.await(connection.first), "1 second").pipe(Effect.withClock(Clock.make()))
    if (!connection.up) {
      Metrics.cacheUp(false)
      say(connection, codeOf(connection.lastError))
    }
    return {
      ask: (send, read) => ask(connection, send, read),
      status: Effect.sync(() => (connection.up ? "up" : "down"))
    }
  })
