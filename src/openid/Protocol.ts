/**
 * OpenID Connect as a relying party, by `openid-client`: discovery, the code flow with PKCE, `iss` of the response (RFC
 * 9207), ID tokens and logout tokens. Signatures of ID tokens are checked although they arrive over TLS. All requests
 * go through `Outbound`, since team owners enter the addresses.
 */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Redacted from "effect/Redacted"
import * as Runtime from "effect/Runtime"
import * as Jose from "jose"
import * as Oidc from "openid-client"
import type { TeamId } from "#schema/Ids.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { sha256 } from "#src/crypto/Crypto.ts"
import { Outbound } from "#src/outbound/Outbound.ts"
import { type Flow, nonceOf, stateOf, verifierOf } from "./Flow.ts"

/** Reason of a refusal, for the trail. The person learns only whether another attempt may help. */
export class SignInRefused extends Data.TaggedError("SignInRefused")<{ readonly reason: string }> {}

export interface Issuer {
  /** Name in the server's settings, or id of a team's issuer. */
  readonly key: string
  readonly teamId: TeamId | null
  /** Text of the button. */
  readonly name: string
  readonly issuer: string
  readonly clientId: string
  /** Null: a public client. */
  readonly secret: Redacted.Redacted | null
  readonly scopes: string
  /** Values of `amr` or `acr` that count as a second factor. */
  readonly factors: ReadonlyArray<string>
  /** The issuer vouches for every address that it names, even without `email_verified`. */
  readonly trustsEmail: boolean
}

/** The issuer's response, and its requirements. */
interface IssuerResponse {
  /** Query of the request, with its question mark. */
  readonly query: string
  /** The issuer was asked for a new proof of presence. */
  readonly fresh: boolean
  /** Names of the claims that are read. */
  readonly claimNames: ReadonlyArray<string>
}

export type Claims = Readonly<Record<string, unknown>> & { readonly iss: string; readonly sub: string }

const fetchMillis = 5_000
const maxAnswer = 262_144
const metadataAge = 3_600_000
const failureCooldown = 10_000
const maxCached = 500
/** Seconds. */
const clockTolerance = 30
/** Maximum age of a sign-in that was requested anew, in seconds. */
const freshAge = 300
/** Asymmetric signatures only: an HMAC keyed with an issuer's public keys could be forged by anyone. */
const algorithms = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"]

/** A name of a person or session at an issuer (`sub`, `sid`): 1 to 255 characters without control characters. */
const isName = (value: unknown): value is string => typeof value === "string" && /^[^\p{Cc}\p{Cs}]{1,255}$/u.test(value)

const word = (value: unknown): string | undefined =>
  typeof value === "string" && /^\w{1,60}$/.test(value) ? value : undefined
const member = (value: unknown, name: string): unknown => (Predicate.hasProperty(value, name) ? value[name] : undefined)

/** Codes only, since the library's messages quote what it received. */
const refusalOf = (error: unknown): SignInRefused => {
  const code = word(member(error, "code")) ?? "ISSUER_UNAVAILABLE"
  const cause = member(error, "cause")
  const detail =
    word(member(error, "error")) ?? word(member(cause, "claim")) ?? word(member(member(cause, "cause"), "claim"))
  return new SignInRefused({ reason: detail === undefined ? code : `${code} ${detail}` })
}

/** `email_verified` counts only for the address beside it. */
const isAbout = (name: string, claims: Claims, userInfo: ReadonlyMap<string, unknown>) =>
  name !== "email_verified" || (claims["email"] ?? userInfo.get("email")) === userInfo.get("email")

/**
 * Adds from UserInfo the claims that the ID token lacks. UserInfo must have the same subject (OpenID Connect Core 1.0,
 * 5.3). If it cannot be read, the sign-in is refused: an unknown group is not a lost one. The same applies to claims
 * held elsewhere (5.6.2, "Aggregated and Distributed Claims"), as by Entra ID for many groups.
 */
