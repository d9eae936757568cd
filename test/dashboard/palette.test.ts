/** Search or jump to, in a real browser: any key in few keystrokes, by keyboard alone, and the same without script. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as World from "#test/support/World.ts"
import * as Browser from "./Browser.ts"
import { inspect } from "./Look.ts"
import * as Rooms from "./Rooms.ts"

const minute = 60_000
const { button } = Browser

layer(Browser.layerWith(), { excludeTestServices: true, timeout: "60 seconds" })("search or jump to", (it) => {
  it.scoped.skipIf(!Browser.available)(
    "reaches any key in 50 projects within 12 keystrokes",
    () =>
      Effect.gen(function* () {
        const { page, rooms } = yield* Browser.entered()
        let projectId = ""
        for (let i = 10; i < 58; i++) {
          const project = yield* World.project({ team: rooms.team, slug: `service-${i}` })
          // The hardest: every project has the same keys.
          yield* Rooms.write(rooms.caller, project, "development", { DATABASE_URL: "canary", QUEUE_URL: "canary" })
          if (i === 42) projectId = project.id
        }
        yield* Browser.steps(async () => {
          const answers = Browser.answersTo(page)
          await page.goto(rooms.pages["audit"] ?? "")
          await page.keyboard.press("ControlOrMeta+k")
          await page.keyboard.type("queue 42")
          // Before the server answered: Enter leads to the first that it finds.
          await page.keyboard.press("Enter")
          await page.getByRole("heading", { name: "QUEUE_URL" }).waitFor()
          assert.isAtMost(1 + "queue 42".length + 1, 12)
          assert.include(page.url(), `/app/projects/${projectId}/env/development/`)
          assert.isFalse((await answers()).some(({ text }) => text.includes("canary")))
        })
      }),
    2 * minute
  )

  it.scoped.skipIf(!Browser.available)(
    "opens by keys or its field, walks by arrows, closes by Escape and gives the focus back",
    () =>
      Effect.gen(function* () {
        const { page, rooms } = yield* Browser.entered()
        yield* Browser.steps(async () => {
          const errors: Array<string> = []
          page.on("console", (message) => message.type() === "error" && errors.push(message.text()))
          page.on("pageerror", (error) => errors.push(error.message))
          await page.goto(rooms.development)
          const dialog = page.getByRole("dialog", { name: "Search or jump to" })
          const field = page.getByRole("combobox", { name: "Search or jump to" })
          const filter = page.getByRole("searchbox", { name: /^Filter/ })
          await filter.focus()
          await page.keyboard.press("ControlOrMeta+k")
          await page.getByRole("option").first().waitFor()
          await inspect(page, "palette-1440-light", true)
          await page.keyboard.press("Escape")
          await dialog.waitFor({ state: "detached" })
          assert.isTrue(await filter.evaluate((one) => one === document.activeElement))

          await page.getByRole("link", { name: /^Search/ }).click()
          assert.isTrue(await field.evaluate((one) => one === document.activeElement))
          await field.fill("db_")
          await page.getByRole("option", { name: /DB_PASSWORD/ }).waitFor()
          assert.strictEqual(await page.locator("[aria-selected='true']").count(), 1)
          await page.keyboard.press("ArrowDown")
          const second = page.getByRole("option").nth(1)
          assert.strictEqual(await second.getAttribute("aria-selected"), "true")
          assert.strictEqual(await field.getAttribute("aria-activedescendant"), await second.getAttribute("id"))
          await inspect(page, "palette-found-1440-light", true)
          await field.fill("no such thing")
          await page.getByText("No results.").waitFor()
          await inspect(page, "palette-none-1440-light", true)
          await field.fill("invite")
          await page.getByRole("option", { name: /Invite a person/ }).click()
          await page.getByRole("heading", { name: "Members" }).waitFor()
          // Twice the keys: open, closed.
          await page.keyboard.press("ControlOrMeta+k")
          await dialog.waitFor()
          await page.keyboard.press("ControlOrMeta+k")
          await dialog.waitFor({ state: "detached" })
          assert.deepStrictEqual(errors, [])
        })
        for (const [width, dark] of [
          [360, false],
          [1440, true]
        ] as const) {
          const context = yield* Browser.signedIn(rooms.session, { width, dark })
          yield* Browser.steps(async () => {
            const one = await context.newPage()
            await one.goto(rooms.here)
            await one.keyboard.press("ControlOrMeta+k")
            await one.keyboard.type("d")
            await one
              .getByRole("option", { name: /DATABASE_URL/ })
              .first()
              .waitFor()
            await inspect(one, `palette-${width}-${dark ? "dark" : "light"}`, true)
          })
        }
      }),
    2 * minute
  )

  it.scoped.skipIf(!Browser.available)(
    "is a page with a form where there is no script",
    () =>
      Effect.gen(function* () {
        const { page, rooms } = yield* Browser.entered({ script: false })
        yield* Browser.steps(async () => {
          await page.goto(rooms.development)
          await page.getByRole("link", { name: /^Search/ }).click()
          await page.getByRole("searchbox", { name: "Search" }).fill("db_pass dev")
          await button(page, "Search").click()
          await inspect(page, "search-without-script-1440-light", false)
          await page.getByRole("link", { name: "DB_PASSWORD" }).click()
          await page.getByRole("heading", { name: "DB_PASSWORD" }).waitFor()
        })
      }),
    minute
  )
})
