/** The GET stream of a session: tells the client what changed, and that a person is done with a page. */
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import type { EventBus } from "#src/events/EventBus.ts"
import * as Housekeeping from "#src/Housekeeping.ts"
import { EventStream, type Hold, hold, type Out, Voice } from "#src/http/engine/EventStream.ts"
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

/** What the clock of all streams tells each of them. */
export interface Beaten {
  readonly beat: () => void
  /**
   * At its session, which was ended or follows other resources now, or whose person is done with a page; also now and
   * then, since a nudge can be lost, and that keeps the session from becoming idle.
   */
  readonly look: () => void
}

export interface StreamNeeds {
  readonly sessions: Sessions
  readonly changes: Changes
  readonly bus: EventBus["Type"]
  /** Streams that are open on this process, by session. */
  readonly streaming: Map<string, Beaten>
  /** Runs what a stream has to do now and then, in the service's own name. */
  readonly fork: (work: Effect.Effect<void>) => void
}

/** One clock for all streams of the process: those of sessions, and those that need none. */
export const keepAlive = ({
  listening,
  streaming
}: Pick<StreamNeeds, "streaming"> & { readonly listening: Set<Beaten> }) => {
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

/** `staged`: it has a list of tools that grows. */
interface Listener extends AuthenticatedClient {
  readonly staged: boolean
}

/**
 * What is said of one session, from the moment it is made: what comes before the answer began waits for it. Calls and no
 * fiber, since there are many streams.
 */
class Teller {
  readonly #voice = new Voice()
  #looking: "no" | "once" | "again" = "no"
  /** Replaces the resources that are watched. */
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
    this.#voice.begin(out, ": open\n\n")
  }

  readonly tell = (change: Change) => this.#voice.say(changeNotification(change))
  readonly beat = () => this.#voice.say(": heartbeat\n\n")

  readonly end = (why: End) => {
    if (why !== "shutdown") this.#voice.say(`retry: ${retryMillis}\n\n`)
    this.#voice.end()
  }

  /** One look at a time; who asks during one gets another after it. */
  readonly look = () => {
    if (this.#voice.isOver) return
    const isFree = this.#looking === "no"
    this.#looking = isFree ? "once" : "again"
    if (isFree) this.#needs.fork(this.#looks())
  }

  #looks(): Effect.Effect<void> {
    const { sessions } = this.#needs
    const once = Effect.gen(this, function* () {
      this.#looking = "once"
      const session = yield* sessions.find(this.#session, this.#principal)
      if (session === undefined) return this.#voice.end()
      this.follow(session.subscriptions)
      const done = yield* sessions.completed(session)
      if (done.length > 0) this.#voice.say(done.map(completionNotification).join(""))
    })
    return once.pipe(
      Effect.repeat({ while: () => this.#looking === "again" && !this.#voice.isOver }),
      // A database that is busy or away ends no stream: the next beats look again.
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

/** What the stream listens to, for as long as it is held. */
const listen = Effect.fnUntraced(function* (
  needs: StreamNeeds,
  { bearer, caller, principal, staged }: Listener,
  session: Session,
  hold: Hold
) {
  const { bus, changes, streaming } = needs
  const teller = new Teller(needs, principal, session.id)
  streaming.set(session.id, teller)
  hold.until(() => streaming.delete(session.id))
  hold.until(bus.listen(topic(session.id), teller.look))
  hold.until(bus.listen(answersTopic(caller.credentialId), teller.look))
  const { end, tell } = teller
  teller.follow = yield* changes.watch({ bearer, caller }, session.subscriptions, { hold, staged, tell, end })
  // The person may have been done with a page before this stream.
  if (session.elicitations.length > 0) teller.look()
  return teller
})

/** One stream per session. */
export const open = Effect.fnUntraced(function* (needs: StreamNeeds, client: Listener, session: Session) {
  if (needs.streaming.has(session.id)) return rpcError(409, -32_000, "One stream per session")
  const held = yield* hold
  const teller = yield* listen(needs, client, session, held)
  const events = new EventStream((out) => {
    held.began()
    teller.begin(out)
    return held.end
  })
  return HttpServerResponse.raw(events, {
    ...eventStream,
    headers: { ...eventStream.headers, [sessionHeader]: session.id }
  })
})
