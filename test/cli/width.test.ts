import { assert, describe, it, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as http from "node:http"
import { beside, prose, relativeIn } from "#src/cli/terminal/Table.ts"
import { Ampoule } from "./Ampoule.ts"
import * as FakeServer from "./FakeServer.ts"

describe("sentences", () => {
  it("break between words, keep what is to be copied whole, and indent what goes on", () => {
    const text = "ampoule: it has no secret KEY.\n  `ampoule secrets list --env staging` shows the keys.\nshort"
    assert.strictEqual(prose(text, undefined), text)
    assert.strictEqual(prose(text, 100), text)
    assert.strictEqual(
      prose(text, 24),
      "ampoule: it has no\n  secret KEY.\n  `ampoule secrets list --env staging`\n  shows the keys.\nshort"
    )
    assert.strictEqual(prose("a `b", 2), "a\n  `b")
    assert.strictEqual(prose("\u001b[31mred\u001b[0m and on", 10), "\u001b[31mred\u001b[0m and on")
  })

  it("stand beside a name where there is room, else below it", () => {
    assert.strictEqual(beside("name:   ", "one two", undefined), "name:   one two")
    assert.strictEqual(
      beside("name:   ", `${"word ".repeat(8)}end`, 40),
      `name:   ${"word ".repeat(5)}word\n        word word end`
    )
    assert.strictEqual(
      beside("a long name:   ", `${"word ".repeat(6)}end`, 40),
      `a long name:\n  ${"word ".repeat(6)}end`
    )
  })

  it("say times as people do", () => {
    const now = Date.parse("2026-11-23T12:00:00Z")
    assert.strictEqual(relativeIn("write, until 2026-11-23T14:00:00.000Z", now), "write, until in 2 h")
  })
})

layer(Ampoule.Default, { excludeTestServices: true })("on a terminal", (it) => {
  it.scoped("what is said keeps to the width, has colours unless NO_COLOR is set, and is whole for a program", () =>
    Effect.gen(function* () {
      const ampoule = yield* Ampoule
      const at = new Date(Date.now() - 3 * 3_600_000).toISOString()
      const item = {
        id: FakeServer.teamId,
        projectId: FakeServer.projectId,
        environment: "development",
        key: "DATABASE_URL",
        kind: "template",
        version: 12,
        createdAt: at,
        updatedAt: at,
        references: ["DB_PASSWORD", "DB_HOST"],
        updatedBy: { type: "user", id: FakeServer.teamId, name: "ada@example.com" }
      }
      const server = yield* FakeServer.make(({ path }) =>
        path === "/secrets" ? { body: { items: [item], hasMore: false } } : FakeServer.refusal(404, "SECRET_NOT_FOUND")
      )
      const env = { AMPOULE_URL: server.url, AMPOULE_API_TOKEN: "amp_at_0123456789abcdef_secretpart", TERM: "xterm" }
      const place = ["-p", FakeServer.projectId, "-e", "development"]
      const screen = (width: number, words: ReadonlyArray<string>, more: Readonly<Record<string, string>> = {}) =>
        Effect.gen(function* () {
          const command = `stty cols ${width} rows 50; ${ampoule.line(words)}`
          const running = yield* ampoule.inTerminal(command, { env: { ...env, ...more } })
          return (yield* running.ended).stdout.replaceAll("\r", "")
        })
      for (const width of [40, 120]) {
        for (const words of [
          ["--help"],
          ["secrets", "list", ...place],
          ["secrets", "get", ...place, "NOPE"],
          ["doctor"],
          ["secrets", "frobnicate"]
        ]) {
          const text = yield* screen(width, words)
          // eslint-disable-next-line no-control-regex
          const lines = text.replaceAll(/\u001b\[[0-9;?]*[A-Za-z]/g, "").split("\n")
          // Texts to copy are not broken.
          const wide = lines.filter((line) => line.length > width && !line.includes("`"))
          assert.deepStrictEqual(wide, [], `${width} ${words.join(" ")}`)
          const plain = yield* screen(width, words, { NO_COLOR: "1" })
          assert.notInclude(plain, "\u001b[3", words.join(" "))
        }
      }
      assert.include(yield* screen(120, ["secrets", "list", ...place]), "3 h ago")
      assert.include(yield* screen(40, ["secrets", "get", ...place, "NOPE"]), "\u001b[31mampoule:\u001b[0m ")
      const piped = yield* ampoule.run(["secrets", "list", ...place], { env: { ...env, COLUMNS: "40" } })
      assert.match(piped.stdout, new RegExp(`\nDATABASE_URL  template \\(DB_PASSWORD, DB_HOST\\)  12       ${at}`))
    })
  )

  it.scoped("a wait of more than a second says for whom, and nothing of it stays; a program reads none of it", () =>
    Effect.gen(function* () {
      const ampoule = yield* Ampoule
      const responses: Array<http.ServerResponse> = []
      const server = yield* Effect.acquireRelease(
        Effect.async<http.Server>((resume) => {
          const listener = http.createServer((_, response) => void responses.push(response))
          listener.listen(0, "127.0.0.1", () => resume(Effect.succeed(listener)))
        }),
        (made) =>
          Effect.sync(() => {
            made.closeAllConnections()
            made.close()
          })
      )
      const address = server.address()
      const port = typeof address === "object" && address !== null ? address.port : 0
      const env = { AMPOULE_URL: `http://127.0.0.1:${port}`, AMPOULE_API_TOKEN: "amp_at_0123456789abcdef_secretpart" }
      const words = ["secrets", "get", "-p", FakeServer.projectId, "-e", "development", "KEY"]
      const waiting = `Waiting for 127.0.0.1:${port} …`
      const seen = yield* ampoule.inTerminal(ampoule.line(words), { env: { ...env, TERM: "xterm" } })
      const piped = yield* ampoule.start(words, { env })
      yield* seen.shows(waiting)
      // The other one began at the same time; its notice would have come before its answer.
      yield* Effect.suspend(() => (responses.length < 2 ? Effect.fail("not yet") : Effect.void)).pipe(
        Effect.retry(Schedule.spaced("20 millis"))
      )
      for (const response of responses) response.setHeader("content-type", "application/json").end('{"value":"v"}')
      const ended = yield* seen.ended
      assert.match(ended.stdout, new RegExp(`${waiting}\r\u001b\\[Kv\r\n$`))
      assert.deepStrictEqual(yield* piped.ended, { code: 0, signal: null, stdout: "v", stderr: "" })
    })
  )
})
