/**
 * An issuer of OpenID Connect on this machine, which says whatever a test wants: it signs in a person at once, and its
 * answers can be wrong in each way that an answer can.
 */
import * as Effect from "effect/Effect"
import * as Jose from "jose"
import { createHash, createHmac, randomUUID } from "node:crypto"
import type { IncomingMessage } from "node:http"
import { serve } from "#test/machines/LocalIssuer.ts"

/** Claims about the person at the next sign-in. */
export type Person = Readonly<Record<string, unknown>> & { readonly sub: string }

interface Grant {
  readonly nonce: string | undefined
  readonly challenge: string
  readonly redirectUri: string
  used: boolean
}

export interface Mischief {
  /** Changes the claims of the ID token. */
  readonly claims?: Readonly<Record<string, unknown>>
  /** How the ID token is signed, instead of with the issuer's key. */
  readonly sign?: "none" | "hmac-of-key" | "other-key"
  /** Parameters of the answer, replaced; undefined takes one away. */
  readonly answer?: Readonly<Record<string, string | undefined>>
  /** Claims that UserInfo says and the ID token does not. */
  readonly userInfo?: Readonly<Record<string, unknown>>
  /** UserInfo is out of order. */
  readonly userInfoFails?: boolean
}

const bodyOf = (request: IncomingMessage) =>
  new Promise<URLSearchParams>((resolve) => {
    let text = ""
    request.on("data", (chunk: Buffer) => (text += chunk.toString()))
    request.on("end", () => resolve(new URLSearchParams(text)))
  })

const base64 = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url")

export const make = (clientId = "ampoule", clientSecret = "s3cret-of-the-client") =>
  Effect.gen(function* () {
    const pair = yield* Effect.promise(() => Jose.generateKeyPair("RS256", { extractable: true }))
    const other = yield* Effect.promise(() => Jose.generateKeyPair("RS256", { extractable: true }))
    const jwk = {
      ...(yield* Effect.promise(() => Jose.exportJWK(pair.publicKey))),
      kid: "k1",
      alg: "RS256",
      use: "sig"
    }
    const pem = yield* Effect.promise(() => Jose.exportSPKI(pair.publicKey))
    const grants = new Map<string, Grant>()
    const accessTokens = new Map<string, object>()
    const requests: Array<string> = []
    let person: Person = { sub: "nobody" }
    let mischief: Mischief = {}

    const signed = async (claims: Record<string, unknown>): Promise<string> => {
      if (mischief.sign === "none") return `${base64({ alg: "none", kid: "k1" })}.${base64(claims)}.`
      if (mischief.sign === "hmac-of-key") {
        const text = `${base64({ alg: "HS256", kid: "k1" })}.${base64(claims)}`
        return `${text}.${createHmac("sha256", pem).update(text).digest("base64url")}`
      }
      const key = mischief.sign === "other-key" ? other.privateKey : pair.privateKey
      return new Jose.SignJWT(claims).setProtectedHeader({ alg: "RS256", kid: "k1" }).sign(key)
    }

    const tokenAnswer = async (form: URLSearchParams, authorization: string | undefined) => {
      const grant = grants.get(form.get("code") ?? "")
      const verifier = createHash("sha256")
        .update(form.get("code_verifier") ?? "")
        .digest("base64url")
      const secret = authorization ?? `${form.get("client_id")}:${form.get("client_secret")}`
      const isClient =
        secret === `${clientId}:${clientSecret}` ||
        secret === `Basic ${Buffer.from(`${clientId}:${clientSecret}`).toString("base64")}` ||
        secret ===
          `Basic ${Buffer.from(`${clientId}:${encodeURIComponent(clientSecret).replaceAll("-", "%2D")}`).toString("base64")}`
      const isGood =
        grant !== undefined &&
        !grant.used &&
        grant.challenge === verifier &&
        grant.redirectUri === form.get("redirect_uri")
      if (!isGood || !isClient) return { status: 400, body: { error: isClient ? "invalid_grant" : "invalid_client" } }
      grant.used = true
      const now = Math.floor(Date.now() / 1_000)
      const claims: Record<string, unknown> = {
        iss: url,
        aud: clientId,
        iat: now,
        exp: now + 300,
        auth_time: now,
        nonce: grant.nonce,
        ...person,
        ...mischief.claims
      }
      for (const [name, value] of Object.entries(claims)) if (value === undefined) delete claims[name]
      const accessToken = randomUUID()
      accessTokens.set(accessToken, { sub: person.sub, ...mischief.userInfo })
      const body = { access_token: accessToken, token_type: "Bearer", expires_in: 60, id_token: await signed(claims) }
      return { status: 200, body }
    }

    const { url } = yield* serve((request, response) => {
      const at = new URL(request.url ?? "", "http://issuer")
      requests.push(`${request.method} ${at.pathname}`)
      const json = (body: unknown, status = 200) =>
        response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body))
      if (at.pathname === "/.well-known/openid-configuration") {
        return json({
          issuer: url,
          authorization_endpoint: `${url}/authorize`,
          token_endpoint: `${url}/token`,
          jwks_uri: `${url}/jwks`,
          userinfo_endpoint: `${url}/userinfo`,
          response_types_supported: ["code"],
          subject_types_supported: ["public"],
          // As an issuer says it that would take anything.
          id_token_signing_alg_values_supported: ["RS256", "HS256", "none"],
          authorization_response_iss_parameter_supported: true
        })
      }
      if (at.pathname === "/jwks") return json({ keys: [jwk] })
      if (at.pathname === "/userinfo") {
        const said = accessTokens.get((request.headers.authorization ?? "").replace(/^Bearer /, ""))
        return mischief.userInfoFails === true || said === undefined ? json({}, 500) : json(said)
      }
      if (at.pathname === "/authorize") {
        return response.writeHead(303, { location: answerTo(at.searchParams) }).end()
      }
      if (at.pathname !== "/token") return json({}, 404)
      void bodyOf(request)
        .then((form) => tokenAnswer(form, request.headers.authorization))
        .then(({ body, status }) => json(body, status))
    })

    /** Where the issuer sends the browser that came with this request: its person is signed in already. */
    const answerTo = (request: URLSearchParams): string => {
      const code = randomUUID()
      grants.set(code, {
        nonce: request.get("nonce") ?? undefined,
        challenge: request.get("code_challenge") ?? "",
        redirectUri: request.get("redirect_uri") ?? "",
        used: false
      })
      const answer = new URL(request.get("redirect_uri") ?? "")
      const parameters = { code, state: request.get("state") ?? "", iss: url, ...mischief.answer }
      for (const [name, value] of Object.entries(parameters))
        if (value !== undefined) answer.searchParams.set(name, value)
      return answer.href
    }

    /** A logout token, as OpenID Connect Back-Channel Logout 1.0 has it. */
    const logoutToken = (claims: Record<string, unknown>) =>
      Effect.promise(() =>
        new Jose.SignJWT({
          iss: url,
          aud: clientId,
          jti: randomUUID(),
          events: { "http://schemas.openid.net/event/backchannel-logout": {} },
          ...claims
        })
          .setProtectedHeader({ alg: "RS256", kid: "k1", typ: "logout+jwt" })
          .setIssuedAt()
          .setExpirationTime("2m")
          .sign(pair.privateKey)
      )

    return {
      url,
      clientId,
      clientSecret,
      asked: requests,
      answerTo,
      logoutToken,
      signs: (next: Person, wrong: Mischief = {}) => {
        person = next
        mischief = wrong
      }
    }
  })
export type FakeIssuer = Effect.Effect.Success<ReturnType<typeof make>>
