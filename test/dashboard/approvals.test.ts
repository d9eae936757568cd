/** Approvals in the browser: of a change by its content, and of what waits for a second person. */
import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import type { Page } from "playwright-core"
import * as Seals from "#test/support/Seals.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import * as Browser from "./Browser.ts"
import { inspect } from "./Look.ts"

const { button, row } = Browser
const patience = 120_000

layer(Browser.layerWith(), { excludeTestServices: true, timeout: "60 seconds" })("an approval in the browser", (it) => {
  for (const look of [{ width: 1440 }, { width: 360, dark: true }, { script: false }]) {
    const name = look.script === false ? "without a script" : look.dark === true ? "360-dark" : "1440-light"
    /** A page without scripts cannot be measured. */
    const inspected = (page: Page, what: string) =>
      look.script === false ? Promise.resolve() : inspect(page, `used-${what}-${name}`, true)
    it.scoped.skipIf(!Browser.available)(
      `shows the values of a change before and after, and writes what it showed: ${name}`,
      () =>
        Effect.gen(function* () {
          const { page, rooms } = yield* Browser.entered(look)
          const { project, session, team } = rooms
          const member = yield* World.session(yield* World.member(team, "member"))
          const at = { projectId: project.id, environment: "production" }
          yield* TestApp.patch(`/environments/${project.production.id}`, {
            session: session.text,
            json: { changes: "proposed", readers: "team" }
          })
          const propose = yield* TestApp.post(`/projects/${project.id}/changes`, {
            session: member.text,
            json: {
              reason: "The vendor asked for it",
              entries: [
                {
                  environment: "production",
                  key: "NODE_OPTIONS",
                  op: "set",
                  value: "--require ./\u202e\u061c\u{e0041}\ufe0fx.js"
                },
                { environment: "production", key: "PLAIN", op: "set", value: "line one\nline two" }
              ]
            }
          })
          assert.strictEqual(propose.status, 200, propose.text)
          yield* Browser.steps(async () => {
            await page.goto(`/app/projects/${project.id}/env/production/access`)
            const request = row(page, "NODE_OPTIONS")
            await request.getByText("The vendor asked for it").waitFor()
            await request.getByText("decides which code Node.js, Bun or Deno loads").waitFor()
            assert.strictEqual(await page.getByText("line two").count(), 0)
            await inspected(page, "change-request")
            await request.getByRole("button", { name: "Show values" }).click()
            await page.getByText("line two").waitFor()
            // A character that turns the text around is visible.
            await page.getByText("--require ./\\u202e\\u061c\\ue0041\\ufe0fx.js").waitFor()
            assert.isAbove(await page.getByText("no such secret").count(), 0)
            await inspected(page, "change-values")
            await button(page, /^Approve/).click()
            await page.getByText("The change is approved and written.").waitFor()
          })
          const value = yield* TestApp.get(`/secrets/value?${new URLSearchParams({ ...at, key: "PLAIN" })}`, {
            session: session.text
          })
          assert.strictEqual(value.json.value, "line one\nline two")
        }),
      patience
    )
  }

  it.scoped.skipIf(!Browser.available)(
    "of a second person is counted on every page, and gives the link to the person who asked",
    () =>
      Effect.gen(function* () {
        const { page: owners, rooms } = yield* Browser.entered()
        const { session, team } = rooms
        const admin = yield* World.session(yield* World.member(team, "admin"))
        const sql = yield* SqlClient.SqlClient
        yield* Seals.after(
          "memberships",
          sql`UPDATE memberships SET updated_at = now() - interval '2 days' WHERE team_id = ${team.id}`
        )
        const set = yield* TestApp.patch(`/teams/${team.id}`, { session: session.text, json: { secondPerson: true } })
        assert.strictEqual(set.status, 200, set.text)
        const context = yield* Browser.signedIn(admin)
        const page = yield* Browser.steps(() => context.newPage())
        const address = `second-${team.id}@example.com`
        const badge = (of: typeof page) => of.getByRole("link", { name: /^Requests/ }).first()
        yield* Browser.steps(async () => {
          await page.goto("/app")
          assert.strictEqual(await badge(page).count(), 0)
          await page.goto(`/app/teams/${team.id}/members?panel=invite`)
          await page.locator("input[name=email]").fill(address)
          await page.locator("form[action$='/invite'] select[name=role]").selectOption("admin")
          await page.locator("form[action$='/invite'] button").click()
          await page.getByText("This waits until another owner or admin approves it.").waitFor()
          await inspect(page, "used-second-person-waits", true)
          await owners.goto("/app")
          assert.match((await badge(owners).textContent()) ?? "", /1/)
          await badge(owners).click()
          const request = row(owners, address)
          await inspect(owners, "used-second-person-decide", true)
          await request.getByRole("button", { name: /Approve/ }).click()
          await owners.getByText("a link is made by the person who asked").waitFor()
          await row(owners, address).getByText("its author makes the link").waitFor()
          assert.strictEqual(await owners.getByText("/invite?code=").count(), 0)
          assert.strictEqual(await owners.getByRole("button", { name: /Show the link/ }).count(), 0)
          await page.goto("/app")
          assert.match((await badge(page).textContent()) ?? "", /1/)
          await badge(page).click()
          await row(page, address)
            .getByRole("button", { name: /Show the link/ })
            .click()
          await page.getByText("/invite?code=").waitFor()
          await inspect(page, "used-second-person-link", true)
          await page.goto("/app/waiting")
          await page.getByText("No requests").waitFor()
        })
      }),
    patience
  )

  it.scoped.skipIf(!Browser.available)(
    "of one's own change is asked of a second person by a button, and asked twice it is one request",
    () =>
      Effect.gen(function* () {
        const { page: owners, rooms } = yield* Browser.entered()
        const { project, session, team } = rooms
        const person = yield* World.member(team, "admin")
        const admin = yield* World.session(person)
        const sql = yield* SqlClient.SqlClient
        yield* Seals.after(
          "memberships",
          sql`UPDATE memberships SET updated_at = now() - interval '2 days' WHERE team_id = ${team.id}`
        )
        const at = `/environments/${project.production.id}`
        yield* TestApp.patch(at, { session: session.text, json: { changes: "proposed", readers: "team" } })
        const value = { projectId: project.id, environment: "production", key: "OWN_KEY", value: "v" }
        const context = yield* Browser.signedIn(admin)
        const page = yield* Browser.steps(() => context.newPage())
        const address = `/app/projects/${project.id}/env/production/access`
        const ask = (of: Page) => row(of, "OWN_KEY").getByRole("button", { name: /^Ask a second person/ })
        // An admin writes directly here, so the change is from the time before the person was an admin.
        yield* Seals.after("memberships", sql`UPDATE memberships SET role = 'member' WHERE user_id = ${person.id}`)
        const proposed = yield* TestApp.post("/secrets", { session: admin.text, json: value })
        assert.strictEqual(proposed.status, 202, proposed.text)
        yield* Seals.after("memberships", sql`UPDATE memberships SET role = 'admin' WHERE user_id = ${person.id}`)
        yield* Browser.steps(async () => {
          await page.goto(address)
          await row(page, "OWN_KEY")
            .getByRole("button", { name: /^Withdraw/ })
            .waitFor()
          // Without the rule a person never approves their own change.
          assert.strictEqual(await ask(page).count(), 0)
        })
        yield* TestApp.patch(`/teams/${team.id}`, { session: session.text, json: { secondPerson: true } })
        yield* Browser.steps(async () => {
          for (let i = 0; i < 2; i++) {
            await page.goto(address)
            await inspect(page, "used-second-person-ask", true)
            await ask(page).click()
            await page.getByText("This waits until another owner or admin approves it.").waitFor()
          }
          assert.strictEqual(await page.getByText("approving one's own change of 1 key").count(), 1)
          await owners.goto("/app/waiting")
          await row(owners, "approving one's own change of 1 key")
            .getByRole("button", { name: /Approve/ })
            .click()
          await owners.getByText("approving one's own change of 1 key").waitFor({ state: "detached" })
        })
        const read = yield* TestApp.get(
          `/secrets/value?${new URLSearchParams({ projectId: project.id, environment: "production", key: "OWN_KEY" })}`,
          {
            session: session.text
          }
        )
        assert.strictEqual(read.json.value, "v", read.text)
      }),
    patience
  )
})
