/** Every page, as people with different eyes and screens get it: no finding of axe, no sideways scrolling, one picture each. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { createRequire } from "node:module"
import * as Browser from "./Browser.ts"
import * as Rooms from "./Rooms.ts"

const folder = path.resolve(".artifacts/screenshots")
fs.mkdirSync(folder, { recursive: true })
const axe = fs.readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8")

const inspect = async (page: Browser.Page, name: string, withAxe: boolean) => {
  await page.screenshot({ path: path.join(folder, `${name}.png`), fullPage: true })
  const sideways = await page.evaluate(
    () => document.documentElement.scrollWidth - document.documentElement.clientWidth
  )
  assert.strictEqual(sideways, 0, `${name} scrolls sideways`)
  if (!withAxe) return
  // In a world of its own: the page's policy allows no script of ours there.
  const session = await page.context().newCDPSession(page)
  const { frameTree } = await session.send("Page.getFrameTree")
  const { executionContextId: contextId } = await session.send("Page.createIsolatedWorld", {
    frameId: frameTree.frame.id
  })
  await session.send("Runtime.evaluate", { expression: axe, contextId })
  const answer = await session.send("Runtime.evaluate", {
    expression: `axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }).then((found) =>
      JSON.stringify(found.violations.map((v) => v.id + ": " + v.help + " " + v.nodes.map((n) => n.target.join(" ") + " " + (n.failureSummary ?? "")).join(" | "))))`,
    contextId,
    awaitPromise: true,
    returnByValue: true
  })
  await session.detach()
  assert.deepStrictEqual(JSON.parse(String(answer.result.value)), [], name)
}

const looks: ReadonlyArray<readonly [string, Browser.Look]> = [
  ["1440-light", { width: 1440 }],
  ["1440-dark", { width: 1440, dark: true }],
  ["360-light", { width: 360 }],
  ["360-dark", { width: 360, dark: true }]
]

layer(Browser.layerWith(), { excludeTestServices: true, timeout: "60 seconds" })("the pages", (it) => {
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
                // Light once wide and dark once narrow: the same colours, and both shapes.
                await inspect(page, `${name}-${look}`, (options.dark === true) === (options.width === 360))
              }
              await page.close()
            }
          })
        }),
      120_000
    )
  }
})
