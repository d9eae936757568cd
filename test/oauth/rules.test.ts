/** Rules of OAuth 2.1 about parameters, errors and headers, on the wire. */
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { OAuthErrorResponse } from "#schema/OAuthApi.ts"
import * as McpApp from "#test/mcp/McpApp.ts"
import { bodyOf } from "#test/support/Json.ts"
import * as World from "#test/support/World.ts"
import * as OAuth from "./OAuthClient.ts"

const scene = Effect.gen(function* () {
  const base = yield* McpApp.base
  const { client_id: clientId } = OAuth.registered(yield* Effect.promise(() => OAuth.register(base)))
  const { challenge, verifier } = OAuth.pkce()
  const authorize = (params: Record<string, string>, more = "") =>
    Effect.promise(async () => {
      const url = OAuth.authorizationUrl(base, { client_id: clientId, code_challenge: challenge, ...params })
      const response = await fetch(url + more, { redirect: "manual" })
      return { status: response.status, location: response.headers.get("location"), headers: response.headers }
    })
  return { base, clientId, challenge, verifier, authorize }
})

const redeemable = Effect.gen(function* () {
  const stage = yield* scene
  const { team } = yield* World.project()
  const session = yield* World.session(team.owner)
  const url = OAuth.authorizationUrl(stage.base, {
    client_id: stage.clientId,
    code_challenge: stage.challenge,
    scope: "projects:read"
  })
  const { callback } = yield* Effect.promise(() =>
    McpApp.decide(new McpApp.Browser(session.text), url, { scopes: ["projects:read"], teams: [team] })
  )
  return { ...stage, code: callback.searchParams.get("code") ?? "" }
})

