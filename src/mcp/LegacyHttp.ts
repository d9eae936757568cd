/** Requests of the revisions with sessions: POST, GET and DELETE, each for the session that it names. */
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import { countUse } from "#src/http/CredentialUse.ts"
import type { RateLimiter } from "#src/limits/RateLimiter.ts"
import { type AuthenticatedClient, teamOf } from "./Credentials.ts"
import * as Legacy from "./Legacy.ts"
import { isObject, type JsonObject, maxBatch, memberOf } from "./Message.ts"
import type { Protocol } from "./Protocol.ts"
import { fromWeb, rpcError, sessionHeader } from "./Responses.ts"
import type { Sessions } from "./Sessions.ts"
import * as SessionStream from "./SessionStream.ts"

/** The only revision with batches. */
const batchRevision = "2025-03-26"

export interface LegacyNeeds extends SessionStream.StreamNeeds {
  readonly url: string
  readonly protocol: Protocol
  readonly sessions: Sessions
  readonly limiter: RateLimiter
}

/** The session that the request names, or the refusal: 404 for one that does not belong to its credential. */
const sessionOf = Effect.fnUntraced(function* ({ sessions }: LegacyNeeds, principal: string) {
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
  { protocol, sessions, url }: LegacyNeeds,
  { caller, principal }: AuthenticatedClient,
  message: JsonObject,
  headers: Headers
) {
  const response = yield* Legacy.respond(protocol, sessions, { caller, session: undefined, message, headers, url })
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

export const post = Effect.fnUntraced(function* (
  needs: LegacyNeeds,
  client: AuthenticatedClient,
  message: unknown,
  headers: Headers
) {
  const { caller, principal } = client
  const { limiter, protocol, sessions, url } = needs
  if (isObject(message) && message["method"] === "initialize") {
    return yield* initialize(needs, client, message, headers)
  }
  const session = yield* sessionOf(needs, principal)
  if (HttpServerResponse.isServerResponse(session)) return session
  if (Array.isArray(message)) {
    if (session.protocolVersion !== batchRevision || message.length === 0 || message.length > maxBatch) {
      return rpcError(400, -32_600, "Batches are not part of this protocol version")
    }
    if (message.some((one) => memberOf(one, "method") === "initialize")) {
      return rpcError(400, -32_600, "A batch does not initialize")
    }
    // To the rate limits each message of a batch is a request of its own.
    for (let i = 1; i < message.length; i++) yield* countUse(limiter, caller)
  }
  // Absent: the version that was agreed on when the session began.
  if (!headers.has("mcp-protocol-version")) headers.set("mcp-protocol-version", session.protocolVersion)
  const response = yield* Legacy.respond(protocol, sessions, { caller, session, message, headers, url })
  return yield* fromWeb(response, { [sessionHeader]: session.id })
})

export const get = Effect.fnUntraced(function* (needs: LegacyNeeds, client: AuthenticatedClient) {
  const { headers } = yield* HttpServerRequest.HttpServerRequest
  if (headers["accept"]?.includes("text/event-stream") !== true) {
    return rpcError(406, -32_000, "The client must accept text/event-stream")
  }
  const session = yield* sessionOf(needs, client.principal)
  return HttpServerResponse.isServerResponse(session) ? session : yield* SessionStream.open(needs, client, session)
})

/** Ends the session. */
export const remove = Effect.fnUntraced(function* (needs: LegacyNeeds, { principal }: AuthenticatedClient) {
  const session = yield* sessionOf(needs, principal)
  if (HttpServerResponse.isServerResponse(session)) return session
  yield* needs.sessions.end(session.id, principal)
  return HttpServerResponse.empty({ status: 200 })
})
