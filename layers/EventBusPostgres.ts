/**
 * Notifications between processes that share a Postgres: LISTEN on a dedicated connection, which is checked and
 * replaced. sql-pg's own `listen` never notices a lost connection.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Runtime from "effect/Runtime"
import * as Schedule from "effect/Schedule"
import * as EventBusMemory from "#layers/EventBusMemory.ts"
import * as PgConnection from "#layers/PgConnection.ts"
import type { Database } from "#layers/PgDatabase.ts"
import { DependencyDown } from "#src/database/Dependency.ts"
import { EventBus } from "#src/events/EventBus.ts"

const CHANNEL = "ampoule_events"

const lost = (cause: unknown) => new DependencyDown({ dependency: "database", cause })

/** Listens until the connection is lost, then fails. */
const listen = (
  database: Database,
  hub: ReturnType<typeof EventBusMemory.makeHub>,
  listening: Effect.Effect<unknown>
) =>
  Effect.scoped(
    Effect.gen(function* () {
      const runFork = Runtime.runFork(yield* Effect.runtime())
      const answered = (ask: (answer: (cause?: Error | null) => void) => void) =>
        Effect.async<void, DependencyDown>((resume) => ask((cause) => resume(cause ? lost(cause) : Effect.void)))
      yield* answered((answer) => database.findPrimary(answer))
      const ended = yield* Deferred.make<never, DependencyDown>()
      const client = yield* Effect.acquireRelease(
        Effect.sync(() => {
          const client = PgConnection.make(database)
          const end = (cause?: unknown) => void Deferred.unsafeDone(ended, lost(cause))
          client.on("error", end)
          client.on("end", () => end())
          client.on("notification", ({ payload }) => {
            if (payload !== undefined) runFork(hub.publish(payload))
          })
          return client
        }),
        (client) => Effect.sync(() => client.abandon())
      )
      const query = (text: string) => answered((answer) => client.query(text, answer))
      yield* answered((answer) => client.connect(answer))
      yield* query(`LISTEN ${CHANNEL}`)
      yield* listening
      // Notifications are lost without a listener, so every subscriber checks again.
      yield* hub.publishAll
      // A silently vanished peer only shows at the next query, whose deadline then ends the connection.
      const pings = Effect.forever(Effect.delay(query("SELECT 1"), "5 seconds"))
      return yield* Effect.raceFirst(Deferred.await(ended), pings)
    })
  )

/** Uses the same Postgres as the SqlClient. */
export const layer = (database: Database): Layer.Layer<EventBus, never, SqlClient.SqlClient> =>
  Layer.scoped(
    EventBus,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const hub = EventBusMemory.makeHub()
      const first = yield* Deferred.make<void>()
      yield* listen(database, hub, Deferred.succeed(first, undefined)).pipe(
        Effect.tapErrorCause(() => Effect.logWarning("Notifications from Postgres are interrupted; reconnecting")),
        Effect.retry(
          Schedule.exponential("200 millis").pipe(
            Schedule.union(Schedule.spaced("5 seconds")),
            Schedule.jittered,
            Schedule.resetAfter("30 seconds")
          )
        ),
        Effect.forkScoped
      )
      // Subscribers start after this process listens. A database that is unreachable must not delay the start.
      yield* Effect.timeoutOption(Deferred.await(first), "5 seconds")
      return {
        // Inside a transaction, Postgres sends it with the commit.
        publish: (topic) => Effect.orDie(Effect.asVoid(sql`SELECT pg_notify(${CHANNEL}, ${topic})`)),
        subscribe: hub.subscribe,
        listen: hub.listen
      }
    })
  )
