// @ts-check
/**
 * `npm run test:issuers [dex] [keycloak]`: people sign in to the built server by real issuers of OpenID Connect, in
 * Chromium. Needs Go and a C compiler for Dex, a Java of 17 or later and Python for Keycloak, and their registries. What was
 * fetched and built stays in AMPOULE_ISSUERS_DIR. A run of everything writes test/records/issuers.json.
 */
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { inspect } from "node:util"
import { chromium } from "playwright-core"
import { freePort, start } from "../clients/server.mjs"
import * as Dex from "./dex.mjs"
import { journey } from "./journey.mjs"
import * as Keycloak from "./keycloak.mjs"
import { run } from "./processes.mjs"

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..")
const folder = process.env["AMPOULE_ISSUERS_DIR"] ?? path.join(tmpdir(), "ampoule-issuers")
const names = process.argv.slice(2)

const build = async () => {
  const cache = path.join(root, "node_modules/.cache/ampoule")
  fs.mkdirSync(cache, { recursive: true })
  const to = fs.mkdtempSync(path.join(cache, "issuers-"))
  await run(process.execPath, ["src/build.mjs", path.join(to, "dist")], { cwd: root })
  return to
}

fs.mkdirSync(folder, { recursive: true })
const release = await build()
const browser = await chromium.launch({
  executablePath: process.env["AMPOULE_TEST_CHROMIUM"] ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
})

/** @param {{ start: (folder: string, base: string) => Promise<any> }} make */
const attempt = async (make) => {
  const port = await freePort()
  const issuer = await make.start(folder, `http://127.0.0.1:${port}`)
  const data = fs.mkdtempSync(path.join(tmpdir(), "ampoule-issuers-data-"))
  try {
    const server = await start(path.join(release, "dist/ampoule.cjs"), data, {
      AMPOULE_PORT: String(port),
      AMPOULE_SIGN_IN_ISSUERS: JSON.stringify(issuer.settings)
    })
    try {
      return await journey(browser, server, issuer)
    } finally {
      await server.stop()
    }
  } catch (error) {
    process.stderr.write(`${issuer.output().slice(-4_000)}\n`)
    throw error
  } finally {
    await issuer.stop()
    fs.rmSync(data, { recursive: true, force: true })
  }
}

const results = []
try {
  const issuers = {
    Dex: { start: Dex.start, version: Dex.version },
    Keycloak: { start: Keycloak.start, version: Keycloak.version }
  }
  for (const [name, make] of Object.entries(issuers)) {
    if (names.length > 0 && !names.includes(name.toLowerCase())) continue
    try {
      results.push({ name, version: make.version, result: "passed", steps: await attempt(make) })
    } catch (error) {
      results.push({ name, version: make.version, result: "failed" })
      process.stderr.write(`${inspect(error)}\n`)
    }
    process.stdout.write(`${results.at(-1)?.result}: ${name}\n`)
  }
} finally {
  await browser.close()
  fs.rmSync(release, { recursive: true, force: true })
}

const failed = results.filter(({ result }) => result === "failed").length
if (names.length === 0) {
  const record = {
    what: "Real issuers of OpenID Connect, which people sign in by to the built server, in a browser: what was seen. npm run test:issuers",
    date: new Date().toISOString().slice(0, 10),
    versions: {
      ampoule: JSON.parse(fs.readFileSync(path.join(root, "package.json"), "utf8")).version,
      node: process.versions.node,
      chromium: browser.version()
    },
    results
  }
  const file = path.join(root, "test/records/issuers.json")
  fs.writeFileSync(file, JSON.stringify(record))
  await run(path.join(root, "node_modules/.bin/oxfmt"), [file], { cwd: root })
}
process.stdout.write(`${results.length - failed} passed, ${failed} failed\n`)
process.exitCode = failed === 0 ? 0 : 1
