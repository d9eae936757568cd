/**
 * Refusals of the authorization server: redirects elsewhere, weak proofs, unknown resources, clients that pretend.
 */
import { assert, describe, it as test, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { AuthorizationServerMetadata, ProtectedResourceMetadata } from "#schema/DiscoveryApi.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import * as Accounts from "#src/credentials/Accounts.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { MetadataFetch } from "#src/oauth/MetadataFetch.ts"
import * as Redirects from "#src/oauth/Clients.ts"
import { isPublicAddress } from "#src/outbound/Address.ts"
import { guardedLookup, refusedAddress } from "#src/outbound/Outbound.ts"
import * as Clients from "#test/mcp/Clients.ts"
import * as McpApp from "#test/mcp/McpApp.ts"
import { bodyOf } from "#test/support/Json.ts"
import * as MovableClock from "#test/support/MovableClock.ts"
import * as Seals from "#test/support/Seals.ts"
import * as World from "#test/support/World.ts"
import * as OAuth from "./OAuthClient.ts"

const documentAddress = "https://client.example/oauth/client.json"
const documents = new Map<string, unknown>([
  [documentAddress, { client_id: documentAddress, client_name: "Documented", redirect_uris: [OAuth.redirectUri] }],
  [
    "https://client.example/other.json",
    { client_id: documentAddress, client_name: "Pretender", redirect_uris: [OAuth.redirectUri] }
  ],
  [
    "https://client.example/secret.json",
    {
      client_id: "https://client.example/secret.json",
      client_secret: "x",
      redirect_uris: [OAuth.redirectUri],
      token_endpoint_auth_method: "client_secret_post"
    }
  ],
  [
    "https://client.example/plain.json",
    { client_id: "https://client.example/plain.json", redirect_uris: ["http://evil.example/callback"] }
  ]
])
const fetched: Array<string> = []
const fakeFetch = Layer.succeed(MetadataFetch, (address) => {
  fetched.push(address)
  const document = documents.get(address)
  return Promise.resolve(document === undefined ? new Response(null, { status: 404 }) : Response.json(document))
})

const open = (base: string, params: Record<string, string>) =>
  Effect.promise(async () => {
    const response = await fetch(OAuth.authorizationUrl(base, params), { redirect: "manual" })
    return { status: response.status, location: response.headers.get("location"), response }
  })

layer(McpApp.layer.pipe(Layer.provide(fakeFetch)), { excludeTestServices: true })(
  "the authorization endpoint",
  (it) => {
    const client = Effect.gen(function* () {
      const base = yield* McpApp.base
      const { client_id: clientId } = OAuth.registered(yield* Effect.promise(() => OAuth.register(base)))
      return { base, clientId, challenge: OAuth.pkce().challenge }
    })

    it.effect("never redirects to an address that was not registered", () =>
      Effect.gen(function* () {
        const { base, challenge, clientId } = yield* client
        const mutated = [
          "http://127.0.0.1:53121/callback/",
          "http://127.0.0.1:53121/Callback",
          "http://127.0.0.1:53121/callback?x=1",
          "http://127.0.0.1:53121/callback#x",
          "http://127.0.0.1:53121/callback%2e",
          "http://127.0.0.1:53121/../callback",
          "http://127.0.0.1:99999/callback",
          "http://127.0.0.1@evil.example/callback",
          "http://127.0.0.1:53121@evil.example/callback",
          "http://127.0.0.1.evil.example/callback",
          "http://localhost:53121/callback",
          "http://[::1]:53121/callback",
          "https://127.0.0.1:53121/callback",
          "http://127.1:53121/callback",
          "http://2130706433:53121/callback",
          "http://evil.example/callback",
          "//evil.example/callback",
          "javascript:alert(1)",
          "data:text/html,x",
          "http:127.0.0.1:53121/callback",
          "http://127.0.0.1:53121\\@evil.example/callback",
          "http://127.0.0.1:53121/callback\u0000",
          " http://127.0.0.1:53121/callback",
          ""
        ]
        for (const redirect of mutated) {
          const { location, response, status } = yield* open(base, {
            client_id: clientId,
            code_challenge: challenge,
            redirect_uri: redirect
          })
          assert.strictEqual(status, 400, redirect)
          assert.isNull(location)
          assert.include(response.headers.get("content-security-policy") ?? "", "frame-ancestors 'none'")
          const page = yield* Effect.promise(() => response.text())
          assert.notInclude(page, "evil")
        }
      })
    )

    it.effect("takes any port of a loopback address that is registered", () =>
      Effect.gen(function* () {
        const { base, challenge, clientId } = yield* client
        const { location, status } = yield* open(base, {
          client_id: clientId,
          code_challenge: challenge,
          redirect_uri: "http://127.0.0.1:40001/callback"
        })
        assert.strictEqual(status, 303)
        assert.match(location ?? "", /^\/app\/connect\//)
      })
    )

    it.effect("wants PKCE with S256, and says so to the client", () =>
      Effect.gen(function* () {
        const { base, challenge, clientId } = yield* client
        for (const params of [
          { code_challenge: "", code_challenge_method: "" },
          { code_challenge: challenge, code_challenge_method: "plain" }
        ]) {
          const { location } = yield* open(base, { client_id: clientId, ...params })
          const to = new URL(location ?? "")
          assert.strictEqual(`${to.origin}${to.pathname}`, OAuth.redirectUri)
          assert.strictEqual(to.searchParams.get("error"), "invalid_request")
          assert.strictEqual(to.searchParams.get("iss"), base)
          assert.strictEqual(to.searchParams.get("state"), "s-1")
        }
      })
    )

    it.effect("knows one resource, under its aliases", () =>
      Effect.gen(function* () {
        const { base, challenge, clientId } = yield* client
        for (const resource of [base, `${base}/`, `${base}/mcp`, `${base}/mcp/`]) {
          const { location } = yield* open(base, { client_id: clientId, code_challenge: challenge, resource })
          assert.match(location ?? "", /^\/app\/connect\//)
        }
        const { location } = yield* open(base, {
          client_id: clientId,
          code_challenge: challenge,
          resource: "https://elsewhere.example/mcp"
        })
        assert.strictEqual(new URL(location ?? "").searchParams.get("error"), "invalid_target")
      })
    )

    it.effect("gives other response types, repeated parameters and unknown clients no code", () =>
      Effect.gen(function* () {
        const { base, challenge, clientId } = yield* client
        const token = yield* open(base, { client_id: clientId, code_challenge: challenge, response_type: "token" })
        assert.notInclude(token.location ?? "", "access_token")
        const unknown = yield* open(base, { client_id: "nobody", code_challenge: challenge })
        assert.strictEqual(unknown.status, 400)
        assert.isNull(unknown.location)
        const twice = yield* Effect.promise(() =>
          fetch(`${OAuth.authorizationUrl(base, { client_id: clientId, code_challenge: challenge })}&state=s-2`, {
            redirect: "manual"
          })
        )
        assert.notMatch(twice.headers.get("location") ?? "", /^\/app\/connect\//)
      })
    )

    it.effect("allows no script of another page to call it", () =>
      Effect.gen(function* () {
        const { base, challenge, clientId } = yield* client
        const url = OAuth.authorizationUrl(base, { client_id: clientId, code_challenge: challenge })
        const response = yield* Effect.promise(() =>
          fetch(url, { redirect: "manual", headers: { origin: "https://page.example" } })
        )
        assert.isNull(response.headers.get("access-control-allow-origin"))
      })
    )

    describe("a client known by its document", () => {
      it.effect("begins without registering", () =>
        Effect.gen(function* () {
          const base = yield* McpApp.base
          const { location } = yield* open(base, {
            client_id: documentAddress,
            code_challenge: OAuth.pkce().challenge
          })
          assert.match(location ?? "", /^\/app\/connect\//)
        })
      )
      it.effect("keeps its connection on each machine of a person, and replaces the one on the same", () =>
        Effect.gen(function* () {
          const base = yield* McpApp.base
          const team = yield* World.team()
          const needs = { crypto: yield* Crypto, rowSeal: yield* RowSeal, sql: yield* SqlClient.SqlClient }
          const machine = Effect.map(
            Accounts.openSession(needs, team.owner.id, null),
            ({ device, text }) => new McpApp.Browser(Redacted.value(text), Redacted.value(device))
          )
          const connect = (browser: McpApp.Browser, another = false) =>
            Effect.promise(async () => {
              const { challenge, verifier } = OAuth.pkce()
              const params = { client_id: documentAddress, code_challenge: challenge, scope: "identity:read" }
              const choice = { scopes: ["identity:read"], teams: [team], another }
              const { callback, page } = await McpApp.decide(browser, OAuth.authorizationUrl(base, params), choice)
              const code = callback.searchParams.get("code") ?? ""
              const { json } = await OAuth.redeem(base, documentAddress, code, verifier)
              return { page, bearer: json.access_token }
            })
          const works = (bearer: string) =>
            Effect.map(Clients.use(base, bearer, "whoami"), ({ answer }) => answer.status === 200)
          const [laptop, desktop] = [yield* machine, yield* machine]
          const first = yield* connect(laptop)
          assert.notInclude(first.page, "another machine")
          const second = yield* connect(desktop)
          assert.include(second.page, "A connection of this program from another browser stays unchanged.")
          assert.deepStrictEqual([yield* works(first.bearer), yield* works(second.bearer)], [true, true])
          // More scopes on the laptop: only its own earlier connection ends.
          const third = yield* connect(laptop)
          assert.include(third.page, "already granted")
          assert.include(third.page, "This is another machine")
          assert.deepStrictEqual(
            [yield* works(first.bearer), yield* works(second.bearer), yield* works(third.bearer)],
            [false, true, true]
          )
          // A program on a distant machine, consented to in the laptop's browser: the person says so.
          const fourth = yield* connect(laptop, true)
          assert.deepStrictEqual(
            [yield* works(second.bearer), yield* works(third.bearer), yield* works(fourth.bearer)],
            [true, true, true]
          )
          // Not without end: the oldest makes room.
          for (let i = 0; i < 7; i++) yield* connect(laptop, true)
          assert.isTrue(yield* works(second.bearer))
          yield* connect(laptop, true)
          assert.deepStrictEqual([yield* works(second.bearer), yield* works(third.bearer)], [false, true])
        })
      )
      it.effect("is refused when the document is another's, holds a secret or leads elsewhere", () =>
        Effect.gen(function* () {
          const base = yield* McpApp.base
          for (const name of ["other", "secret", "plain", "absent"]) {
            const { location, status } = yield* open(base, {
              client_id: `https://client.example/${name}.json`,
              code_challenge: OAuth.pkce().challenge
            })
            assert.strictEqual(status, 400, name)
            assert.isNull(location)
          }
        })
      )
    })

    describe("registration", () => {
      it.effect("answers 201 without a scope that would be a ceiling, and keeps it from caches", () =>
        Effect.gen(function* () {
          const base = yield* McpApp.base
          const { as, headers, status } = yield* Effect.promise(() =>
            OAuth.register(base, {
              scope: "projects:read",
              redirect_uris: ["http://localhost:1/cb", "https://a.example/cb"]
            })
          )
          assert.strictEqual(status, 201)
          assert.strictEqual(headers.get("cache-control"), "no-store")
          assert.strictEqual(headers.get("access-control-allow-origin"), "*")
          const client = as(Schema.Record({ key: Schema.String, value: Schema.Unknown }))
          assert.doesNotHaveAnyKeys(client, ["scope", "client_secret"])
        })
      )
      it.effect("refuses redirects that are neither https nor loopback", () =>
        Effect.gen(function* () {
          const base = yield* McpApp.base
          for (const uri of [
            "http://a.example/cb",
            "myapp://cb",
            "cursor://anysphere.cursor-mcp/oauth/callback",
            "com.example.app:/callback",
            "https://a.example/cb#x",
            "https://u:p@a.example/",
            "x"
          ]) {
            const answer = yield* Effect.promise(() => OAuth.register(base, { redirect_uris: [uri] }))
            assert.strictEqual(answer.status, 400, uri)
            assert.strictEqual(OAuth.errorOf(answer), "invalid_redirect_uri")
          }
        })
      )
      it.effect("refuses names that hide something", () =>
        Effect.gen(function* () {
          const base = yield* McpApp.base
          for (const name of ["a\u202eb", "a\u200bb", "a\nb", " ", "x".repeat(101)]) {
            const answer = yield* Effect.promise(() => OAuth.register(base, { client_name: name }))
            assert.strictEqual(answer.status, 400)
            assert.strictEqual(OAuth.errorOf(answer), "invalid_client_metadata")
          }
        })
      )
      it.effect("gives a confidential client a secret that is checked and not stored", () =>
        Effect.gen(function* () {
          const base = yield* McpApp.base
          const { client_id, client_secret = "" } = OAuth.registered(
            yield* Effect.promise(() => OAuth.register(base, { token_endpoint_auth_method: "client_secret_post" }))
          )
          assert.lengthOf(client_secret, 43)
          const form = { grant_type: "refresh_token", refresh_token: "none", client_id }
          const wrong = yield* Effect.promise(() =>
            OAuth.post(base, "/oauth/token", { ...form, client_secret: "wrong" })
          )
          assert.strictEqual(wrong.status, 401)
          assert.strictEqual(OAuth.errorOf(wrong), "invalid_client")
          const right = yield* Effect.promise(() => OAuth.post(base, "/oauth/token", { ...form, client_secret }))
          assert.strictEqual(OAuth.errorOf(right), "invalid_grant")
        })
      )
    })

    describe("the consent page", () => {
      const waiting = Effect.gen(function* () {
        const { base, challenge, clientId } = yield* client
        const project = yield* World.project()
        const url = OAuth.authorizationUrl(base, {
          client_id: clientId,
          code_challenge: challenge,
          scope: "projects:read audit:read"
        })
        const session = yield* World.session(project.team.owner)
        const browser = new McpApp.Browser(session.text)
        const started = yield* Effect.promise(() => browser.go(url))
        return { base, project, browser, path: started.headers.get("location") ?? "" }
      })
      const everywhere = ["everywhere", "yes"] as const
      const approve = (browser: McpApp.Browser, url: string, form: ReadonlyArray<readonly [string, string]>) =>
        Effect.promise(() => browser.go(url, form))

      it.effect("sends a visitor without a session to sign in first", () =>
        Effect.gen(function* () {
          const { base, path } = yield* waiting
          const response = yield* Effect.promise(() => new McpApp.Browser().go(`${base}${path}`))
          assert.strictEqual(response.status, 303)
          assert.include(response.headers.get("location") ?? "", `next=${encodeURIComponent(path)}`)
        })
      )
      it.effect("is there for the browser that began, and for no other", () =>
        Effect.gen(function* () {
          const { base, browser, path } = yield* waiting
          const other = new McpApp.Browser((yield* World.session(yield* World.person())).text)
          assert.strictEqual((yield* Effect.promise(() => other.go(`${base}${path}`))).status, 404)
          const page = yield* Effect.promise(() => browser.go(`${base}${path}`))
          assert.strictEqual(page.status, 200)
          // In no frame or cache, in no referrer to elsewhere (with none at all browsers send forms without an origin),
          // with nothing of a third party, and for no other page's script.
          const policy = page.headers.get("content-security-policy") ?? ""
          assert.include(policy, "frame-ancestors 'none'")
          assert.include(policy, "default-src 'none'")
          assert.strictEqual(page.headers.get("referrer-policy"), "same-origin")
          assert.include(page.headers.get("cache-control") ?? "", "no-store")
          assert.isNull(page.headers.get("access-control-allow-origin"))
        })
      )
      it.effect("takes no decision that another site sends, and none without a choice", () =>
        Effect.gen(function* () {
          const { base, browser, path, project } = yield* waiting
          const session = yield* World.session(project.team.owner)
          const foreign = yield* Effect.promise(() =>
            fetch(`${base}${path}/approve`, {
              method: "POST",
              redirect: "manual",
              headers: {
                cookie: `ampoule_session=${session.text}`,
                origin: "https://evil.example",
                "content-type": "application/x-www-form-urlencoded"
              },
              body: `scopes=projects:read&teamIds=${project.team.id}`
            })
          )
          assert.strictEqual(foreign.status, 403)
          const scope = ["scopes", "projects:read"] as const
          const team = ["teamIds", project.team.id] as const
          for (const form of [[], [scope, everywhere], [team, everywhere], [scope, team]]) {
            const response = yield* approve(browser, `${base}${path}/approve`, form)
            assert.strictEqual(response.status, 400)
          }
          const elsewhere = yield* World.team()
          const response = yield* approve(browser, `${base}${path}/approve`, [
            ["scopes", "projects:read"],
            ["teamIds", elsewhere.id],
            everywhere
          ])
          assert.strictEqual(response.status, 400)
        })
      )
      it.effect("gives nothing without the second factor that a team requires, nor with a proof that is too old", () =>
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const { base, browser, path, project } = yield* waiting
          const { id, owner } = project.team
          const decide = approve(browser, `${base}${path}/approve`, [
            ["scopes", "projects:read"],
            ["teamIds", id],
            everywhere
          ])
          const leadsTo = Effect.map(decide, (answer) => [
            answer.status,
            answer.headers.get("location")?.replace(base, "").split("?")[0]
          ])
          yield* Seals.after("teams", sql`UPDATE teams SET second_factor_required = true WHERE id = ${id}`)
          assert.deepStrictEqual(yield* leadsTo, [303, "/app/account/second-factor"])
          const old = new Date(Date.now() - 3_600_000)
          yield* Seals.after("sessions", sql`UPDATE sessions SET factor_at = ${old} WHERE user_id = ${owner.id}`)
          assert.deepStrictEqual(yield* leadsTo, [307, "/app/confirm/before"])
          assert.lengthOf(yield* sql`SELECT 1 AS one FROM oauth_grants WHERE user_id = ${owner.id}`, 0)
          // Shown again, the same decision counts.
          yield* Seals.after("sessions", sql`UPDATE sessions SET factor_at = ${new Date()} WHERE user_id = ${owner.id}`)
          assert.notStrictEqual((yield* leadsTo)[1], "/app/confirm/before")
          assert.lengthOf(yield* sql`SELECT 1 AS one FROM oauth_grants WHERE user_id = ${owner.id}`, 1)
        })
      )
      it.effect("gives away no more than the role allows", () =>
        Effect.gen(function* () {
          const { base, challenge, clientId } = yield* client
          const team = yield* World.team()
          const member = yield* World.member(team, "member")
          const browser = new McpApp.Browser((yield* World.session(member)).text)
          const url = OAuth.authorizationUrl(base, {
            client_id: clientId,
            code_challenge: challenge,
            scope: "audit:read"
          })
          const started = yield* Effect.promise(() => browser.go(url))
          const path = started.headers.get("location") ?? ""
          const page = yield* Effect.promise(async () => (await browser.go(`${base}${path}`)).text())
          assert.include(page, "your role does not allow it")
          const response = yield* approve(browser, `${base}${path}/approve`, [
            ["scopes", "audit:read"],
            ["teamIds", team.id],
            everywhere
          ])
          assert.strictEqual(response.status, 400)
        })
      )
      it.effect("may be answered once", () =>
        Effect.gen(function* () {
          const { base, browser, path, project } = yield* waiting
          const form = [["scopes", "projects:read"], ["teamIds", project.team.id], everywhere] as const
          const first = yield* approve(browser, `${base}${path}/approve`, form)
          assert.strictEqual(first.status, 303)
          const resumed = yield* Effect.promise(() =>
            browser.go(new URL(first.headers.get("location") ?? "", base).href)
          )
          assert.include(resumed.headers.get("location") ?? "", "code=amp_oc_")
          const again = yield* approve(browser, `${base}${path}/approve`, form)
          assert.strictEqual(again.status, 404)
        })
      )
    })

    describe("the documents", () => {
      it.effect("say one issuer everywhere, to every page", () =>
        Effect.gen(function* () {
          const base = yield* McpApp.base
          const read = <A, I>(path: string, schema: Schema.Schema<A, I>) =>
            Effect.promise(async () => {
              const response = await fetch(`${base}${path}`, { headers: { origin: "https://page.example" } })
              assert.strictEqual(response.headers.get("access-control-allow-origin"), "*")
              return bodyOf(schema, response)
            })
          const server = yield* read("/.well-known/oauth-authorization-server", AuthorizationServerMetadata)
          assert.strictEqual(server.issuer, base)
          assert.deepStrictEqual(server.code_challenge_methods_supported, ["S256"])
          assert.notInclude(server.scopes_supported, "offline_access")
          const mcp = yield* read("/.well-known/oauth-protected-resource/mcp", ProtectedResourceMetadata)
          assert.strictEqual(mcp.resource, `${base}/mcp`)
          assert.deepStrictEqual(mcp.authorization_servers, [base])
          const root = yield* read("/.well-known/oauth-protected-resource", ProtectedResourceMetadata)
          assert.strictEqual(root.resource, base)
        })
      )
    })
  }
)

const limited = McpApp.layerWith({ limits: "on" }).pipe(Layer.provide(MovableClock.layer))
layer(limited, { excludeTestServices: true })("registration at its limit", (it) => {
  it.effect("is refused with a time to wait", () =>
    Effect.gen(function* () {
      const base = yield* McpApp.base
      const answers = yield* Effect.promise(() => Promise.all(Array.from({ length: 11 }, () => OAuth.register(base))))
      const refused = answers.filter(({ status }) => status === 429)
      assert.lengthOf(refused, 1)
      assert.isAbove(Number(refused[0].headers.get("retry-after")), 0)
    })
  )
})

describe("addresses that a stranger may make this server fetch", () => {
  test.each([
    "127.0.0.1",
    "10.1.2.3",
    "169.254.169.254",
    "192.168.0.1",
    "172.31.255.255",
    "100.64.0.1",
    "0.0.0.0",
    "224.0.0.1",
    "255.255.255.255",
    "::1",
    "::",
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",
    "fe80::1",
    "fd00::1",
    "64:ff9b::a00:1",
    "2002:7f00:1::",
    "2001:db8::1",
    "not an address"
  ])("are not %s", (address) => {
    assert.isFalse(isPublicAddress(address))
  })
  test.each(["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111"])("may be %s", (address) => {
    assert.isTrue(isPublicAddress(address))
  })
  test.effect("are not names of this machine", () =>
    Effect.gen(function* () {
      const refused = yield* Effect.async<boolean>((resume) =>
        guardedLookup(isPublicAddress)("localhost", { all: true }, (error) =>
          resume(Effect.succeed(error?.code === refusedAddress))
        )
      )
      assert.isTrue(refused)
    })
  )
})

describe("redirects", () => {
  const registered = ["http://127.0.0.1/callback", "https://app.example/oauth/callback"]
  test.prop("match exactly, but for a loopback port", [FastCheck.webUrl({ withQueryParameters: true })], ([uri]) => {
    assert.isFalse(Redirects.isRegistered(registered, uri))
  })
  test.prop("accept any loopback port", [FastCheck.integer({ min: 1, max: 65_535 })], ([port]) => {
    assert.isTrue(Redirects.isRegistered(registered, `http://127.0.0.1:${port}/callback`))
    assert.isFalse(Redirects.isRegistered(registered, `https://app.example:${port}/oauth/callback`))
  })
  test("are compared as texts, the scheme too", () => {
    for (const uri of registered) {
      assert.isTrue(Redirects.isRegistered(registered, uri), uri)
      assert.isFalse(Redirects.isRegistered(registered, uri.replace("http", "hTtp")), uri)
      assert.isFalse(Redirects.isRegistered(registered, uri.replace("http", "HTTP")), uri)
    }
    assert.isFalse(Redirects.isRegistered(["http://localhost/cb"], "http://LOCALHOST/cb"))
  })
  test.prop(
    "refuse one changed character",
    [FastCheck.constantFrom(...registered), FastCheck.nat(), FastCheck.string({ minLength: 1, maxLength: 1 })],
    ([uri, at, other]) => {
      const index = at % uri.length
      const changed = uri.slice(0, index) + other + uri.slice(index + 1)
      if (registered.includes(changed)) return
      assert.isFalse(Redirects.isRegistered(registered, changed), changed)
    }
  )
})
