/**
 * The authorization server's endpoints. What comes in is cut to what they take, the library answers, and every failure has
 * the shape of RFC 6749; where there is no client to tell, a page tells the person (OAuth 2.1 4.1.2.1).
 */
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { ServerApi } from "#schema/Api.ts"
import { isApiError } from "#schema/ApiError.ts"
import { allScopes } from "#schema/Scopes.ts"
import { RequestInfo } from "#src/access/RequestInfo.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { addressBucket } from "#src/limits/AddressBucket.ts"
import { type Policy, RateLimiter } from "#src/limits/RateLimiter.ts"
import { pathOf, queryOf } from "#src/net/RequestPath.ts"
import * as ClientMetadata from "#src/oauth/ClientMetadata.ts"
import { isInteractionCookie } from "#src/oauth/Consent.ts"
import * as Dispatch from "#src/oauth/Dispatch.ts"
import { AuthorizationServer, defaultScopes } from "#src/oauth/Provider.ts"
import { judge } from "./ErrorEnvelope.ts"
import { CurrentExchange } from "./RequestContext.ts"

type Response = HttpServerResponse.HttpServerResponse

/** A form or a registration is small. */
const maxBody = 64 * 1024
/** New clients of one address: they are kept a day when nobody uses them. */
const registrationPolicy: Policy = [{ limit: 10, millis: 60_000 }]
/** Requests to begin with a document's address: each may make this server fetch it. */
const documentPolicy: Policy = [{ limit: 20, millis: 60_000 }]

const anyOrigin = { "access-control-allow-origin": "*", "access-control-expose-headers": "WWW-Authenticate" }

const failure = (status: number, error: string, headers: Record<string, string> = {}): Response =>
  HttpServerResponse.unsafeJson({ error }, { status, headers: { "cache-control": "no-store", ...headers } })

/** What a person reads when there is nowhere to send them; fixed texts, nothing of the request. */
const sentences: Readonly<Record<string, string>> = {
  invalid_client: "The program that sent you here is not known to Ampoule. Start again from it.",
  invalid_redirect_uri: "The program that sent you here asked to be answered at an address it did not register.",
  invalid_request: "The program that sent you here made a mistake in its request.",
  server_error: "Something went wrong. Try again in a moment."
}

const page = (status: number, error: string): Response =>
  HttpServerResponse.text(
    `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Cannot connect - Ampoule</title><h1>Cannot connect</h1><p>${sentences[error] ?? "This request has expired or was answered already. Start again from the program that sent you here."}</p></html>`,
    {
      status,
      contentType: "text/html; charset=utf-8",
      headers: {
        "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        "referrer-policy": "no-referrer",
        "x-frame-options": "DENY",
        "cache-control": "no-store"
      }
    }
  )

/** The registration as the library gets it; a string is the error to answer. */
const registrationOf = (body: unknown): string | Readonly<Record<string, unknown>> => {
  const metadata = ClientMetadata.cut(body)
  if (metadata === undefined) return "invalid_client_metadata"
  return ClientMetadata.problemOf(metadata) ?? metadata
}

/**
 * Parameters as our resource means them: its aliases are one resource, unknown scopes are dropped, none is the default.
 * Repeated parameters stay for the library to refuse.
 */
const normalized = (
  given: URLSearchParams,
  { issuer, resource }: { readonly issuer: string; readonly resource: string },
  scoped: boolean
) => {
  const params = new URLSearchParams(given)
  const aliases = new Set([issuer, `${issuer}/`, resource, `${resource}/`])
  const resources = params.getAll("resource").filter((one) => one !== "")
  if (resources.length > 0) {
    params.delete("resource")
    for (const one of new Set(resources.map((uri) => (aliases.has(uri) ? resource : uri))))
      params.append("resource", one)
  }
  const scopes = params.getAll("scope")
  if (scopes.length <= 1) {
    const asked = (scopes[0] ?? "").split(" ")
    const ours = allScopes.filter((scope) => asked.includes(scope)).join(" ")
    if (ours !== "") params.set("scope", ours)
    else if (scoped) params.set("scope", defaultScopes)
    else params.delete("scope")
  }
  return params
}

/** What an authorization is made of here. The library also knows OpenID Connect, whose parameters are unknown ones to us. */
const authorizationParameters: ReadonlySet<string> = new Set([
  "client_id",
  "code_challenge",
  "code_challenge_method",
  "prompt",
  "redirect_uri",
  "request",
  "request_uri",
  "resource",
  "response_mode",
  "response_type",
  "scope",
  "state"
])

