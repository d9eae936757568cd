/**
 * An agent and its person, from nothing: 401, discovery, registration, sign-in and consent in a real browser, a tool
 * call, one more scope, and a value that the person types and the agent never sees.
 */
import { assert, layer } from "@effect/vitest"
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { createServer } from "node:http"
import { Passwords } from "#src/credentials/Passwords.ts"
import { consentWords } from "#src/dashboard/credentials/ConsentView.tsx"
import * as Browser from "#test/dashboard/Browser.ts"
import { inspect } from "#test/dashboard/Look.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const password = "a sentence that only Ada would write"
const typed = "sk_live_only-the-person-knows"

/** Where the client listens for its answer, as programs on a person's machine do. */
const listener = Effect.acquireRelease(
  Effect.async<{ readonly url: string; readonly next: () => Promise<URLSearchParams>; readonly close: () => void }>(
    (resume) => {
      let arrived: (query: URLSearchParams) => void = () => undefined
      const server = createServer((request, response) => {
        const { pathname, searchParams } = new URL(request.url ?? "/", "http://127.0.0.1")
        response.setHeader("content-type", "text/plain").end("You can close this page.")
        if (pathname === "/callback") arrived(searchParams)
      })
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        const port = typeof address === "object" && address !== null ? address.port : 0
        resume(
          Effect.succeed({
            url: `http://127.0.0.1:${port}/callback`,
            next: () => new Promise((resolve) => (arrived = resolve)),
            close: () => server.close().closeAllConnections()
          })
        )
      })
    }
  ),
  ({ close }) => Effect.sync(close)
)

