/** The authorization server: `oidc-provider`, built by the first request that needs it. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Runtime from "effect/Runtime"
import { randomBytes } from "node:crypto"
import type { EventEmitter } from "node:events"
import type { Provider, RefreshToken } from "oidc-provider"
import * as Housekeeping from "#src/Housekeeping.ts"
import { AppConfig } from "#src/AppConfig.ts"
import * as TokenText from "#src/credentials/TokenText.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { following, ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import * as Clients from "./Clients.ts"
import * as Configuration from "./Configuration.ts"
import { load, quietly } from "./Library.ts"
import { MetadataFetch } from "./MetadataFetch.ts"
import * as Storage from "./Storage.ts"
import * as TokenStores from "./TokenStores.ts"

/** Text of the refresh token at a position of its family. */
type NextText = (grantId: string, rotation: number) => Promise<string>

/** Sets our format for tokens and codes. The library accepts any text as an id. */
const useOurFormat = (provider: Provider, nextText: NextText) => {
  const random = (kind: "oa" | "oc") => TokenText.print(TokenText.make(kind, randomBytes(12), randomBytes(32)))
  Object.assign(provider.AccessToken.prototype, {
    generateTokenId(this: { format?: string }) {
      this.format = "opaque"
      return random("oa")
    }
  })
  Object.assign(provider.AuthorizationCode.prototype, { generateTokenId: () => random("oc") })
  const { save } = provider.RefreshToken.prototype
  Object.assign(provider.RefreshToken.prototype, {
    async save(this: RefreshToken & { readonly rotations?: number }) {
      this.jti = await nextText(this.grantId ?? "", this.rotations ?? 0)
      return save.call(this)
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

const makeProvider = (issuer: string, needs: Configuration.ConfigurationNeeds, nextText: NextText) => {
  const provider = new needs.library.Provider(issuer, Configuration.make(needs))
  // `Dispatch` describes the public request in proxy headers.
  provider.proxy = true
  useOurFormat(provider, nextText)
  useOurClientChecks(provider)
  return { provider, callback: provider.callback(), problemOf: storeProblems(provider) }
}

export class AuthorizationServer extends Effect.Service<AuthorizationServer>()("oauth/AuthorizationServer", {
  scoped: Effect.gen(function* () {
    const { baseUrl } = yield* AppConfig
    const sql = yield* SqlClient.SqlClient
    const crypto = yield* Crypto
    const keys = yield* ServiceKeys
    const runtime = yield* Effect.runtime<never>()
    const library = yield* load
    const adapter = yield* Storage.makeAdapter(library)
    const fetchDocument = yield* MetadataFetch
    const issuer = new URL(baseUrl).origin
    const resource = `${baseUrl}/mcp`

    // Built by the first request, because its keys come from the database, and again after a rotation of them.
    const build = Effect.gen(function* () {
      const cookieKeys = yield* keys.ring("oauth-cookies")
      const sealing = { sql, crypto, ring: yield* keys.ring("oauth-refresh") }
      const nextText: NextText = (grantId, rotation) =>
        Runtime.runPromise(runtime)(TokenStores.refreshText(sealing, grantId, rotation))
      const needs = { library, adapter, fetchDocument, baseUrl, resource, cookieKeys }
      return yield* Effect.promise(() => quietly(() => makeProvider(issuer, needs, nextText)))
    }).pipe(Effect.uninterruptible)
    const provider = following(keys, build)
    const turn = yield* Effect.makeSemaphore(1)
    const slow = turn.withPermits(1)(provider)
    yield* Housekeeping.every("10 seconds", TokenStores.forgetNext(sql), "sealed refresh tokens")
    return {
      issuer,
      resource,
      instance: Effect.suspend(() => {
        const current = provider.now()
        return current === undefined ? slow : Effect.succeed(current)
      })
    } as const
  })
}) {}
