/** The GET stream of a session: tells the client what changed, and that a person is done with a page. */
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"
import type { EventBus } from "#src/events/EventBus.ts"
import * as Housekeeping from "#src/Housekeeping.ts"
import { EventStream, type Out, streamScope } from "#src/http/EventStream.ts"
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
interface Beaten {
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

/** One clock for all streams of the process. */
export const keepAlive = ({ streaming }: Pick<StreamNeeds, "streaming">) => {
  let beats = 0
  const beat = Effect.sync(() => {
    beats += 1
    for (const stream of streaming.values()) {
      stream.beat()
      if (beats % beatsPerLook === 0) stream.look()
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
  #out: Out | undefined
  #waiting = ""
  #isOver = false
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

  #say(text: string) {
    if (this.#out === undefined) this.#waiting += text
    else this.#out.write(text)
  }

  #over() {
    this.#isOver = true
    this.#out?.end()
  }

  begin(out: Out) {
    this.#out = out
    // The headers leave with the first byte of the body.
    out.write(`: open\n\n${this.#waiting}`)
    this.#waiting = ""
    if (this.#isOver) out.end()
  }

  readonly tell = (change: Change) => this.#say(changeNotification(change))
  readonly beat = () => this.#say(": heartbeat\n\n")

  readonly end = (why: End) => {
    if (why !== "shutdown") this.#say(`retry: ${retryMillis}\n\n`)
    this.#over()
  }

  /** One look at a time; who asks during one gets another after it. */
  readonly look = () => {
    if (this.#isOver) return
    const isFree = this.#looking === "no"
    this.#looking = isFree ? "once" : "again"
    if (isFree) this.#needs.fork(this.#looks())
  }

  #looks(): Effect.Effect<void> {
    const { sessions } = this.#needs
    const once = Effect.gen(this, function* () {
      this.#looking = "once"
      const session = yield* sessions.find(this.#session, this.#principal)
      if (session === undefined) return this.#over()
      this.follow(session.subscriptions)
      const done = yield* sessions.completed(session)
      if (done.length > 0) this.#say(done.map(completionNotification).join(""))
    })
    return once.pipe(
      Effect.repeat({ while: () => this.#looking === "again" && !this.#isOver }),
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

/** What the stream listens to; gone when the scope closes. */
const listen = Effect.fnUntraced(function* (
  needs: StreamNeeds,
  { bearer, caller, principal, staged }: Listener,
  session: Session
) {
  const { bus, changes, streaming } = needs
  const teller = new Teller(needs, principal, session.id)
  yield* Effect.acquireRelease(
    Effect.sync(() => streaming.set(session.id, teller)),
    () => Effect.sync(() => streaming.delete(session.id))
  )
  yield* bus.listen(topic(session.id), teller.look)
  yield* bus.listen(answersTopic(caller.credentialId), teller.look)
  const { end, tell } = teller
  teller.follow = yield* changes.watch({ bearer, caller }, session.subscriptions, { staged, tell, end })
  // The person may have been done with a page before this stream.
  if (session.elicitations.length > 0) teller.look()
  return teller
})

/** One stream per session. */
export const open = Effect.fnUntraced(function* (needs: StreamNeeds, client: Listener, session: Session) {
  if (needs.streaming.has(session.id)) return rpcError(409, -32_000, "One stream per session")
  const { began, end, scope } = yield* streamScope
  const teller = yield* Scope.extend(listen(needs, client, session), scope)
  const events = new EventStream((out) => {
    began()
    teller.begin(out)
    return end
  })
  return HttpServerResponse.raw(events, {
    ...eventStream,
    headers: { ...eventStream.headers, [sessionHeader]: session.id }
  })
})
