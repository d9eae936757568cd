/** Pages of sign-ins by an issuer, as owners set them up and people use them, in every look. */
import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { randomUUID } from "node:crypto"
import { Passwords } from "#src/credentials/Passwords.ts"
import * as FakeIssuer from "#test/openid/FakeIssuer.ts"
import { personOf } from "#test/openid/OpenIdWorld.ts"
import * as SignIn from "#test/support/SignIn.ts"
import * as World from "#test/support/World.ts"
import * as Browser from "./Browser.ts"
import { inspect } from "./Look.ts"

const { button } = Browser

class Issuers extends Context.Tag("test/Issuers")<
  Issuers,
  { readonly corp: FakeIssuer.FakeIssuer; readonly own: FakeIssuer.FakeIssuer }
>() {}

const app = Layer.unwrapScoped(
  Effect.gen(function* () {
    const [corp, other, own] = [yield* FakeIssuer.make(), yield* FakeIssuer.make(), yield* FakeIssuer.make()]
    const setting = (key: string, name: string, { clientId, clientSecret, url }: FakeIssuer.FakeIssuer) => ({
      key,
      name,
      issuer: url,
      clientId,
      clientSecret
    })
    const settings = [setting("corp", "Acme Corporation", corp), setting("other", "Contractors", other)]
    return Layer.merge(
      Browser.layerWith(undefined, "127.0.0.1", {
        signInIssuers: Option.some(Redacted.make(JSON.stringify(settings)))
      }),
      Layer.succeed(Issuers, { corp, own })
    )
  })
)

const looks = [
  [1280, "light"],
  [1280, "dark"],
  [360, "light"],
  [360, "dark"]
] as const

/** Wide and light, wide and dark, narrow and light, narrow and dark: a picture each, all colours and both shapes by axe. */
const judge = async (page: Browser.Page, name: string) => {
  for (const [width, colorScheme] of looks) {
    await page.setViewportSize({ width, height: 900 })
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" })
    await inspect(page, `openid-${name}-${width}-${colorScheme}`, (width === 360) === (colorScheme === "dark"))
  }
  await page.setViewportSize({ width: 1280, height: 900 })
}

const byPassword = async (page: Browser.Page, email: string) => {
  await page.goto("/app/sign-in")
  await page.getByLabel("E-mail address").fill(email)
  await page.getByLabel("Password").fill(SignIn.password)
  await page.getByRole("button", { name: "Sign in", exact: true }).click()
}

/** An owner and a member, each with a password. */
const scene = Effect.gen(function* () {
  const passwords = yield* Passwords
  const passwordHash = yield* passwords.hash(Redacted.make(SignIn.password), "password")
  const owner = yield* World.person({ passwordHash, name: "Ada" })
  const team = yield* World.team({ owner, name: "Shop" })
  yield* World.project({ team, slug: "shop" })
  const grace = yield* World.person({ passwordHash, name: "Grace" })
  yield* World.join(team, grace, "member")
  return { owner, team, grace, session: yield* World.session(owner) }
})