const withUserInfo = async (
  config: Oidc.Configuration,
  claims: Claims,
  accessToken: string,
  claimNames: ReadonlyArray<string>
): Promise<Claims> => {
  const tokenClaims = new Map<string, unknown>(Object.entries(claims))
  const missing = claimNames.filter((name) => tokenClaims.get(name) === undefined)
  if (missing.length === 0) return claims
  const isOffered = config.serverMetadata().userinfo_endpoint !== undefined
  const answer = isOffered ? await Oidc.fetchUserInfo(config, accessToken, claims.sub) : {}
  const userInfo = new Map<string, unknown>(Object.entries(answer))
  const added = missing.filter((name) => userInfo.get(name) !== undefined && isAbout(name, claims, userInfo))
  const elsewhere = [claims["_claim_names"], userInfo.get("_claim_names")]
  if (missing.some((name) => !userInfo.has(name) && elsewhere.some((names) => member(names, name) !== undefined))) {
    throw new SignInRefused({ reason: "CLAIMS_ELSEWHERE" })
  }
  return { ...Object.fromEntries(added.map((name) => [name, userInfo.get(name)])), ...claims }
}

const events = "http://schemas.openid.net/event/backchannel-logout"

/** Person or session of a verified logout token, and the end of its life in milliseconds since 1970. */
const logoutOf = (payload: Jose.JWTPayload) => {
  const isLogout = Predicate.hasProperty(payload["events"], events)
  if (!isLogout || "nonce" in payload) throw new SignInRefused({ reason: "NO_LOGOUT_TOKEN" })
  const session = payload["sid"] ?? null
  const subject = payload.sub ?? null
  const isReadable = (name: unknown): name is string | null => name === null || isName(name)
  if (!isReadable(session) || !isReadable(subject)) throw new SignInRefused({ reason: "LOGOUT_TOKEN_NAMES" })
  if (session === null && subject === null) throw new SignInRefused({ reason: "NO_LOGOUT_TOKEN" })
  return { session, subject, endsAt: ((payload.exp ?? payload.iat ?? 0) + 600) * 1_000 }
}

interface CachedConfig {
  readonly until: number
  readonly config: Promise<Oidc.Configuration>
}

/** Metadata of issuers, cached for an hour; after a failure it is read again soon. */
const makeConfigurations = (outbound: Outbound, run: <A, E>(work: Effect.Effect<A, E>) => Promise<A>) => {
  const isOperators = ({ teamId }: Issuer) => teamId === null
  const allows = (of: Issuer, url: string) => (isOperators(of) ? outbound.allowsOperator : outbound.allows)(url)
  const fetching =
    (issuer: Issuer): Oidc.CustomFetch =>
    async (url, { body, headers, method }) => {
      const text = body === null || body === undefined ? undefined : String(body)
      const {
        contentType,
        status,
        text: answer
      } = await run(
        outbound.send({
          method: method === "POST" ? "POST" : "GET",
          url,
          headers,
          ...(text === undefined ? {} : { body: text }),
          millis: fetchMillis,
          maxBytes: maxAnswer,
          byOperator: isOperators(issuer)
        })
      )
      return new Response(answer, { status, headers: { "content-type": contentType ?? "" } })
    }

  const discover = async (of: Issuer): Promise<Oidc.Configuration> => {
    const { clientId, issuer, secret } = of
    if (!allows(of, issuer)) throw new SignInRefused({ reason: "ISSUER_ADDRESS" })
    const text = secret === null ? undefined : Redacted.value(secret)
    const config = await Oidc.discovery(
      new URL(issuer),
      clientId,
      {
        [Oidc.clockTolerance]: clockTolerance,
        ...(text === undefined ? { token_endpoint_auth_method: "none" } : { client_secret: text })
      },
      text === undefined ? Oidc.None() : undefined,
      {
        [Oidc.customFetch]: fetching(of),
        timeout: fetchMillis / 1_000 + 1,
        execute: [
          Oidc.enableNonRepudiationChecks,
          // A loopback server may use an issuer on its machine; `Outbound` decides.
          ...(issuer.startsWith("http:") ? [Oidc.allowInsecureRequests] : [])
        ]
      }
    )
    const offered = config.serverMetadata().id_token_signing_alg_values_supported
    if (offered !== undefined && !offered.some((alg) => algorithms.includes(alg))) {
      throw new SignInRefused({ reason: "ISSUER_ALGORITHMS" })
    }
    return config
  }

  const cache = new Map<string, CachedConfig>()
  const configOf = (issuer: Issuer): Promise<Oidc.Configuration> => {
    const secret = issuer.secret === null ? "" : sha256(Redacted.value(issuer.secret)).toString("base64url")
    const name = JSON.stringify([issuer.key, issuer.issuer, issuer.clientId, secret])
    const cached = cache.get(name)
    if (cached !== undefined && cached.until > performance.now()) return cached.config
    const config = discover(issuer)
    if (cache.size >= maxCached) cache.clear()
    cache.set(name, { config, until: performance.now() + metadataAge })
    config.catch(() => cache.set(name, { config, until: performance.now() + failureCooldown }))
    return config
  }

  return { configOf, fetching, allows } as const
}

