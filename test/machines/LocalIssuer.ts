/** An issuer of CI on this machine: discovery, keys and JWTs shaped like those of GitHub Actions. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Jose from "jose"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { TokenResponse } from "#schema/OAuthApi.ts"

/** RFC 8693 2.2.1: what the exchange answers. */
export const IssuedToken = Schema.Struct({ ...TokenResponse.fields, issued_token_type: Schema.String })

export interface Answer {
  readonly status?: number
  readonly headers?: Record<string, string>
  readonly body: string
}

export type Handler = (request: IncomingMessage, response: ServerResponse) => void

/** A server on a free port, closed with the scope. */
export const serve = (handler: Handler) =>
  Effect.acquireRelease(
    Effect.async<{ readonly url: string; readonly close: () => void }>((resume) => {
      const server = createServer(handler)
      server.listen(0, "127.0.0.1", () => {
        const { port } = server.address() as AddressInfo
        resume(
          Effect.succeed({
            url: `http://127.0.0.1:${port}`,
            close: () => {
              server.close()
              server.closeAllConnections()
            }
          })
        )
      })
    }),
    ({ close }) => Effect.sync(close)
  )

export const make = (
  options: {
    readonly alg?: "RS256" | "ES256" | "EdDSA"
    /** Replaces an answer; undefined: as usual. */
    readonly answer?: (path: string, usual: string) => Answer | undefined
  } = {}
) =>
  Effect.gen(function* () {
    const alg = options.alg ?? "RS256"
    const pair = yield* Effect.promise(() => Jose.generateKeyPair(alg, { extractable: true }))
    const jwk = yield* Effect.promise(() => Jose.exportJWK(pair.publicKey))
    const keys = [{ ...jwk, kid: "k1", alg, use: "sig" }]
    const requests: Array<string> = []
    const { url } = yield* serve((request, response) => {
      const path = request.url ?? ""
      requests.push(path)
      const usual =
        path === "/.well-known/openid-configuration"
          ? JSON.stringify({ issuer: url, jwks_uri: `${url}/jwks` })
          : path === "/jwks"
            ? JSON.stringify({ keys })
            : "{}"
      const { body, headers, status } = options.answer?.(path, usual) ?? { body: usual }
      response.writeHead(status ?? 200, { "content-type": "application/json", ...headers }).end(body)
    })
    /** Claims as GitHub sends them for a job of `acme/shop` on main; `undefined` takes a claim away. */
    const sign = (
      claims: Record<string, unknown> = {},
      signing: { readonly key?: CryptoKey; readonly header?: Record<string, unknown> } = {}
    ) =>
      Effect.promise(() => {
        const now = Math.floor(Date.now() / 1_000)
        const all: Record<string, unknown> = {
          iss: url,
          aud: "http://127.0.0.1:4400",
          sub: "repo:acme/shop:ref:refs/heads/main",
          jti: crypto.randomUUID(),
          iat: now,
          nbf: now - 300,
          exp: now + 300,
          repository: "acme/shop",
          repository_owner: "acme",
          repository_id: 42,
          ref: "refs/heads/main",
          ref_protected: "true",
          workflow: "deploy",
          event_name: "push",
          ...claims
        }
        for (const [name, value] of Object.entries(all)) if (value === undefined) delete all[name]
        return new Jose.SignJWT(all)
          .setProtectedHeader({ alg, kid: "k1", typ: "JWT", ...signing.header })
          .sign(signing.key ?? pair.privateKey)
      })
    return { url, sign, asked: requests, jwk, pair }
  })