/** Unknown parameters are ignored, empty ones are absent (OAuth 2.1 3.1). Repeated ones stay for the library to refuse. */
const authorizationOf = (given: URLSearchParams): URLSearchParams => {
  const params = new URLSearchParams()
  for (const [name, value] of given) {
    if (authorizationParameters.has(name) && value !== "") params.append(name, value)
  }
  // A person is asked each time, whatever else the client wishes; that nobody may be asked is for the library to refuse.
  if (params.getAll("prompt").every((prompt) => !prompt.split(" ").includes("none"))) params.delete("prompt")
  const modes = params.getAll("response_mode")
  if (modes.length === 1 && modes[0] !== "query") params.set("response_mode", "unsupported")
  return params
}

/** The one error that the library names otherwise than RFC 6749 5.2. */
const grantTypeRefused = "requested grant type is not allowed for this client"
const renamed = (answered: Dispatch.Answered): Dispatch.Answered =>
  answered.status === 400 && answered.body.includes(grantTypeRefused)
    ? {
        ...answered,
        body: Buffer.from(JSON.stringify({ error: "unauthorized_client", error_description: grantTypeRefused }))
      }
    : answered

const make = Effect.gen(function* () {
  const server = yield* AuthorizationServer
  const limiter = yield* RateLimiter
  const { baseUrl } = yield* AppConfig
  const secure = baseUrl.startsWith("https:")

  const limit = (what: string, policy: Policy) =>
    Effect.flatMap(RequestInfo, ({ ip }) => limiter.take(`${what}:${addressBucket(ip)}`, policy))

  /** Lets the library answer. What went wrong inside (the database is away) is a defect here, not its 500. */
  const dispatch = Effect.fnUntraced(function* (asked: Dispatch.Asked) {
    const { callback, problemOf } = yield* server.instance
    const request = Dispatch.requestOf(server.issuer, asked)
    const { done, response } = Dispatch.responseTo(request)
    const answered = yield* Effect.promise(async () => {
      await callback(request, response)
      return done
    })
    const problem = problemOf(request)
    return problem === undefined ? answered : yield* Effect.die(problem)
  })

  const passed = ["location", "www-authenticate", "pragma"]
  const respond = ({ body, headers, status }: Dispatch.Answered, extra: Record<string, string> = {}): Response => {
    const kept: Record<string, string> = { "cache-control": "no-store", ...extra }
    for (const name of passed) {
      const value = headers[name]
      if (typeof value === "string") kept[name] = value
    }
    const contentType = headers["content-type"]
    const response =
      body.length === 0
        ? HttpServerResponse.empty({ status, headers: kept })
        : HttpServerResponse.uint8Array(body, {
            status,
            headers: kept,
            contentType: typeof contentType === "string" ? contentType : "application/json"
          })
    const cookies = Dispatch.cookiesOf(headers, isInteractionCookie)
    return cookies.length === 0 ? response : withCookies(response, cookies)
  }

  /** The library's own texts: it signs each name and value as they stand. */
  const withCookies = (response: Response, cookies: ReadonlyArray<string>): Response =>
    cookies.reduce((to, cookie) => {
      const [pair, ...attributes] = cookie.split(/;\s*/)
      const cut = pair.indexOf("=")
      const path = attributes.find((one) => /^path=/i.test(one))?.slice(5)
      const expires = attributes.find((one) => /^expires=/i.test(one))?.slice(8)
      return HttpServerResponse.unsafeSetCookie(to, pair.slice(0, cut), pair.slice(cut + 1), {
        httpOnly: true,
        sameSite: "lax",
        secure,
        ...(path === undefined ? {} : { path }),
        ...(expires === undefined ? {} : { expires: new Date(expires) })
      })
    }, response)

  const cookiesIn = (request: HttpServerRequest.HttpServerRequest) =>
    Dispatch.cookieHeader(request.headers["cookie"], isInteractionCookie)

  /** Failures of any kind, in RFC 6749's shape, or as a page where a person looks on. */
  const guarded = <E, R>(work: Effect.Effect<Response, E, R>, forPerson: boolean) =>
    Effect.catchAllCause(work, (cause) =>
      Effect.gen(function* () {
        const told = yield* judge(cause, yield* CurrentExchange, "POST", "/oauth")
        if (!isApiError(told)) return told
        if (forPerson) return page(told._tag === "RATE_LIMITED" ? 429 : 500, "server_error")
        switch (told._tag) {
          case "RATE_LIMITED":
            return failure(429, "temporarily_unavailable", {
              "retry-after": String("retryAfterSeconds" in told ? told.retryAfterSeconds : 60)
            })
          case "PAYLOAD_TOO_LARGE":
            return failure(413, "invalid_request")
          case "VALIDATION_FAILED":
            return failure(400, "invalid_request")
          default:
            return failure(500, "server_error", told._tag === "DEPENDENCY_UNAVAILABLE" ? { "retry-after": "2" } : {})
        }
      })
    )

  const authorize = Effect.gen(function* () {
    const request = yield* HttpServerRequest.HttpServerRequest
    const given = new URLSearchParams(queryOf(request.url))
    const clientId = given.get("client_id") ?? ""
    if (clientId.startsWith("https://")) yield* limit("client-document", documentPolicy)
    const params = normalized(authorizationOf(given), server, true)
    const answered = yield* dispatch({
      method: "GET",
      url: `/oauth/authorize?${params.toString()}`,
      headers: { accept: "text/html", cookie: cookiesIn(request) }
    })
    return told(answered)
  })

  /** An answer with a place to go goes there; the rest is for the person. */
  const told = (answered: Dispatch.Answered): Response => {
    if (typeof answered.headers["location"] === "string") return respond(answered, { "referrer-policy": "no-referrer" })
    const error = /"error":"([a-z_]{1,40})"/.exec(answered.body.toString("latin1"))?.[1] ?? ""
    return page(answered.status < 400 ? 400 : answered.status, error)
  }

  const resume = Effect.gen(function* () {
    const request = yield* HttpServerRequest.HttpServerRequest
    const answered = yield* dispatch({
      method: "GET",
      url: pathOf(request.url),
      headers: { accept: "text/html", cookie: cookiesIn(request) }
    })
    return told(answered)
  })

  const formMedia = /^\s*application\/x-www-form-urlencoded\s*(?:;|$)/i
  const jsonMedia = /^\s*application\/json\s*(?:;|$)/i

  const bodyOf = Effect.fnUntraced(function* (media: RegExp) {
    const request = yield* HttpServerRequest.HttpServerRequest
    if (!media.test(request.headers["content-type"] ?? "")) return failure(400, "invalid_request")
    if (Number(request.headers["content-length"] ?? 0) > maxBody) return failure(413, "invalid_request")
    const text = yield* request.text
    if (Buffer.byteLength(text) > maxBody) return failure(413, "invalid_request")
    return text
  })

  const form = (path: string) =>
    Effect.gen(function* () {
      const request = yield* HttpServerRequest.HttpServerRequest
      const text = yield* bodyOf(formMedia)
      if (typeof text !== "string") return text
      const { authorization } = request.headers
      const answered = yield* dispatch({
        method: "POST",
        url: path,
        headers: {
          accept: "application/json",
          "content-type": "application/x-www-form-urlencoded",
          ...(authorization === undefined ? {} : { authorization })
        },
        body: Buffer.from(normalized(new URLSearchParams(text), server, false).toString())
      })
      return respond(renamed(answered), anyOrigin)
    })

  const register = Effect.gen(function* () {
    yield* limit("oauth-register", registrationPolicy)
    const text = yield* bodyOf(jsonMedia)
    if (typeof text !== "string") return text
    const parsed = yield* Effect.option(Effect.try((): unknown => JSON.parse(text)))
    const registration = parsed._tag === "None" ? "invalid_client_metadata" : registrationOf(parsed.value)
    if (typeof registration === "string") return failure(400, registration, anyOrigin)
    const answered = yield* dispatch({
      method: "POST",
      url: "/oauth/register",
      headers: { accept: "application/json", "content-type": "application/json" },
      body: Buffer.from(JSON.stringify(registration))
    })
    return respond(answered, anyOrigin)
  })

  return {
    authorize: guarded(authorize, true),
    resume: guarded(resume, true),
    form: (path: string) => guarded(form(path), false),
    register: guarded(register, false)
  } as const
})

const endpoints = HttpApiBuilder.group(ServerApi, "oauth", (handlers) =>
  Effect.map(make, ({ authorize, form, register, resume }) =>
    handlers
      .handleRaw("authorize", () => authorize)
      .handleRaw("resume", () => resume)
      .handleRaw("token", () => form("/oauth/token"))
      .handleRaw("register", () => register)
      .handleRaw("revoke", () => form("/oauth/revoke"))
  )
)

const preflight = HttpServerResponse.empty({
  status: 204,
  headers: {
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "GET, POST",
    "access-control-allow-headers": "authorization, content-type, mcp-protocol-version",
    "access-control-max-age": "3600"
  }
})

/** Scripts of any page may use these; none may use the authorize endpoint (OAuth 2.1 3.1). */
const preflights = HttpApiBuilder.Router.use((router) =>
  Effect.forEach(
    [
      "/oauth/token",
      "/oauth/register",
      "/oauth/revoke",
      "/.well-known/oauth-authorization-server",
      "/.well-known/oauth-protected-resource",
      "/.well-known/oauth-protected-resource/mcp"
    ] as const,
    (path) => router.options(path, Effect.succeed(preflight)),
    { discard: true }
  )
)

export const layer = Layer.merge(endpoints, preflights)