layer(McpApp.shared, { excludeTestServices: true })("the authorization server's endpoints", (it) => {
  describe("authorize", () => {
    it.effect("ignores parameters that it does not know, and takes empty ones for absent", () =>
      Effect.gen(function* () {
        const { authorize } = yield* scene
        for (const params of [
          {
            nonsense: "1",
            audience: "x",
            claims_locales: "de",
            max_age: "0",
            nonce: "n",
            id_token_hint: "x",
            display: "x"
          },
          { prompt: "select_account" },
          { prompt: "consent login" },
          { scope: "", resource: "", prompt: "", response_mode: "", login_hint: "", state: "" }
        ]) {
          const { location, status } = yield* authorize(params)
          assert.strictEqual(status, 303, JSON.stringify(params))
          assert.match(location ?? "", /^\/app\/connect\//, JSON.stringify(params))
        }
      })
    )

    it.effect("refuses each parameter that is given twice", () =>
      Effect.gen(function* () {
        const { authorize } = yield* scene
        for (const name of ["client_id", "redirect_uri", "response_type", "scope", "state", "code_challenge"]) {
          const { location, status } = yield* authorize(
            { scope: "projects:read" },
            `&${name}=${encodeURIComponent(name === "redirect_uri" ? OAuth.redirectUri : "twice")}`
          )
          if (location === null) assert.strictEqual(status, 400, name)
          else assert.strictEqual(new URL(location).searchParams.get("error"), "invalid_request", name)
        }
      })
    )

    it.effect("tells the client each error with its state and the issuer, and no more than that", () =>
      Effect.gen(function* () {
        const { authorize, base } = yield* scene
        for (const [params, expected] of [
          [{ response_type: "token" }, "unsupported_response_type"],
          [{ response_type: "code id_token" }, "unsupported_response_type"],
          [{ resource: "https://elsewhere.example/" }, "invalid_target"],
          [{ resource: "not an address" }, "invalid_target"],
          [{ code_challenge_method: "plain" }, "invalid_request"],
          [{ code_challenge: "short" }, "invalid_request"],
          [{ prompt: "none" }, "login_required"],
          [{ response_mode: "fragment" }, "unsupported_response_mode"],
          [{ response_mode: "form_post" }, "unsupported_response_mode"],
          [{ response_mode: "query.jwt" }, "unsupported_response_mode"],
          [{ request: "eyJhbGciOiJub25lIn0.e30." }, "request_not_supported"],
          [{ request_uri: "https://elsewhere.example/r" }, "request_uri_not_supported"]
        ] as ReadonlyArray<readonly [Record<string, string>, string]>) {
          const { location, status } = yield* authorize(params)
          const what = `${JSON.stringify(params)} ${status} ${location}`
          assert.isNotNull(location, what)
          const to = new URL(location ?? "", base)
          assert.strictEqual(`${to.origin}${to.pathname}`, OAuth.redirectUri, what)
          // Where a token was asked for, clients look for the refusal in the fragment.
          const said = to.hash === "" ? to.searchParams : new URLSearchParams(to.hash.slice(1))
          assert.strictEqual(said.get("error"), expected, what)
          assert.strictEqual(said.get("state"), "s-1", what)
          assert.strictEqual(said.get("iss"), base, what)
          assert.isNull(said.get("code"), what)
        }
      })
    )

    it.effect("keeps its answers from caches and referrers", () =>
      Effect.gen(function* () {
        const { authorize } = yield* scene
        const { headers } = yield* authorize({})
        assert.strictEqual(headers.get("cache-control"), "no-store")
        assert.strictEqual(headers.get("referrer-policy"), "no-referrer")
      })
    )
  })

  describe("token", () => {
    it.effect("takes a form by POST and nothing else", () =>
      Effect.gen(function* () {
        const { base } = yield* scene
        const get = yield* Effect.promise(() => fetch(`${base}/oauth/token`))
        assert.include([404, 405], get.status)
        const json = yield* Effect.promise(() =>
          fetch(`${base}/oauth/token`, {
            method: "POST",
            headers: { "content-type": "application/json" },
            body: JSON.stringify({ grant_type: "authorization_code" })
          })
        )
        assert.strictEqual(json.status, 400)
        assert.deepStrictEqual(yield* Effect.promise(() => json.json()), { error: "invalid_request" })
      })
    )

    it.effect("names each mistake by its code, uncached", () =>
      Effect.gen(function* () {
        const { base, clientId, code, verifier } = yield* redeemable
        const good = {
          grant_type: "authorization_code",
          client_id: clientId,
          code,
          code_verifier: verifier,
          redirect_uri: OAuth.redirectUri
        }
        const { grant_type: _, ...noType } = good
        const { client_id: __, ...noClient } = good
        const { code_verifier: ___, ...noVerifier } = good
        for (const [form, status, error] of [
          [noType, 400, "invalid_request"],
          [{ ...good, grant_type: "password" }, 400, "unsupported_grant_type"],
          [{ ...good, grant_type: "client_credentials" }, 400, "unsupported_grant_type"],
          [noClient, 400, "invalid_request"],
          [{ ...good, client_id: "0000000000000000" }, 401, "invalid_client"],
          [{ ...good, resource: "https://elsewhere.example/" }, 400, "invalid_target"],
          [{ ...good, redirect_uri: `${OAuth.redirectUri}2` }, 400, "invalid_grant"],
          [noVerifier, 400, "invalid_grant"],
          [{ ...good, code: "nonsense" }, 400, "invalid_grant"]
        ] as ReadonlyArray<readonly [Record<string, string>, number, string]>) {
          const answer = yield* Effect.promise(() => OAuth.post(base, "/oauth/token", form))
          const what = `${answer.text} for ${error}`
          assert.strictEqual(OAuth.errorOf(answer), error, what)
          assert.strictEqual(answer.status, status, what)
          assert.strictEqual(answer.headers.get("cache-control"), "no-store")
          assert.strictEqual(answer.headers.get("access-control-allow-origin"), "*")
          assert.match(answer.headers.get("content-type") ?? "", /^application\/json/)
        }
      })
    )

    it.effect("refuses a parameter that is given twice", () =>
      Effect.gen(function* () {
        const { base, clientId, code, verifier } = yield* redeemable
        const body = new URLSearchParams({
          grant_type: "authorization_code",
          client_id: clientId,
          code,
          code_verifier: verifier,
          redirect_uri: OAuth.redirectUri
        })
        body.append("code", "another")
        const response = yield* Effect.promise(() => fetch(`${base}/oauth/token`, { method: "POST", body }))
        assert.strictEqual(response.status, 400)
        assert.strictEqual((yield* Effect.promise(() => bodyOf(OAuthErrorResponse, response))).error, "invalid_request")
      })
    )

    it.effect("asks for the header again where a client's secret in one was wrong", () =>
      Effect.gen(function* () {
        const { base } = yield* scene
        const { client_id, client_secret = "" } = OAuth.registered(
          yield* Effect.promise(() => OAuth.register(base, { token_endpoint_auth_method: "client_secret_basic" }))
        )
        assert.isNotEmpty(client_secret)
        const basic = (secret: string) => ({
          authorization: `Basic ${Buffer.from(`${client_id}:${secret}`).toString("base64")}`
        })
        const form = { grant_type: "refresh_token", refresh_token: "none" }
        const wrong = yield* Effect.promise(() => OAuth.post(base, "/oauth/token", form, basic("wrong")))
        assert.strictEqual(wrong.status, 401)
        assert.strictEqual(OAuth.errorOf(wrong), "invalid_client")
        assert.match(wrong.headers.get("www-authenticate") ?? "", /^Basic /)
        const right = yield* Effect.promise(() => OAuth.post(base, "/oauth/token", form, basic(client_secret)))
        assert.strictEqual(OAuth.errorOf(right), "invalid_grant")
      })
    )

    it.effect("gives a client no grant type that it did not register", () =>
      Effect.gen(function* () {
        const { base } = yield* scene
        const { client_id } = OAuth.registered(
          yield* Effect.promise(() => OAuth.register(base, { grant_types: ["authorization_code"] }))
        )
        const answer = yield* Effect.promise(() => OAuth.refresh(base, client_id, "none"))
        assert.strictEqual(answer.status, 400)
        assert.strictEqual(OAuth.errorOf(answer), "unauthorized_client")
      })
    )
  })

  it.effect("answer the preflight of any page, but for the one that a person opens", () =>
    Effect.gen(function* () {
      const base = yield* McpApp.base
      const ask = (path: string) =>
        Effect.promise(() =>
          fetch(`${base}${path}`, {
            method: "OPTIONS",
            headers: { origin: "https://page.example", "access-control-request-method": "POST" }
          })
        )
      for (const path of ["/oauth/token", "/oauth/register", "/oauth/revoke"]) {
        assert.strictEqual((yield* ask(path)).headers.get("access-control-allow-origin"), "*")
      }
      assert.isNull((yield* ask("/oauth/authorize")).headers.get("access-control-allow-origin"))
    })
  )
})
