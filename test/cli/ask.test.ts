import { assert, describe, it, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { typist } from "#src/cli/terminal/Ask.ts"
import { parsed } from "#test/support/Json.ts"
import { Ampoule } from "./Ampoule.ts"
import * as FakeServer from "./FakeServer.ts"

const esc = "\u001b"
const enter = (keys: string): string => {
  const { press, text } = typist()
  const pressed = [...keys].map(press)
  assert.strictEqual(pressed.at(-1), "line")
  assert.isTrue(pressed.slice(0, -1).every((one) => one === undefined))
  return text()
}

describe("a value that is typed unseen", () => {
  it("is what was typed, corrections made, and keys that are no characters left out", () => {
    const cases: ReadonlyArray<readonly [keys: string, value: string]> = [
      ["hunter2\r", "hunter2"],
      ["hunterX\u007f2\r", "hunter2"],
      ["wrong\u0015right\r", "right"],
      ["a😀\u007fb\r", "ab"],
      [`a${esc}[Ab${esc}[1;5Cc${esc}OHd${esc}[3~e\r`, "abcde"],
      // ESC and Alt: the character itself counts.
      [`a${esc}b\r`, "ab"],
      ["a\u001ab\u0000c\r", "abc"],
      ["\r", ""]
    ]
    for (const [keys, value] of cases) assert.strictEqual(enter(keys), value, JSON.stringify(keys))
  })

  it("may be pasted in several lines", () => {
    const paste = (text: string) => `${esc}[200~${text}${esc}[201~`
    const key = "-----BEGIN KEY-----\nabc==\n-----END KEY-----"
    assert.strictEqual(enter(`${paste(key.replaceAll("\n", "\r"))}\r`), key)
    assert.strictEqual(enter(`${paste(`${key}\n`.replaceAll("\n", "\r\n"))}\r`), key)
    assert.strictEqual(enter(`${paste("a\u0003\u0004\tb")}\r`), "a\u0003\u0004\tb")
    assert.strictEqual(enter(`x${paste("y\rz")}w\r`), "xy\nzw")
  })
})

layer(Ampoule.Default, { excludeTestServices: true })("questions at a terminal", (it) => {
  const asking = Effect.fnUntraced(function* (args: ReadonlyArray<string>, question: string, keys: string) {
    const ampoule = yield* Ampoule
    const secrets: Array<string> = []
    const server = yield* FakeServer.make((asked) => {
      if (asked.path === "/secrets/bulk") {
        secrets.push(asked.body)
        const item = {
          id: FakeServer.teamId,
          projectId: FakeServer.projectId,
          environment: "development",
          key: "A",
          kind: "literal",
          version: 1,
          createdAt: "2026-11-21T08:00:00.000Z",
          updatedAt: "2026-11-21T08:00:00.000Z",
          outcome: "created"
        }
        return { status: 201, body: { created: 1, updated: 0, unchanged: 0, items: [item] } }
      }
      if (asked.path === "/secrets") return { body: { items: [], page: 1, pageSize: 500, total: 0, hasMore: false } }
      return FakeServer.environment(() => ({}))(asked)
    })
    const running = yield* ampoule.terminal([...args, "-p", FakeServer.projectId, "-e", "development"], {
      env: { AMPOULE_URL: server.url, AMPOULE_API_TOKEN: "amp_at_0123456789abcdef_secretpart", TERM: "xterm" }
    })
    yield* running.shows(question)
    running.child.stdin?.write(keys)
    const ended = yield* running.ended
    return { ended, secrets }
  })

  it.scoped("a pasted key arrives whole, and nothing of it is shown", () =>
    Effect.gen(function* () {
      const { ended, secrets } = yield* asking(
        ["secrets", "set", "TLS_KEY"],
        "Value of TLS_KEY",
        `${esc}[200~first\rsecond\r${esc}[201~\r`
      )
      assert.strictEqual(ended.code, 0, ended.stdout)
      assert.deepStrictEqual(parsed(Schema.Struct({ secrets: Schema.Unknown }))(secrets[0] ?? "").secrets, [
        { key: "TLS_KEY", value: "first\nsecond" }
      ])
      assert.notMatch(ended.stdout, /first|second/)
      // The terminal is left as it was found.
      assert.isTrue(ended.stdout.indexOf(`${esc}[?2004h`) < ended.stdout.indexOf(`${esc}[?2004l`))
    })
  )

  it.scoped("^D is no answer, and ^C ends with 130: nothing is written", () =>
    Effect.gen(function* () {
      const ampoule = yield* Ampoule
      const { writeFileSync } = yield* Effect.promise(() => import("node:fs"))
      const file = `${ampoule.root}/one.env`
      writeFileSync(file, "A=1\n")
      for (const [args, question, keys, code] of [
        [["secrets", "import", file], "[y/N]", "\u0004", 1],
        [["secrets", "import", file], "[y/N]", "no\n", 1],
        [["secrets", "import", file], "[y/N]", "\u0003", 130],
        [["secrets", "set", "A"], "Value of A", "abc\u0004", 1],
        [["secrets", "set", "A"], "Value of A", "abc\u0003", 130]
      ] as const) {
        const { ended, secrets } = yield* asking(args, question, keys)
        assert.strictEqual(ended.code, code, JSON.stringify(keys))
        assert.notInclude(ended.stdout, "internal error")
        assert.deepStrictEqual(secrets, [])
      }
      const yes = yield* asking(["secrets", "import", file], "[y/N]", "y\n")
      assert.strictEqual(yes.ended.code, 0, yes.ended.stdout)
      assert.strictEqual(yes.secrets.length, 1)
    })
  )
})
