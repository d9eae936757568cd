/**
 * The credential of a request: 401, 429, 403 for its kind, 403 for a cross-site request, in that order. One check
 * serves all credential sets of `schema/Authentication.ts`; they differ in the kinds they accept.
 *
 * A credential of another kind gets 403 only if some route accepts that kind. The codes of an invitation, a password
 * reset or the setup belong in bodies. As a bearer they get 401 CREDENTIAL_INVALID, valid or not, without a look-up.
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
  ManagementCredential,
  ManagingCredential,
  OwnSessionCredential,
  OwnTokenCredential,
  PersonCredential,
  SessionCredential
} from "#schema/Authentication.ts"
import type { Caller } from "#schema/Caller.ts"
import {
  CredentialKindNotAccepted,
  CrossSiteRequest,
  RateLimited,
  SecondFactorMissing,
  Unauthenticated
} from "#schema/Errors.ts"
import { type ProjectId, uuidPattern } from "#schema/Ids.ts"
import type { CredentialKind } from "#schema/Scopes.ts"
import { environmentSlugPattern } from "#schema/Values.ts"
import { Audit } from "#src/trail/Audit.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Authenticate } from "#src/credentials/Authenticate.ts"
import type { Verified } from "#src/credentials/CredentialCallers.ts"
import type { EnvironmentName } from "#src/credentials/CredentialRows.ts"
import { DeviceGrants } from "#src/credentials/DeviceGrants.ts"
import * as TokenText from "#src/credentials/TokenText.ts"
import { credentialPolicy, type Policy, RateLimiter } from "#src/limits/RateLimiter.ts"
import { countAddress } from "#src/http/engine/AddressLimit.ts"
import * as LostParameter from "#src/http/engine/LostParameter.ts"
import { CurrentExchange, pathOf } from "#src/http/engine/RequestContext.ts"

/** `Secure` cookies and their `__Host-` prefix need https; plain http is for loopback only. */
const cookieName = (baseUrl: string, name: string): string => (baseUrl.startsWith("https:") ? `__Host-${name}` : name)
export const sessionCookie = (baseUrl: string): string => cookieName(baseUrl, "ampoule_session")
export const deviceCookie = (baseUrl: string): string => cookieName(baseUrl, "ampoule_device")

export const stepCookie = (baseUrl: string): string => cookieName(baseUrl, "ampoule_step")
export const passkeyCookie = (baseUrl: string): string => cookieName(baseUrl, "ampoule_passkey")
export const flowCookie = (baseUrl: string): string => cookieName(baseUrl, "ampoule_flow")

const bearer = /^bearer(?: +(.*))?$/i

/** Text of the bearer, else of the cookie; undefined without either. */
const presentedText = (request: HttpServerRequest.HttpServerRequest, cookie: string): string | undefined => {
  const { authorization } = request.headers
  const match = authorization === undefined ? null : bearer.exec(authorization)
  if (match !== null) return match[1]?.trim() || undefined
  // An `Authorization` of another scheme may be a proxy's; without a cookie it is a credential of no kind we know.
  const other = authorization === undefined ? undefined : ""
  return request.headers["cookie"] === undefined ? other : (request.cookies[cookie] ?? other)
}

