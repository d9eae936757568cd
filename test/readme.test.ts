/**
 * The pages tell the truth: the table of settings, the files they name, their links, and the tour of the README, pasted
 * as it is.
 */
import { assert, describe, it } from "@effect/vitest"
import { execFile } from "node:child_process"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { promisify } from "node:util"
import * as Effect from "effect/Effect"
import * as Config from "#layers/Config.ts"
import * as Release from "#test/support/Release.ts"

const readme = readFileSync("README.md", "utf8")
const between = (text: string, start: string, end: string) =>
  text.slice(text.indexOf(start) + start.length, text.indexOf(end))
const pages = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"].concat(
  readdirSync("docs", { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md"))
    .map((name) => join("docs", name))
)

describe("the pages", () => {
  it("list every setting with its default and meaning", () => {
    const rows = Config.table.map(
      (setting) =>
        `| \`${setting.name}\`${setting.secret ? ", `_FILE`" : ""} | ${setting.default} | ${setting.description} |`
    )
    const expected = ["| setting | default | meaning |", "|---|---|---|", ...rows].join("\n")
    assert.strictEqual(
      between(readFileSync("docs/settings.md", "utf8"), "<!-- settings -->", "<!-- /settings -->").trim(),
      expected
    )
  })

  it("name only files that exist", () => {
    const named = pages.flatMap((page) =>
      [...readFileSync(page, "utf8").matchAll(/`((?:src|schema|layers|test|migrations|deploy|docs)\/[^`*\s…]+)`/g)].map(
        ([, path]) => `${page}: ${path}`
      )
    )
    assert.isAbove(named.length, 40)
    assert.deepStrictEqual(
      named.filter((line) => !existsSync(line.slice(line.indexOf(": ") + 2))),
      []
    )
  })

  it("link only to pages that exist", () => {
    const links = pages.flatMap((page) =>
      [...readFileSync(page, "utf8").matchAll(/\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)/g)].map(([, link]) =>
        join(dirname(page), link)
      )
    )
    assert.isAbove(links.length, 40)
    assert.deepStrictEqual(
      links.filter((path) => !existsSync(path)),
      []
    )
  })
})

describe("the README", () => {
  it.scopedLive(
    "has a tour that works when pasted",
    () =>
      Effect.gen(function* () {
        const folder = yield* Release.build
        const data = { AMPOULE_DATA_DIR: join(folder, "data") }
        const server = yield* Release.server(folder, data)
        const script = between(readme, "<!-- tour -->", "<!-- /tour -->").replaceAll(/^```(?:sh)?$/gm, "")
        const { stdout } = yield* Effect.promise(() =>
          promisify(execFile)("bash", ["-O", "expand_aliases", "-ec", script], {
            cwd: folder,
            env: { PATH: process.env["PATH"], HOME: folder, AMPOULE_URL: server.url, ...data }
          })
        )
        assert.include(stdout, "postgres://app:correct horse@db.internal/app")
        assert.include(stdout, "DATABASE_URL")
        assert.include(stdout, "API token setup")
      }),
    120_000
  )
})
