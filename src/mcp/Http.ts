/**
 * The endpoint `/mcp`. Before either SDK sees a byte, it checks host and origin, credential, rate, size and shape, and
 * scope, in this order. Then the protocol revision handles the message.
 */
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { isLegacyRequest } from "@modelcontextprotocol/server"
import type * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Runtime from "effect/Runtime"
import { isApiError, statusOf } from "#schema/ApiError.ts"
import { type Caller, CurrentCaller } from "#schema/Caller.ts"
import { Audit } from "#src/trail/Audit.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import { EventBus } from "#src/events/EventBus.ts"
import { countAddress } from "#src/http/engine/AddressLimit.ts"
import { countUse, recordRefusal } from "#src/http/authentication/Authentication.ts"
import { judge } from "#src/http/engine/ErrorEnvelope.ts"
import { CurrentExchange } from "#src/http/engine/RequestContext.ts"
import { Shutdown } from "#src/http/engine/Shutdown.ts"
import { RateLimiter } from "#src/limits/RateLimiter.ts"
import { allowedMethods, guarded } from "./BrowserGuard.ts"
import { Changes } from "./Changes.ts"
import {
  type AuthenticatedClient,
  type Challenge,
  Credentials,
  missingScope,
  missingScopes,
  noCredential,
  responseTo
} from "./Credentials.ts"
import * as Legacy from "./Legacy.ts"
import * as Listening from "./Listening.ts"
import * as Message from "./Message.ts"
import * as Modern from "./Modern.ts"
import { Protocol } from "./Protocol.ts"
import { Sessions } from "./Sessions.ts"
import * as SessionStream from "./SessionStream.ts"

interface Needs extends Legacy.LegacyNeeds, Modern.ModernNeeds, Listening.ListeningNeeds {
  readonly audit: Audit
  readonly credentials: Credentials
  readonly baseUrl: string
}

const record = (needs: Needs, { caller, reason }: Challenge, tool?: string) =>
  caller === undefined || reason === undefined
    ? Effect.void
    : recordRefusal(needs, caller, { reason, ...(tool === undefined ? {} : { tool }) })

/** The client of the request. A refusal counts against its address, which bounds guessing. */
const identify = Effect.fnUntraced(function* (needs: Needs) {
  const { credentials, limiter } = needs
  const { headers } = yield* HttpServerRequest.HttpServerRequest
  const bearer = /^bearer +(\S+)\s*$/i.exec(headers["authorization"] ?? "")?.[1]
  if (bearer === undefined) {
    yield* countAddress(limiter)
    return yield* noCredential
  }
  return yield* credentials
    .admit(Redacted.make(bearer))
    .pipe(
      Effect.tapErrorTag("Challenge", (refusal) =>
        refusal.status === 401 ? Effect.zipRight(countAddress(limiter), record(needs, refusal)) : record(needs, refusal)
      )
    )
})

/** Undefined if the caller has every scope that the message needs. */
const scopeRefusal = ({ protocol }: Needs, caller: Caller, message: unknown) => {
  const method = Message.memberOf(message, "method")
  const params = Message.memberOf(message, "params")
  if (typeof method !== "string") return undefined
  const needed = protocol.scopesNeeded(method, Message.isObject(params) ? params : {})
  if (needed === undefined || missingScopes(caller, needed.scopes).length === 0) return undefined
  return { tool: needed.operation, refusal: missingScope(caller, needed.operation, needed.scopes) }
}

/** A response to a POST has one of two content types, and the client must accept both. */
const acceptsBoth = (accept: string | undefined): boolean =>
  accept !== undefined &&
  (accept.includes("*/*") || (accept.includes("application/json") && accept.includes("text/event-stream")))

/** Headers for the SDKs, without credentials. */
const headersOf = (request: HttpServerRequest.HttpServerRequest): Headers => {
  const headers = new Headers()
  for (const [name, value] of Object.entries(request.headers)) {
    if (name !== "authorization" && name !== "cookie" && typeof value === "string") headers.set(name, value)
  }
  return headers
}

/** The protocol revision that a message names, as messages since 2026-07-28 do. */
const namedVersion = (message: unknown) =>
  Message.memberOf(
    Message.memberOf(Message.memberOf(message, "params"), "_meta"),
    "io.modelcontextprotocol/protocolVersion"
  )

/**
 * Revisions are dates. The newer SDK's refusal must repeat the version (-32022, `requested`). Another text passes, and
 * is repeated, only if the header and the message both carry it.
 */
const isVersion = (header: string | undefined, message: unknown): boolean => {
  if (header === undefined || /^\d{4}-\d\d-\d\d$/.test(header)) return true
  return /^[\w.-]{1,40}$/.test(header) && namedVersion(message) === header
}

