/**
 * The endpoint `/mcp`: who may come in, and what they bring, is decided here, before either SDK sees a byte. In order:
 * host and origin, credential, rate, size and shape, scope; then the revision of the protocol answers (mcp 3).
 */
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { isLegacyRequest, type ServerEvent } from "@modelcontextprotocol/server"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Runtime from "effect/Runtime"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { isApiError, statusOf } from "#schema/ApiError.ts"
import { type Caller, CurrentCaller } from "#schema/Caller.ts"
import { PayloadTooLarge, type RateLimited } from "#schema/Errors.ts"
import { Audit } from "#src/access/Audit.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import { EventBus } from "#src/events/EventBus.ts"
import { countAddress } from "#src/http/AddressLimit.ts"
import { countUse, recordRefusal } from "#src/http/CredentialUse.ts"
import { judge } from "#src/http/ErrorEnvelope.ts"
import { CurrentExchange } from "#src/http/RequestContext.ts"
import { Shutdown } from "#src/http/Shutdown.ts"
import { RateLimiter } from "#src/limits/RateLimiter.ts"
import { isLoopbackHost } from "#src/net/Loopback.ts"
import { answersTopic } from "#src/secrets/ValueRequests.ts"
import { type Change, Changes, retryMillis, teamOf } from "./Changes.ts"
import { type Challenge, Credentials, lacksScopes, missingScopes, nothingPresented } from "./Credentials.ts"
import * as Legacy from "./Legacy.ts"
import * as Modern from "./Modern.ts"
import { Protocol } from "./Protocol.ts"
import { type Session, Sessions, topic } from "./Sessions.ts"

const maxBody = 1024 * 1024
/** Elements and levels of a message: parsing is cheap, what follows is not (GHSA-f897-62hf-6gxq). */
const maxElements = 4_000
const maxDepth = 32
/** Batches exist in one revision, which a few clients still speak; later ones have none. */
const maxBatch = 20
const batchRevision = "2025-03-26"

type Response = HttpServerResponse.HttpServerResponse

const sessionHeader = "mcp-session-id"
const allow = "GET, POST, DELETE"

const rpcError = (
  status: number,
  code: number,
  message: string,
  options: { readonly headers?: Record<string, string>; readonly data?: unknown } = {}
): Response =>
  HttpServerResponse.unsafeJson(
    {
      jsonrpc: "2.0",
      error: { code, message, ...(options.data === undefined ? {} : { data: options.data }) },
      id: null
    },
    { status, headers: options.headers ?? {} }
  )

/** Whether the value has more elements or levels than a message has. Iterative: the input decides the depth. */
const isTooBig = (value: unknown): boolean => {
  const pending: Array<readonly [unknown, number]> = [[value, 1]]
  let elements = 0
  while (pending.length > 0) {
    const [next, depth] = pending.pop() ?? [undefined, 0]
    if (typeof next !== "object" || next === null) continue
    if (depth > maxDepth) return true
    const members: ReadonlyArray<unknown> = Array.isArray(next) ? next : Object.values(next)
    elements += members.length
    if (elements > maxElements) return true
    for (const member of members) pending.push([member, depth + 1])
  }
  return false
}

type JsonObject = { readonly [member: string]: unknown }
const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)
const memberOf = (value: unknown, name: string): unknown => (isObject(value) ? value[name] : undefined)
/** What comes back is one or the other, as the answer needs. */
const acceptsBoth = (accept: string | undefined): boolean =>
  accept !== undefined &&
  (accept.includes("*/*") || (accept.includes("application/json") && accept.includes("text/event-stream")))
const mediaType = /^\s*application\/json\s*(?:;|$)/i

