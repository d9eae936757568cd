/** The README tells the truth: its settings table, the files it names, and its tour, pasted as it stands. */
import { assert, describe, it } from "@effect/vitest"
import { execFile } from "node:child_process"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import * as Effect from "effect/Effect"
import * as Config from "#layers/Config.ts"
import * as Release from "#test/support/Release.ts"

const readme = readFileSync("README.md", "utf8")
const between = (start: string, end: string) => readme.slice(readme.indexOf(start) + start.length, readme.indexOf(end))

describe("README", () => {
  it("lists every setting with its default and meaning", () => {
    const rows = Config.table.map(
      (setting) =>
        `| \`${setting.name}\`${setting.secret ? ", `_FILE`" : ""} | ${setting.default} | ${setting.description} |`
    )
    const expected = ["| setting | default | meaning |", "|---|---|---|", ...rows].join("\n")
    assert.strictEqual(between("<!-- settings -->", "<!-- /settings -->").trim(), expected)
  })

  it("names only files that exist", () => {
    const named = [
      ...between("## Where is…?", "## How it is built").matchAll(/`((?:src|schema|layers|test|migrations)\/[^`*]+)`/g)
    ]
    assert.isAbove(named.length, 15)
    for (const [, path] of named) assert.isTrue(existsSync(path), path)
  })

  it.scopedLive(
    "has a tour that works when pasted",
    () =>
      Effect.gen(function* () {
        const folder = yield* Release.build
        const data = { AMPOULE_DATA_DIR: join(folder, "data") }
        const server = yield* Release.server(folder, data)
        const script = between("<!-- tour -->", "<!-- /tour -->").replaceAll(/^```(?:sh)?$/gm, "")
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
