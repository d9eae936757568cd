/** Typed text survives every answer of the server, and searches find their targets. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Browser from "./Browser.ts"
import { inspect } from "./Look.ts"
import * as Rooms from "./Rooms.ts"

const minute = 60_000
const { button, row } = Browser

layer(Browser.layerWith(), { excludeTestServices: true, timeout: "60 seconds" })("a form", (it) => {
  it.scoped.skipIf(!Browser.available)(
    "keeps what was typed after each refusal: bad key, duplicate, missing reference, conflict, no network, signed out",
    () =>
      Effect.gen(function* () {
        const { context, page, rooms } = yield* Browser.entered()
        const typed = "typed by hand and not to be lost"
        const key = page.getByRole("textbox", { name: "Key" })
        const value = page.getByLabel("Value", { exact: true })
        yield* Browser.steps(async () => {
          const answers = Browser.answersTo(page)
          await page.goto(`${rooms.development}?panel=add`)
          const refused = async (name: string, text: string, sentence: string) => {
            await key.fill(name)
            await value.fill(text)
            await button(page, /^Add$/).click()
            await page.getByText(sentence).first().waitFor()
            assert.strictEqual(await value.inputValue(), text, sentence)
            assert.strictEqual(await key.inputValue(), name.toUpperCase(), sentence)
          }
          await refused("bad-key", typed, "Must be a secret key")
          await refused("db_host", typed, "This key already exists")
          await refused("API_KEY", `${typed} \${NOT_THERE}`, "Keys: NOT_THERE.")
          await inspect(page, "used-add-missing-1440-light", true)

          await context.setOffline(true)
          await refused("API_KEY", typed, "The server does not answer.")
          await context.setOffline(false)

          const editor = await context.newPage()
          await editor.goto(rooms.pages["secret"])
          await editor.getByLabel("New text").fill(typed)
          const other = await context.newPage()
          await other.goto(rooms.pages["secret"])
          await other.getByLabel("New text").fill("the other was faster")
          await button(other, "Save a new version").click()
          await other.getByText("The secret is saved.").waitFor()
          await button(editor, "Save a new version").click()
          await editor.getByText("Someone else changed this secret").waitFor()
          assert.strictEqual(await editor.getByLabel("New text").inputValue(), typed)

          await context.clearCookies()
          await refused("API_KEY", typed, "You are signed out.")
          for (const { method, text } of await answers()) if (method === "POST") assert.notInclude(text, typed)
        })
        yield* Browser.steps(async () => {
          await context.addCookies([
            { name: "ampoule_session", value: rooms.session.text, url: rooms.baseUrl, httpOnly: true, sameSite: "Lax" }
          ])
          await button(page, /^Add$/).click()
          await page.getByText("The secret is added.").waitFor()
        })
      }),
    minute
  )

  for (const script of [true, false]) {
    it.scoped.skipIf(!Browser.available)(
      `keeps the line breaks of a value that is loaded and saved, ${script ? "with" : "without"} scripts`,
      () =>
        Effect.gen(function* () {
          const { context, rooms } = yield* Browser.entered({ script })
          // All kinds of breaks, and the first one directly behind the tag, which browsers drop.
          const mixed = "\r\none\r\ntwo\rthree\n\nfour"
          const values = { WINDOWS: "a\r\nb\r\n", OLD_MAC: "a\rb", MIXED: mixed, UNIX: "\na\nb\n" }
          yield* Rooms.write(rooms.caller, rooms.project, "staging", values)
          const page = yield* Effect.promise(() => context.newPage())
          for (const [key, value] of Object.entries(values)) {
            yield* Browser.steps(async () => {
              await page.goto(`${rooms.here}/env/staging`)
              await page.getByRole("link", { name: key, exact: true }).click()
              await button(page, script ? "Load the current text" : "Show the current text in the field").click()
              if (script) await page.getByText("The current text is in the field.").waitFor()
              await button(page, "Save a new version").click()
              await page.getByText("The secret is saved.").waitFor()
            })
            const stored = yield* Rooms.valueOf(rooms.caller, rooms.project, "staging", key)
            assert.strictEqual(stored, value, key)
          }
        }),
      minute
    )
  }

  it.scoped.skipIf(!Browser.available)(
    "of a list asks the server for what is not on the page",
    () =>
      Effect.gen(function* () {
        const { page, rooms } = yield* Browser.entered()
        for (let from = 0; from < 300; from += 100) {
          const keys = Array.from({ length: 100 }, (_, i) => [`KEY_${String(from + i).padStart(4, "0")}`, "x"])
          yield* Rooms.write(rooms.caller, rooms.project, "staging", Object.fromEntries(keys))
        }
        yield* Browser.steps(async () => {
          await page.goto(`${rooms.here}/env/staging`)
          assert.strictEqual(await page.getByRole("link", { name: "KEY_0299" }).count(), 0)
          await page.keyboard.press("/")
          await page.keyboard.type("key_0299")
          await page.getByRole("link", { name: "KEY_0299" }).waitFor()
          await page.getByText("1 of 300").waitFor()
          await row(page, "KEY_0299")
            .getByRole("button", { name: /^Reveal/ })
            .click()
          await page.getByText("x", { exact: true }).waitFor()
          await page.getByLabel("Filter by key").fill("")
          await page.getByText("300 secrets").waitFor()
        })
      }),
    minute
  )

  it.scoped.skipIf(!Browser.available)(
    "takes a dropped file, and its lines are as high as a finger",
    () =>
      Effect.gen(function* () {
        const { page, rooms } = yield* Browser.entered()
        yield* Browser.steps(async () => {
          await page.goto(`${rooms.development}?panel=paste`)
          const file = await page.evaluateHandle(() => {
            const carried = new DataTransfer()
            carried.items.add(new File(["DROPPED_ONE=1\nDROPPED_TWO=2\n"], ".env"))
            return carried
          })
          await page.dispatchEvent("#f-text", "drop", { dataTransfer: file })
          await page.waitForFunction(() => (document.querySelector("#f-text") as HTMLTextAreaElement).value !== "")
          await button(page, "Preview the changes").click()
          await button(page, "Save 2 secrets").click()
          await page.getByText("2 added, 0 changed, 0 unchanged.").waitFor()
          const heights = await page.evaluate(() =>
            [...document.querySelectorAll("tbody tr")]
              .filter((line) => (line.querySelector(".key")?.textContent ?? "").length < 40)
              // Tags take a line of their own where key and badge leave no room beside them.
              .filter((line) => line.querySelector(".tag") === null)
              .map((line) => Math.round(line.getBoundingClientRect().height))
          )
          assert.isAbove(heights.length, 4)
          for (const height of heights) assert.isAtMost(height, 46)
          for (const height of heights) assert.isAtLeast(height, 44)
        })
      }),
    minute
  )
})
