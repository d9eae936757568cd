/** OAuth from registration to revocation, with what goes wrong on the way (RFC 6749, 7636, 8707, 9207, 7009; security F4). */
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as McpApp from "#test/mcp/McpApp.ts"
import * as World from "#test/support/World.ts"
import * as OAuth from "./OAuthClient.ts"

/** A person with a team and project, signed in, and a registered client. */
const scene = Effect.gen(function* () {
  const base = yield* McpApp.base
  const project = yield* World.project()
  const session = yield* World.session(project.team.owner)
  const client = yield* Effect.promise(() => OAuth.register(base))
  const clientId: string = client.json.client_id
  return { base, project, clientId, browser: new McpApp.Browser(session.text) }
})

const authorize = (
  { base, browser, clientId, project }: Effect.Effect.Success<typeof scene>,
  scopes: ReadonlyArray<string> = ["projects:read"]
) =>
  Effect.promise(async () => {
    const { challenge, verifier } = OAuth.pkce()
    const url = OAuth.authorizationUrl(base, {
      client_id: clientId,
      code_challenge: challenge,
      scope: scopes.join(" ")
    })
    const { callback, page } = await McpApp.decide(browser, url, { scopes, teams: [project.team] })
    return { callback, page, verifier, code: callback.searchParams.get("code") ?? "" }
  })

const tokens = (stage: Effect.Effect.Success<typeof scene>, scopes?: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const { code, verifier } = yield* authorize(stage, scopes)
    const { json, status } = yield* Effect.promise(() => OAuth.redeem(stage.base, stage.clientId, code, verifier))
    assert.strictEqual(status, 200)
    return json as { readonly access_token: string; readonly refresh_token: string; readonly scope: string }
  })

const mcp = (base: string, bearer: string) =>
  Effect.promise(() =>
    fetch(`${base}/mcp`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${bearer}`,
        "content-type": "application/json",
        accept: "application/json, text/event-stream"
      },
      body: JSON.stringify({
        jsonrpc: "2.0",
        id: 1,
        method: "initialize",
        params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "t", version: "1" } }
      })
    })
  )

layer(McpApp.layer, { excludeTestServices: true })("the authorization server", (it) => {
  describe("a client", () => {
    it.effect("registers, is consented to, and gets tokens in our format that work at /mcp", () =>
      Effect.gen(function* () {
        const stage = yield* scene
        const { callback, code, page, verifier } = yield* authorize(stage, ["projects:read", "secrets:read"])
        assert.include(page, "Test client")
        assert.include(page, "127.0.0.1:53121")
        assert.notMatch(page, /type="checkbox"[^>]*checked/)
        assert.strictEqual(callback.searchParams.get("state"), "s-1")
        assert.strictEqual(callback.searchParams.get("iss"), stage.base)
        assert.match(code, /^amp_oc_/)
        const { headers, json, status } = yield* Effect.promise(() =>
          OAuth.redeem(stage.base, stage.clientId, code, verifier)
        )
        assert.strictEqual(status, 200)
        assert.strictEqual(headers.get("cache-control"), "no-store")
        assert.match(json.access_token, /^amp_oa_/)
        assert.match(json.refresh_token, /^amp_or_/)
        assert.strictEqual(json.token_type, "Bearer")
        assert.strictEqual(json.expires_in, 900)
        assert.strictEqual(json.scope, "projects:read secrets:read")
        const answer = yield* mcp(stage.base, json.access_token)
        assert.strictEqual(answer.status, 200)
      })
    )
  })
})