layer(Browser.layerWith(), { excludeTestServices: true, timeout: "60 seconds" })("an agent and its person", (it) => {
  it.scoped.skipIf(!Browser.available)(
    "meet on the pages of the dashboard",
    () =>
      Effect.gen(function* () {
        const { baseUrl } = yield* Browser.Site
        const hash = yield* Effect.flatMap(Passwords, (passwords) =>
          passwords.hash(Redacted.make(password), "password")
        )
        const ada = yield* World.person({ name: "Ada Lovelace", email: "ada@example.com", passwordHash: hash })
        const platform = yield* World.team({ owner: ada, name: "Platform" })
        const project = yield* World.project({ team: platform, slug: "shop" })
        yield* World.project({ team: platform, slug: "billing" })
        const private_ = yield* World.project({ team: yield* World.team({ owner: ada, name: "Private" }) })
        const callback = yield* listener
        const context = yield* Browser.visitor()
        const page = yield* Browser.steps(() => context.newPage())
        const looked = async (name: string) => {
          await inspect(page, `${name}-1440-light`, true)
          await page.setViewportSize({ width: 360, height: 780 })
          await inspect(page, `${name}-360-light`, false)
          await page.setViewportSize({ width: 1440, height: 900 })
        }

        const kept: { client?: unknown; tokens?: unknown; verifier?: string; discovery?: unknown } = {}
        const requests: Array<string> = []
        let decide = (_scopes: ReadonlyArray<string>): Promise<void> => Promise.reject(new Error("nobody is asked"))
        let answer = new URLSearchParams()
        const provider = {
          redirectUrl: callback.url,
          clientMetadata: {
            client_name: "Harbour agent",
            redirect_uris: [callback.url],
            grant_types: ["authorization_code", "refresh_token"],
            response_types: ["code"],
            token_endpoint_auth_method: "none"
          },
          clientInformation: () => kept.client,
          saveClientInformation: (client: unknown) => void (kept.client = client),
          tokens: () => kept.tokens,
          saveTokens: (tokens: unknown) => void (kept.tokens = tokens),
          saveCodeVerifier: (verifier: string) => void (kept.verifier = verifier),
          codeVerifier: () => kept.verifier ?? "",
          discoveryState: () => kept.discovery,
          saveDiscoveryState: (state: unknown) => void (kept.discovery = state),
          invalidateCredentials: () => undefined,
          redirectToAuthorization: async (url: URL) => {
            const scope = url.searchParams.get("scope") ?? ""
            requests.push(scope)
            const arrives = callback.next()
            await page.goto(url.href)
            await decide(scope.split(" "))
            answer = await arrives
          }
        }

        /** Sentences and absent effects of the consent page, then the person's choice. */
        const consent = (name: string, ticked: number) => async (scopes: ReadonlyArray<string>) => {
          await page.getByRole("heading", { name: "Connect this program?" }).waitFor()
          const text = await page.locator("main").innerText()
          for (const said of [
            "Harbour agent",
            new URL(callback.url).host,
            "on your own machine",
            "Platform",
            "Private"
          ]) {
            assert.include(text, said)
          }
          for (const scope of scopes) assert.include(text, consentWords[scope as keyof typeof consentWords])
          // Closed `details` hide their boxes from roles; inputs are counted wherever they are.
          assert.strictEqual(
            await page.locator("input[type=checkbox]:checked").count(),
            ticked,
            "what it has is ticked"
          )
          await looked(name)
          for (const scope of scopes) await page.locator(`input[name=scopes][value="${scope}"]`).check()
          await page.locator(`input[name=teamIds][value="${platform.id}"]`).check()
          if (ticked === 0) {
            await page.getByRole("button", { name: "Connect" }).click()
            await page.getByText("Choose projects or environments, or choose everything.").waitFor()
          }
          await page.locator(`input[name=projectIds][value="${project.id}"]`).check()
          await looked(`${name}-chosen`)
          await page.getByRole("button", { name: "Connect" }).click()
          await page.getByText("You can close this page.").waitFor()
        }
        const connect = () => {
          const client = new Client(
            { name: "harbour", version: "1" },
            { capabilities: { elicitation: { url: {} } }, versionNegotiation: { mode: "auto" } }
          )
          const transport = new StreamableHTTPClientTransport(new URL(`${baseUrl}/mcp`), {
            authProvider: provider as never
          })
          return { client, transport }
        }
        const refused = (work: Promise<unknown>) =>
          work.then(
            () => assert.fail("went on without the person"),
            () => undefined
          )

        const messages: Array<string> = []
        yield* Browser.steps(async () => {
          decide = async (scopes) => {
            assert.strictEqual(new URL(page.url()).pathname, "/app/sign-in")
            await page.getByLabel("E-mail address").fill("ada@example.com")
            await page.getByLabel("Password").fill(password)
            await page.getByRole("button", { name: "Sign in" }).click()
            await consent("consent", 0)(scopes)
          }
          const first = connect()
          await refused(first.client.connect(first.transport))
          assert.deepStrictEqual(requests, ["identity:read projects:read secrets:read secrets:write secrets:run"])
          await first.transport.finishAuth(answer)
          await first.client.close()

          const { client, transport } = connect()
          await client.connect(transport)
          const { structuredContent } = await client.callTool({ name: "list_projects", arguments: {} })
          assert.include(JSON.stringify(structuredContent), project.id)
          assert.notInclude(JSON.stringify(structuredContent), private_.id)

          const place = { projectId: project.id, environment: "development" }
          const creation = await client.callTool({
            name: "create_secret",
            arguments: { ...place, key: "SESSION_KEY", generate: { length: 32 } }
          })
          assert.notStrictEqual(creation.isError, true)

          // Plaintext is one more decision, by a person who is signed in by now; the earlier ones are kept.
          decide = consent("consent-step-up", 7)
          const reveal = () =>
            client.callTool({
              name: "reveal_secret_value",
              arguments: { ...place, key: "SESSION_KEY", reason: "The person asked for it" }
            })
          await refused(reveal())
          assert.include(requests[1]?.split(" ") ?? [], "secrets:read_values")
          await transport.finishAuth(answer)
          assert.notStrictEqual((await reveal()).isError, true)

          // A value that only a person has.
          client.setRequestHandler("elicitation/create", async ({ params }) => {
            messages.push(JSON.stringify(params))
            const { url } = params as { readonly url: string }
            await page.goto(url)
            const text = await page.locator("main").innerText()
            for (const said of ["STRIPE_KEY", "Harbour agent", "To charge customers", "development"]) {
              assert.include(text, said)
            }
            await looked("provide-value")
            await page.getByLabel("Value").fill(typed)
            await page.getByRole("button", { name: "Store the value" }).click()
            await page.getByRole("heading", { name: "The value is stored" }).waitFor()
            await looked("provide-value-done")
            return { action: "accept" as const }
          })
          const result = await client.callTool({
            name: "request_secret_value",
            arguments: { ...place, key: "STRIPE_KEY", note: "To charge customers" }
          })
          assert.strictEqual((result.structuredContent as { readonly status: string }).status, "stored")
          messages.push(JSON.stringify(result))
          await client.close()
        })
        assert.lengthOf(messages, 2)
        assert.notInclude(messages.join(), typed)
        const reader = yield* World.token({ team: platform })
        const value = yield* TestApp.get(
          `/secrets/value?projectId=${project.id}&environment=development&key=STRIPE_KEY`,
          { bearer: reader.text }
        )
        assert.strictEqual(value.json.value, typed)
      }),
    60_000
  )
})
