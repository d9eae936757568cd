/** The documentation in a real browser: both themes, wide and narrow, with and without script. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Browser from "#test/dashboard/Browser.ts"
import { inspect } from "#test/dashboard/Look.ts"

const minute = 60_000

/** Pages with each kind of content: lists, tables, code, and long names. */
const pages = ["/docs", "/docs/errors", "/docs/contract/errors", "/docs/api/secrets", "/docs/nothing"]

/** A page, the errors of its console, and requests to other hosts. */
const reader = (look: Browser.Look) =>
  Effect.gen(function* () {
    const context = yield* Browser.visitor(look)
    const { baseUrl } = yield* Browser.Site
    const page = yield* Browser.steps(() => context.newPage())
    const errors: Array<string> = []
    const elsewhere: Array<string> = []
    page.on("console", (message) => message.type() === "error" && errors.push(message.text()))
    page.on("pageerror", (error) => errors.push(error.message))
    page.on("request", (request) => request.url().startsWith(baseUrl) || elsewhere.push(request.url()))
    return { page, errors, elsewhere }
  })

layer(Browser.layerWith(), { excludeTestServices: true, timeout: "60 seconds" })("the documentation", (it) => {
  for (const look of [
    { width: 1280, dark: false, script: true },
    { width: 1280, dark: true, script: true },
    { width: 390, dark: false, script: true },
    { width: 390, dark: true, script: false },
    { width: 1280, dark: false, script: false }
  ]) {
    const name = `${look.width}-${look.dark ? "dark" : "light"}${look.script ? "" : "-noscript"}`
    it.scoped.skipIf(!Browser.available)(
      `has no finding of axe, no sideways scrolling and no outside request: ${name}`,
      () =>
        Effect.gen(function* () {
          const { elsewhere, errors, page } = yield* reader(look)
          yield* Browser.steps(async () => {
            for (const path of pages) {
              await page.goto(path)
              await page.getByRole("heading", { level: 1 }).waitFor()
              // axe is a script itself.
              await inspect(page, `docs${path.slice(5).replaceAll("/", "-")}-${name}`, look.script)
              const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor)
              assert.strictEqual(background, look.dark ? "rgb(14, 19, 18)" : "rgb(245, 247, 246)")
            }
            // A browser says so of the page that does not exist, and of nothing else.
            assert.deepStrictEqual(
              errors.filter((error) => !error.includes("404")),
              []
            )
            assert.deepStrictEqual(elsewhere, [])
          })
        }),
      2 * minute
    )
  }

  it.scoped.skipIf(!Browser.available)(
    "finds a section by words, with the keyboard alone",
    () =>
      Effect.gen(function* () {
        const { errors, page } = yield* reader({})
        yield* Browser.steps(async () => {
          await page.goto("/docs")
          await page.keyboard.press("/")
          await page.keyboard.type("secret_not_found")
          const results = page.locator("[data-docs-results]")
          await results.getByText("SECRET_NOT_FOUND").first().waitFor()
          await inspect(page, "docs-search-1440-light", true)
          await page.keyboard.press("ArrowDown")
          await page.keyboard.press("Enter")
          await page.waitForURL("**/docs/errors#SECRET_NOT_FOUND")
          await page.locator("#SECRET_NOT_FOUND:target").waitFor()
          await page.keyboard.press("/")
          await page.keyboard.type("qwertzuiop")
          await results.getByText("No page has these words.").waitFor()
          await page.keyboard.press("Escape")
          await results.waitFor({ state: "hidden" })
          assert.deepStrictEqual(errors, [])
        })
      }),
    minute
  )

  it.scoped.skipIf(!Browser.available)(
    "copies a block of code, and says so",
    () =>
      Effect.gen(function* () {
        const { page } = yield* reader({})
        yield* Browser.steps(async () => {
          await page.goto("/docs/api/secrets")
          await page.locator(".docs-code").first().hover()
          await Browser.button(page, "Copy").click()
          await Browser.button(page, "Copied").waitFor()
          assert.strictEqual((await page.evaluate(() => navigator.clipboard.readText())).trim(), "POST /secrets")
        })
      }),
    minute
  )

  it.scoped.skipIf(!Browser.available)(
    "leads from page to page, to every page from a phone without script, and prints the text alone",
    () =>
      Effect.gen(function* () {
        const { page } = yield* reader({ width: 390, script: false })
        yield* Browser.steps(async () => {
          await page.goto("/docs")
          await page.getByRole("link", { name: /^Next/ }).click()
          const second = page.url()
          await page.getByRole("link", { name: /^Next/ }).click()
          await page.getByRole("link", { name: /^Previous/ }).click()
          assert.strictEqual(page.url(), second)
          await page.getByRole("link", { name: "All pages", exact: true }).click()
          await page.getByText("Something went wrong").click()
          await page.getByRole("link", { name: "Error codes" }).click()
          await page.waitForURL("**/docs/errors")
          await page.emulateMedia({ media: "print", colorScheme: "dark" })
          await page.getByRole("heading", { name: "Error codes" }).waitFor()
          assert.isFalse(await page.locator(".docs-pages").isVisible())
          assert.isFalse(await page.locator("header").isVisible())
          const colour = await page.evaluate(() => getComputedStyle(document.body).color)
          assert.strictEqual(colour, "rgb(20, 32, 29)")
        })
      }),
    minute
  )
})
