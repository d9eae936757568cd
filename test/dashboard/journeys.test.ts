/** Journeys of people through the dashboard, from the first start on, in a real browser against the real server. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as fs from "node:fs"
import type { AuditAction } from "#schema/Audit.ts"
import { CurrentCaller } from "#schema/Caller.ts"
import { AuditTrail } from "#src/trail-use/AuditTrail.ts"
import { Passwords } from "#src/credentials/Passwords.ts"
import { Setup } from "#src/credentials/Setup.ts"
import { parsed, Texts } from "#test/support/Json.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import * as Browser from "./Browser.ts"
import { inspect } from "./Look.ts"
import * as Rooms from "./Rooms.ts"

const password = "a sentence that only Ada would write"
const setupCode = "only for this test"
const minute = 60_000

const { button, row } = Browser

layer(Browser.layerWith(setupCode), { excludeTestServices: true, timeout: "60 seconds" })("the first owner", (it) => {
  it.scoped.skipIf(!Browser.available)(
    "goes from the setup link to a secret, its history, its end, and a look at another environment",
    () =>
      Effect.gen(function* () {
        yield* Effect.flatMap(Setup, (setup) => setup.prepare)
        const context = yield* Browser.visitor()
        yield* Browser.steps(async () => {
          const page = await context.newPage()
          const answers = Browser.answersTo(page)
          const pages = async () => (await answers()).filter(({ type }) => type.startsWith("text/html"))

          await page.goto("/")
          assert.strictEqual(new URL(page.url()).pathname, "/setup")
          await page.goto("/setup?code=not-the-code")
          assert.strictEqual(new URL(page.url()).search, "", "the code stays in the address bar")
          const fill = async () => {
            await page.getByLabel("Your name").fill("Ada")
            await page.getByLabel("E-mail address").fill("ada@example.com")
            await page.getByLabel("Password").fill(password)
            await page.getByLabel("Name of your team").fill("Platform")
            await button(page, "Set up").click()
          }
          await inspect(page, "setup-1440-light", true)
          await fill()
          await page.getByRole("alert").getByText("This link does not work").waitFor()
          assert.strictEqual(await page.getByLabel("E-mail address").inputValue(), "ada@example.com")
          assert.strictEqual(await page.getByLabel("Password").inputValue(), "")
          await page.goto(`/setup?code=${encodeURIComponent(setupCode)}`)
          await fill()
          await page.waitForURL("**/app/start")
          assert.include(await page.content(), `ampoule login --url ${new URL(page.url()).origin}`)
          await page.goto("/setup")
          assert.strictEqual(new URL(page.url()).pathname, "/app")

          await page.getByRole("link", { name: "Create the first project" }).click()
          await page.getByLabel("Name").fill("Shop")
          await button(page, "Create the project").click()
          await page.getByText("The project is created.").waitFor()
          await page.getByText("Drop your .env file here").waitFor()
          await page.getByRole("link", { name: "development" }).click()

          const add = async (key: string, value: string) => {
            await page.getByRole("link", { name: "Add secret" }).first().click()
            await page.getByRole("textbox", { name: "Key" }).fill(key)
            await page.getByLabel("Value", { exact: true }).fill(value)
            await button(page, /^Add$/).click()
          }
          await add("bad-key", "value-one")
          await page.getByText("Must be a secret key").waitFor()
          assert.strictEqual(
            await page.getByRole("textbox", { name: "Key" }).inputValue(),
            "BAD-KEY",
            "what is no secret is kept, in capitals"
          )
          assert.strictEqual(
            await page.getByLabel("Value", { exact: true }).inputValue(),
            "value-one",
            "the field keeps a value that the server does not send back"
          )
          await page.getByRole("link", { name: "Cancel" }).click()
          await add("DB_PASSWORD", "value-one")
          await page.getByText("The secret is added.").waitFor()
          await add("DATABASE_URL", "postgres://app:${DB_PASSWORD}@db/app")
          await row(page, "DATABASE_URL").getByText("uses").waitFor()
          await add("DB_PASSWORD", "value-other")
          await page.getByText("This key already exists").waitFor()
          await page.getByRole("link", { name: "Cancel" }).click()
          await add("BROKEN", "${NOT_THERE}")
          await page.getByText("refers to a key that this environment does not have").waitFor()
          await page.getByText("NOT_THERE", { exact: false }).first().waitFor()
          await page.getByRole("link", { name: "Cancel" }).click()
          for (const { text } of await pages()) assert.notInclude(text, "value-one")

          await row(page, "DATABASE_URL")
            .getByRole("button", { name: /^Reveal/ })
            .click()
          await row(page, "DATABASE_URL").getByText("postgres://app:value-one@db/app").waitFor()
          await page
            .getByRole("row")
            .filter({ hasText: "DB_PASSWORD" })
            .last()
            .getByRole("button", { name: /^Reveal/ })
            .click()
          await page.getByText("value-one", { exact: true }).waitFor()
          assert.strictEqual(await page.getByText("postgres://app:value-one@db/app").count(), 0, "one value at a time")
          await page.keyboard.press("Escape")
          assert.notInclude(await page.content(), "value-one")
          await row(page, "DATABASE_URL").getByRole("button", { name: /^Copy/ }).click()
          await page.getByText("Copied").first().waitFor()
          assert.strictEqual(
            await page.evaluate(() => navigator.clipboard.readText()),
            "postgres://app:value-one@db/app"
          )
          assert.notInclude(await page.content(), "value-one", "copying shows nothing")

          await page.getByLabel("Filter by key").fill("url")
          assert.strictEqual(await page.getByRole("row").filter({ hasText: "v1" }).count(), 1)

          await page.goto(page.url().replace(/\?.*/, ""))
          await page.getByRole("link", { name: "DB_PASSWORD" }).click()
          await button(page, "Load the current text").click()
          await page.waitForFunction(
            () => (document.querySelector("#f-value") as HTMLTextAreaElement).value === "value-one"
          )
          await page.getByLabel("New text").fill("")
          await button(page, "Save a new version").click()
          await page.getByText("Enter a text, or choose to save an empty text").waitFor()
          await page.getByLabel("New text").fill("value-two")
          await button(page, "Save a new version").click()
          await page.getByText("The secret is saved.").waitFor()
          await page.getByText("v2", { exact: true }).waitFor()
          await page.getByRole("link", { name: /^Compare version 1/ }).click()
          await button(page, /^Reveal/).click()
          for (const text of ["value-one", "value-two"]) await page.getByText(text, { exact: true }).waitFor()
          await inspect(page, "versions-1440-light", true)
          await button(page, "Roll back to version 1").click()
          await page.getByText("The secret is rolled back.").waitFor()
          await page.getByText("v3", { exact: true }).waitFor()
          await button(page, /^Reveal/).click()
          await page.getByText("value-one", { exact: true }).waitFor()
          await button(page, /^Undo/).click()
          await page.getByText("v4", { exact: true }).waitFor()
          await button(page, /^Reveal/).click()
          await page.getByText("value-two", { exact: true }).waitFor()
          await button(page, /^Undo/).click()
          await page.getByText("v5", { exact: true }).waitFor()

          await page.getByText("Delete this secret").click()
          await page.getByText("One secret uses it:").waitFor()
          await page.getByLabel("Keep them, with their current text").check()
          await button(page, "Delete DB_PASSWORD").click()
          await page.getByText("You can restore it for 30 days").waitFor()
          assert.strictEqual(await page.getByRole("link", { name: "DB_PASSWORD" }).count(), 0)
          await row(page, "DATABASE_URL")
            .getByRole("button", { name: /^Reveal/ })
            .click()
          await page.getByText("postgres://app:value-one@db/app").waitFor()

          await page.getByRole("link", { name: "Deleted" }).click()
          await button(page, /^Restore/).click()
          await page.getByText("The secret is restored.").waitFor()

          await page.goto(`${page.url().replace(/\/env\/.*/, "")}/env/staging?panel=paste`)
          await page.getByLabel("Text").fill("# staging\nDB_PASSWORD='value-three'\nbad-name=1\n")
          await button(page, "Preview the changes").click()
          await page.getByText("These names cannot be keys of secrets").waitFor()
          await page.getByLabel("Text").fill("DB_PASSWORD='value-three'\nNEW=\"two\\nlines\"\n")
          await button(page, "Preview again").click()
          await page.getByText("Will be created").waitFor()
          assert.include(await page.getByLabel("Text").inputValue(), "value-three", "the field keeps what was pasted")
          await button(page, "Save 2 secrets").click()
          await page.getByText("2 added, 0 changed, 0 unchanged.").waitFor()
          for (const { text } of await pages()) assert.notInclude(text, "value-three")

          await page.getByRole("link", { name: "Compare" }).click()
          await page.getByLabel("To").selectOption("development")
          await button(page, "Compare").click()
          await row(page, "DB_PASSWORD").getByText("differs").waitFor()
          await row(page, "DATABASE_URL").getByText("only in development").waitFor()
          await row(page, "DB_PASSWORD")
            .getByRole("button", { name: /^Reveal/ })
            .first()
            .click()
          for (const text of ["value-three", "value-one"]) await page.getByText(text, { exact: true }).waitFor()
          await row(page, "DATABASE_URL")
            .getByRole("button", { name: /^Copy here/ })
            .click()
          await page.getByText("The secret is copied.").waitFor()
          assert.strictEqual(await page.getByRole("row").filter({ hasText: "DATABASE_URL" }).count(), 0)
          for (const { text } of await pages()) assert.notInclude(text, "value-three")
        })

        const answer = yield* TestApp.post("/auth/session", { json: { email: "ada@example.com", password } })
        assert.strictEqual(answer.status, 200)
      }),
    2 * minute
  )
})

