/**
 * Endpoints of the authorization server. A request is cut to its accepted parameters, the library responds, and every
 * failure has the shape of RFC 6749. If no client can receive the error, a page shows it to the person (OAuth 2.1
 * 4.1.2.1).
 */
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { ServerApi } from "#schema/ServerApi.ts"
import { isApiError } from "#schema/ApiError.ts"
import { OAuthErrorResponse } from "#schema/OAuthApi.ts"
import { RequestInfo } from "#src/database/RequestInfo.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { addressBucket } from "#src/limits/AddressBucket.ts"
import { type Policy, RateLimiter } from "#src/limits/RateLimiter.ts"
import * as ClientMetadata from "#src/oauth/Clients.ts"
import { isInteractionCookie } from "#src/oauth/Consent.ts"
import * as Dispatch from "#src/oauth/Dispatch.ts"
import * as Parameters from "#src/oauth/Parameters.ts"
import { AuthorizationServer } from "#src/oauth/Provider.ts"
import * as Endpoints from "#src/http/engine/Endpoints.ts"
import { judge } from "#src/http/engine/ErrorEnvelope.ts"
import { CurrentExchange, pathOf, queryOf } from "#src/http/engine/RequestContext.ts"

type Response = HttpServerResponse.HttpServerResponse

/** Bytes of a form or a registration. */
const maxBody = 64 * 1024
/** New clients per address. An unused client is kept for a day. */
const registrationPolicy: Policy = [{ limit: 10, millis: 60_000 }]
/** Authorizations whose client id is a document's address: each may make this server fetch the document. */
const documentPolicy: Policy = [{ limit: 20, millis: 60_000 }]

const anyOrigin = { "access-control-allow-origin": "*", "access-control-expose-headers": "WWW-Authenticate" }

const failure = (status: number, error: string, headers: Record<string, string> = {}): Response =>
  HttpServerResponse.unsafeJson({ error }, { status, headers: { "cache-control": "no-store", ...headers } })

/** Sentences of the page by error code: fixed texts, no part of the request. */
const sentences: ReadonlyMap<string, string> = new Map([
  ["invalid_client", "The program that sent you here is not known to Ampoule. Start again from it."],
  ["invalid_redirect_uri", "The program that sent you here named a return address that it did not register."],
  ["invalid_request", "The program that sent you here made an invalid request."],
  ["server_error", "Something went wrong. Try again in a moment."]
])

