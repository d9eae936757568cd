/** Passkeys as Chromium makes them, with its virtual authenticator: from the first start to a sign-in without a password. */
import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Runtime from "effect/Runtime"
import { createServer } from "node:http"
import type { UserId } from "#schema/Ids.ts"
import { Setup } from "#src/credentials/Setup.ts"
import * as SignIn from "#test/support/SignIn.ts"
import * as Browser from "./Browser.ts"
import { inspect } from "./Look.ts"

const setupCode = "passkeys-setup-code-of-forty-characters"
const password = "a vial of thirty drops"

/** A device that says yes, as long as nobody tells it to stop. */
const deviceOf = async (page: Browser.Page) => {
  const cdp = await page.context().newCDPSession(page)
  await cdp.send("WebAuthn.enable", { enableUI: false })
  const { authenticatorId } = await cdp.send("WebAuthn.addVirtualAuthenticator", {
    options: {
      protocol: "ctap2",
      transport: "internal",
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true
    }
  })
  return { cdp, authenticatorId }
}

/** Another site of this machine, whose script asks the same device. */
const elsewhere = (host: string) =>
  Effect.acquireRelease(
    Effect.async<{ readonly url: string; readonly close: () => void }>((resume) => {
      const server = createServer((_, answer) => answer.end("<!doctype html><title>Elsewhere</title>"))
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        const port = typeof address === "object" && address !== null ? address.port : 0
        resume(Effect.succeed({ url: `http://${host}:${port}/`, close: () => void server.close() }))
      })
    }),
    ({ close }) => Effect.sync(close)
  )

/**
 * Answer of the device to our challenge on that site: the form field that our page would send, or why there is none.
 */
const stolen = (page: Browser.Page, challenge: string, rpId: string) =>
  page.evaluate(
    async ({ challenge, rpId }) => {
      const bytes = (text: string) =>
        Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (char) => char.charCodeAt(0))
      const text = (buffer: ArrayBuffer) =>
        btoa(String.fromCharCode(...new Uint8Array(buffer)))
          .replaceAll("+", "-")
          .replaceAll("/", "_")
          .replaceAll("=", "")
      try {
        const credential = await navigator.credentials.get({
          publicKey: { challenge: bytes(challenge), rpId, userVerification: "required", timeout: 5_000 }
        })
        // The type that `publicKey` answers; the library of types knows no narrower one.
        const { id, response } = credential as PublicKeyCredential & {
          readonly response: AuthenticatorAssertionResponse
        }
        return JSON.stringify({
          id,
          response: {
            clientDataJSON: text(response.clientDataJSON),
            authenticatorData: text(response.authenticatorData),
            signature: text(response.signature),
            userHandle: response.userHandle === null ? null : text(response.userHandle)
          }
        })
      } catch (error) {
        return error instanceof Error ? error.name : "?"
      }
    },
    { challenge, rpId }
  )

