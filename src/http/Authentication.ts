/**
 * The credential of a request (decisions 2, 3): 401 - 429 - 403 kind - 403 cross-site, in that order. One check serves
 * all credential sets of `schema/Authentication.ts`; they differ in the kinds they take.
 *
 * A credential of another kind is told so (403) only where it could be presented to some route. The codes of an
 * invitation, a password reset or the setup stand in bodies: as a bearer they are 401 CREDENTIAL_INVALID, good or not,
 * and nothing here looks them up.
 */
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import {
  AnyCredential,
  DeviceCodeCredential,
  GrantCredential,
  OwnTokenCredential,
  PersonCredential,
  SessionCredential
} from "#schema/Authentication.ts"
import type { Caller } from "#schema/Caller.ts"
import { CredentialKindNotAccepted, CrossSiteRequest, Unauthenticated } from "#schema/Errors.ts"
import { type ProjectId, uuidPattern } from "#schema/Ids.ts"
import type { CredentialKind } from "#schema/Scopes.ts"
import { environmentSlugPattern } from "#schema/Values.ts"
import { Audit } from "#src/access/Audit.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Authenticate, type Named, type Verified } from "#src/credentials/Authenticate.ts"
import { DeviceGrants } from "#src/credentials/DeviceGrants.ts"
import * as TokenText from "#src/credentials/TokenText.ts"
import { RateLimiter } from "#src/limits/RateLimiter.ts"
import { pathOf } from "#src/net/RequestPath.ts"
import { countAddress } from "./AddressLimit.ts"
import { countUse, recordRefusal } from "./CredentialUse.ts"
import * as LostParameter from "./LostParameter.ts"
import { CurrentExchange } from "./RequestContext.ts"

/** `Secure` cookies and their `__Host-` prefix need https; plain http is for loopback only (decisions 2). */
const cookieName = (baseUrl: string, name: string): string => (baseUrl.startsWith("https:") ? `__Host-${name}` : name)
export const sessionCookie = (baseUrl: string): string => cookieName(baseUrl, "ampoule_session")
export const deviceCookie = (baseUrl: string): string => cookieName(baseUrl, "ampoule_device")

const bearer = /^bearer(?: +(.*))?$/i

/** With both, the bearer alone counts. Undefined = nothing was presented. */
const presented = (request: HttpServerRequest.HttpServerRequest, cookie: string): string | undefined => {
  const { authorization } = request.headers
  const match = authorization === undefined ? null : bearer.exec(authorization)
  if (match !== null) return match[1]?.trim() || undefined
  // An `Authorization` of another scheme may be a proxy's; without a cookie it is a credential of no kind we know.
  const other = authorization === undefined ? undefined : ""
  return request.headers["cookie"] === undefined ? other : (request.cookies[cookie] ?? other)
}

/** The environment that the query names, so that the statement which verifies the credential reads it too (architecture 4). */
const namedBy = (query: Readonly<Record<string, string | ReadonlyArray<string>>>): Named | undefined => {
  const { environment, projectId } = query
  return typeof projectId === "string" &&
    typeof environment === "string" &&
    environment.length <= 50 &&
    uuidPattern.test(projectId) &&
    environmentSlugPattern.test(environment)
    ? { projectId: projectId.toLowerCase() as ProjectId, environment }
    : undefined
}

const valueRoutes = new Set(["/secrets/value", "/secrets/with-values", "/secrets/inject"])
const sameSite = (site: string | undefined) => site === undefined || site === "same-origin" || site === "none"

/** Whether a session's request may have been made by another site's page. */
export const isCrossSite = (request: HttpServerRequest.HttpServerRequest, baseUrl: string): boolean => {
  if (request.method !== "GET" && request.method !== "HEAD") {
    const { origin } = request.headers
    return (origin !== undefined && origin !== baseUrl) || !sameSite(request.headers["sec-fetch-site"])
  }
  return valueRoutes.has(pathOf(request.url)) && !sameSite(request.headers["sec-fetch-site"])
}