const page = (status: number, error: string): Response =>
  HttpServerResponse.text(
    `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Cannot connect - Ampoule</title><h1>Cannot connect</h1><p>${sentences.get(error) ?? "This request has expired or was already answered. Start again from the program that sent you here."}</p></html>`,
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

/** The registration for the library, or the error code as a string. */
const registrationOf = (body: unknown): string | Readonly<Record<string, unknown>> => {
  const metadata = ClientMetadata.cut(body)
  if (metadata === undefined) return "invalid_client_metadata"
  return ClientMetadata.problemOf(metadata) ?? metadata
}

const grantTypeRefused = "requested grant type is not allowed for this client"
const readError = Schema.decodeOption(Schema.parseJson(OAuthErrorResponse))
/** Restores RFC 6749 5.2: the library repeats the requested scope, and names one error differently. */
const withStandardError = (response: Dispatch.LibraryResponse): Dispatch.LibraryResponse =>
  Option.match(response.status === 400 ? readError(response.body.toString()) : Option.none(), {
    onNone: () => response,
    onSome: ({ error, error_description }) => {
      const code = error_description === grantTypeRefused ? "unauthorized_client" : error
      return { ...response, body: Buffer.from(JSON.stringify({ error: code, error_description })) }
    }
  })

interface Needs {
  readonly server: AuthorizationServer
  readonly limiter: RateLimiter
  readonly secure: boolean
}

const limit = ({ limiter }: Needs, bucket: string, policy: Policy) =>
  Effect.flatMap(RequestInfo, ({ ip }) => limiter.take(`${bucket}:${addressBucket(ip)}`, policy))

/** Lets the library respond. A failure inside it, such as a lost database, becomes a defect instead of its 500. */
const dispatch = Effect.fnUntraced(function* ({ server }: Needs, libraryRequest: Dispatch.LibraryRequest) {
  const { callback, problemOf } = yield* server.instance
  const request = Dispatch.requestOf(server.issuer, libraryRequest)
  const { done, response } = Dispatch.responseTo(request)
  const libraryResponse = yield* Effect.promise(async () => {
    await callback(request, response)
    return done
  })
  const problem = problemOf(request)
  return problem === undefined ? libraryResponse : yield* Effect.die(problem)
})

/** Sets the library's cookies unchanged, because it signs each name and value. */
const withCookies = ({ secure }: Needs, response: Response, cookies: ReadonlyArray<string>): Response =>
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

/** Headers of the library that leave with its response. */
const keptHeaders = ["location", "www-authenticate", "pragma"]

const respond = (
  needs: Needs,
  { body, headers, status }: Dispatch.LibraryResponse,
  extra: Record<string, string> = {}
): Response => {
  const responseHeaders: Record<string, string> = { "cache-control": "no-store", ...extra }
  for (const name of keptHeaders) {
    const value = headers[name]
    if (typeof value === "string") responseHeaders[name] = value
  }
  const contentType = headers["content-type"]
  const response =
    body.length === 0
      ? HttpServerResponse.empty({ status, headers: responseHeaders })
      : HttpServerResponse.uint8Array(body, {
          status,
          headers: responseHeaders,
          contentType: typeof contentType === "string" ? contentType : "application/json"
        })
  return withCookies(needs, response, Dispatch.cookiesOf(headers, isInteractionCookie))
}

/** A redirect is followed; any other response becomes a page for the person. */
const redirectOrPage = (needs: Needs, response: Dispatch.LibraryResponse): Response => {
  if (typeof response.headers["location"] === "string") {
    return respond(needs, response, { "referrer-policy": "no-referrer" })
  }
  const error = /"error":"([a-z_]{1,40})"/.exec(response.body.toString("latin1"))?.[1] ?? ""
  return page(response.status < 400 ? 400 : response.status, error)
}

const interactionCookies = (request: HttpServerRequest.HttpServerRequest) =>
  Dispatch.cookieHeader(request.headers["cookie"], isInteractionCookie)

/** Turns any failure into a page for a person, or into the shape of RFC 6749. */
const guarded = <E, R>(work: Effect.Effect<Response, E, R>, forPerson: boolean) =>
  Effect.catchAllCause(work, (cause) =>
    Effect.gen(function* () {
      const error = yield* judge(cause, yield* CurrentExchange, "POST", "/oauth")
      if (!isApiError(error)) return error
      if (forPerson) return page(error._tag === "RATE_LIMITED" ? 429 : 500, "server_error")
      switch (error._tag) {
        case "RATE_LIMITED":
          return failure(429, "temporarily_unavailable", {
            "retry-after": String("retryAfterSeconds" in error ? error.retryAfterSeconds : 60)
          })
        case "PAYLOAD_TOO_LARGE":
          return failure(413, "invalid_request")
        case "VALIDATION_FAILED":
          return failure(400, "invalid_request")
        default:
          return failure(500, "server_error", error._tag === "DEPENDENCY_UNAVAILABLE" ? { "retry-after": "2" } : {})
      }
    })
  )

const authorize = Effect.fnUntraced(function* (needs: Needs) {
  const request = yield* HttpServerRequest.HttpServerRequest
  const parameters = new URLSearchParams(queryOf(request.url))
  const clientId = parameters.get("client_id") ?? ""
  if (clientId.startsWith("https://")) yield* limit(needs, "client-document", documentPolicy)
  const response = yield* dispatch(needs, {
    method: "GET",
    url: `/oauth/authorize?${Parameters.ofAuthorization(parameters, needs.server).toString()}`,
    headers: { accept: "text/html", cookie: interactionCookies(request) }
  })
  return redirectOrPage(needs, response)
})

const resume = Effect.fnUntraced(function* (needs: Needs) {
  const request = yield* HttpServerRequest.HttpServerRequest
  const response = yield* dispatch(needs, {
    method: "GET",
    url: pathOf(request.url),
    headers: { accept: "text/html", cookie: interactionCookies(request) }
  })
  return redirectOrPage(needs, response)
})

const formMedia = /^\s*application\/x-www-form-urlencoded\s*(?:;|$)/i
const jsonMedia = /^\s*application\/json\s*(?:;|$)/i

/** The body's text, or the response that refuses it. */
const bodyOf = Effect.fnUntraced(function* (media: RegExp) {
  const request = yield* HttpServerRequest.HttpServerRequest
  if (!media.test(request.headers["content-type"] ?? "")) return failure(400, "invalid_request")
  if (Number(request.headers["content-length"] ?? 0) > maxBody) return failure(413, "invalid_request")
  const text = yield* request.text
  if (Buffer.byteLength(text) > maxBody) return failure(413, "invalid_request")
  return text
})

const form = Effect.fnUntraced(function* (needs: Needs, path: string) {
  const request = yield* HttpServerRequest.HttpServerRequest
  const text = yield* bodyOf(formMedia)
  if (typeof text !== "string") return text
  const { authorization } = request.headers
  const response = yield* dispatch(needs, {
    method: "POST",
    url: path,
    headers: {
      accept: "application/json",
      "content-type": "application/x-www-form-urlencoded",
      ...(authorization === undefined ? {} : { authorization })
    },
    body: Buffer.from(Parameters.ofForm(new URLSearchParams(text), needs.server).toString())
  })
  return respond(needs, withStandardError(response), anyOrigin)
})

const register = Effect.fnUntraced(function* (needs: Needs) {
  yield* limit(needs, "oauth-register", registrationPolicy)
  const text = yield* bodyOf(jsonMedia)
  if (typeof text !== "string") return text
  const parsed = yield* Effect.option(Effect.try((): unknown => JSON.parse(text)))
  const registration = parsed._tag === "None" ? "invalid_client_metadata" : registrationOf(parsed.value)
  if (typeof registration === "string") return failure(400, registration, anyOrigin)
  const response = yield* dispatch(needs, {
    method: "POST",
    url: "/oauth/register",
    headers: { accept: "application/json", "content-type": "application/json" },
    body: Buffer.from(JSON.stringify(registration))
  })
  return respond(needs, response, anyOrigin)
})

const endpoints = Endpoints.group(ServerApi, "oauth", (handlers) =>
  Effect.gen(function* () {
    const { baseUrl } = yield* AppConfig
    const needs: Needs = {
      server: yield* AuthorizationServer,
      limiter: yield* RateLimiter,
      secure: baseUrl.startsWith("https:")
    }
    return handlers
      .handleRaw("authorize", () => guarded(authorize(needs), true))
      .handleRaw("resume", () => guarded(resume(needs), true))
      .handleRaw("token", () => guarded(form(needs, "/oauth/token"), false))
      .handleRaw("register", () => guarded(register(needs), false))
      .handleRaw("revoke", () => guarded(form(needs, "/oauth/revoke"), false))
  })
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