layer(app, { excludeTestServices: true, timeout: "90 seconds" })("sign-in by an issuer in a browser", (it) => {
  it.scoped.skipIf(!Browser.available)(
    "is set up by an owner: an issuer of the team, rules of who joins, and issuers alone",
    () =>
      Effect.gen(function* () {
        const { corp, own } = yield* Issuers
        const { owner, session, team } = yield* scene
        const context = yield* Browser.signedIn(session)
        const glass = yield* Browser.visitor()
        yield* Browser.steps(async () => {
          const page = await context.newPage()
          const here = `/app/teams/${team.id}/sign-in`
          await page.goto(here)
          await judge(page, "team-empty")
          await page.getByText("Add an issuer of this team").click()
          await page.getByRole("textbox", { name: "Name" }).fill("Shop's own")
          await page.getByRole("textbox", { name: "Issuer URL" }).fill(`${own.url}/nowhere`)
          await page.getByRole("textbox", { name: "Client id" }).fill(own.clientId)
          await page.getByLabel("Client secret").fill(own.clientSecret)
          await button(page, "Add the issuer").click()
          await page.getByText("No OpenID Connect issuer responds there.").waitFor()
          assert.strictEqual(await page.getByRole("textbox", { name: "Client id" }).inputValue(), own.clientId)
          await judge(page, "issuer-refused")
          await page.getByRole("textbox", { name: "Issuer URL" }).fill(own.url)
          await page.getByLabel("Client secret").fill(own.clientSecret)
          await button(page, "Add the issuer").click()
          await page.getByText("The issuer is added.").waitFor()
          assert.notInclude(await page.content(), own.clientSecret)

          const rule = async (issuer: string, claim: string, value: string, role: string) => {
            await page.getByLabel("Issuer", { exact: true }).selectOption({ label: issuer })
            await page.getByRole("textbox", { name: "Claim" }).fill(claim)
            await page.getByRole("textbox", { name: "Value" }).fill(value)
            await page.getByLabel("Role", { exact: true }).selectOption(role)
            await button(page, "Add the rule").click()
          }
          await rule("Acme Corporation", "aud", "ampoule", "member")
          await page.getByText("must be a claim that says who somebody is").waitFor()
          await judge(page, "rule-refused")
          await rule("Acme Corporation", "groups", "platform", "member")
          await page.getByText("The rule is added.").waitFor()
          const long = "a-group-with-a-name-that-is-quite-long-for-a-table"
          await rule("Shop's own", "groups", long, "admin")
          await page.getByRole("cell", { name: long }).waitFor()
          await judge(page, "team")

          // By a password nobody can say that passwords do not count.
          const choose = async () => {
            await page.getByRole("checkbox", { name: "Acme Corporation" }).check()
            await page.getByRole("checkbox", { name: owner.email }).check()
            await button(page, /^Save$/).click()
          }
          await choose()
          await page.getByText("Sign in with one of these issuers first").waitFor()
          await judge(page, "only-refused")

          corp.signs(personOf(["platform"], { email: owner.email }))
          await page.goto("/app/account/sign-ins")
          await judge(page, "linked-none")
          await button(page, "Link Acme Corporation").click()
          await page.getByText("The sign-in is linked.").waitFor()
          await judge(page, "linked")

          await page.context().clearCookies()
          await page.goto("/app/sign-in")
          await judge(page, "sign-in")
          await button(page, "Sign in with Acme Corporation").click()
          await page.getByRole("heading", { name: "Projects" }).waitFor()
          await page.goto(here)
          await choose()
          await page.getByText("The choice is saved.").waitFor()
          await judge(page, "only")

          const behind = await glass.newPage()
          await byPassword(behind, owner.email)
          await behind.getByRole("heading", { name: "Projects" }).waitFor()
          // Not by a reload: the notice that the choice is saved would be there before the next one is.
          await page.goto(here)
          await page.getByText("An owner signed in with a password").waitFor()
          await judge(page, "alarm")
          // The only way in is neither disabled nor removed.
          await page.getByRole("checkbox", { name: "Shop's own" }).check()
          await button(page, /^Save$/).click()
          await page.getByText("The choice is saved.").waitFor()
          await button(page, "Disable").click()
          await page.getByText("The team accepts only this issuer.").waitFor()
        })
      }),
    240_000
  )

  it.scoped.skipIf(!Browser.available)(
    "tells whom a team keeps out why, and leads them in; and who has no team what they should know",
    () =>
      Effect.gen(function* () {
        const { corp } = yield* Issuers
        const sql = yield* SqlClient.SqlClient
        const { grace, owner, session, team } = yield* scene
        const lone = yield* World.person({ name: "Lone" })
        yield* sql`
          INSERT INTO account_notices (id, user_id, kind, about, ip, user_agent, created_at)
          VALUES (${randomUUID()}, ${lone.id}, 'password_reset', '', '192.0.2.7', 'Firefox/143.0', now())`
        const [ofOwner, ofGrace, ofLone] = [
          yield* Browser.signedIn(session),
          yield* Browser.visitor(),
          yield* Browser.signedIn(yield* World.session(lone))
        ]
        yield* Browser.steps(async () => {
          const page = await ofOwner.newPage()
          corp.signs(personOf([], { email: owner.email }))
          await page.goto("/app/account/sign-ins")
          await button(page, "Link Acme Corporation").click()
          await page.getByText("The sign-in is linked.").waitFor()
          await page.goto("/app/sign-in")
          await page.context().clearCookies()
          await page.goto("/app/sign-in")
          await button(page, "Sign in with Acme Corporation").click()
          await page.getByRole("heading", { name: "Projects" }).waitFor()
          await page.goto(`/app/teams/${team.id}/sign-in`)
          await page.getByRole("checkbox", { name: "Acme Corporation" }).check()
          await page.getByRole("checkbox", { name: owner.email }).check()
          await button(page, /^Save$/).click()
          await page.getByText("The choice is saved.").waitFor()

          const hers = await ofGrace.newPage()
          await hers.goto(`/app/sign-in?team=${team.id}`)
          await hers.getByText("This team accepts only these sign-ins.").waitFor()
          await judge(hers, "sign-in-alone")
          await byPassword(hers, grace.email)
          await hers.getByText("Shop accepts only sign-ins with Acme Corporation").waitFor()
          await judge(hers, "closed")
          corp.signs(personOf([], { email: grace.email }))
          await button(hers, "Link Acme Corporation").click()
          await hers.getByText("The sign-in is linked.").waitFor()
          await judge(hers, "closed-linked")
          await button(hers, "Sign in with Acme Corporation").click()
          await hers.getByRole("heading", { name: "Projects" }).waitFor()
          assert.strictEqual(await hers.getByText("accepts only sign-ins").count(), 0)

          corp.signs(personOf())
          await hers.context().clearCookies()
          await hers.goto("/app/sign-in")
          await button(hers, "Sign in with Acme Corporation").click()
          await hers.getByText("No account here is linked to this sign-in.").waitFor()
          await judge(hers, "refused")

          const theirs = await ofLone.newPage()
          await theirs.goto("/app")
          await theirs.getByText("Your password was set with a reset link").waitFor()
          await judge(theirs, "no-team")
          await button(theirs, "It was me").click()
          await theirs.getByText("You have no team here").waitFor()
          assert.strictEqual(await theirs.getByText("Your password was set with a reset link").count(), 0)
        })
      }),
    240_000
  )
})