export class Protocol extends Effect.Service<Protocol>()("openid/Protocol", {
  effect: Effect.gen(function* () {
    const outbound = yield* Outbound
    const { baseUrl } = yield* AppConfig
    const run = Runtime.runPromise(yield* Effect.runtime<never>())

    const { allows, configOf, fetching } = makeConfigurations(outbound, run)

    const attempt = <A>(work: () => Promise<A>) =>
      Effect.tryPromise({
        try: work,
        catch: (error) => (error instanceof SignInRefused ? error : refusalOf(error))
      })

    /** One address per issuer, so that another issuer's response fails (RFC 9700 4.4). */
    const redirectUri = (issuer: Issuer) => `${baseUrl}/app/sign-in/with/${issuer.key}/callback`

    /** Address for the browser. `fresh`: the issuer must ask for a new proof of presence. */
    const begin = Effect.fn("Protocol.begin")((issuer: Issuer, flow: Flow, fresh: boolean) =>
      attempt(async () => {
        const config = await configOf(issuer)
        const url = Oidc.buildAuthorizationUrl(config, {
          redirect_uri: redirectUri(issuer),
          response_type: "code",
          scope: issuer.scopes,
          state: stateOf(flow),
          nonce: nonceOf(flow),
          code_challenge: await Oidc.calculatePKCECodeChallenge(verifierOf(flow)),
          code_challenge_method: "S256",
          // For an open account the issuer asks again, since another person may be signed in there.
          ...(flow.userId === null ? {} : { prompt: "login" }),
          ...(fresh ? { max_age: String(freshAge) } : {})
        })
        if (!allows(issuer, url.origin)) throw new SignInRefused({ reason: "ISSUER_ADDRESS" })
        return url.href
      })
    )

    /** Exchanges the code, and returns the ID token's claims, completed from UserInfo. */
    const complete = Effect.fn("Protocol.complete")(
      (issuer: Issuer, flow: Flow, { fresh, query, claimNames }: IssuerResponse) =>
        attempt(async (): Promise<Claims> => {
          const config = await configOf(issuer)
          const answer = await Oidc.authorizationCodeGrant(config, new URL(`${redirectUri(issuer)}${query}`), {
            pkceCodeVerifier: verifierOf(flow),
            expectedState: stateOf(flow),
            expectedNonce: nonceOf(flow),
            idTokenExpected: true,
            ...(fresh ? { maxAge: freshAge } : {})
          })
          const claims = answer.claims()
          if (claims === undefined) throw new SignInRefused({ reason: "ID_TOKEN_MISSING" })
          // The library accepts several audiences with a correct `azp`; a token for another client too is refused.
          if (Array.isArray(claims.aud) && claims.aud.length !== 1)
            throw new SignInRefused({ reason: "ID_TOKEN_AUDIENCES" })
          if (!isName(claims.sub) || !(claims["sid"] === undefined || isName(claims["sid"]))) {
            throw new SignInRefused({ reason: "ID_TOKEN_NAMES" })
          }
          return withUserInfo(config, claims, answer.access_token, claimNames)
        })
    )

    /** The person or session that the issuer ends (OpenID Connect Back-Channel Logout 1.0, 2.6). */
    const logout = Effect.fn("Protocol.logout")((issuer: Issuer, token: string) =>
      attempt(async () => {
        const config = await configOf(issuer)
        const { issuer: issuerName, jwks_uri } = config.serverMetadata()
        if (jwks_uri === undefined) throw new SignInRefused({ reason: "ISSUER_KEYS" })
        const keys = Jose.createRemoteJWKSet(new URL(jwks_uri), {
          [Jose.customFetch]: (url, { headers }) =>
            fetching(issuer)(url, {
              method: "GET",
              headers: Object.fromEntries(headers),
              body: null,
              redirect: "manual"
            })
        })
        const { payload } = await Jose.jwtVerify(token, keys, {
          issuer: issuerName,
          audience: issuer.clientId,
          algorithms,
          clockTolerance,
          maxTokenAge: 300,
          requiredClaims: ["iat", "jti", "events"]
        })
        return logoutOf(payload)
      })
    )

    /** Reads a new issuer's metadata before it is stored: it must exist, under its own name. */
    const check = (issuer: Issuer) => Effect.asVoid(attempt(() => configOf(issuer)))

    return { begin, complete, logout, check } as const
  })
}) {}
