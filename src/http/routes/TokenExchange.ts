/**
 * `POST /auth/token-exchange` (RFC 8693): accepts a form or JSON, responds in the shapes of RFC 6749. `audience` is the
 * id of the trust rule. `scope` may request `read` where the rule allows `write`.
 */
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Redacted from "effect/Redacted"
import { type AnyApiError, isApiError, statusOf } from "#schema/ApiError.ts"
import { RuleIdOut, uuidPattern } from "#schema/Ids.ts"
import type { AccessLevel } from "#schema/Scopes.ts"
import { RateLimiter } from "#src/limits/RateLimiter.ts"
import { Exchange, type ExchangeRefused, type ExchangeRequest } from "#src/machines/Exchange.ts"
import { countAddress } from "#src/http/engine/AddressLimit.ts"
import { judge } from "#src/http/engine/ErrorEnvelope.ts"
import { CurrentExchange } from "#src/http/engine/RequestContext.ts"

const path = "/auth/token-exchange"
const grantType = "urn:ietf:params:oauth:grant-type:token-exchange"
const accessTokenType = "urn:ietf:params:oauth:token-type:access_token"
const subjectTypes: ReadonlySet<string> = new Set([
  "urn:ietf:params:oauth:token-type:jwt",
  "urn:ietf:params:oauth:token-type:id_token"
])

type ErrorCode =
  | "invalid_request"
  | "invalid_target"
  | "invalid_scope"
  | "unsupported_grant_type"
  | "temporarily_unavailable"
  | "server_error"

/** RFC 6749 5.1: no cache keeps a response of a token endpoint. */
const headers = { "cache-control": "no-store", pragma: "no-cache" }

const refuse = (error: ErrorCode, description: string, status = 400, more: Record<string, string> = {}) =>
  HttpServerResponse.unsafeJson({ error, error_description: description }, { status, headers: { ...headers, ...more } })

const malformed = (description: string) => refuse("invalid_request", description)

const form = /^application\/x-www-form-urlencoded\s*(?:;\s*charset\s*=\s*"?utf-8"?\s*)?$/i
const json = /^application\/json\s*(?:;\s*charset\s*=\s*"?utf-8"?\s*)?$/i

type Parameters = ReadonlyMap<string, string>

/** Parameters as text, or a sentence about the fault. Repeated parameters are refused (RFC 6749 3.2). */
const parametersOf = (contentType: string, text: string): Parameters | string => {
  if (form.test(contentType)) {
    const parameters = new Map<string, string>()
    for (const [name, value] of new URLSearchParams(text)) {
      if (parameters.has(name)) return "The request repeats a parameter."
      parameters.set(name, value)
    }
    return parameters
  }
  if (!json.test(contentType)) return "The content type must be application/x-www-form-urlencoded or application/json."
  const parsed = parse(text)
  if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) return "The body is not a JSON object."
  const parameters = new Map<string, string>()
  for (const [name, value] of Object.entries(parsed)) {
    if (typeof value !== "string") return "Every parameter must be a string."
    parameters.set(name, value)
  }
  return parameters
}

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const levelOf = (scope: string | undefined): AccessLevel | undefined | "unknown" =>
  scope === undefined || scope === "" ? undefined : scope === "read" || scope === "write" ? scope : "unknown"

/** Reads the request of RFC 8693 2.1. Unknown parameters are ignored; known but unsupported ones are refused. */
const requestOf = (parameters: Parameters): ExchangeRequest | HttpServerResponse.HttpServerResponse => {
  const of = (name: string): string | undefined => parameters.get(name) || undefined
  const grant = of("grant_type")
  if (grant === undefined) return malformed("grant_type is required.")
  if (grant !== grantType) return refuse("unsupported_grant_type", `grant_type must be ${grantType}.`)
  const jwt = of("subject_token")
  if (jwt === undefined) return malformed("subject_token is required.")
  if (!subjectTypes.has(of("subject_token_type") ?? "")) {
    return malformed("subject_token_type must be urn:ietf:params:oauth:token-type:jwt or :id_token.")
  }
  const requested = of("requested_token_type")
  if (requested !== undefined && requested !== accessTokenType) {
    return malformed(`requested_token_type must be ${accessTokenType}.`)
  }
  if (of("actor_token") !== undefined || of("actor_token_type") !== undefined) {
    return malformed("actor_token is not supported.")
  }
  if (of("resource") !== undefined)
    return refuse("invalid_target", "resource is not supported. Name the rule in audience.")
  const audience = of("audience")
  if (audience === undefined) return malformed("audience is required: the id of the trust rule.")
  if (!uuidPattern.test(audience)) return refuse("invalid_target", "audience must be the id of a trust rule.")
  const scope = levelOf(of("scope"))
  if (scope === "unknown") return refuse("invalid_scope", "scope must be read or write.")
  return { ruleId: RuleIdOut.make(audience.toLowerCase()), jwt, scope }
}

const refusals: Record<ExchangeRefused["reason"], HttpServerResponse.HttpServerResponse> = {
  unacceptable: malformed(
    "The subject token is not accepted for this trust rule. The audit trail of the team that owns the rule says why."
  ),
  scope: refuse("invalid_scope", "The trust rule does not give this scope."),
  issuer: refuse("temporarily_unavailable", "The keys of the issuer cannot be read. Try again shortly.", 500, {
    "retry-after": "10"
  })
}

const failed = (error: AnyApiError): HttpServerResponse.HttpServerResponse => {
  switch (statusOf(error)) {
    case 429:
      return refuse(
        "temporarily_unavailable",
        error.message,
        429,
        "retryAfterSeconds" in error ? { "retry-after": String(error.retryAfterSeconds) } : {}
      )
    case 500:
      return refuse("server_error", error.message, 500, { "retry-after": "2" })
    case 413:
      return refuse("invalid_request", error.message, 413)
    default:
      return malformed(error.message)
  }
}

const make = Effect.gen(function* () {
  const exchange = yield* Exchange
  const limiter = yield* RateLimiter

  const answer = Effect.gen(function* () {
    const request = yield* HttpServerRequest.HttpServerRequest
    yield* countAddress(limiter)
    const parameters = parametersOf(request.headers["content-type"] ?? "", yield* request.text)
    if (typeof parameters === "string") return malformed(parameters)
    const input = requestOf(parameters)
    if (HttpServerResponse.isServerResponse(input)) return input
    const { accessLevel, expiresIn, text } = yield* exchange.exchange(input)
    return HttpServerResponse.unsafeJson(
      {
        access_token: Redacted.value(text),
        issued_token_type: accessTokenType,
        token_type: "Bearer",
        expires_in: expiresIn,
        scope: accessLevel
      },
      { headers }
    )
  })

  return Effect.catchAllCause(answer, (cause) =>
    Effect.gen(function* () {
      if (cause._tag === "Fail" && Predicate.isTagged(cause.error, "ExchangeRefused"))
        return refusals[cause.error.reason]
      const error = yield* judge(cause, yield* CurrentExchange, "POST", path)
      return isApiError(error) ? failed(error) : error
    })
  )
})

export const layer = HttpApiBuilder.Router.use((router) =>
  Effect.flatMap(make, (handler) => router.post(path, handler))
)
