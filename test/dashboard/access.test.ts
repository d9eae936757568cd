/** Access to an environment as people ask for it, give it and end it. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import * as Browser from "./Browser.ts"
import { inspect } from "./Look.ts"

const { button, row } = Browser
const patience = 120_000

layer(Browser.layerWith(), { excludeTestServices: true, timeout: "60 seconds" })("access to an environment", (it) => {
  for (const look of [{ width: 1440 }, { width: 360, dark: true }]) {
    const name = look.dark === true ? "360-dark" : "1440-light"
    it.scoped.skipIf(!Browser.available)(
      `is asked for on its page, approved by another person, and ended: ${name}`,
      () =>
        Effect.gen(function* () {
          const { page: owners, rooms } = yield* Browser.entered(look)
          const { owner, project, session, team } = rooms
          const member = yield* World.member(team, "member")
          const theirs = yield* World.session(member)
          const context = yield* Browser.signedIn(theirs, look)
          const values = Effect.map(
            TestApp.get(`/secrets/with-values?projectId=${project.id}&environment=production`, {
              session: theirs.text
            }),
            ({ status }) => status
          )
          const production = `/app/projects/${project.id}/env/production`

          yield* Browser.steps(async () => {
            await owners.goto(`/app/projects/${project.id}/settings`)
            const edit = row(owners, "production")
            await edit.locator("summary", { hasText: "Edit" }).click()
            await edit.getByLabel("Who can read values").selectOption("granted")
            await edit.getByLabel("Approvers").fill("nobody@example.com")
            await edit.getByRole("button", { name: "Save" }).click()
            await owners.getByText("Approvers must be members of the team.").waitFor()
            await owners.goto(`/app/projects/${project.id}/settings`)
            await edit.locator("summary", { hasText: "Edit" }).click()
            await edit.getByLabel("Who can read values").selectOption("granted")
            await edit.getByLabel("Approvers").fill(member.email)
            await inspect(owners, `used-access-settings-${name}`, true)
            await edit.getByRole("button", { name: "Save" }).click()
            await owners.getByText("The environment is saved.").waitFor()
            assert.strictEqual(await edit.getByLabel("Approvers").inputValue(), member.email)
          })
          assert.strictEqual(yield* values, 403)

          const page = yield* Browser.steps(() => context.newPage())
          yield* Browser.steps(async () => {
            await page.goto(production)
            await page.getByText("Ask for access below").waitFor()
            await page.getByLabel("Why").fill("Incident 42")
            await inspect(page, `used-access-ask-${name}`, true)
            await button(page, /^Ask$/).click()
            await page.getByText("Your request is sent.").waitFor()
            await row(page, "Incident 42").getByRole("button", { name: "Withdraw" }).waitFor()
            await inspect(page, `used-access-asked-${name}`, true)
          })

          yield* Browser.steps(async () => {
            await owners.goto("/app")
            await owners.getByText("A request for access waits for you").waitFor()
            await inspect(owners, `used-access-badge-${name}`, true)
            await owners.getByRole("link", { name: /^Demo \/ production/ }).click()
            await inspect(owners, `used-access-page-${name}`, true)
            await button(owners, `Approve the request of ${member.email}`).click()
            await owners.getByText("The request is approved.").waitFor()
            await owners.getByText(`a grant by ${owner.email}: Incident 42`).waitFor()
          })
          assert.strictEqual(yield* values, 200)
          yield* Browser.steps(async () => {
            await page.goto(production)
            assert.strictEqual(await page.getByText("Ask for access below").count(), 0)
          })

          yield* Browser.steps(async () => {
            await button(owners, `End the grant of ${member.email}`).click()
            await owners.getByText("The grant has ended.").waitFor()
          })
          assert.strictEqual(yield* values, 403)
          yield* Browser.steps(async () => {
            await owners.getByLabel("Person").selectOption(member.id)
            await owners.getByLabel("Until").selectOption("24")
            await button(owners, "Give the grant").click()
            await owners.getByText("The access is granted.").waitFor()
          })
          assert.strictEqual(yield* values, 200)
          const trail = yield* TestApp.get(`/teams/${team.id}/audit?action=access.approve`, { session: session.text })
          assert.deepStrictEqual(
            trail.json.items.map(({ actor, via }) => [actor.id, via]),
            [[owner.id, "dashboard"]]
          )
        }),
      patience
    )
  }

  it.scoped.skipIf(!Browser.available)(
    "follows the rules of the team and the visibility of the project, which forms change",
    () =>
      Effect.gen(function* () {
        const { page, rooms } = yield* Browser.entered({ script: false })
        const { project, session } = rooms
        yield* Browser.steps(async () => {
          await page.goto(rooms.pages["team-settings"] ?? "")
          await page.getByRole("checkbox", { name: "Owners and admins need grants too" }).check()
          await button(page, "Save").click()
          await page.getByText("The team's settings are saved.").waitFor()
          assert.isTrue(await page.getByRole("checkbox", { name: "Owners and admins need grants too" }).isChecked())
          await page.goto(`/app/projects/${project.id}/settings`)
          await page.getByLabel("Who can see the project").selectOption("granted")
          await page
            .locator("form", { hasText: "Who can see the project" })
            .getByRole("button", { name: "Save" })
            .click()
          await page.getByText("The project is saved.").waitFor()
          // An owner who lacks a grant is offered to ask, like everybody.
          await page.goto(rooms.development)
          await page.getByRole("heading", { name: "Ask for access" }).waitFor()
        })
        const listed = yield* TestApp.get("/projects", { session: session.text })
        assert.strictEqual(listed.json.items.find(({ id }) => id === project.id)?.visibility, "granted")
        const read = yield* TestApp.get(`/secrets/with-values?projectId=${project.id}&environment=development`, {
          session: session.text
        })
        assert.deepStrictEqual(TestApp.codeOf(read), [403, "ENVIRONMENT_NOT_GRANTED"])
      }),
    patience
  )
})