/** `Host` and `Origin` that a request to this address can have (CVE-2025-66414): a name that was rebound has another. */
const guard = (baseUrl: string) => {
  const base = new URL(baseUrl)
  const local = isLoopbackHost(base.hostname)
  const hostnameOf = (text: string): URL | undefined => (URL.canParse(text) ? new URL(text) : undefined)
  const isHost = (header: string | undefined): boolean => {
    if (header === undefined || !/^[\w.:[\]-]{1,255}$/.test(header)) return false
    const hostname = hostnameOf(`http://${header}`)?.hostname
    return hostname !== undefined && (hostname === base.hostname || (local && isLoopbackHost(hostname)))
  }
  /** A page on the same machine is as trusted as a program on it; any other page must be of this very origin. */
  const isOrigin = (header: string | undefined): boolean => {
    if (header === undefined || header === base.origin) return true
    const origin = hostnameOf(header)
    return origin !== undefined && origin.origin === header && local && isLoopbackHost(origin.hostname)
  }
  return { isHost, isOrigin }
}

const allowedHeaders = [
  "authorization",
  "content-type",
  "accept",
  "last-event-id",
  "mcp-protocol-version",
  sessionHeader,
  "mcp-method",
  "mcp-name",
  "mcp-param-project",
  "mcp-param-environment"
].join(", ")

const cors = (origin: string): Record<string, string> => ({
  "access-control-allow-origin": origin,
  vary: "origin",
  "access-control-expose-headers": "WWW-Authenticate, Mcp-Session-Id, Retry-After"
})

const heartbeat = "15 seconds"
const eventStream = {
  contentType: "text/event-stream",
  headers: { "cache-control": "no-store", "x-accel-buffering": "no" }
}

const event = (method: string, params?: JsonObject): string => {
  const message = { jsonrpc: "2.0", method, ...(params === undefined ? {} : { params }) }
  return `event: message\ndata: ${JSON.stringify(message)}\n\n`
}
const changeEvent = (change: Change): string =>
  change.kind === "resource"
    ? event("notifications/resources/updated", { uri: change.uri })
    : event(`notifications/${change.kind}/list_changed`)
/** To the client that was sent to the page, and to no other (2025-11-25, elicitation). */
const completionEvent = (elicitationId: string): string =>
  event("notifications/elicitation/complete", { elicitationId })
const serverEvent = (change: Change): ServerEvent => {
  if (change.kind === "resource") return { kind: "resource_updated", uri: change.uri }
  return { kind: change.kind === "tools" ? "tools_list_changed" : "resources_list_changed" }
}

/** The SDKs' answers, with what their clients need and nothing that a proxy could keep. */
const fromWeb = (response: globalThis.Response, extra: Record<string, string> = {}) =>
  Effect.map(
    Effect.promise(() => response.text()),
    (text) => {
      const headers: Record<string, string> = { ...extra }
      for (const name of ["allow", "www-authenticate"]) {
        const value = response.headers.get(name)
        if (value !== null) headers[name] = value
      }
      const contentType = response.headers.get("content-type")
      if (text === "") return HttpServerResponse.empty({ status: response.status, headers })
      return HttpServerResponse.text(text, {
        status: response.status,
        headers,
        contentType: contentType ?? "application/json"
      })
    }
  )

/** What a stream holds: let go when the stream ends, and with the request when it never began. */
const ownScope = Effect.gen(function* () {
  const scope = yield* Scope.make()
  const end = Scope.close(scope, Exit.void)
  yield* Effect.addFinalizer(() => end)
  return { scope, end }
})

interface Identified {
  readonly caller: Caller
  /** Who sessions belong to. */
  readonly principal: string
  readonly bearer: Redacted.Redacted
}

