/** The GET stream of a session: tells the client what changed, and that a person is done with a page. */
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { EventBus } from "#src/events/EventBus.ts"
import * as Housekeeping from "#src/Housekeeping.ts"
import { answersTopic } from "#src/secrets/ValueRequests.ts"
import { type Change, type Changes, type End, retryMillis } from "./Changes.ts"
import type { AuthenticatedClient } from "./Credentials.ts"
import type { JsonObject } from "./Message.ts"
import { eventStream, rpcError, sessionHeader } from "./Message.ts"
import { type Session, type Sessions, topic } from "./Sessions.ts"

const heartbeat = "15 seconds"
/** Heartbeats from one look at the session to the next. */
const beatsPerLook = 4

const notification = (method: string, params?: JsonObject): string => {
  const message = { jsonrpc: "2.0", method, ...(params === undefined ? {} : { params }) }
  return `event: message\ndata: ${JSON.stringify(message)}\n\n`
}

const changeNotification = (change: Change): string =>
  change.kind === "resource"
    ? notification("notifications/resources/updated", { uri: change.uri })
    : notification(`notifications/${change.kind}/list_changed`)

/** For the client that was sent to the page, and no other (2025-11-25, elicitation). */
const completionNotification = (elicitationId: string): string =>
  notification("notifications/elicitation/complete", { elicitationId })

/** A scope for what a stream holds: closed when the stream ends, and with the request when it never began. */
export const streamScope = Effect.gen(function* () {
  const scope = yield* Scope.make()
  const end = Scope.close(scope, Exit.void)
  yield* Effect.addFinalizer(() => end)
  return { scope, end }
})

/**
 * What a stream does next. `look`: at its session, which was ended or follows other resources now, or whose person is
 * done with a page; also now and then, since a nudge can be lost, and that keeps the session from becoming idle.
 */
type Signal = Change | { readonly kind: "beat" | "look" } | { readonly kind: "end"; readonly why: End }
type Offer = (signal: Signal) => void

export interface StreamNeeds {
  readonly sessions: Sessions
  readonly changes: Changes
  readonly bus: EventBus["Type"]
  /** Streams that are open on this process, by session. */
  readonly streaming: Map<string, Offer>
}

/** One clock for all streams of the process. */
export const keepAlive = ({ streaming }: Pick<StreamNeeds, "streaming">) => {
  let beats = 0
  const beat = Effect.sync(() => {
    beats += 1
    for (const offer of streaming.values()) {
      offer({ kind: "beat" })
      if (beats % beatsPerLook === 0) offer({ kind: "look" })
    }
  })
  return Housekeeping.every(heartbeat, beat)
}

/** `staged`: it has a list of tools that grows. */
interface Listener extends AuthenticatedClient {
  readonly staged: boolean
}

/** What the stream listens to; gone when the scope closes. One queue and no fiber, since there are many streams. */
const listen = Effect.fnUntraced(function* (
  { bus, changes, streaming }: StreamNeeds,
  { bearer, caller, staged }: Listener,
  session: Session
) {
  // Of more than these only the latest count; an end is the last of all.
  const queue = yield* Queue.sliding<Signal>(64)
  const offer: Offer = (signal) => void queue.unsafeOffer(signal)
  const lookAgain = () => offer({ kind: "look" })
  yield* Effect.acquireRelease(
    Effect.sync(() => streaming.set(session.id, offer)),
    () => Effect.sync(() => streaming.delete(session.id))
  )
  yield* bus.listen(topic(session.id), lookAgain)
  yield* bus.listen(answersTopic(caller.credentialId), lookAgain)
  const sink = { staged, tell: offer, end: (why: End) => offer({ kind: "end", why }) }
  const follow = yield* changes.watch({ bearer, caller }, session.subscriptions, sink)
  // The person may have been done with a page before this stream.
  if (session.elicitations.length > 0) lookAgain()
  return { queue, follow }
})

type Heard = Effect.Effect.Success<ReturnType<typeof listen>>

/** What the client reads next; none: the stream is over. */
const lines = (
  { sessions }: StreamNeeds,
  { principal }: AuthenticatedClient,
  session: Session,
  { follow, queue }: Heard
) => {
  let isOver = false
  const look = Effect.gen(function* () {
    const current = yield* sessions.find(session.id, principal)
    if (current === undefined) return Option.none<string>()
    follow(current.subscriptions)
    return Option.some((yield* sessions.completed(current)).map(completionNotification).join(""))
  })
  const textOf = (signal: Signal) => {
    switch (signal.kind) {
      case "beat":
        return Effect.succeedSome(": heartbeat\n\n")
      case "look":
        return look
      case "end":
        isOver = true
        return Effect.succeed(signal.why === "shutdown" ? Option.none() : Option.some(`retry: ${retryMillis}\n\n`))
      default:
        return Effect.succeedSome(changeNotification(signal))
    }
  }
  const next = Effect.suspend(() => (isOver ? Effect.succeedNone : Effect.flatMap(Queue.take(queue), textOf)))
  return Stream.concat(
    // The headers leave with the first byte of the body.
    Stream.succeed(": open\n\n"),
    Stream.filter(
      Stream.repeatEffectOption(Effect.flatten(next).pipe(Effect.mapError(() => Option.none()))),
      (text) => text !== ""
    )
  )
}

/** One stream per session. */
export const open = Effect.fnUntraced(function* (needs: StreamNeeds, client: Listener, session: Session) {
  if (needs.streaming.has(session.id)) return rpcError(409, -32_000, "One stream per session")
  const { end, scope } = yield* streamScope
  const heard = yield* listen(needs, client, session).pipe(
    Effect.provideService(Scope.Scope, scope),
    Effect.tapError(() => end)
  )
  const events = lines(needs, client, session, heard)
  return HttpServerResponse.stream(Stream.encodeText(Stream.ensuring(events, end)), {
    ...eventStream,
    headers: { ...eventStream.headers, [sessionHeader]: session.id }
  })
})
