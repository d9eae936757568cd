/** Configuration of `oidc-provider`, restricted to OAuth 2.1 for one resource, `{base}/mcp`. */
import { createHmac, generateKeyPairSync, randomBytes } from "node:crypto"
import type { Configuration, JWK } from "oidc-provider"
import { allScopes } from "#schema/Scopes.ts"
import type { KeyRing, RingKey } from "#src/crypto/KeyRing.ts"
import * as TokenText from "#src/credentials/TokenText.ts"
import * as Clients from "./Clients.ts"
import type { Library } from "./Library.ts"
import type { MetadataFetch } from "./MetadataFetch.ts"
import { grantSeconds } from "./OAuthGrants.ts"

/** Lifetimes, in seconds. */
const accessSeconds = 900
const codeSeconds = 60
/** Time from the client's request to the person's decision. */
const interactionSeconds = 1_800

export interface ConfigurationNeeds {
  readonly library: Library
  readonly adapter: NonNullable<Configuration["adapter"]>
  readonly fetchDocument: MetadataFetch["Type"]
  readonly baseUrl: string
  readonly resource: string
  /** Signs the cookies of the library, and verifies those of an older generation. */
  readonly cookieKeys: KeyRing
}

/** The library requires a key, although no token is signed here. */
const unusedKey = (): JWK => {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" })
  return { kty: "EC", ...privateKey.export({ format: "jwk" }), alg: "ES256", use: "sig" }
}

/** Every authorization needs a new consent (RFC 8252 8.6, against the confused deputy). */
const alwaysConsent = ({ interactionPolicy }: Library) => {
  const policy = interactionPolicy.base()
  policy
    .get("consent")
    ?.checks.add(
      new interactionPolicy.Check("always", "every authorization is consented to", (ctx) =>
        ctx.oidc.result?.consent === undefined
          ? interactionPolicy.Check.REQUEST_PROMPT
          : interactionPolicy.Check.NO_NEED_TO_PROMPT
      )
    )
  return policy
}

/** Text of a key for the library's cookies. */
const cookieText = ({ instance, key }: RingKey): string =>
  createHmac("sha256", key)
    .update(instance === undefined ? "interaction cookies" : `interaction cookies\0${instance}`)
    .digest("base64url")

const cookies = ({ baseUrl, cookieKeys }: ConfigurationNeeds): NonNullable<Configuration["cookies"]> => {
  const attributes = {
    httpOnly: true,
    sameSite: "lax",
    signed: true,
    secure: baseUrl.startsWith("https:")
  } as const
  return {
    keys: [cookieKeys.newest, ...[...cookieKeys.live.values()].filter((key) => key !== cookieKeys.newest)].map(
      cookieText
    ),
    names: {
      session: "ampoule_oauth_session",
      interaction: "ampoule_oauth",
      resume: "ampoule_oauth_resume"
    },
    short: attributes,
    long: attributes
  }
}

const randomSecret = () => TokenText.make("oc", randomBytes(12), randomBytes(32)).secret

const features = ({ library: { errors }, resource }: ConfigurationNeeds): NonNullable<Configuration["features"]> => ({
  claimsParameter: { enabled: false },
  clientIdMetadataDocument: {
    enabled: true,
    ack: "draft-02",
    allowClient: (_ctx, client) =>
      Clients.problemOf({ client_name: client.clientName, redirect_uris: client.redirectUris }) === undefined,
    cacheDuration: { min: 60, max: 86_400 }
  },
  devInteractions: { enabled: false },
  dPoP: { enabled: false },
  pushedAuthorizationRequests: { enabled: false },
  registration: {
    enabled: true,
    initialAccessToken: false,
    issueRegistrationAccessToken: false,
    idFactory: () => randomSecret().slice(0, 24),
    secretFactory: randomSecret
  },
  resourceIndicators: {
    enabled: true,
    defaultResource: () => resource,
    useGrantedResource: () => true,
    getResourceServerInfo: (_ctx, indicator) => {
      if (indicator !== resource) throw new errors.InvalidTarget()
      return {
        scope: allScopes.join(" "),
        audience: resource,
        accessTokenTTL: accessSeconds,
        accessTokenFormat: "opaque"
      }
    }
  },
  revocation: { enabled: true, allowedPolicy: (_ctx, client, token) => token.clientId === client.clientId },
  rpInitiatedLogout: { enabled: false },
  userinfo: { enabled: false }
})

export const make = (needs: ConfigurationNeeds): Configuration => ({
  adapter: needs.adapter,
  acceptQueryParamAccessTokens: false,
  allowOmittingSingleRegisteredRedirectUri: false,
  claims: {},
  scopes: [],
  clientAuthMethods: ["none", "client_secret_basic", "client_secret_post"],
  clientDefaults: { id_token_signed_response_alg: "ES256" },
  enabledJWA: { idTokenSigningAlgValues: ["ES256"] },
  cookies: cookies(needs),
  expiresWithSession: () => false,
  features: features(needs),
  fetch: async (url, options) =>
    Clients.cutDocument(await needs.fetchDocument(String(url), options?.signal ?? undefined)),
  findAccount: (_ctx, accountId) => ({ accountId, claims: () => Promise.resolve({ sub: accountId }) }),
  interactions: { policy: alwaysConsent(needs.library), url: (_ctx, { uid }) => `/app/connect/${uid}` },
  issueRefreshToken: (_ctx, client) => Promise.resolve(client.grantTypeAllowed("refresh_token")),
  jwks: { keys: [unusedKey()] },
  loadExistingGrant: async (ctx) => {
    const grantId = ctx.oidc.result?.consent?.grantId
    return typeof grantId === "string" ? await ctx.oidc.provider.Grant.find(grantId) : undefined
  },
  pkce: { required: () => true },
  renderError: (ctx, out) => {
    ctx.type = "json"
    ctx.body = { error: out.error }
  },
  responseTypes: ["code"],
  revokeGrantPolicy: () => true,
  rotateRefreshToken: true,
  routes: {
    authorization: "/oauth/authorize",
    token: "/oauth/token",
    registration: "/oauth/register",
    revocation: "/oauth/revoke",
    jwks: "/oauth/jwks"
  },
  ttl: {
    AccessToken: accessSeconds,
    AuthorizationCode: codeSeconds,
    Grant: grantSeconds,
    Interaction: interactionSeconds,
    // Restarts with each rotation. The grant, which is read each time, still ends the family.
    RefreshToken: grantSeconds,
    Session: interactionSeconds
  }
})
