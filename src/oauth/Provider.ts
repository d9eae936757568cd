/** The authorization server: `oidc-provider`, made with the first request that needs it. */
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

/** Gives tokens and codes our format. The library takes any text as an id. */
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

/** Redirects match exactly but for loopback ports (OAuth 2.1 8.4.2), and secrets match by their hash. */
const useOurClientChecks = (provider: Provider) => {
  Object.assign(provider.Client.prototype, {
    redirectUriAllowed(this: { readonly redirectUris: ReadonlyArray<string> }, given: string) {
      return Clients.isRegistered(this.redirectUris, given)
    },
    compareClientSecret(this: { readonly clientSecret?: string }, given: string) {
      return Clients.secretMatches(this.clientSecret, given)
    }
  })
}

/** Remembers what went wrong inside while a request was answered; the library answers it with a 500 of its own. */
const rememberProblems = (provider: Provider) => {
  const problems = new WeakMap<object, unknown>()
  provider.on("server_error", (ctx, error) => problems.set(ctx.req, error))
  // Koa prints errors that no one listens to. Its event is missing from the library's types.
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
  // `Dispatch` says in the headers of a proxy what the request looked like from outside.
  provider.proxy = true
  useOurFormat(provider, refreshKey)
  useOurClientChecks(provider)
  return { provider, callback: provider.callback(), problemOf: rememberProblems(provider) }
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

    // Made with the first request, because its keys come from the database.
    const [instance, forget] = yield* Effect.cachedInvalidateWithTTL(
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
      /** A failure (the database is away) is not kept. */
      instance: Effect.tapErrorCause(instance, () => forget)
    } as const
  })
}) {}
