/** The frame of pages, in a real browser: colours that stay, keys that are listed, notices that leave, and the first page. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Browser from "./Browser.ts"
import { inspect } from "./Look.ts"
import * as Rooms from "./Rooms.ts"

const minute = 60_000
const { button } = Browser

layer(Browser.layerWith(), { excludeTestServices: true, timeout: "60 seconds" })("the frame", (it) => {
  for (const script of [true, false]) {
    it.scoped.skipIf(!Browser.available)(
      `keeps the colours that a person chose, ${script ? "with" : "without"} script, under the policy of pages`,
      () =>
        Effect.gen(function* () {
          const { page, rooms } = yield* Browser.entered({ script })
          yield* Browser.steps(async () => {
            const errors: Array<string> = []
            page.on("console", (message) => message.type() === "error" && errors.push(message.text()))
            const scheme = () => page.locator("html").getAttribute("data-theme")
            await page.goto(rooms.pages["members"] ?? "")
            assert.isNull(await scheme())
            for (const [choice, is] of [
              ["Dark", "dark"],
              ["Light", "light"],
              ["System", null]
            ] as const) {
              await page.locator(".menu-right > summary").click()
              await button(page, choice).click()
              await page.waitForURL((url) => url.pathname === rooms.pages["members"])
              await page.goto(rooms.here)
              assert.strictEqual(await scheme(), is)
              if (choice === "Dark" && script) await inspect(page, "shell-chosen-dark-1440-light", true)
              await page.goto(rooms.pages["members"] ?? "")
            }
            assert.deepStrictEqual(errors, [])
          })
        }),
      2 * minute
    )
  }

  it.scoped.skipIf(!Browser.available)(
    "lists its keys under ?, on every page, and gives the focus back",
    () =>
      Effect.gen(function* () {
        const { page, rooms } = yield* Browser.entered()
        yield* Browser.steps(async () => {
          await page.goto(rooms.here)
          await page.keyboard.press("?")
          const keys = page.getByRole("dialog", { name: "Keys" })
          await keys.getByText("Search or jump to").waitFor()
          await inspect(page, "shell-keys-1440-light", true)
          await page.keyboard.press("Escape")
          await keys.waitFor({ state: "detached" })
          await page.getByLabel("Filter by key").fill("?")
          assert.strictEqual(await keys.count(), 0)
        })
      }),
    2 * minute
  )

  it.scoped.skipIf(!Browser.available)(
    "says what somebody should look at, and what 14 days were like, to who may know it",
    () =>
      Effect.gen(function* () {
        const { page, rooms } = yield* Browser.entered()
        yield* Rooms.write(rooms.caller, rooms.project, "development", { ONLY_IN_DEVELOPMENT: "canary" })
        yield* Browser.steps(async () => {
          await page.goto("/app")
          const list = page.getByRole("region", { name: "Needs attention" })
          await list.getByRole("link", { name: "The webhook restart the shop fails" }).waitFor()
          await list.getByRole("link", { name: /^5 keys are missing in Demo \/ production$/ }).click()
          await page.getByRole("button", { name: /^Missing/, pressed: true }).waitFor()
          await page.goto("/app")
          await page.getByText(/Values were read /).waitFor()
          await inspect(page, "home-1440-light", true)
        })
      }),
    2 * minute
  )
})
