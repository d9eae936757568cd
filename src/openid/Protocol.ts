/**
 * OpenID Connect as a relying party, by `openid-client`: discovery, the code flow with PKCE, `iss` of the answer (RFC 9207),
 * ID tokens whose signature is checked although they come over TLS, and logout tokens. All that it fetches goes through
 * `Outbound`: team owners write down addresses of issuers.
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

/** Why a sign-in was refused: words for the trail. The person learns no more than whether trying again may help. */
export class SignInRefused extends Data.TaggedError("SignInRefused")<{ readonly reason: string }> {}

export interface Issuer {
  /** Of the installation: the name in its settings. Of a team: an id. */
  readonly key: string
  readonly teamId: TeamId | null
  /** On the button. */
  readonly name: string
  readonly issuer: string
  readonly clientId: string
  /** Null: a public client. */
  readonly secret: Redacted.Redacted | null
  readonly scopes: string
  /** Values of `amr` or `acr` that count as a second factor. */
  readonly factors: ReadonlyArray<string>
  /** It vouches for every address that it names, also where it does not say `email_verified`. */
  readonly trustsEmail: boolean
}

/** The issuer's answer, and what is asked of it. */
interface Answered {
  /** Of the request, with its question mark. */
  readonly query: string
  /** The person was asked to prove there that they are present. */
  readonly fresh: boolean
  /** Names of claims that somebody looks at. */
  readonly wanted: ReadonlyArray<string>
}

export type Claims = Readonly<Record<string, unknown>> & { readonly iss: string; readonly sub: string }

const fetchMillis = 5_000
const maxAnswer = 262_144
const metadataAge = 3_600_000
const failureCooldown = 10_000
const maxKnown = 500
/** Seconds. */
const clockTolerance = 30
/** Seconds that a sign-in may be old which was asked for anew. */
const freshAge = 300
/** Asymmetric signatures only: whoever reads an issuer's keys could make an HMAC of them. */
const algorithms = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"]

const word = (value: unknown): string | undefined =>
  typeof value === "string" && /^\w{1,60}$/.test(value) ? value : undefined
const member = (value: unknown, name: string): unknown => (Predicate.hasProperty(value, name) ? value[name] : undefined)

/** Codes alone: messages of the library quote what it was sent. */
const refusalOf = (error: unknown): SignInRefused => {
  const code = word(member(error, "code")) ?? "ISSUER_UNAVAILABLE"
  const cause = member(error, "cause")
  const detail =
    word(member(error, "error")) ?? word(member(cause, "claim")) ?? word(member(member(cause, "cause"), "claim"))
  return new SignInRefused({ reason: detail === undefined ? code : `${code} ${detail}` })
}

/** An address is vouched for where it is said; `email_verified` of one is no word about another. */
const isAbout = (name: string, claims: Claims, said: ReadonlyMap<string, unknown>) =>
  name !== "email_verified" || (claims["email"] ?? said.get("email")) === said.get("email")

/**
 * What the ID token lacks of `wanted`, from UserInfo, which has to be about the same subject (OpenID Connect Core 1.0, 5.3).
 * Where it cannot be asked the sign-in is refused: a group that nobody could look up is not a group that was lost. Neither is
 * one that is kept elsewhere (5.6.2, "Aggregated and Distributed Claims"), as Entra ID does with many.
 */
const withUserInfo = async (
  config: Oidc.Configuration,
  claims: Claims,
  accessToken: string,
  wanted: ReadonlyArray<string>
): Promise<Claims> => {
  const held = new Map<string, unknown>(Object.entries(claims))
  const lacks = wanted.filter((name) => held.get(name) === undefined)
  if (lacks.length === 0) return claims
  const isOffered = config.serverMetadata().userinfo_endpoint !== undefined
  const answer = isOffered ? await Oidc.fetchUserInfo(config, accessToken, claims.sub) : {}
  const said = new Map<string, unknown>(Object.entries(answer))
  const found = lacks.filter((name) => said.get(name) !== undefined && isAbout(name, claims, said))
  const elsewhere = [claims["_claim_names"], said.get("_claim_names")]
  if (lacks.some((name) => !said.has(name) && elsewhere.some((names) => member(names, name) !== undefined))) {
    throw new SignInRefused({ reason: "CLAIMS_ELSEWHERE" })
  }
  return { ...Object.fromEntries(found.map((name) => [name, said.get(name)])), ...claims }
}

