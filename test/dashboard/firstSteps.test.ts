/** An empty project in a real browser: a drop zone, and three steps that tick off while they happen. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as World from "#test/support/World.ts"
import * as Browser from "./Browser.ts"
import { inspect } from "./Look.ts"

const minute = 60_000

layer(Browser.layerWith(), { excludeTestServices: true, timeout: "60 seconds" })("an empty project", (it) => {
  it.scoped.skipIf(!Browser.available)(
    "ticks off what its person does here and in a terminal, without a reload, and nothing that others do",
    () =>
      Effect.gen(function* () {
        const { baseUrl } = yield* Browser.Site
        const project = yield* World.project({ slug: "fresh" })
        const { owner } = project.team
        const colleague = yield* World.member(project.team, "member")
        const context = yield* Browser.signedIn(yield* World.session(owner))
        const page = yield* Browser.steps(() => context.newPage())
        const grant = (person: World.Person) =>
          World.grant({
            person,
            teams: [{ team: project.team, scopes: ["identity:read", "secrets:run"] }],
            projects: [project]
          })
        const inject = ({ text }: { readonly text: string }) =>
          Browser.steps(async () => {
            const answer = await fetch(`${baseUrl}/secrets/inject?projectId=${project.id}&environment=development`, {
              headers: { authorization: `Bearer ${text}` }
            })
            assert.strictEqual(answer.status, 200)
          })
        const done = page.locator(".first-steps .is-done h3")
        const becomes = (...titles: ReadonlyArray<string>) =>
          Browser.steps(async () => {
            await done.nth(titles.length - 1).waitFor()
            assert.deepStrictEqual(
              (await done.allTextContents()).map((title) => title.replace(": done", "")),
              titles
            )
          })
        yield* Browser.steps(async () => {
          await page.goto(`/app/projects/${project.id}`)
          await page.getByText("Drop your .env file here").waitFor()
          await page.evaluate(() => Object.assign(window, { stays: true }))
          assert.strictEqual(await done.count(), 0)
          await inspect(page, "first-steps-1440-light", true)
        })
        // A colleague's action is no step of this person.
        yield* inject(yield* grant(colleague))
        const mine = yield* grant(owner)
        yield* becomes("Log in from your terminal")
        yield* Browser.steps(async () => {
          await page.evaluate(() => {
            const carried = new DataTransfer()
            carried.items.add(new File(["DB_HOST=db\nDB_PORT=5432\n"], ".env"))
            document.dispatchEvent(new DragEvent("drop", { dataTransfer: carried, bubbles: true, cancelable: true }))
          })
          await Browser.button(page, "Save 2 changes").click()
          await page.getByRole("gridcell", { name: /^DB_PORT in development/ }).waitFor()
        })
        yield* becomes("Add secrets", "Log in from your terminal")
        yield* inject(mine)
        yield* becomes("Add secrets", "Log in from your terminal", "Run your program with them")
        yield* Browser.steps(async () => {
          await page.getByRole("heading", { name: "Done: your program runs with its secrets" }).waitFor()
          await inspect(page, "first-steps-done-1440-light", true)
          assert.strictEqual(await page.evaluate(() => "stays" in window), true)
          await page.reload()
          await page.getByRole("gridcell", { name: /^DB_PORT in development/ }).waitFor()
          assert.strictEqual(await page.locator(".first-steps").count(), 0)
        })
      }),
    2 * minute
  )

  it.scoped.skipIf(!Browser.available)("shows how far its person is, without script too", () =>
    Effect.gen(function* () {
      const project = yield* World.project({ slug: "plain" })
      const { owner } = project.team
      const context = yield* Browser.signedIn(yield* World.session(owner), { script: false, width: 360 })
      const page = yield* Browser.steps(() => context.newPage())
      yield* World.grant({ person: owner, teams: [{ team: project.team, scopes: ["identity:read"] }] })
      yield* Browser.steps(async () => {
        await page.goto(`/app/projects/${project.id}`)
        assert.deepStrictEqual(await page.locator(".first-steps .is-done h3").allTextContents(), [
          "Log in from your terminal: done"
        ])
        await page.getByRole("link", { name: "Import a file" }).click()
        await page.getByLabel("Text", { exact: true }).waitFor()
      })
    })
  )
})