const make = Effect.gen(function* () {
  const { baseUrl } = yield* AppConfig
  const credentials = yield* Credentials
  const limiter = yield* RateLimiter
  const audit = yield* Audit
  const protocol = yield* Protocol
  const sessions = yield* Sessions
  const changes = yield* Changes
  const bus = yield* EventBus
  const keys = yield* ServiceKeys
  const shutdown = yield* Shutdown
  const { isHost, isOrigin } = guard(baseUrl)
  const url = `${baseUrl}/mcp`
  const metadata = `${new URL(baseUrl).origin}/.well-known/oauth-protected-resource/mcp`

  /** RFC 6750 3, RFC 9728 5.1. */
  const challenge = ({ description, error, scopes, status }: Challenge): Response => {
    const parts = [
      ...(error === undefined ? [] : [`error="${error}"`]),
      ...(description === undefined ? [] : [`error_description="${description}"`])
    ]
    const hints =
      error === "insufficient_scope"
        ? [`scope="${scopes.join(" ")}"`, `resource_metadata="${metadata}"`]
        : [`resource_metadata="${metadata}"`, `scope="${scopes.join(" ")}"`]
    const body =
      error === undefined
        ? { error: "invalid_token", error_description: "This endpoint needs an access token" }
        : { error, ...(description === undefined ? {} : { error_description: description }) }
    return HttpServerResponse.unsafeJson(body, {
      status,
      headers: { "www-authenticate": `Bearer ${[...parts, ...hints].join(", ")}` }
    })
  }

  const tooMany = ({ retryAfterSeconds }: RateLimited): Response =>
    rpcError(429, -32_000, "Too many requests", { headers: { "retry-after": String(retryAfterSeconds) } })

  const record = ({ caller, reason }: Challenge, tool?: string) =>
    caller === undefined || reason === undefined
      ? Effect.void
      : recordRefusal({ audit, limiter }, caller, { reason, ...(tool === undefined ? {} : { tool }) })

  /** Guessing is bounded: a refusal counts against the address that it came from. */
  const identify = Effect.gen(function* () {
    const { headers } = yield* HttpServerRequest.HttpServerRequest
    const presented = /^bearer +(\S+)\s*$/i.exec(headers["authorization"] ?? "")?.[1]
    if (presented === undefined) {
      yield* countAddress(limiter)
      return yield* nothingPresented
    }
    const admitted = yield* credentials
      .admit(presented)
      .pipe(
        Effect.tapErrorTag("Challenge", (refusal) =>
          refusal.status === 401 ? Effect.zipRight(countAddress(limiter), record(refusal)) : record(refusal)
        )
      )
    return { ...admitted, bearer: Redacted.make(presented) }
  })

  // --- POST ---

  /** The message, bounded and parsed once: what is checked is what is served. */
  const messageOf = Effect.gen(function* () {
    const request = yield* HttpServerRequest.HttpServerRequest
    if (!mediaType.test(request.headers["content-type"] ?? "")) {
      return rpcError(415, -32_000, "The content type must be application/json")
    }
    if (Number(request.headers["content-length"] ?? 0) > maxBody) return tooLarge
    const text = yield* Effect.either(request.text)
    if (text._tag === "Left") {
      return text.left instanceof PayloadTooLarge ? tooLarge : rpcError(400, -32_700, "The body is not readable")
    }
    if (Buffer.byteLength(text.right) > maxBody) return tooLarge
    const parsed = yield* Effect.option(Effect.try((): unknown => JSON.parse(text.right)))
    if (parsed._tag === "None") return rpcError(400, -32_700, "The body is not JSON")
    if (isTooBig(parsed.value)) return rpcError(400, -32_600, "The message has too many members or levels")
    return { message: parsed.value }
  })
  const tooLarge = rpcError(413, -32_000, "The body is too large")

  const scopeRefusal = (caller: Caller, message: unknown) => {
    const method = memberOf(message, "method")
    const params = memberOf(message, "params")
    if (typeof method !== "string") return undefined
    const needed = protocol.needs(method, isObject(params) ? params : {})
    if (needed === undefined || missingScopes(caller, needed.scopes).length === 0) return undefined
    return { tool: needed.what, refusal: lacksScopes(caller, needed.what, needed.scopes) }
  }

  /** A request of a revision with sessions names its session, and gets 404 for one that is not its credential's. */
  const sessionOf = Effect.fnUntraced(function* (principal: string) {
    const { headers } = yield* HttpServerRequest.HttpServerRequest
    const id = headers[sessionHeader]
    const version = headers["mcp-protocol-version"]
    if (version !== undefined && !Legacy.versions.includes(version)) {
      return rpcError(400, -32_000, "Unsupported protocol version")
    }
    if (id === undefined) return rpcError(400, -32_000, "Mcp-Session-Id is required")
    const session = /^[0-9A-Za-z]{32}$/.test(id) ? yield* sessions.find(id, principal) : undefined
    return session ?? rpcError(404, -32_001, "Session not found")
  })

  const initialize = Effect.fnUntraced(function* (
    { caller, principal }: Identified,
    message: JsonObject,
    headers: Headers
  ) {
    const response = yield* Legacy.answer(protocol, sessions, { caller, session: undefined, message, headers, url })
    const body: unknown = yield* Effect.promise(() => response.clone().json())
    const protocolVersion = memberOf(memberOf(body, "result"), "protocolVersion")
    if (typeof protocolVersion !== "string") return yield* fromWeb(response)
    const capabilities = memberOf(memberOf(message, "params"), "capabilities")
    const id = yield* sessions.open(
      { principal, teamId: teamOf(caller) },
      { protocolVersion, clientCapabilities: isObject(capabilities) ? capabilities : {} }
    )
    return yield* fromWeb(response, { [sessionHeader]: id })
  })

  const postLegacy = Effect.fnUntraced(function* (who: Identified, message: unknown, headers: Headers) {
    const { caller, principal } = who
    if (memberOf(message, "method") === "initialize" && isObject(message)) {
      return yield* initialize(who, message, headers)
    }
    const session = yield* sessionOf(principal)
    if (HttpServerResponse.isServerResponse(session)) return session
    if (Array.isArray(message)) {
      if (session.protocolVersion !== batchRevision || message.length === 0 || message.length > maxBatch) {
        return rpcError(400, -32_600, "Batches are not part of this protocol version")
      }
      if (message.some((one) => memberOf(one, "method") === "initialize")) {
        return rpcError(400, -32_600, "A batch does not initialize")
      }
      // Each member is a request of its own to the limits.
      for (let i = 1; i < message.length; i++) yield* countUse(limiter, caller)
    }
    // Absent: what was agreed on when the session began.
    if (!headers.has("mcp-protocol-version")) headers.set("mcp-protocol-version", session.protocolVersion)
    const response = yield* Legacy.answer(protocol, sessions, { caller, session, message, headers, url })
    return yield* fromWeb(response, { [sessionHeader]: session.id })
  })

  const postModern = Effect.fnUntraced(function* (
    { bearer, caller, principal }: Identified,
    message: unknown,
    headers: Headers
  ) {
    const states = Modern.makeStates(Redacted.value(yield* keys.get("mcp-request-state")))
    const runtime = yield* Effect.runtime<never>()
    const abort = new AbortController()
    const asked = memberOf(memberOf(memberOf(message, "params"), "notifications"), "resourceSubscriptions")
    const uris = Array.isArray(asked) ? asked.filter((uri) => typeof uri === "string").slice(0, 50) : []
    const listens = memberOf(message, "method") === "subscriptions/listen"
    const { end, scope } = yield* ownScope
    const watched = listens
      ? yield* Effect.provideService(changes.watch(caller, bearer, uris), Scope.Scope, scope)
      : null

    let listener: ((event: ServerEvent) => void) | undefined
    const listen = (to: (event: ServerEvent) => void) => {
      listener = to
      return () => {
        listener = undefined
        Runtime.runFork(runtime)(end)
      }
    }
    const handled = yield* Modern.answer(protocol, states, {
      caller,
      principal,
      message,
      headers,
      url,
      signal: abort.signal,
      listen
    }).pipe(
      Effect.onInterrupt(() =>
        Effect.zipRight(
          Effect.sync(() => abort.abort()),
          end
        )
      )
    )
    const { body } = handled.response
    const isStream = handled.response.headers.get("content-type")?.startsWith("text/event-stream") === true
    if (!isStream || body === null) {
      yield* end
      return yield* fromWeb(handled.response)
    }
    const finished = Effect.zipRight(
      Effect.promise(() => handled.close()),
      end
    )
    if (watched !== null) {
      const told = Stream.runForEach(watched.changes, (change) => Effect.sync(() => listener?.(serverEvent(change))))
      // The credential ended, or the server stops: the stream ends in the protocol's way.
      yield* Effect.raceFirst(told, Deferred.await(shutdown.deferred)).pipe(
        Effect.zipRight(finished),
        Effect.forkIn(scope)
      )
    }
    const bytes = Stream.fromReadableStream({ evaluate: () => body, onError: (error) => error })
    return HttpServerResponse.stream(Stream.ensuring(bytes, finished), {
      status: handled.response.status,
      ...eventStream
    })
  })

  const post = Effect.fnUntraced(function* (who: Identified) {
    const { caller } = who
    const request = yield* HttpServerRequest.HttpServerRequest
    const given = yield* messageOf
    if (HttpServerResponse.isServerResponse(given)) return given
    const { message } = given
    for (const one of Array.isArray(message) ? message.slice(0, maxBatch) : [message]) {
      const refused = scopeRefusal(caller, one)
      if (refused === undefined) continue
      yield* record(refused.refusal, refused.tool)
      return challenge(refused.refusal)
    }
    const headers = new Headers()
    for (const [name, value] of Object.entries(request.headers)) {
      // Neither SDK has any business with these.
      if (name !== "authorization" && name !== "cookie" && typeof value === "string") headers.set(name, value)
    }
    // Revisions are dates. The newer SDK's refusal would repeat whatever else stands there.
    if (!/^\d{4}-\d\d-\d\d$/.test(request.headers["mcp-protocol-version"] ?? "2025-03-26")) {
      return rpcError(400, -32_000, "Unsupported protocol version")
    }
    // The older SDK says so itself; the newer one does not look.
    if (!acceptsBoth(request.headers["accept"])) {
      return rpcError(406, -32_000, "The client must accept application/json and text/event-stream")
    }
    const legacy = yield* Effect.promise(() => isLegacyRequest(new Request(url, { method: "POST", headers }), message))
    return legacy ? yield* postLegacy(who, message, headers) : yield* postModern(who, message, headers)
  })

  // --- GET: the stream of a session ---

  const streaming = new Set<string>()

  const stream = Effect.fnUntraced(function* ({ bearer, caller, principal }: Identified) {
    const { headers } = yield* HttpServerRequest.HttpServerRequest
    if (headers["accept"]?.includes("text/event-stream") !== true) {
      return rpcError(406, -32_000, "The client must accept text/event-stream")
    }
    const session = yield* sessionOf(principal)
    if (HttpServerResponse.isServerResponse(session)) return session
    if (streaming.has(session.id)) return rpcError(409, -32_000, "One stream per session")
    const { end, scope } = yield* ownScope
    const opened = yield* Effect.gen(function* () {
      yield* Effect.acquireRelease(
        Effect.sync(() => streaming.add(session.id)),
        () => Effect.sync(() => streaming.delete(session.id))
      )
      const told = Stream.merge(
        yield* bus.subscribe(topic(session.id)),
        yield* bus.subscribe(answersTopic(caller.credentialId))
      )
      return { told, watched: yield* changes.watch(caller, bearer, session.subscriptions) }
    }).pipe(
      Effect.provideService(Scope.Scope, scope),
      Effect.tapError(() => end)
    )
    const { follow, changes: changed } = opened.watched
    const later = Stream.merge(opened.told, Stream.fromSchedule(Schedule.spaced("1 minute")))
    /**
     * The session was ended, listens to other resources now, or a person is done with a page, which may have been before
     * this stream; an open stream also keeps it from idling out.
     */
    const alive = Stream.concat(Stream.succeed(undefined), later).pipe(
      Stream.mapEffect(() => sessions.find(session.id, principal)),
      Stream.takeWhile((found): found is Session => found !== undefined),
      Stream.tap((found) => Effect.sync(() => follow(found.subscriptions))),
      Stream.mapConcatEffect(sessions.completed),
      Stream.map(completionEvent)
    )
    const lines = Stream.concat(
      // Headers leave with the first byte of the body (mcp trap 6.1).
      Stream.succeed(": open\n\n"),
      Stream.merge(
        Stream.concat(Stream.map(changed, changeEvent), Stream.succeed(`retry: ${retryMillis}\n\n`)),
        Stream.as(Stream.fromSchedule(Schedule.spaced(heartbeat)), ": heartbeat\n\n"),
        { haltStrategy: "left" }
      ).pipe(Stream.merge(alive, { haltStrategy: "either" }))
    )
    const ended = Stream.ensuring(Stream.interruptWhenDeferred(lines, shutdown.deferred), end)
    return HttpServerResponse.stream(Stream.encodeText(ended), {
      ...eventStream,
      headers: { ...eventStream.headers, [sessionHeader]: session.id }
    })
  })

  const remove = Effect.fnUntraced(function* ({ principal }: Identified) {
    const session = yield* sessionOf(principal)
    if (HttpServerResponse.isServerResponse(session)) return session
    yield* sessions.end(session.id, principal)
    return HttpServerResponse.empty({ status: 200 })
  })

  const serve = Effect.gen(function* () {
    const request = yield* HttpServerRequest.HttpServerRequest
    const exchange = yield* CurrentExchange
    exchange.via = "mcp"
    if (!["GET", "POST", "DELETE"].includes(request.method)) {
      return rpcError(405, -32_000, "Method not allowed", { headers: { allow } })
    }
    const who = yield* identify
    const { caller } = who
    yield* countUse(limiter, caller)
    const answered = request.method === "POST" ? post(who) : request.method === "GET" ? stream(who) : remove(who)
    return yield* Effect.provideService(answered, CurrentCaller, caller)
  })

  /** Every failure in this page's shapes; the log has what REST's would have. */
  const answered = serve.pipe(
    Effect.catchTags({
      Challenge: (refusal) => Effect.succeed(challenge(refusal)),
      RATE_LIMITED: (error) => Effect.succeed(tooMany(error))
    }),
    Effect.catchAllCause((cause) =>
      Effect.gen(function* () {
        const told = yield* judge(cause, yield* CurrentExchange, "POST", "/mcp")
        if (!isApiError(told)) return told
        const headers: Record<string, string> = told._tag === "DEPENDENCY_UNAVAILABLE" ? { "retry-after": "2" } : {}
        return rpcError(statusOf(told), -32_603, told.message, { headers, data: { code: told._tag } })
      })
    )
  )

  return Effect.gen(function* () {
    const request = yield* HttpServerRequest.HttpServerRequest
    const { origin } = request.headers
    if (!isHost(request.headers["host"])) return rpcError(403, -32_000, "Invalid Host")
    if (!isOrigin(origin)) return rpcError(403, -32_000, "Invalid Origin")
    if (request.method === "OPTIONS" && origin !== undefined) {
      return HttpServerResponse.empty({
        status: 204,
        headers: {
          ...cors(origin),
          "access-control-allow-methods": allow,
          "access-control-allow-headers": allowedHeaders,
          "access-control-max-age": "600"
        }
      })
    }
    const response = yield* answered
    return origin === undefined ? response : HttpServerResponse.setHeaders(response, cors(origin))
  })
})

export const layer = Layer.unwrapEffect(
  Effect.map(make, (handler) => HttpApiBuilder.Router.use((router) => router.all("/mcp", handler)))
)