layer(Browser.layerWith(), { excludeTestServices: true, timeout: "60 seconds" })("a team's dashboard", (it) => {
  it.scoped.skipIf(!Browser.available)(
    "works without script: sign in, add, reveal, edit, sign out",
    () =>
      Effect.gen(function* () {
        const hash = yield* Effect.flatMap(Passwords, (passwords) =>
          passwords.hash(Redacted.make(password), "password")
        )
        const ada = yield* World.person({ email: "plain@example.com", passwordHash: hash })
        const project = yield* World.project({ team: yield* World.team({ owner: ada }) })
        const { baseUrl } = yield* Browser.Site
        const context = yield* Browser.visitor({ script: false })
        yield* Browser.steps(async () => {
          const page = await context.newPage()
          // Under another name of the same machine, whose forms the server would refuse.
          await page.goto(`${baseUrl.replace("127.0.0.1", "localhost")}/app/projects/${project.id}/env/development`)
          assert.strictEqual(new URL(page.url()).pathname, "/app/sign-in")
          assert.strictEqual(new URL(page.url()).origin, baseUrl)
          await page.getByLabel("E-mail address").fill("plain@example.com")
          await page.getByLabel("Password").fill("not this one at all")
          await button(page, "Sign in").click()
          await page.getByText("E-mail address or password is wrong").waitFor()
          await page.getByLabel("Password").fill(password)
          await button(page, "Sign in").click()
          assert.strictEqual(new URL(page.url()).pathname, `/app/projects/${project.id}/env/development`)
          await page.getByRole("link", { name: "Add secret" }).first().click()
          await page.getByRole("textbox", { name: "Key" }).fill("bad-key")
          await page.getByLabel("Value", { exact: true }).fill("seen-only-when-asked")
          await button(page, /^Add$/).click()
          await page.getByText("Must be a secret key").waitFor()
          assert.strictEqual(
            await page.getByLabel("Value", { exact: true }).inputValue(),
            "",
            "a value is not sent back"
          )
          await page.getByRole("textbox", { name: "Key" }).fill("PLAIN")
          await page.getByLabel("Value", { exact: true }).fill("seen-only-when-asked")
          await button(page, /^Add$/).click()
          assert.notInclude(await page.content(), "seen-only-when-asked")
          await button(page, /^Reveal/).click()
          await page.getByText("seen-only-when-asked").waitFor()
          await page.getByRole("link", { name: "PLAIN" }).click()
          await button(page, "Show the current text in the field").click()
          assert.strictEqual(await page.getByLabel("New text").inputValue(), "seen-only-when-asked")
          await page.getByLabel("New text").fill("other")
          await button(page, "Save a new version").click()
          await page.getByText("The secret is saved.").waitFor()
          await page.getByRole("link", { name: /^Compare version 1/ }).click()
          assert.notInclude(await page.content(), "seen-only-when-asked")
          await button(page, /^Reveal/).click()
          for (const text of ["seen-only-when-asked", "other"]) await page.getByText(text, { exact: true }).waitFor()
          await page.locator(".menu-right > summary").click()
          await button(page, "Sign out").click()
          await page.getByText("You are signed out.").waitFor()
        })
      }),
    minute
  )

  it.scoped.skipIf(!Browser.available)(
    "leaves nothing behind the back button after signing out",
    () =>
      Effect.gen(function* () {
        const { page, rooms } = yield* Browser.entered()
        yield* Browser.steps(async () => {
          await page.goto(rooms.development)
          await row(page, "STRIPE_SECRET_KEY")
            .getByRole("button", { name: /^Reveal/ })
            .click()
          await page.getByText("sk_test_2").waitFor()
          await page.locator(".menu-right > summary").click()
          const out = page.waitForResponse((response) => response.url().endsWith("/app/sign-out"))
          await button(page, "Sign out").click()
          const answer = await out
          assert.strictEqual((await answer.allHeaders())["clear-site-data"], '"cache", "storage"')
          await page.getByText("You are signed out.").waitFor()
          await page.goBack()
          await page.waitForLoadState()
          assert.notInclude(await page.content(), "STRIPE_SECRET_KEY")
          assert.notInclude(await page.content(), "sk_test_2")
        })
      }),
    minute
  )

  it.scoped.skipIf(!Browser.available)(
    "makes a token that works, replaces it, narrows it and ends it",
    () =>
      Effect.gen(function* () {
        const { page, rooms } = yield* Browser.entered()
        const list = `/secrets?projectId=${rooms.project.id}&environment=development` as const
        const value = () => Browser.steps(() => page.getByLabel(/is shown only once/).inputValue())
        yield* Browser.steps(async () => {
          await page.goto(`/app/teams/${rooms.team.id}/tokens/new`)
          await page.getByRole("textbox", { name: "Name" }).fill("deploy")
          await page.getByLabel("Read and write").check()
          await page.getByLabel("Expires after").selectOption("7d")
          await page.getByText("shop", { exact: true }).click()
          await page.getByRole("checkbox", { name: "development" }).check()
          await page.getByText("For AI agents (MCP)").click()
          await page.getByRole("checkbox", { name: "secrets:read list" }).check()
          await page.getByRole("radio", { name: "At /mcp and over the REST API" }).check()
          await button(page, "Create the token").click()
          await button(page, "Copy").click()
          assert.strictEqual(
            await page.evaluate(() => navigator.clipboard.readText()),
            await page.getByLabel(/is shown only once/).inputValue()
          )
        })
        const first = yield* value()
        assert.match(first, /^amp_at_/)
        assert.strictEqual((yield* TestApp.get(list, { bearer: first })).status, 200)
        assert.strictEqual((yield* TestApp.get(list.replace("development", "staging"), { bearer: first })).status, 404)
        yield* Browser.steps(async () => {
          await page.getByRole("link", { name: "I have saved it" }).click()
          assert.notInclude(await page.content(), first)
          await page.getByRole("link", { name: "deploy" }).click()
          await page.locator("summary", { hasText: "Rotate" }).click()
          await button(page, "Replace the token now").click()
        })
        const second = yield* value()
        assert.strictEqual((yield* TestApp.get(list, { bearer: first })).status, 401)
        assert.strictEqual((yield* TestApp.get(list, { bearer: second })).status, 200)
        yield* Browser.steps(async () => {
          await page.getByRole("link", { name: "I have saved it" }).click()
          await page.getByRole("link", { name: "deploy" }).click()
          await button(page, "Make read-only").click()
          await page.getByText("The token is now read-only.").waitFor()
          await page.locator("summary", { hasText: "Revoke" }).click()
          await button(page, "Revoke the token").click()
          await page.getByText("The token is revoked.").waitFor()
          assert.strictEqual(await page.getByRole("link", { name: "deploy" }).count(), 0)
        })
        assert.strictEqual((yield* TestApp.get(list, { bearer: second })).error.code, "CREDENTIAL_REVOKED")
      }),
    minute
  )

  it.scoped.skipIf(!Browser.available)(
    "brings a person in by a link, who sees what the role allows and no more",
    () =>
      Effect.gen(function* () {
        const rooms = yield* Rooms.furnished
        const owner = yield* Browser.signedIn(rooms.session)
        const guest = yield* Browser.visitor()
        yield* Browser.steps(async () => {
          const page = await owner.newPage()
          const invite = async (email: string) => {
            await page.goto(`/app/teams/${rooms.team.id}/members`)
            await page.getByRole("link", { name: "Invite a person" }).click()
            await page.getByLabel("E-mail address").fill(email)
            await page.locator("#f-role").selectOption("viewer")
            await button(page, "Create the link").click()
            return page.getByLabel(/is shown only once/).inputValue()
          }
          const mistaken = await invite("grac@example.com")
          const link = await invite("grace@example.com")
          await inspect(page, "invite-link-1440-light", true)
          await page.getByRole("link", { name: "Back to the members" }).click()
          await row(page, "grac@example.com").locator("summary").click()
          await button(page, "Withdraw the invitation").click()
          await page.getByText("The invitation is withdrawn.").waitFor()
          assert.strictEqual(await page.getByRole("row").filter({ hasText: "grac@example.com" }).count(), 0)
          assert.strictEqual(await page.getByRole("row").filter({ hasText: "grace@example.com" }).count(), 1)

          const theirs = await guest.newPage()
          await theirs.goto(mistaken)
          await theirs.getByText("This link does not work").waitFor()
          await theirs.goto(link)
          await theirs.getByText("You are invited as").waitFor()
          await inspect(theirs, "invite-1440-light", true)
          await theirs.getByLabel("Your name").fill("Grace")
          await theirs.getByLabel("Password").fill("short")
          await button(theirs, "Create the account and join").click()
          await theirs.getByText("Must have 12 to 256 characters").waitFor()
          await theirs.getByLabel("Password").fill("a sentence of Grace alone")
          await button(theirs, "Create the account and join").click()
          await theirs.getByText("Welcome to the team.").waitFor()
          await theirs.goto(rooms.development)
          assert.strictEqual(await theirs.getByRole("button", { name: /^Reveal/ }).count(), 0)
          assert.strictEqual(await theirs.getByRole("link", { name: "Add secret" }).count(), 0)
          const refused = await theirs.evaluate(async (path) => {
            const answer = await fetch(`${path}/reveal`, {
              method: "POST",
              headers: { accept: "application/json" },
              body: new URLSearchParams({ key: "DB_PASSWORD" })
            })
            return [answer.status, await answer.text()] as const
          }, rooms.development)
          assert.strictEqual(refused[0], 403)
          assert.notInclude(refused[1], "correct horse")

          await theirs.goto(link)
          await theirs.getByText("This link was used or replaced").waitFor()
          await page.goto(`/app/teams/${rooms.team.id}/members`)
          const open = page.getByRole("table", { name: "Open invitations" })
          assert.strictEqual(await open.getByText("grace@example.com").count(), 0)
          await row(page, "grace@example.com").locator("summary").first().click()
          await row(page, "grace@example.com").getByLabel("Role").selectOption("member")
          await row(page, "grace@example.com").getByRole("button", { name: "Save" }).click()
          await page.getByText("The member is saved.").waitFor()
          await theirs.goto(rooms.development)
          await row(theirs, "DB_PASSWORD")
            .getByRole("button", { name: /^Reveal/ })
            .first()
            .waitFor()
          await theirs.goto(rooms.development.replace("development", "production"))
          await theirs.getByText("This environment is protected").waitFor()
        })
      }),
    minute
  )

  it.scoped.skipIf(!Browser.available)(
    "lets a person decide about a device: looking approves nothing, approving hands over what was ticked",
    () =>
      Effect.gen(function* () {
        const { page, rooms } = yield* Browser.entered()
        const start = TestApp.post("/auth/cli/device", {
          json: { host: { hostname: "laptop", os: "linux" }, machineCredential: "grant" }
        })
        const poll = (deviceCode: string) => TestApp.post("/auth/cli/device/token", { json: { deviceCode } })
        const { json: device } = yield* start
        yield* Browser.steps(async () => {
          await page.goto(`/device?code=${String(device.userCode).toLowerCase().replace("-", " ")}`)
          await page.getByText("Does this code match your terminal?").waitFor()
          await page.getByText("127.0.0.1").waitFor()
          await page.getByText("laptop, linux").waitFor()
          assert.isFalse(await page.getByRole("checkbox", { name: "secrets:write" }).first().isChecked())
          assert.isFalse(await page.getByRole("checkbox", { name: "Research" }).isChecked())
        })
        assert.strictEqual((yield* poll(device.deviceCode)).json.status, "pending")
        yield* Browser.steps(async () => {
          await page.getByRole("checkbox", { name: "Allow unattended use" }).uncheck()
          await page.getByRole("checkbox", { name: "shop / development" }).check()
          await button(page, "Yes, it matches: log in").click()
          await page.getByText("The login is approved").waitFor()
          await page.getByText("Waiting for your terminal").waitFor()
        })
        const granted = (yield* poll(device.deviceCode)).json
        assert.strictEqual(granted.status, "granted")
        yield* Browser.steps(() => page.getByText("The command line is logged in").waitFor())
        assert.deepStrictEqual(
          granted.teams?.map((team) => [team.id, [...team.scopes].sort()]),
          [[rooms.team.id, ["identity:read", "projects:read", "secrets:read", "secrets:run"]]]
        )
        assert.deepStrictEqual(granted.restrictions?.environmentIds, [rooms.project.development.id])
        const bearer = granted.credential ?? assert.fail("no credential")
        const inject = `/secrets/inject?projectId=${rooms.project.id}&environment=development` as const
        assert.strictEqual((yield* TestApp.get(inject, { bearer })).status, 200)

        const { json: other } = yield* start
        yield* Browser.steps(async () => {
          await page.goto("/device")
          await page.getByLabel("Code").fill("BBBB-BBBB")
          await button(page, "Continue").click()
          await page.getByText("There is no such request").waitFor()
          await page.getByLabel("Code").fill(other.userCode)
          await button(page, "Continue").click()
          await button(page, "No, deny").click()
          await page.getByText("The login is denied").waitFor()
        })
        assert.strictEqual((yield* poll(other.deviceCode)).json.status, "failed")

        yield* Browser.steps(async () => {
          await page.goto("/app/grants")
          const card = page.locator("li.project").filter({ hasText: "laptop" })
          await card.locator("summary").click()
          await card.getByRole("button", { name: "Revoke this login" }).click()
          await page.getByText("The login is revoked").waitFor()
        })
        assert.strictEqual((yield* TestApp.get(inject, { bearer })).status, 401)
      }),
    minute
  )

  it.scoped.skipIf(!Browser.available)(
    "has each reveal in the trail, as done in the dashboard, and takes the trail along",
    () =>
      Effect.gen(function* () {
        const { page, rooms } = yield* Browser.entered()
        const files = yield* Browser.steps(async () => {
          await page.goto(rooms.development)
          await row(page, "STRIPE_SECRET_KEY")
            .getByRole("button", { name: /^Reveal/ })
            .click()
          await page.getByText("sk_test_2").waitFor()
          await page.goto(`/app/teams/${rooms.team.id}/audit?action=secret.read`)
          await page.getByText("STRIPE_SECRET_KEY").waitFor()
          const take = async (name: string) => {
            const download = page.waitForEvent("download")
            await page.getByRole("link", { name }).click()
            const path = await (await download).path()
            return fs.readFileSync(path, "utf8")
          }
          return { csv: await take("Export CSV"), lines: await take("Export JSON lines") }
        })
        const entries = (action: AuditAction) =>
          Effect.flatMap(AuditTrail, (trail) => trail.list(rooms.team.id, { action })).pipe(
            Effect.provideService(CurrentCaller, rooms.caller)
          )
        const trail = yield* entries("secret.read")
        assert.deepStrictEqual(
          trail.items.map(({ keys, outcome, via }) => [keys, outcome, via]),
          [[["STRIPE_SECRET_KEY"], "allowed", "dashboard"]]
        )
        assert.deepStrictEqual(parsed(Schema.Struct({ keys: Texts }))(files.lines.trim()).keys, ["STRIPE_SECRET_KEY"])
        assert.include(files.csv, '"STRIPE_SECRET_KEY"')
        const exported = yield* entries("audit.export")
        assert.strictEqual(exported.items.length, 2)
      }),
    minute
  )
})
