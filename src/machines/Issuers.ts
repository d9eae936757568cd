/**
 * Verification of CI issuers' JWTs: keys by OpenID Connect Discovery 1.0 and JWKS (RFC 7517), signature and claims by
 * `jose`. The server calls only issuers that a trust rule names.
 */
import * as Cache from "effect/Cache"
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Runtime from "effect/Runtime"
import * as Schema from "effect/Schema"
import * as Jose from "jose"
import { Outbound } from "#src/outbound/Outbound.ts"

/** Reason of a refusal, for the trail. */
class JwtRefused extends Data.TaggedError("JwtRefused")<{
  readonly reason: "JWT_INVALID" | "JWT_EXPIRED" | "ISSUER_UNAVAILABLE"
}> {}

/** Asymmetric signatures only: with `none` or an HMAC, every reader of the keys could sign. */
const algorithms = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"]

/** Seconds. */
export const leeway = 30
/** Longest time from `iat`, in seconds: CI issuers sign for the length of a job. */
const longestAge = 86_400
/** Characters; a JWT of a CI issuer has 1 to 3 KiB. */
const maxLength = 16_384
const compact = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/

const fetchMillis = 4_000
const maxDiscovery = 65_536
const maxKeys = 262_144
/** Milliseconds before another attempt to read keys. */
const failureCooldown = 10_000
const keysCooldown = 30_000
const keysAge = 600_000

const Discovery = Schema.parseJson(Schema.Struct({ issuer: Schema.String, jwks_uri: Schema.String }))
const decodeDiscovery = Schema.decodeUnknown(Discovery)

interface UnverifiedJwt {
  readonly issuer: string
  readonly audience: string
}

/**
 * The unverified issuer and audience of a JWT. None: not a JWT, or one with several audiences, any of which could
 * forward it.
 */
export const peek = (jwt: string): Option.Option<UnverifiedJwt> => {
  if (jwt.length > maxLength || !compact.test(jwt)) return Option.none()
  return Option.flatMap(Option.liftThrowable(() => Jose.decodeJwt(jwt))(), ({ aud, iss }) => {
    const audience = Array.isArray(aud) && aud.length === 1 ? aud[0] : aud
    return typeof iss === "string" && typeof audience === "string"
      ? Option.some({ issuer: iss, audience })
      : Option.none()
  })
}

const refusalOf = (error: unknown): JwtRefused => {
  const code = error instanceof Jose.errors.JOSEError ? error.code : undefined
  switch (code) {
    case "ERR_JWT_EXPIRED":
      return new JwtRefused({ reason: "JWT_EXPIRED" })
    // A failed fetch, or a response without a key set.
    case undefined:
    case "ERR_JOSE_GENERIC":
    case "ERR_JWKS_TIMEOUT":
    case "ERR_JWKS_INVALID":
      return new JwtRefused({ reason: "ISSUER_UNAVAILABLE" })
    default:
      return new JwtRefused({ reason: "JWT_INVALID" })
  }
}

export class Issuers extends Effect.Service<Issuers>()("machines/Issuers", {
  effect: Effect.gen(function* () {
    const outbound = yield* Outbound
    const runtime = yield* Effect.runtime<never>()
    const run = Runtime.runPromise(runtime)
    const unavailable = new JwtRefused({ reason: "ISSUER_UNAVAILABLE" })

    const read = (url: string, maxBytes: number) =>
      Effect.filterOrFail(
        outbound.send({ method: "GET", url, headers: { accept: "application/json" }, millis: fetchMillis, maxBytes }),
        ({ status }) => status === 200,
        () => unavailable
      )

    const keysAt = (url: string): Jose.JWTVerifyGetKey => {
      let failedAt = Number.NEGATIVE_INFINITY
      return Jose.createRemoteJWKSet(new URL(url), {
        cooldownDuration: keysCooldown,
        cacheMaxAge: keysAge,
        timeoutDuration: fetchMillis + 1_000,
        // The library's own cool-down starts only after a success.
        [Jose.customFetch]: async () => {
          if (performance.now() - failedAt < failureCooldown) throw unavailable
          try {
            const { text } = await run(read(url, maxKeys))
            return new Response(text, { status: 200 })
          } catch {
            failedAt = performance.now()
            throw unavailable
          }
        }
      })
    }

    const discover = Effect.fn("Issuers.discover")(
      function* (issuer: string) {
        const { text } = yield* read(`${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`, maxDiscovery)
        const { issuer: issuerName, jwks_uri } = yield* decodeDiscovery(text)
        // "MUST be identical": refuses another issuer's document (OpenID Connect Discovery 4.3).
        if (issuerName !== issuer || !outbound.allows(jwks_uri)) return yield* unavailable
        return keysAt(jwks_uri)
      },
      Effect.mapError(() => unavailable)
    )

    const issuers = yield* Cache.makeWith({
      capacity: 500,
      lookup: discover,
      timeToLive: Exit.match({ onFailure: () => failureCooldown, onSuccess: () => 3_600_000 })
    })

    /** Claims of a JWT in force that its issuer signed for this audience. */
    const verify = Effect.fn("Issuers.verify")(function* (expected: UnverifiedJwt, jwt: string) {
      // Uninterruptible, since other requests may wait for the same look-up.
      const keys = yield* Effect.uninterruptible(issuers.get(expected.issuer))
      const now = yield* Clock.currentTimeMillis
      const { payload } = yield* Effect.tryPromise({
        try: () =>
          Jose.jwtVerify(jwt, keys, {
            issuer: expected.issuer,
            audience: expected.audience,
            algorithms,
            clockTolerance: leeway,
            maxTokenAge: longestAge,
            requiredClaims: ["sub", "exp"],
            currentDate: new Date(now)
          }),
        catch: refusalOf
      })
      const { exp, iat, sub } = payload
      if (typeof sub !== "string" || sub === "" || exp === undefined || iat === undefined) {
        return yield* new JwtRefused({ reason: "JWT_INVALID" })
      }
      return { payload, subject: sub, endsAt: Math.min(exp, iat + longestAge) * 1_000 }
    })

    return { verify } as const
  })
}) {}
