/**
 * Judges what a browser shows: no sideways scrolling and no finding of axe. AMPOULE_TEST_PICTURES names a folder that gets
 * a picture of each, for people to look at; to draw them takes a third of a run.
 */
import { assert } from "@effect/vitest"
import * as fs from "node:fs"
import { createRequire } from "node:module"
import * as path from "node:path"
import type { CDPSession, Page } from "./Browser.ts"

const folder = process.env["AMPOULE_TEST_PICTURES"]
if (folder !== undefined) fs.mkdirSync(folder, { recursive: true })
const axe = fs.readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8")

const rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]

/** `own`: the debugger of a test that gave the page a device. The end of any other takes every device of the page along. */
export const inspect = async (page: Page, name: string, withAxe: boolean, own?: CDPSession) => {
  // From its top: where a click has scrolled to, the header that stays covers what it likes.
  await page.evaluate(() => scrollTo(0, 0))
  if (folder !== undefined) await page.screenshot({ path: path.join(folder, `${name}.png`), fullPage: true })
  const sideways = await page.evaluate(
    () => document.documentElement.scrollWidth - document.documentElement.clientWidth
  )
  assert.strictEqual(sideways, 0, `${name} scrolls sideways`)
  if (!withAxe) return
  // In a world of its own: the page's policy allows no script but its own.
  const session = own ?? (await page.context().newCDPSession(page))
  const { frameTree } = await session.send("Page.getFrameTree")
  const { executionContextId: contextId } = await session.send("Page.createIsolatedWorld", {
    frameId: frameTree.frame.id
  })
  await session.send("Runtime.evaluate", { expression: axe, contextId })
  // Style sheets are fetched again (`cssom`) only for experimental rules.
  const answer = await session.send("Runtime.evaluate", {
    expression: `axe.run({ runOnly: ${JSON.stringify(rules)}, resultTypes: ["violations"], preload: { assets: ["media"] } }).then((found) => JSON.stringify(
      found.violations.map((v) => v.id + ": " + v.help + ": " + v.nodes.map((n) => n.target.join(" ") + " " + (n.failureSummary ?? "")).join(" | "))))`,
    contextId,
    awaitPromise: true,
    returnByValue: true
  })
  if (own === undefined) await session.detach()
  assert.deepStrictEqual(JSON.parse(String(answer.result.value)), [], name)
}
