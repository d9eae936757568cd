/** The table of settings, and the tour of the README, pasted as it is. Files and links of pages: test/pages.test.ts. */
import { assert, describe, it } from "@effect/vitest"
import { spawn } from "node:child_process"
import { mkdirSync, mkdtempSync, readFileSync, symlinkSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Config from "#layers/Config.ts"
import * as Documents from "#test/deploy/Documents.ts"
import * as Release from "#test/support/Release.ts"

const between = (text: string, start: string, end: string) =>
  text.slice(text.indexOf(start) + start.length, text.indexOf(end))

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
})

/** A shell as a person has it, under a terminal. `paste`: what a terminal sends for a paste (bracketed), and Return. */
const shell = (command: string, cwd: string, env: Record<string, string>) =>
  Effect.gen(function* () {
    const child = yield* Effect.acquireRelease(
      Effect.sync(() =>
        spawn("script", ["-qec", command, "/dev/null"], {
          cwd,
          env: { PATH: process.env["PATH"], TERM: "xterm", SHELL: "/bin/sh", LC_ALL: "C.UTF-8", ...env }
        })
      ),
      (child) => Effect.sync(() => child.kill("SIGKILL"))
    )
    const screen = { text: "" }
    child.stdout.setEncoding("utf8").on("data", (text: string) => (screen.text += text))
    const shows = (text: string, from: number) =>
      Effect.async<void>((resume) => {
        const timer = setInterval(() => {
          if (!screen.text.includes(text, from)) return
          clearInterval(timer)
          resume(Effect.void)
        }, 20)
        return Effect.sync(() => clearInterval(timer))
      }).pipe(
        Effect.timeoutFail({
          duration: "90 seconds",
          onTimeout: () => new Error(`${command} does not show ${text}: ${screen.text.slice(from)}`)
        })
      )
    // Bracketed paste is on: the line editor waits for what is typed.
    yield* shows("\u001b[?2004h", 0)
    return {
      paste: (text: string, until: string) =>
        Effect.gen(function* () {
          const from = screen.text.length
          child.stdin.write(`\u001b[200~${text}\u001b[201~\r`)
          yield* shows(until, from)
          return screen.text.slice(from)
        })
    }
  })

const shells = ["bash --norc --noprofile -i", "zsh -f -i", "fish -i"]

/** In a folder that has `dist`, beside a server of its own. */
const tourIn = (command: string, release: string) =>
  Effect.gen(function* () {
    const folder = mkdtempSync(join(release, "clone-"))
    symlinkSync(join(release, "dist"), join(folder, "dist"))
    // Otherwise fish reads all manual pages at its first start, in the background.
    mkdirSync(join(folder, ".local/share/fish/generated_completions"), { recursive: true })
    const data = { AMPOULE_DATA_DIR: join(folder, "data") }
    const server = yield* Release.server(release, data)
    const tour = Documents.block("README.md", "tour").trim()
    const { paste } = yield* shell(command, folder, { HOME: folder, AMPOULE_URL: server.url, ...data })
    const token = () => readFileSync(join(folder, ".ampoule/tour-token"), "utf8")
    // The last line of the last command, which tells of the token.
    const first = yield* paste(tour, "access level:")
    assert.include(first, "postgres://app:correct horse@db.internal/app\r", command)
    assert.include(first, "API token setup", command)
    const kept = token()
    assert.match(kept, /^amp_at_/)
    const second = yield* paste(tour, "access level:")
    assert.include(second, "already set up", command)
    assert.include(second, "postgres://app:correct horse@db.internal/app\r", command)
    assert.strictEqual(token(), kept)
  }).pipe(Effect.scoped)

describe("the README", () => {
  it.scopedLive(
    "has a tour that works when it is pasted into bash, zsh and fish, and loses nothing when it is pasted again",
    () =>
      Effect.gen(function* () {
        const release = yield* Release.build
        for (const command of shells) yield* tourIn(command, release)
      }),
    600_000
  )
})
