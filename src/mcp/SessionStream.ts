/** The GET stream of a session: tells the client what changed, and that a person is done with a page. */
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { EventBus } from "#src/events/EventBus.ts"
import type { Shutdown } from "#src/http/Shutdown.ts"
import { answersTopic } from "#src/secrets/ValueRequests.ts"
import { type Change, type Changes, retryMillis } from "./Changes.ts"
import type { AuthenticatedClient } from "./Credentials.ts"
import type { JsonObject } from "./Message.ts"
import { eventStream, rpcError, sessionHeader } from "./Message.ts"
import { type Session, type Sessions, topic } from "./Sessions.ts"

const heartbeat = "15 seconds"

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

export interface StreamNeeds {
  readonly sessions: Sessions
  readonly changes: Changes
  readonly bus: EventBus["Type"]
  readonly shutdown: Shutdown["Type"]
  /** Sessions with an open stream on this process. */
  readonly streaming: Set<string>
}

/** What the stream listens to; gone when the scope closes. */
const listen = Effect.fnUntraced(function* (
  { bus, changes, streaming }: StreamNeeds,
  { bearer, caller }: AuthenticatedClient,
  session: Session
) {
  yield* Effect.acquireRelease(
    Effect.sync(() => streaming.add(session.id)),
    () => Effect.sync(() => streaming.delete(session.id))
  )
  const nudges = Stream.merge(
    yield* bus.subscribe(topic(session.id)),
    yield* bus.subscribe(answersTopic(caller.credentialId))
  )
  return { nudges, watched: yield* changes.watch(caller, bearer, session.subscriptions) }
})

type Heard = Effect.Effect.Success<ReturnType<typeof listen>>

/**
 * Completed elicitations, for as long as the session lives. Looks at the session again when it was ended or follows
 * other resources now, and when a person is done with a page, which may have been before this stream. A stream that is
 * open also keeps the session from becoming idle.
 */
const completions = (
  { sessions }: StreamNeeds,
  { principal }: AuthenticatedClient,
  session: Session,
  { nudges, watched }: Heard
) =>
  Stream.concat(Stream.succeed(undefined), Stream.merge(nudges, Stream.fromSchedule(Schedule.spaced("1 minute")))).pipe(
    Stream.mapEffect(() => sessions.find(session.id, principal)),
    Stream.takeWhile((current): current is Session => current !== undefined),
    Stream.tap((current) => Effect.sync(() => watched.follow(current.subscriptions))),
    Stream.mapConcatEffect(sessions.completed),
    Stream.map(completionNotification)
  )

const lines = (needs: StreamNeeds, client: AuthenticatedClient, session: Session, heard: Heard) =>
  Stream.concat(
    // The headers leave with the first byte of the body.
    Stream.succeed(": open\n\n"),
    Stream.merge(
      Stream.concat(Stream.map(heard.watched.changes, changeNotification), Stream.succeed(`retry: ${retryMillis}\n\n`)),
      Stream.as(Stream.fromSchedule(Schedule.spaced(heartbeat)), ": heartbeat\n\n"),
      { haltStrategy: "left" }
    ).pipe(Stream.merge(completions(needs, client, session, heard), { haltStrategy: "either" }))
  )

/** One stream per session. */
export const open = Effect.fnUntraced(function* (needs: StreamNeeds, client: AuthenticatedClient, session: Session) {
  if (needs.streaming.has(session.id)) return rpcError(409, -32_000, "One stream per session")
  const { end, scope } = yield* streamScope
  const heard = yield* listen(needs, client, session).pipe(
    Effect.provideService(Scope.Scope, scope),
    Effect.tapError(() => end)
  )
  const events = Stream.interruptWhenDeferred(lines(needs, client, session, heard), needs.shutdown.deferred)
  return HttpServerResponse.stream(Stream.encodeText(Stream.ensuring(events, end)), {
    ...eventStream,
    headers: { ...eventStream.headers, [sessionHeader]: session.id }
  })
})