const make = Effect.gen(function* () {
  const authenticate = yield* Authenticate
  const limiter = yield* RateLimiter
  const audit = yield* Audit
  const device = yield* DeviceGrants
  const { baseUrl } = yield* AppConfig
  // Origins are compared as browsers send them; a base URL may carry a path.
  const { origin } = new URL(baseUrl)
  const cookie = sessionCookie(baseUrl)

  /** A 401 counts against the address it came from: guessing is bounded. */
  const refuse = <E>(error: E) => Effect.zipRight(countAddress(limiter), Effect.fail(error))

  const record = (caller: Caller, reason: string) => recordRefusal({ audit, limiter }, caller, { reason })
  const deny = <E extends { readonly _tag: string }>(caller: Caller, error: E) =>
    Effect.zipRight(record(caller, error._tag), Effect.fail(error))

  const credential = Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest) {
    const text = presented(request, cookie)
    return text === undefined ? yield* refuse(new Unauthenticated()) : text
  })

  const verified = Effect.fnUntraced(function* (text: string, named?: Named) {
    const found = yield* Effect.catchAll(authenticate.verify(text, named), refuse)
    if (found.caller.kind === "session") (yield* CurrentExchange).via = "dashboard"
    return found
  })

  const admitted = (found: Verified) =>
    Effect.catchAll(authenticate.admit(found), (error) =>
      Effect.zipRight(record(found.caller, error._tag), refuse(error))
    )

  /** A device code that is good is of the wrong kind everywhere but on its own routes. */
  const refuseDeviceCode = Effect.fnUntraced(function* (text: string) {
    yield* Effect.catchAll(device.live(Redacted.make(text)), refuse)
    yield* countAddress(limiter)
    return yield* new CredentialKindNotAccepted()
  })

  const check = (kinds: ReadonlyArray<CredentialKind>, alsoRevokedTokens = false) =>
    Effect.gen(function* () {
      const request = yield* HttpServerRequest.HttpServerRequest
      const text = yield* credential(request)
      if (TokenText.parse(text)?.kind === "dc") return yield* refuseDeviceCode(text)
      const query = yield* HttpServerRequest.ParsedSearchParams
      const found = yield* verified(text, namedBy(query))
      const { caller } = found
      if (!(alsoRevokedTokens && caller.kind === "api_token" && found.life === "revoked")) yield* admitted(found)
      yield* countUse(limiter, caller)

      if (found.mcpOnly || !kinds.includes(caller.kind)) return yield* deny(caller, new CredentialKindNotAccepted())
      if (caller.kind === "session" && isCrossSite(request, origin)) return yield* deny(caller, new CrossSiteRequest())
      yield* LostParameter.refuse(Object.hasOwn(query, LostParameter.name))
      return caller
    })

  /** The code itself is looked up by the route; any other credential that is good is of the wrong kind. */
  const deviceCode = Effect.gen(function* () {
    const text = yield* credential(yield* HttpServerRequest.HttpServerRequest)
    if (TokenText.parse(text)?.kind === "dc") {
      yield* countAddress(limiter)
      yield* LostParameter.refuse(Object.hasOwn(yield* HttpServerRequest.ParsedSearchParams, LostParameter.name))
      return Redacted.make(text)
    }
    const found = yield* verified(text)
    yield* admitted(found)
    yield* countUse(limiter, found.caller)
    return yield* deny(found.caller, new CredentialKindNotAccepted())
  })

  return Context.empty().pipe(
    Context.add(AnyCredential, check(AnyCredential.kinds)),
    Context.add(PersonCredential, check(PersonCredential.kinds)),
    Context.add(GrantCredential, check(GrantCredential.kinds)),
    Context.add(OwnTokenCredential, check(OwnTokenCredential.kinds, true)),
    Context.add(SessionCredential, check(SessionCredential.kinds)),
    Context.add(DeviceCodeCredential, deviceCode)
  )
})

export const layer = Layer.effectContext(make)