layer(Browser.layerWith(setupCode, "localhost"), { excludeTestServices: true, timeout: "90 seconds" })(
  "a passkey in a browser",
  (it) => {
    it.scoped.skipIf(!Browser.available)(
      "is proposed after the first start, added, and signs its person in without a password, here alone",
      () =>
        Effect.gen(function* () {
          yield* Effect.flatMap(Setup, (setup) => setup.prepare)
          const context = yield* Browser.visitor()
          const { baseUrl } = yield* Browser.Site
          const sql = yield* SqlClient.SqlClient
          const dayLater = Effect.flatMap(sql<{ id: UserId }>`SELECT id FROM users`, ([person]) =>
            SignIn.agedFactors(person)
          )
          const run = Runtime.runPromise(yield* Effect.runtime<Effect.Effect.Context<typeof dayLater>>())
          const [otherPort, otherName] = [yield* elsewhere("localhost"), yield* elsewhere("evil.localhost")]
          yield* Browser.steps(async () => {
            const page = await context.newPage()
            const { authenticatorId, cdp } = await deviceOf(page)
            await page.goto(`/setup?code=${setupCode}`)
            await page.getByLabel("Your name").fill("Ada")
            await page.getByLabel("E-mail address").fill("ada@shop.example")
            await page.getByLabel("Password").fill(password)
            await page.getByLabel("Name of your team").fill("Shop")
            await page.getByRole("button", { name: "Set up" }).click()
            await page.getByText("Sign in without a password?").waitFor()
            await inspect(page, "passkey-proposal", true, cdp)
            await page.getByRole("link", { name: "Add a passkey" }).click()
            await page.getByLabel("Name", { exact: true }).fill("laptop")
            await inspect(page, "passkey-none", true, cdp)
            await page.getByRole("button", { name: "Add a passkey" }).click()
            await page.getByRole("heading", { name: "Your recovery codes" }).waitFor()
            const { credentials } = await cdp.send("WebAuthn.getCredentials", { authenticatorId })
            assert.deepStrictEqual(
              credentials.map(({ isResidentCredential, rpId }) => [isResidentCredential, rpId]),
              [[true, "localhost"]]
            )
            await page.getByRole("link", { name: "I have saved them" }).click()
            await page.getByRole("heading", { name: "laptop" }).waitFor()
            await inspect(page, "passkey-added", true, cdp)
            // The same device again: it says that it has one.
            await page.getByRole("button", { name: "Add a passkey" }).click()
            await page.getByText("This device already has a passkey for this account.").waitFor()

            // The browser offers it in the field of the e-mail address, and this device says yes to the offer.
            const signOut = async () => {
              await page.locator("summary", { hasText: "Ada" }).click()
              await page.getByRole("button", { name: "Sign out" }).click()
            }
            const simulate = (enabled: boolean) =>
              cdp.send("WebAuthn.setAutomaticPresenceSimulation", { authenticatorId, enabled })
            await signOut()
            await page.getByRole("heading", { name: "Projects" }).waitFor()

            // With the button.
            await simulate(false)
            const offered = page.waitForResponse("**/app/sign-in/passkey/begin")
            await signOut()
            await page.waitForURL("**/app/sign-in**")
            await offered
            assert.strictEqual(
              await page.getByLabel("E-mail address").getAttribute("autocomplete"),
              "username webauthn"
            )
            await inspect(page, "passkey-sign-in", true, cdp)
            // The device answers a question that is asked from now on: the offer above stays without one.
            await simulate(true)
            await page.getByRole("button", { name: "Sign in with a passkey" }).click()
            await page.getByRole("heading", { name: "Projects" }).waitFor()

            // The password alone is asked for more, and a passkey is enough.
            await simulate(false)
            await signOut()
            await page.getByLabel("E-mail address").fill("ada@shop.example")
            await page.getByLabel("Password").fill(password)
            await page.getByRole("button", { name: "Sign in", exact: true }).click()
            await page.getByText("Your password is correct.").waitFor()
            await inspect(page, "passkey-second-step", true, cdp)
            await simulate(true)
            await page.getByRole("button", { name: "Use a passkey" }).click()
            await page.getByRole("heading", { name: "Projects" }).waitFor()

            // While the only passkey is younger than a day, the password is the proof.
            await page.goto("/app/confirm?next=/app/grants")
            assert.strictEqual(await page.getByRole("button", { name: "Use a passkey" }).count(), 0)
            await run(dayLater)

            // A device that does not verify its person.
            await page.goto("/app/confirm?next=/app/grants")
            await cdp.send("WebAuthn.setUserVerified", { authenticatorId, isUserVerified: false })
            await page.getByRole("button", { name: "Use a passkey" }).click()
            await page.locator("[data-passkey-problem]").waitFor()
            await cdp.send("WebAuthn.setUserVerified", { authenticatorId, isUserVerified: true })
            await page.getByRole("button", { name: "Use a passkey" }).click()
            await page.waitForURL((url) => url.pathname === "/app/grants")

            // Our challenge in the hands of another site: of the same RP id at another port, of another name.
            const begin = await page.request.post("/app/sign-in/passkey/begin", {
              headers: { accept: "application/json" }
            })
            const { challenge } = (await begin.json()) as { readonly challenge: string }
            await page.goto(otherPort.url)
            const sent = await stolen(page, challenge, "localhost")
            assert.match(sent, /^\{"id"/, "the same RP id: the device answers any of its ports")
            const refused = await page.request.post("/app/sign-in/passkey", {
              form: { passkey: sent, next: "" },
              headers: { origin: baseUrl },
              maxRedirects: 0
            })
            assert.strictEqual(refused.status(), 401, await refused.text())
            assert.include(await refused.text(), "This passkey does not sign in here.")
            await page.goto(otherName.url)
            assert.strictEqual(await stolen(page, challenge, "localhost"), "SecurityError")
            assert.strictEqual(await stolen(page, challenge, "shop.example"), "SecurityError")
            assert.strictEqual(await stolen(page, challenge, "evil.localhost"), "NotAllowedError")
          })
        }),
      120_000
    )
  }
)