/**
 * True for messages of the revisions with sessions. A message that names its revision is newer; the SDK judges others.
 */
const isLegacy = (url: string, message: unknown, headers: Headers) => {
  const isCall =
    typeof Message.memberOf(message, "method") === "string" &&
    Message.memberOf(message, "result") === undefined &&
    Message.memberOf(message, "error") === undefined
  return isCall && namedVersion(message) !== undefined
    ? Effect.succeed(false)
    : Effect.promise(() => isLegacyRequest(new Request(url, { method: "POST", headers }), message))
}

const post = Effect.fnUntraced(function* (needs: Needs, client: AuthenticatedClient) {
  const request = yield* HttpServerRequest.HttpServerRequest
  const body = yield* Message.read
  if (HttpServerResponse.isServerResponse(body)) return body
  const message = needs.protocol.read(body.message)
  for (const one of Array.isArray(message) ? message.slice(0, Message.maxBatch) : [message]) {
    const missing = scopeRefusal(needs, client.caller, one)
    if (missing === undefined) continue
    yield* record(needs, missing.refusal, missing.tool)
    return yield* missing.refusal
  }
  if (!isVersion(request.headers["mcp-protocol-version"], message)) {
    return Message.rpcError(400, -32_000, "Unsupported protocol version")
  }
  // The older SDK checks this itself; the newer one does not.
  if (!acceptsBoth(request.headers["accept"])) {
    return Message.rpcError(406, -32_000, "The client must accept application/json and text/event-stream")
  }
  const subscription = Listening.subscriptionOf(request.headers, message)
  if (subscription !== undefined) {
    return yield* Listening.open(needs, client, subscription, Message.isStaged(request.headers[Message.toolsHeader]))
  }
  const headers = headersOf(request)
  return (yield* isLegacy(needs.url, message, headers))
    ? yield* Legacy.post(needs, client, message, headers)
    : yield* Modern.post(needs, client, message, headers)
})

const respond = Effect.fnUntraced(function* (needs: Needs) {
  const request = yield* HttpServerRequest.HttpServerRequest
  const exchange = yield* CurrentExchange
  exchange.via = "mcp"
  if (!["GET", "POST", "DELETE"].includes(request.method)) {
    return Message.rpcError(405, -32_000, "Method not allowed", { headers: { allow: allowedMethods } })
  }
  const client = yield* identify(needs)
  exchange.owner = client.caller.teams[0]?.id ?? exchange.ip
  yield* countUse(needs.limiter, client.caller)
  const response =
    request.method === "POST"
      ? post(needs, client)
      : request.method === "GET"
        ? Legacy.get(needs, client)
        : Legacy.remove(needs, client)
  return yield* Effect.provideService(response, CurrentCaller, client.caller)
})

/** Turns a failure into a JSON-RPC error; logs it like failures of REST. */
const failed = Effect.fnUntraced(function* (cause: Cause.Cause<unknown>) {
  const error = yield* judge(cause, yield* CurrentExchange, "POST", "/mcp")
  if (!isApiError(error)) return error
  const headers: Record<string, string> =
    error._tag === "DEPENDENCY_UNAVAILABLE" || error._tag === "SERVER_BUSY" ? { "retry-after": "2" } : {}
  return Message.rpcError(statusOf(error), -32_603, error.message, { headers, data: { code: error._tag } })
})

const make = Effect.gen(function* () {
  const { baseUrl } = yield* AppConfig
  const needs: Needs = {
    baseUrl,
    url: `${baseUrl}/mcp`,
    credentials: yield* Credentials,
    limiter: yield* RateLimiter,
    audit: yield* Audit,
    protocol: yield* Protocol,
    sessions: yield* Sessions,
    changes: yield* Changes,
    bus: yield* EventBus,
    keys: yield* ServiceKeys,
    streaming: new Map(),
    listening: new Set(),
    fork: Runtime.runFork(yield* Effect.runtime<never>())
  }
  yield* SessionStream.keepAlive(needs)
  const { deferred } = yield* Shutdown
  yield* Effect.forkScoped(Effect.zipRight(Deferred.await(deferred), needs.changes.endAll()))
  const metadata = `${new URL(baseUrl).origin}/.well-known/oauth-protected-resource/mcp`
  return guarded(
    baseUrl,
    respond(needs).pipe(
      Effect.catchTags({
        Challenge: (refusal) => Effect.succeed(responseTo(metadata, refusal)),
        RATE_LIMITED: (error) => Effect.succeed(Message.tooManyRequests(error))
      }),
      Effect.catchAllCause(failed)
    )
  )
})

export const layer = Layer.unwrapScoped(
  Effect.map(make, (handler) => HttpApiBuilder.Router.use((router) => router.all("/mcp", handler)))
)
