/** The authorization server: `oidc-provider`, built by the first request that needs it. */
import * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import { randomBytes } from "node:crypto"
import type { EventEmitter } from "node:events"
import type { Provider } from "oidc-provider"
import { AppConfig } from "#src/AppConfig.ts"
import * as TokenText from "#src/credentials/TokenText.ts"
import { ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import * as Clients from "./Clients.ts"
import * as Configuration from "./Configuration.ts"
import { load, quietly } from "./Library.ts"
import { MetadataFetch } from "./MetadataFetch.ts"
import * as Storage from "./Storage.ts"
import { refreshText } from "./TokenStores.ts"

/** Sets our format for tokens and codes. The library accepts any text as an id. */
const useOurFormat = (provider: Provider, refreshKey: Redacted.Redacted<Uint8Array>) => {
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
      return refreshText(refreshKey, this.grantId, this.rotations ?? 0)
    }
  })
}

/** Matches redirects exactly, except for loopback ports (OAuth 2.1 8.4.2), and secrets by their hash. */
const useOurClientChecks = (provider: Provider) => {
  Object.assign(provider.Client.prototype, {
    redirectUriAllowed(this: { readonly redirectUris: ReadonlyArray<string> }, uri: string) {
      return Clients.isRegistered(this.redirectUris, uri)
    },
    compareClientSecret(this: { readonly clientSecret?: string }, secret: string) {
      return Clients.secretMatches(this.clientSecret, secret)
    }
  })
}

/** Stores the internal error of a request, which the library answers with its own 500. */
const storeProblems = (provider: Provider) => {
  const problems = new WeakMap<object, unknown>()
  provider.on("server_error", (ctx, error) => problems.set(ctx.req, error))
  // Koa prints errors without a listener. The library's types lack its event.
  const koa: EventEmitter = provider
  koa.on("error", (error: unknown, ctx?: { readonly req: object }) => {
    if (ctx !== undefined) problems.set(ctx.req, error)
  })
  return (request: object): unknown => problems.get(request)
}

const makeProvider = (
  issuer: string,
  needs: Configuration.ConfigurationNeeds,
  refreshKey: Redacted.Redacted<Uint8Array>
) => {
  const provider = new needs.library.Provider(issuer, Configuration.make(needs))
  // `Dispatch` describes the public request in proxy headers.
  provider.proxy = true
  useOurFormat(provider, refreshKey)
  useOurClientChecks(provider)
  return { provider, callback: provider.callback(), problemOf: storeProblems(provider) }
}

export class AuthorizationServer extends Effect.Service<AuthorizationServer>()("oauth/AuthorizationServer", {
  effect: Effect.gen(function* () {
    const { baseUrl } = yield* AppConfig
    const keys = yield* ServiceKeys
    const library = yield* load
    const adapter = yield* Storage.makeAdapter(library)
    const fetchDocument = yield* MetadataFetch
    const issuer = new URL(baseUrl).origin
    const resource = `${baseUrl}/mcp`

    // Built by the first request, because its keys come from the database.
    const [instance, invalidate] = yield* Effect.cachedInvalidateWithTTL(
      Effect.gen(function* () {
        const cookieKey = yield* keys.get("oauth-cookies")
        const refreshKey = yield* keys.get("oauth-refresh")
        const needs = { library, adapter, fetchDocument, baseUrl, resource, cookieKey }
        return yield* Effect.promise(() => quietly(() => makeProvider(issuer, needs, refreshKey)))
      }).pipe(Effect.uninterruptible),
      "365 days"
    )
    return {
      issuer,
      resource,
      /** A failure, say of the database, is not cached. */
      instance: Effect.tapErrorCause(instance, () => invalidate)
    } as const
  })
}) {}
