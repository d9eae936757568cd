/**
 * The quick start of docs/quick-start.md as a newcomer has it: an empty home and folder, the packed package from a registry
 * of this machine, a terminal. `AMPOULE_RECORD_CAST=1` writes the recording, docs/quick-start.cast, and its rendering.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { spawn } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { cliScopes } from "#schema/Scopes.ts"
import * as Documents from "#test/deploy/Documents.ts"
import { freePort } from "#test/support/FreePort.ts"
import * as Cast from "./Cast.ts"
import * as Reader from "./Reader.ts"
import * as Registry from "./Registry.ts"

const page = "docs/quick-start.md"
const file = "docs/quick-start.cast"
const size = { width: 100, height: 30 }

/** A terminal with bash, whose output is recorded; `shows` waits for a text behind what was awaited before. */
const terminal = Effect.fnUntraced(function* (cwd: string, env: Readonly<Record<string, string>>) {
  const began = performance.now()
  const events: Array<Cast.Event> = []
  const screen = { text: "", seen: 0 }
  const child = yield* Effect.acquireRelease(
    Effect.sync(() =>
      spawn(
        "script",
        ["-qefc", `stty cols ${size.width} rows ${size.height}; exec bash --norc --noprofile -i`, "/dev/null"],
        {
          cwd,
          env: { ...env, TERM: "xterm", PS1: "$ ", SHELL: "/bin/sh", LC_ALL: "C.UTF-8" },
          detached: true
        }
      )
    ),
    (child) => Effect.sync(() => child.pid !== undefined && process.kill(-child.pid, "SIGKILL"))
  )
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    events.push([Number(((performance.now() - began) / 1000).toFixed(3)), "o", text])
    screen.text += text
  })
  const shows = (wanted: RegExp) =>
    Effect.gen(function* () {
      const find = Effect.sync(() => wanted.exec(screen.text.slice(screen.seen)))
      const match = yield* Effect.repeat(Effect.delay(find, "20 millis"), { until: (found) => found !== null }).pipe(
        Effect.timeoutFail({ duration: "150 seconds", onTimeout: () => new Error(`no ${wanted} in ${screen.text}`) })
      )
      screen.seen += (match?.index ?? 0) + (match?.[0].length ?? 0)
      return match?.[1] ?? ""
    })
  const type = (text: string) => Effect.sync(() => child.stdin.write(`${text}\n`))
  return { events, shows, type }
})

/** Stand-ins for texts that change with each recording, and for credentials. */
const withStandIns = (events: ReadonlyArray<Cast.Event>, port: number, home: string): ReadonlyArray<Cast.Event> =>
  events.map(([seconds, kind, text]) => [
    seconds,
    kind,
    text
      .replaceAll(String(port), "4400")
      .replaceAll(home, "/home/ada")
      .replaceAll(/amp_su_\w+/g, "amp_su_…")
      .replaceAll(/timestamp=\S+ level=INFO fiber=#\d+ message="([^"]*)"/g, "$1")
      .replaceAll(/\b[A-Z]{4}-[A-Z]{4}\b/g, "CODE-CODE")
      .replaceAll(/ \([0-9a-f]{12}(?:-dirty)?\)/g, "")
  ])

describe("the quick start", () => {
  it.scopedLive(
    "leads from an empty folder to a running program",
    () =>
      Effect.gen(function* () {
        const [home, registry, port] = [yield* Reader.temporary, yield* Registry.serve, yield* freePort]
        const folder = path.join(home, "hello")
        fs.mkdirSync(folder)
        fs.writeFileSync(path.join(home, ".inputrc"), "set enable-bracketed-paste off\n")
        const url = `http://127.0.0.1:${port}`
        const { events, shows, type } = yield* terminal(folder, {
          PATH: `${path.dirname(process.execPath)}:/usr/local/bin:/usr/bin:/bin`,
          HOME: home,
          INPUTRC: path.join(home, ".inputrc"),
          NO_PROXY: "*",
          AMPOULE_PORT: String(port),
          AMPOULE_URL: url,
          npm_config_registry: registry,
          npm_config_update_notifier: "false",
          npm_config_audit: "false",
          npm_config_fund: "false"
        })
        const commands = Documents.block(page, "quick-start").trim().split("\n")
        assert.isAtMost(commands.length, 4)
        const [server = "", init = "", set = "", run = ""] = commands
        const { ask } = Reader
        yield* shows(/\$ /)

        yield* type(server)
        const setupCode = yield* shows(/Set it up at \S+code=(amp_su_\w+)/)
        yield* shows(/power failure\S*[^\n]*\n/)
        const account = { email: "ada@example.com", name: "Ada", password: Reader.password, teamName: "Platform" }
        const { cookie, text } = yield* ask(url, "", "POST", "/setup", { setupCode, ...account })
        yield* type("")
        yield* shows(/\$ /)
        const teamId = /"team":\{"id":"([^"]+)"/.exec(text)?.[1] ?? ""

        yield* type(init.replace("ampoule init", "ampoule init --plaintext-local"))
        const login = yield* shows(/approve the code\W+([A-Z]{4}-[A-Z]{4})/)
        const requests = "/auth/cli/device/requests"
        yield* ask(url, cookie, "POST", `${requests}/${login}/approve`, { teams: [{ teamId, scopes: cliScopes }] })
        yield* shows(/Name of the new project[^:]*: /)
        yield* type("")
        const management = yield* shows(/approve the code\W+([A-Z]{4}-[A-Z]{4})/)
        yield* ask(url, cookie, "POST", `${requests}/${management}/approve-management`)
        yield* shows(/Environment \(1-4\): /)
        yield* type("1")
        yield* shows(/\$ /)

        yield* type(set)
        yield* shows(/GREETING[^\n]*: /)
        yield* type("hello from Ampoule")
        yield* shows(/\$ /)

        yield* type(run)
        yield* shows(/hello from Ampoule\r?\n/)
        yield* shows(/\$ /)
        // The value was not echoed where it was typed: it is on the screen once, as the program's output.
        const all = events.map(([, , text]) => text).join("")
        assert.strictEqual(all.split("hello from Ampoule").length, 2)

        if (process.env["AMPOULE_RECORD_CAST"] !== undefined) {
          const cast = { ...size, title: "Ampoule: quick start", events: withStandIns(events, port, home) }
          fs.writeFileSync(file, Cast.print(cast))
          const text = fs.readFileSync(page, "utf8")
          const start = text.indexOf("<!-- cast -->")
          const rendering = `<!-- cast -->\n<!-- run by test/docs/quickStart.test.ts -->\n\`\`\`text\n${Cast.textOf(cast)}\n\`\`\`\n`
          fs.writeFileSync(page, text.slice(0, start) + rendering + text.slice(text.indexOf("<!-- /cast -->")))
        }
      }),
    400_000
  )
})
