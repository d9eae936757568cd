import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import { version } from "#src/cli/Version.ts"
import { Ampoule } from "./Ampoule.ts"

/** The commands a help page lists. */
const listed = (page: string): ReadonlyArray<string> =>
  [...(/\nCommands:\n([^]*?)\n(?:\n|$)/.exec(page)?.[1] ?? "").matchAll(/^ {2}([a-z-]+) /gm)].map((match) => match[1])

layer(Ampoule.Default, { excludeTestServices: true, timeout: 120_000 })("help of the command line", (it) => {
  it.scoped("every command has a page with what it does and an example that begins like it", () =>
    Effect.gen(function* () {
      const ampoule = yield* Ampoule
      const seen: Array<string> = []
      const visit = (words: ReadonlyArray<string>): Effect.Effect<void> =>
        Effect.gen(function* () {
          const { code, stderr, stdout } = yield* ampoule.run([...words, "--help"])
          const name = ["ampoule", ...words].join(" ")
          assert.deepStrictEqual([code, stderr], [0, ""], name)
          assert.isTrue(stdout.startsWith(`Usage: ${name}`), name)
          // Plain text when it does not go to a terminal.
          assert.notInclude(stdout, "\u001b", name)
          const below = listed(stdout)
          if (below.length === 0) {
            assert.match(stdout, /\nExamples:\n {2}\S/, name)
            seen.push(words.join(" "))
          }
          for (const word of below) yield* visit([...words, word])
        })
      yield* visit([])
      for (const expected of [
        "run",
        "secrets list",
        "secrets get",
        "secrets set",
        "secrets unset",
        "secrets import",
        "secrets export",
        "secrets diff",
        "secrets history",
        "secrets rollback",
        "secrets deleted",
        "secrets restore",
        "projects environments",
        "graph",
        "seal set",
        "seal check",
        "unseal",
        "reseal",
        "login",
        "logout",
        "whoami",
        "doctor",
        "setup",
        "server",
        "migrate"
      ]) {
        assert.include(seen, expected)
      }
    })
  )

  it.scoped("says its version without loading anything else", () =>
    Effect.gen(function* () {
      const ampoule = yield* Ampoule
      const { version: released } = JSON.parse(fs.readFileSync("package.json", "utf8"))
      assert.strictEqual(version, released)
      for (const flag of ["--version", "-v"]) {
        const ended = yield* ampoule.run([flag], { env: { NODE_DEBUG: "esm" } })
        assert.deepStrictEqual([ended.code, ended.stdout], [0, `${released}\n`])
      }
      const loaded = yield* ampoule.run(["--version"], { env: { NODE_V8_COVERAGE: `${ampoule.root}/coverage` } })
      assert.strictEqual(loaded.code, 0)
      const [report = ""] = fs.readdirSync(`${ampoule.root}/coverage`)
      const urls: ReadonlyArray<string> = JSON.parse(
        fs.readFileSync(`${ampoule.root}/coverage/${report}`, "utf8")
      ).result.map(({ url }: { readonly url: string }) => url)
      assert.isNotEmpty(urls)
      const bytes = urls.filter((url) => url.startsWith("file:")).map((url) => fs.statSync(new URL(url)).size)
      assert.isBelow(
        bytes.reduce((sum, size) => sum + size, 0),
        20_000
      )
    })
  )

  it.scoped("completes commands in three shells", () =>
    Effect.gen(function* () {
      const ampoule = yield* Ampoule
      for (const shell of ["bash", "zsh", "fish"]) {
        const ended = yield* ampoule.run(["--completions", shell])
        assert.strictEqual(ended.code, 0)
        for (const word of ["secrets", "run", "doctor", "--offline"]) {
          assert.include(ended.stdout, shell === "fish" ? word.replace("--", "") : word, shell)
        }
      }
      const checked = yield* ampoule.run(["--completions", "bash"])
      const { spawnSync } = yield* Effect.promise(() => import("node:child_process"))
      assert.strictEqual(spawnSync("bash", ["-n"], { input: checked.stdout }).status, 0)
    })
  )

  it.scoped("points at what it does not understand, with exit code 2", () =>
    Effect.gen(function* () {
      const ampoule = yield* Ampoule
      const cases: ReadonlyArray<readonly [ReadonlyArray<string>, string]> = [
        [["secret"], "`ampoule` has no command secret"],
        [["secrets", "lst"], "There are: list, get"],
        [["secrets", "get"], "KEY"],
        [["secrets", "list", "--bogus"], "There is no option --bogus here"],
        [["whoami", "--credential", "both"], "env, stored"],
        [["secrets", "rollback", "KEY", "abc"], "integer"],
        [["run", "--watch-interval", "soon", "--", "true"], "30s, 15m, 24h or 7d"]
      ]
      for (const [args, sentence] of cases) {
        const ended = yield* ampoule.run(args)
        assert.deepStrictEqual([ended.code, ended.stdout], [2, ""], args.join(" "))
        assert.include(ended.stderr, sentence)
        assert.notInclude(ended.stderr, "    at ")
      }
    })
  )
})
