/** The authorization server: `oidc-provider`, cut down to OAuth 2.1 for one resource, `{base}/mcp` (security 3.7). */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { createHmac, generateKeyPairSync, randomBytes } from "node:crypto"
import type { EventEmitter } from "node:events"
import type { JWK } from "oidc-provider"
import { allScopes } from "#schema/Scopes.ts"
import * as TokenText from "#src/credentials/TokenText.ts"
import { ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { load, quietly } from "./Library.ts"
import { MetadataFetch } from "./MetadataFetch.ts"
import * as ClientMetadata from "./ClientMetadata.ts"
import { grantSeconds } from "./OAuthGrants.ts"
import * as Redirects from "./Redirects.ts"
import * as Storage from "./Storage.ts"

export const accessSeconds = 900
export const codeSeconds = 60
/** From the client's request to the person's decision. */
const interactionSeconds = 1_800

export const scopeText = allScopes.join(" ")
export const defaultScopes = "projects:read secrets:read"
/** No token is signed here; the library wants a key all the same. */
const someKey = (): JWK => ({
  ...(generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({ format: "jwk" }) as JWK),
  alg: "ES256",
  use: "sig"
})

export class AuthorizationServer extends Effect.Service<AuthorizationServer>()("oauth/AuthorizationServer", {
  effect: Effect.gen(function* () {
    const { baseUrl } = yield* AppConfig
    const keys = yield* ServiceKeys
    const library = yield* load
    const { errors, interactionPolicy, Provider } = library
    const storage = yield* Storage.make(library)
    const fetchDocument = yield* MetadataFetch
    const issuer = new URL(baseUrl).origin
    const resource = `${baseUrl}/mcp`

    const policy = interactionPolicy.base()
    // Each authorization is a decision of a person, however often they decided before (RFC 8252 8.6; confused deputy).
    policy
      .get("consent")
      ?.checks.add(
        new interactionPolicy.Check("always", "every authorization is consented to", (ctx) =>
          ctx.oidc.result?.consent === undefined
            ? interactionPolicy.Check.REQUEST_PROMPT
            : interactionPolicy.Check.NO_NEED_TO_PROMPT
        )
      )

    const configure = (cookieKey: Redacted.Redacted<Uint8Array>, refreshKey: Redacted.Redacted<Uint8Array>) => {
      const secure = baseUrl.startsWith("https:")
      const provider = new Provider(issuer, {
        adapter: storage.adapter,
        acceptQueryParamAccessTokens: false,
        allowOmittingSingleRegisteredRedirectUri: false,
        claims: {},
        scopes: [],
        clientAuthMethods: ["none", "client_secret_basic", "client_secret_post"],
        clientDefaults: { id_token_signed_response_alg: "ES256" },
        enabledJWA: { idTokenSigningAlgValues: ["ES256"] },
        cookies: {
          keys: [createHmac("sha256", Redacted.value(cookieKey)).update("interaction cookies").digest("base64url")],
          names: {
            session: "ampoule_oauth_session",
            interaction: "ampoule_oauth",
            resume: "ampoule_oauth_resume"
          },
          short: { httpOnly: true, sameSite: "lax", signed: true, secure },
          long: { httpOnly: true, sameSite: "lax", signed: true, secure }
        },
        expiresWithSession: () => false,
        features: {
          claimsParameter: { enabled: false },
          clientIdMetadataDocument: {
            enabled: true,
            ack: "draft-02",
            allowClient: (_ctx, client) =>
              ClientMetadata.problemOf({ client_name: client.clientName, redirect_uris: client.redirectUris }) ===
              undefined,
            cacheDuration: { min: 60, max: 86_400 }
          },
          devInteractions: { enabled: false },
          dPoP: { enabled: false },
          pushedAuthorizationRequests: { enabled: false },
          registration: {
            enabled: true,
            initialAccessToken: false,
            issueRegistrationAccessToken: false,
            idFactory: () => TokenText.make("oc", randomBytes(12), randomBytes(32)).secret.slice(0, 24),
            secretFactory: () => TokenText.make("oc", randomBytes(12), randomBytes(32)).secret
          },
          resourceIndicators: {
            enabled: true,
            defaultResource: () => resource,
            useGrantedResource: () => true,
            getResourceServerInfo: (_ctx, indicator) => {
              if (indicator !== resource) throw new errors.InvalidTarget()
              return {
                scope: scopeText,
                audience: resource,
                accessTokenTTL: accessSeconds,
                accessTokenFormat: "opaque"
              }
            }
          },
          revocation: { enabled: true, allowedPolicy: (_ctx, client, token) => token.clientId === client.clientId },
          rpInitiatedLogout: { enabled: false },
          userinfo: { enabled: false }
        },
        fetch: async (url, options) =>
          ClientMetadata.cutDocument(await fetchDocument(String(url), options?.signal ?? undefined)),
        findAccount: (_ctx, accountId) => ({ accountId, claims: () => Promise.resolve({ sub: accountId }) }),
        interactions: { policy, url: (_ctx, { uid }) => `/app/connect/${uid}` },
        issueRefreshToken: (_ctx, client) => Promise.resolve(client.grantTypeAllowed("refresh_token")),
        jwks: { keys: [someKey()] },
        loadExistingGrant: async (ctx) => {
          const grantId = ctx.oidc.result?.consent?.grantId
          return typeof grantId === "string" ? await provider.Grant.find(grantId) : undefined
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
          // Counted anew with each rotation; the family ends with the grant all the same, which is looked at each time.
          RefreshToken: grantSeconds,
          Session: interactionSeconds
        }
      })
      // What stands before the provider says what the request looked like from outside; see `dispatch`.
      provider.proxy = true

      // Our format for what is given out (decisions 2). The library takes any text as an id.
      const random = (kind: "oa" | "oc") => TokenText.print(TokenText.make(kind, randomBytes(12), randomBytes(32)))
      Object.assign(provider.AccessToken.prototype, {
        generateTokenId(this: { format?: string }) {
          this.format = "opaque"
          return random("oa")
        }
      })
      Object.assign(provider.AuthorizationCode.prototype, { generateTokenId: () => random("oc") })
      Object.assign(provider.RefreshToken.prototype, {
        generateTokenId(this: { readonly grantId: string; readonly rotations?: number }) {
          return Storage.refreshText(refreshKey, this.grantId, this.rotations ?? 0)
        }
      })
      // Exact match, but for loopback ports, whatever type the client says it is (OAuth 2.1 8.4.2).
      Object.assign(provider.Client.prototype, {
        redirectUriAllowed(this: { readonly redirectUris: ReadonlyArray<string> }, given: string) {
          return Redirects.isRegistered(this.redirectUris, given)
        },
        compareClientSecret(this: { readonly clientSecret?: string }, given: string) {
          return Storage.secretMatches(this.clientSecret, given)
        }
      })
      const problems = new WeakMap<object, unknown>()
      provider.on("server_error", (ctx, error) => problems.set(ctx.req, error))
      // Koa prints what nobody listens to. Its event is not among those that the library's types know.
      const koa: EventEmitter = provider
      koa.on("error", (error: unknown, ctx?: { readonly req: object }) => {
        if (ctx !== undefined) problems.set(ctx.req, error)
      })
      /** What went wrong inside while this request was answered; the library answers it with a 500 of its own. */
      const problemOf = (request: object): unknown => problems.get(request)
      return { provider, callback: provider.callback(), problemOf }
    }

    /** Made with the first request that needs it: its keys come from the database. */
    const instance = yield* Effect.cachedInvalidateWithTTL(
      Effect.gen(function* () {
        const cookieKey = yield* keys.get("oauth-cookies")
        const refreshKey = yield* keys.get("oauth-refresh")
        return yield* Effect.promise(() => quietly(() => configure(cookieKey, refreshKey)))
      }).pipe(Effect.uninterruptible),
      "365 days"
    )
    const [get, forget] = instance

    return {
      issuer,
      resource,
      /** A failure (the database is away) is not kept. */
      instance: Effect.tapErrorCause(get, () => forget),
      storage
    } as const
  })
}) {}