const events = "http://schemas.openid.net/event/backchannel-logout"

interface Known {
  readonly until: number
  readonly config: Promise<Oidc.Configuration>
}

/** Metadata of issuers, held for an hour; what could not be read is asked for again soon. */
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
          // A server that only its own machine reaches may use an issuer there; `Outbound` decides.
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

  const known = new Map<string, Known>()
  const configOf = (issuer: Issuer): Promise<Oidc.Configuration> => {
    const secret = issuer.secret === null ? "" : sha256(Redacted.value(issuer.secret)).toString("base64url")
    const name = JSON.stringify([issuer.key, issuer.issuer, issuer.clientId, secret])
    const held = known.get(name)
    if (held !== undefined && held.until > performance.now()) return held.config
    const config = discover(issuer)
    if (known.size >= maxKnown) known.clear()
    known.set(name, { config, until: performance.now() + metadataAge })
    config.catch(() => known.set(name, { config, until: performance.now() + failureCooldown }))
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

    /** One address per issuer: an answer of another one does not arrive here (RFC 9700 4.4). */
    const redirectUri = (issuer: Issuer) => `${baseUrl}/app/sign-in/with/${issuer.key}/callback`

    /** Where the browser goes. `fresh`: the person proves there that they are present. */
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
          // For an account that is open here, the issuer asks who it is once more: another person may be signed in there.
          ...(flow.userId === null ? {} : { prompt: "login" }),
          ...(fresh ? { max_age: String(freshAge) } : {})
        })
        if (!allows(issuer, url.origin)) throw new SignInRefused({ reason: "ISSUER_ADDRESS" })
        return url.href
      })
    )

    /** The claims of the ID token that the code of the issuer's answer was exchanged for; UserInfo's, of those that it lacks. */
    const complete = Effect.fn("Protocol.complete")((issuer: Issuer, flow: Flow, { fresh, query, wanted }: Answered) =>
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
        // The library takes several audiences where `azp` is right; no other client has business in ours.
        if (Array.isArray(claims.aud) && claims.aud.length !== 1)
          throw new SignInRefused({ reason: "ID_TOKEN_AUDIENCES" })
        return withUserInfo(config, claims, answer.access_token, wanted)
      })
    )

    /** Whose session, or which one, the issuer ends (OpenID Connect Back-Channel Logout 1.0, 2.6). */
    const logout = Effect.fn("Protocol.logout")((issuer: Issuer, token: string) =>
      attempt(async () => {
        const config = await configOf(issuer)
        const { issuer: named, jwks_uri } = config.serverMetadata()
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
          issuer: named,
          audience: issuer.clientId,
          algorithms,
          clockTolerance,
          maxTokenAge: 300,
          requiredClaims: ["iat", "jti", "events"]
        })
        const asked = Predicate.hasProperty(payload["events"], events)
        if (!asked || "nonce" in payload) throw new SignInRefused({ reason: "NO_LOGOUT_TOKEN" })
        const session = typeof payload["sid"] === "string" ? payload["sid"] : null
        const subject = payload.sub ?? null
        if (session === null && subject === null) throw new SignInRefused({ reason: "NO_LOGOUT_TOKEN" })
        return { session, subject, endsAt: ((payload.exp ?? payload.iat ?? 0) + 600) * 1_000 }
      })
    )

    /** What a new issuer is asked for before it is kept: that it is there, and is what it says. */
    const check = (issuer: Issuer) => Effect.asVoid(attempt(() => configOf(issuer)))

    return { begin, complete, logout, check } as const
  })
}) {}