/** The environment that the query names: the statement that verifies the credential reads it too. */
const namedBy = (query: Readonly<Record<string, string | ReadonlyArray<string>>>): EnvironmentName | undefined => {
  const { environment, projectId } = query
  // A cast, because the pattern was just checked and this runs with every request.
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

/** True when another site's page may have made the session's request. */
export const isCrossSite = (request: HttpServerRequest.HttpServerRequest, baseUrl: string): boolean => {
  if (request.method !== "GET" && request.method !== "HEAD") {
    const { origin } = request.headers
    return (origin !== undefined && origin !== baseUrl) || !sameSite(request.headers["sec-fetch-site"])
  }
  return valueRoutes.has(pathOf(request.url)) && !sameSite(request.headers["sec-fetch-site"])
}

// --- the use of an identified credential, for REST and `/mcp` alike ---

/** Limit of recorded refusals per credential, so that no client can flood the audit trail. */
const recordedRefusals: Policy = [{ limit: 10, millis: 60_000 }]

/** Records a refused request of an identified credential; over `/mcp`, with the name of the tool. */
export const recordRefusal = Effect.fnUntraced(function* (
  { audit, limiter }: { readonly audit: Audit; readonly limiter: RateLimiter },
  caller: Caller,
  { reason, tool }: { readonly reason: string; readonly tool?: string }
) {
  const state = yield* limiter.count(`refusals:${caller.credentialId}`, recordedRefusals)
  if (state?.allowed === false) return
  yield* audit.record({
    actor: caller,
    action: "credential.refused",
    outcome: "denied",
    teamId: caller.teams.length === 1 ? caller.teams[0].id : null,
    reason,
    ...(tool === undefined ? {} : { target: { type: "tool", id: tool, name: tool } })
  })
})

/** Counts a request in the credential's bucket and puts the state of that bucket on the response. */
export const countUse = Effect.fnUntraced(function* (limiter: RateLimiter, caller: Caller) {
  const exchange = yield* CurrentExchange
  exchange.authenticated = true
  exchange.rateLimit = yield* limiter.count(`credential:${caller.credentialId}`, credentialPolicy)
  if (exchange.rateLimit?.allowed === false) {
    return yield* new RateLimited({ retryAfterSeconds: exchange.rateLimit.retryAfterSeconds })
  }
})

// --- the checks ---

interface Needs {
  readonly authenticate: Authenticate
  readonly limiter: RateLimiter
  readonly audit: Audit
  readonly device: DeviceGrants
  /** Origins are compared as browsers send them; a base URL may carry a path. */
  readonly origin: string
  readonly cookie: string
}

/** A 401 counts against the address it came from: guessing is bounded. */
const refuse = <E>({ limiter }: Needs, error: E) => Effect.zipRight(countAddress(limiter), Effect.fail(error))

const deny = <E extends { readonly _tag: string }>(needs: Needs, caller: Caller, error: E) =>
  Effect.zipRight(recordRefusal(needs, caller, { reason: error._tag }), Effect.fail(error))

/** The presented text, and its parsed form if it is one of our tokens. Parsed once for all later steps. */
const presentedCredential = (needs: Needs, request: HttpServerRequest.HttpServerRequest) => {
  const text = presentedText(request, needs.cookie)
  return text === undefined
    ? refuse(needs, new Unauthenticated())
    : Effect.succeed({ text, token: TokenText.parse(text) })
}

const verify = (needs: Needs, token: TokenText.TokenText | undefined, environment?: EnvironmentName) =>
  Effect.catchAll(needs.authenticate.verify(token, environment), (error) => refuse(needs, error))

const admit = (needs: Needs, credential: Verified) =>
  Effect.catchAll(needs.authenticate.admit(credential), (error) =>
    Effect.zipRight(recordRefusal(needs, credential.caller, { reason: error._tag }), refuse(needs, error))
  )

/** A valid device code is of the wrong kind everywhere but on its own routes. */
const refuseDeviceCode = Effect.fnUntraced(function* (needs: Needs, text: string) {
  yield* Effect.catchAll(needs.device.live(Redacted.make(text)), (error) => refuse(needs, error))
  yield* countAddress(needs.limiter)
  return yield* new CredentialKindNotAccepted()
})

/** Runs for every request with a credential: one generator, which yields only steps that can wait or refuse. */
const check = (needs: Needs, kinds: ReadonlyArray<CredentialKind>, alsoRevokedTokens = false) =>
  Effect.gen(function* () {
    const request = yield* HttpServerRequest.HttpServerRequest
    const exchange = yield* CurrentExchange
    const query = yield* HttpServerRequest.ParsedSearchParams
    const { text, token } = yield* presentedCredential(needs, request)
    if (token?.kind === "dc") return yield* refuseDeviceCode(needs, text)
    const verified = yield* verify(needs, token, namedBy(query))
    const { caller } = verified
    exchange.owner = caller.named?.teamId ?? caller.teams[0]?.id ?? exchange.ip
    if (caller.kind === "session") exchange.via = "dashboard"
    if (!(alsoRevokedTokens && caller.kind === "api_token" && verified.life === "revoked"))
      yield* admit(needs, verified)
    yield* countUse(needs.limiter, caller)

    if (verified.mcpOnly || !kinds.includes(caller.kind)) {
      return yield* deny(needs, caller, new CredentialKindNotAccepted())
    }
    if ((caller.kind === "session" || caller.kind === "management") && isCrossSite(request, needs.origin)) {
      return yield* deny(needs, caller, new CrossSiteRequest())
    }
    if (Object.hasOwn(query, LostParameter.name)) yield* LostParameter.refuse(true)
    return caller
  })

/** Refuses a session that still owes a team its second factor. */
const checkWithFactor = (...[needs, ...of]: Parameters<typeof check>) =>
  Effect.flatMap(check(needs, ...of), (caller) =>
    caller.withheld.length > 0 ? deny(needs, caller, new SecondFactorMissing()) : Effect.succeed(caller)
  )

/** The code itself is looked up by the route; any other valid credential is of the wrong kind. */
const deviceCode = (needs: Needs) =>
  Effect.gen(function* () {
    const { text, token } = yield* presentedCredential(needs, yield* HttpServerRequest.HttpServerRequest)
    if (token?.kind === "dc") {
      yield* countAddress(needs.limiter)
      yield* LostParameter.refuse(Object.hasOwn(yield* HttpServerRequest.ParsedSearchParams, LostParameter.name))
      return Redacted.make(text)
    }
    const verified = yield* verify(needs, token)
    if (verified.caller.kind === "session") (yield* CurrentExchange).via = "dashboard"
    yield* admit(needs, verified)
    yield* countUse(needs.limiter, verified.caller)
    return yield* deny(needs, verified.caller, new CredentialKindNotAccepted())
  })

const make = Effect.gen(function* () {
  const { baseUrl } = yield* AppConfig
  const needs: Needs = {
    authenticate: yield* Authenticate,
    limiter: yield* RateLimiter,
    audit: yield* Audit,
    device: yield* DeviceGrants,
    origin: new URL(baseUrl).origin,
    cookie: sessionCookie(baseUrl)
  }
  return Context.empty().pipe(
    Context.add(AnyCredential, checkWithFactor(needs, AnyCredential.kinds)),
    Context.add(PersonCredential, checkWithFactor(needs, PersonCredential.kinds)),
    Context.add(GrantCredential, check(needs, GrantCredential.kinds)),
    Context.add(OwnTokenCredential, checkWithFactor(needs, OwnTokenCredential.kinds, true)),
    Context.add(ManagementCredential, check(needs, ManagementCredential.kinds)),
    Context.add(ManagingCredential, checkWithFactor(needs, ManagingCredential.kinds)),
    Context.add(SessionCredential, checkWithFactor(needs, SessionCredential.kinds)),
    Context.add(OwnSessionCredential, check(needs, OwnSessionCredential.kinds)),
    Context.add(DeviceCodeCredential, deviceCode(needs))
  )
})

export const layer = Layer.effectContext(make)
