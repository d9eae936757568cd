/** The GET stream of a session: notifies the client of changes, and of pages that a person completed. */
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import type { EventBus } from "#src/events/EventBus.ts"
import * as Housekeeping from "#src/Housekeeping.ts"
import { EventStream, type Hold, hold, type Out, StreamWriter } from "#src/http/engine/EventStream.ts"
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

/** Only for the client whose person was sent to the page (2025-11-25, elicitation). */
const completionNotification = (elicitationId: string): string =>
  notification("notifications/elicitation/complete", { elicitationId })

/** Calls that the common clock makes on each stream. */
export interface HeartbeatTarget {
  readonly beat: () => void
  /**
   * Checks whether the session ended, follows other resources, or has a completed page. Also called regularly, because
   * a nudge can be lost, and because the look keeps the session from becoming idle.
   */
  readonly look: () => void
}

export interface StreamNeeds {
  readonly sessions: Sessions
  readonly changes: Changes
  readonly bus: EventBus["Type"]
  /** Open streams of this process, by session. */
  readonly streaming: Map<string, HeartbeatTarget>
  /** Runs background work of a stream. */
  readonly fork: (work: Effect.Effect<void>) => void
}

/** One clock for all streams of the process, with and without a session. */
export const keepAlive = ({
  listening,
  streaming
}: Pick<StreamNeeds, "streaming"> & { readonly listening: Set<HeartbeatTarget> }) => {
  let beats = 0
  const beat = Effect.sync(() => {
    beats += 1
    for (const streams of [streaming.values(), listening]) {
      for (const stream of streams) {
        stream.beat()
        if (beats % beatsPerLook === 0) stream.look()
      }
    }
  })
  return Housekeeping.every(heartbeat, beat)
}

/** `staged` means that the client's list of tools grows with its scopes. */
interface Listener extends AuthenticatedClient {
  readonly staged: boolean
}

/**
 * Writes the notifications of one session. Text from before the response began waits for its start. Uses calls and no
 * fiber, because a process has many streams.
 */
class SessionNotifier {
  readonly #writer = new StreamWriter()
  #looking: "no" | "once" | "again" = "no"
  /** Replaces the watched resources. */
  follow: (uris: ReadonlyArray<string>) => void = () => undefined
  readonly #needs: StreamNeeds
  readonly #principal: string
  readonly #session: string

  constructor(needs: StreamNeeds, principal: string, session: string) {
    this.#needs = needs
    this.#principal = principal
    this.#session = session
  }

  begin(out: Out) {
    this.#writer.begin(out, ": open\n\n")
  }

  readonly tell = (change: Change) => this.#writer.write(changeNotification(change))
  readonly beat = () => this.#writer.write(": heartbeat\n\n")

  readonly end = (why: End) => {
    if (why !== "shutdown") this.#writer.write(`retry: ${retryMillis}\n\n`)
    this.#writer.end()
  }

  /** Runs one look at a time. A call during a look causes another one after it. */
  readonly look = () => {
    if (this.#writer.isOver) return
    const isFree = this.#looking === "no"
    this.#looking = isFree ? "once" : "again"
    if (isFree) this.#needs.fork(this.#looks())
  }

  #looks(): Effect.Effect<void> {
    const { sessions } = this.#needs
    const once = Effect.gen(this, function* () {
      this.#looking = "once"
      const session = yield* sessions.find(this.#session, this.#principal)
      if (session === undefined) return this.#writer.end()
      this.follow(session.subscriptions)
      const completedIds = yield* sessions.completed(session)
      if (completedIds.length > 0) this.#writer.write(completedIds.map(completionNotification).join(""))
    })
    return once.pipe(
      Effect.repeat({ while: () => this.#looking === "again" && !this.#writer.isOver }),
      // A busy or missing database ends no stream, because the next beats look again.
      Effect.catchAllCause(() => Effect.logDebug("A stream's look at its session failed.")),
      Effect.asVoid,
      Effect.ensuring(
        Effect.sync(() => {
          this.#looking = "no"
        })
      )
    )
  }
}

/** Subscribes the stream to its sources until it is released. */
const listen = Effect.fnUntraced(function* (
  needs: StreamNeeds,
  { bearer, caller, principal, staged }: Listener,
  session: Session,
  hold: Hold
) {
  const { bus, changes, streaming } = needs
  const notifier = new SessionNotifier(needs, principal, session.id)
  streaming.set(session.id, notifier)
  hold.until(() => streaming.delete(session.id))
  hold.until(bus.listen(topic(session.id), notifier.look))
  hold.until(bus.listen(answersTopic(caller.credentialId), notifier.look))
  const { end, tell } = notifier
  notifier.follow = yield* changes.watch({ bearer, caller }, session.subscriptions, { hold, staged, tell, end })
  // The person may have completed a page before this stream opened.
  if (session.elicitations.length > 0) notifier.look()
  return notifier
})

/** One stream per session. */
export const open = Effect.fnUntraced(function* (needs: StreamNeeds, client: Listener, session: Session) {
  if (needs.streaming.has(session.id)) return rpcError(409, -32_000, "One stream per session")
  const streamHold = yield* hold
  const notifier = yield* listen(needs, client, session, streamHold)
  const events = new EventStream((out) => {
    streamHold.began()
    notifier.begin(out)
    return streamHold.end
  })
  return HttpServerResponse.raw(events, {
    ...eventStream,
    headers: { ...eventStream.headers, [sessionHeader]: session.id }
  })
})
