/**
 * Every page, as people with different eyes and screens get it: no finding of axe, no sideways scrolling.
 */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Browser from "./Browser.ts"
import { inspect } from "./Look.ts"
import * as Rooms from "./Rooms.ts"

const looks: ReadonlyArray<readonly [string, Browser.Look]> = [
  ["1440-light", { width: 1440 }],
  ["1440-dark", { width: 1440, dark: true }],
  ["360-light", { width: 360 }],
  ["360-dark", { width: 360, dark: true }]
]

/** Light once wide and dark once narrow: all colours, and both shapes. */
const withAxe = ({ dark = false, width }: Browser.Look) => dark === (width === 360)

layer(Browser.layerWith(), { excludeTestServices: true, timeout: "60 seconds" })("the pages", (it) => {
  it.scoped.skipIf(!Browser.available)(
    "hold what is long or many: a key of 255 letters in the trail, a base that 60 templates use",
    () =>
      Effect.gen(function* () {
        const { page, rooms } = yield* Browser.entered()
        const many = Array.from({ length: 60 }, (_, i) => [`URL_${i}`, "${BASE_HOST}/x"])
        yield* Rooms.write(rooms.caller, rooms.project, "staging", {
          ["K".repeat(255)]: "x",
          BASE_HOST: "h",
          ...Object.fromEntries(many)
        })
        yield* Browser.steps(async () => {
          for (const width of [360, 768, 1024]) {
            await page.setViewportSize({ width, height: 900 })
            await page.goto(`${rooms.pages["audit"]}?action=secret.create`)
            await page.getByText("added a secret").last().waitFor()
            await inspect(page, `audit-long-${width}-light`, width === 768)
          }
          for (const width of [720, 900, 1100, 1280]) {
            await page.setViewportSize({ width, height: 900 })
            await page.goto(rooms.pages["compare"])
            await inspect(page, `compare-${width}-light`, width === 900)
          }
          await page.setViewportSize({ width: 1024, height: 900 })
          await page.goto(`${rooms.here}/env/staging/graph`)
          await page.getByText("60: URL_0, …").waitFor()
          assert.isBelow((await page.locator(".graph svg").boundingBox())?.height ?? 9_999, 400)
          await inspect(page, "graph-hub-1024-light", true)
        })
      }),
    60_000
  )

  for (const [look, options] of looks) {
    it.scoped.skipIf(!Browser.available)(
      `are accessible and fit: ${look}`,
      () =>
        Effect.gen(function* () {
          const rooms = yield* Rooms.furnished
          const stranger = yield* Browser.visitor(options)
          const owner = yield* Browser.signedIn(rooms.session, options)
          yield* Browser.steps(async () => {
            for (const [context, pages] of [
              [stranger, rooms.openPages],
              [owner, rooms.pages]
            ] as const) {
              const page = await context.newPage()
              for (const [name, path] of Object.entries(pages)) {
                const answer = await page.goto(path)
                assert.isBelow(answer?.status() ?? 599, 400, `${name} is ${answer?.status()}`)
                await inspect(page, `${name}-${look}`, withAxe(options))
              }
              await page.close()
            }
          })
        }),
      240_000
    )

    it.scoped.skipIf(!Browser.available || !withAxe(options))(
      `stay so while they are used: ${look}`,
      () =>
        Effect.gen(function* () {
          const { page, rooms } = yield* Browser.entered(options)
          yield* Browser.steps(async () => {
            const judge = (name: string) => inspect(page, `used-${name}-${look}`, true)
            const press = (name: string | RegExp) => page.getByRole("button", { name }).first().click()

            await page.goto(rooms.development)
            await page
              .getByRole("row")
              .filter({ hasText: "uses" })
              .last()
              .getByRole("button", { name: /^Reveal/ })
              .click()
            await page.getByText("postgres://app:correct horse").waitFor()
            await judge("revealed")
            await page.locator(".menu > summary").first().click()
            await judge("team-menu")
            await page.goto(rooms.development)
            await page.locator(".menu-right > summary").click()
            await judge("account-menu")

            await page.goto(`${rooms.development}?panel=add`)
            await page.getByRole("textbox", { name: "Key" }).fill("bad-key")
            await press(/^Add$/)
            await page.getByText("Must be a secret key").waitFor()
            await judge("add-refused")

            await page.goto(`${rooms.development}?panel=paste`)
            await page.getByLabel("Text").fill("NEW=1\nDB_HOST=2\nbad-name=3\n")
            await press("Preview the changes")
            await page.getByText("Will be created").waitFor()
            await judge("paste-preview")

            await page.goto(rooms.pages["secret"])
            await page.getByText("Delete this secret").click()
            await judge("delete")

            await page.goto(rooms.pages["project-settings"])
            await page.locator("td > details > summary").last().click()
            await judge("environment")

            await page.goto(rooms.pages["project-settings"])
            await page.getByText("Delete the project").click()
            await page.getByLabel("Type shop to confirm").fill("another")
            await press("Delete shop and everything in it")
            await page.getByText("Type shop to confirm.", { exact: true }).waitFor()
            await judge("project-delete-refused")

            await page.goto(rooms.pages["team-settings"])
            await page.getByText("Change to the Developer plan").click()
            await judge("plan")

            await page.goto(rooms.pages["members"])
            await page.locator("td > details > summary").first().click()
            await judge("member")

            await page.goto(rooms.pages["members"])
            await page.locator("summary", { hasText: "Withdraw" }).first().click()
            await judge("withdraw")

            await page.goto(rooms.pages["webhook"])
            await page.locator("td > details > summary").last().click()
            await judge("delivery")

            await page.goto(rooms.pages["rule-new"])
            await page.getByRole("textbox", { name: "Name" }).fill("everybody")
            await page.getByRole("textbox", { name: "Repository" }).fill("shop")
            await page.getByRole("checkbox", { name: "All projects" }).check()
            await page.getByRole("checkbox", { name: "All environments" }).check()
            await press("Create the rule")
            await page.getByText("This issuer signs for all its customers").waitFor()
            await judge("rule-refused")

            await page.goto(rooms.pages["token-new"])
            await page.getByRole("textbox", { name: "Name" }).fill("deploy")
            await press("Create the token")
            await page.getByText("Choose projects, or choose all projects.").waitFor()
            await judge("token-refused")
            await page.getByRole("checkbox", { name: "All projects" }).check()
            await page.getByRole("checkbox", { name: "development" }).check()
            await press("Create the token")
            await page.getByLabel(/is shown only once/).waitFor()
            await judge("token-once")

            await page.goto(`${rooms.pages["audit"]}?action=secret.create&key=lower`)
            await judge("audit-refused")

            await page.goto(rooms.pages["device-decide"])
            await press("Yes, it matches: log in")
            await page.getByText("Choose projects or environments, or choose everything.").waitFor()
            await judge("device-refused")
            await page.getByRole("checkbox", { name: "Everything in the teams above" }).check()
            await press("Yes, it matches: log in")
            await page.getByText("Waiting for your terminal").waitFor()
            await judge("device-approved")

            await page.goto("/app/nowhere")
            await judge("missing")
          })
        }),
      240_000
    )
  }
})
