/** The event stream of a device code: `connected`, then the decision. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import type { DeviceEvent } from "#schema/DeviceApi.ts"
import { RateLimited } from "#schema/Errors.ts"
import type { EventBus } from "#src/events/EventBus.ts"
import * as DeviceRequests from "./DeviceRequests.ts"

/** What an open stream sends: an event, or a comment. */
export type DeviceSignal = DeviceEvent | "heartbeat"

/** Comments that keep proxies from closing a silent stream. */
const heartbeat = Duration.seconds(15)
/** How often an open stream looks for itself, should a notification get lost on its way from another process. */
const backstop = Duration.seconds(10)

/** Open streams of one code, and of all in one process; a device that finds no room polls. */
export const maxStreamsEach = 4
const maxStreams = 1_000

/** Streams that are open in this process, by request: anybody can have a code, and each stream costs look-ups. */
export const openStreams = () => {
  const byRequest = new Map<string, number>()
  let total = 0
  const isFull = (id: string) => total >= maxStreams || (byRequest.get(id) ?? 0) >= maxStreamsEach
  const take = (id: string): boolean => {
    if (isFull(id)) return false
    byRequest.set(id, (byRequest.get(id) ?? 0) + 1)
    total++
    return true
  }
  const release = (id: string): void => {
    const others = (byRequest.get(id) ?? 1) - 1
    if (others === 0) byRequest.delete(id)
    else byRequest.set(id, others)
    total--
  }
  return { isFull, take, release }
}

interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly bus: typeof EventBus.Service
  readonly streams: ReturnType<typeof openStreams>
}

const topic = (id: string) => `device:${id}`

/** The decision is made whether or not this reaches the stream, which also looks for itself. */
export const announce = ({ bus }: Pick<Needs, "bus">, id: string) =>
  Effect.catchAllDefect(bus.publish(topic(id)), () => Effect.void)

const decisionOf = (needs: Needs, id: string) =>
  Effect.map(DeviceRequests.byId(needs, id), (row): Option.Option<DeviceEvent> =>
    row === undefined || row.status === "pending"
      ? Option.none()
      : Option.some({ event: row.status, ...(row.decidedByEmail === null ? {} : { email: row.decidedByEmail }) })
  )

/** Listening starts before the first look, so that no decision falls between the two. */
const decision = (needs: Needs, id: string, left: Duration.Duration) =>
  Stream.unwrapScoped(
    Effect.map(needs.bus.subscribe(topic(id)), (notified) =>
      Stream.merge(notified, Stream.fromSchedule(Schedule.spaced(backstop))).pipe(
        Stream.mapEffect(() => decisionOf(needs, id)),
        (later) => Stream.concat(Stream.fromEffect(decisionOf(needs, id)), later),
        Stream.filterMap((decided) => decided),
        Stream.take(1),
        Stream.interruptAfter(left)
      )
    )
  )

/** `connected`, then the decision, comments in between. Ends after the decision, and silently when the code expires. */
export const events = Effect.fn("DeviceGrants.events")(function* (needs: Needs, deviceCode: Redacted.Redacted) {
  const { streams } = needs
  const { expiresAt, id } = yield* DeviceRequests.live(needs, deviceCode)
  if (streams.isFull(id)) return yield* new RateLimited({ retryAfterSeconds: DeviceRequests.pollIntervalSeconds })
  const left = Duration.millis(Math.max(0, expiresAt.getTime() - (yield* Clock.currentTimeMillis)))
  const comments = Stream.as(Stream.fromSchedule(Schedule.spaced(heartbeat)), "heartbeat" as const)
  const connected: DeviceEvent = { event: "connected" }
  const signals: Stream.Stream<DeviceSignal> = Stream.concat(
    Stream.make(connected),
    Stream.merge(decision(needs, id, left), comments, { haltStrategy: "left" })
  )
  // Counted when it begins, so that an answer that the client never reads holds nothing.
  const taken = Effect.acquireRelease(
    Effect.sync(() => streams.take(id)),
    (isTaken) => Effect.sync(() => (isTaken ? streams.release(id) : undefined))
  )
  return Stream.unwrapScoped(Effect.map(taken, (isTaken) => (isTaken ? signals : Stream.empty)))
})
