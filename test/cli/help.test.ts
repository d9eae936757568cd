import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { spawnSync } from "node:child_process"
import * as fs from "node:fs"
import { version } from "#src/cli/Version.ts"
import { parsed } from "#test/support/Json.ts"
import { Ampoule } from "./Ampoule.ts"

/** The commands a help page lists. */
const listed = (page: string): ReadonlyArray<string> =>
  [...(/\nCommands:\n([^]*?)\n(?:\n|$)/.exec(page)?.[1] ?? "").matchAll(/^ {2}([a-z-]+) /gm)].map((match) => match[1])

layer(Ampoule.Default, { excludeTestServices: true, timeout: 120_000 })("help of the command line", (it) => {
  it.scoped(
    "every command has a page with what it does and an example that begins like it",
    () =>
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
          "init",
          "use",
          "open",
          "inject",
          "secrets edit",
          "secrets copy",
          "projects environments",
          "graph",
          "seal set",
          "seal check",
          "seal merge",
          "seal resolve",
          "seal install",
          "unseal",
          "reseal",
          "login",
          "logout",
          "whoami",
          "access request",
          "access list",
          "access approve",
          "access withdraw",
          "exposed",
          "changes list",
          "changes approve",
          "changes withdraw",
          "doctor",
          "setup",
          "server",
          "migrate"
        ]) {
          assert.include(seen, expected)
        }
      }),
    240_000
  )

  it.scoped("has a page for a group alone, and answers `help` and `version`", () =>
    Effect.gen(function* () {
      const ampoule = yield* Ampoule
      const page = yield* ampoule.run(["secrets", "--help"])
      for (const words of [["secrets"], ["help", "secrets"]]) {
        assert.deepStrictEqual(yield* ampoule.run(words), page, words.join(" "))
      }
      assert.strictEqual((yield* ampoule.run(["version"])).stdout, `${version}\n`)
    })
  )

  it.scoped("says its version without loading anything else", () =>
    Effect.gen(function* () {
      const ampoule = yield* Ampoule
      const { version: released } = parsed(Schema.Struct({ version: Schema.String }))(
        fs.readFileSync("package.json", "utf8")
      )
      assert.strictEqual(version, released)
      for (const flag of ["--version", "-v"]) {
        const ended = yield* ampoule.run([flag], { env: { NODE_DEBUG: "esm" } })
        assert.deepStrictEqual([ended.code, ended.stdout], [0, `${released}\n`])
      }
      const loaded = yield* ampoule.run(["--version"], { env: { NODE_V8_COVERAGE: `${ampoule.root}/coverage` } })
      assert.strictEqual(loaded.code, 0)
      const [report = ""] = fs.readdirSync(`${ampoule.root}/coverage`)
      const { result } = parsed(Schema.Struct({ result: Schema.Array(Schema.Struct({ url: Schema.String })) }))(
        fs.readFileSync(`${ampoule.root}/coverage/${report}`, "utf8")
      )
      const urls = result.map(({ url }) => url)
      assert.isNotEmpty(urls)
      const bytes = urls.filter((url) => url.startsWith("file:")).map((url) => fs.statSync(new URL(url)).size)
      assert.isBelow(
        bytes.reduce((sum, size) => sum + size, 0),
        20_000
      )
    })
  )

  it.scoped("completes commands, options, their values and files, in bash", () =>
    Effect.gen(function* () {
      const ampoule = yield* Ampoule
      const folder = yield* ampoule.home
      fs.writeFileSync(`${folder}/some.env`, "")
      const { code, stdout: script } = yield* ampoule.run(["completion", "bash"])
      assert.strictEqual(code, 0)
      const complete = (line: string): ReadonlyArray<string> => {
        const words = line.split(" ").map((word) => `'${word}'`)
        const ask = `compopt() { :; }; COMP_WORDS=(${words.join(" ")}); COMP_CWORD=${words.length - 1}; _ampoule; printf '%s\\n' "\${COMPREPLY[@]}"`
        const { status, stdout } = spawnSync("bash", ["--norc", "-c", `${script}\n${ask}`], {
          cwd: folder,
          encoding: "utf8"
        })
        assert.strictEqual(status, 0, line)
        return stdout.split("\n").filter((word) => word !== "")
      }
      assert.includeMembers([...complete("ampoule ")], ["run", "secrets", "seal", "doctor"])
      assert.deepStrictEqual(complete("ampoule secrets li"), ["list"])
      assert.deepStrictEqual(complete("ampoule secrets export --fo"), ["--format"])
      assert.deepStrictEqual(complete("ampoule secrets export --format "), [
        "dotenv",
        "json",
        "yaml",
        "shell",
        "docker"
      ])
      assert.deepStrictEqual(complete("ampoule secrets import so"), ["some.env"])
      assert.deepStrictEqual(complete("ampoule run --sealed so"), ["some.env"])
      assert.deepStrictEqual(complete("ampoule run --project so"), [])
      assert.include(complete("ampoule run -e x -- bas"), "bash")
      assert.deepStrictEqual(complete("ampoule run -- cat so"), ["some.env"])
    })
  )

  it.scoped("writes completions that zsh and fish read, where they are installed", () =>
    Effect.gen(function* () {
      const ampoule = yield* Ampoule
      for (const shell of ["zsh", "fish"]) {
        const ended = yield* ampoule.run(["--completions", shell])
        assert.strictEqual(ended.code, 0)
        for (const word of ["secrets export", "doctor", "offline", "dotenv json"])
          assert.include(ended.stdout, word, shell)
        const read = spawnSync(shell, ["-n"], { input: ended.stdout })
        // No status: the shell is not there.
        assert.notStrictEqual(read.status, 1, shell)
      }
      const without = yield* ampoule.run(["completion"])
      assert.deepStrictEqual([without.code, without.stdout], [2, ""])
      assert.include(without.stderr, "bash | zsh | fish")
    })
  )

  it.scoped("points at what it does not understand, with exit code 2", () =>
    Effect.gen(function* () {
      const ampoule = yield* Ampoule
      const cases: ReadonlyArray<readonly [ReadonlyArray<string>, string]> = [
        [["frobnicate"], "The commands are: init, use, run, secrets"],
        [["secrest"], "Did you mean `ampoule secrets`?"],
        [["secrets", "lst"], "Did you mean `ampoule secrets list`?"],
        [["secrets", "delete", "KEY"], "Did you mean `ampoule secrets unset`?"],
        [["get", "KEY"], "Did you mean `ampoule secrets get`?"],
        [["--url", "http://127.0.0.1:1", "whoami"], "Options come after the command"],
        [["run", "node", "app.js"], "ampoule run [options] -- node app.js"],
        [["secrets", "get"], "KEY"],
        [["secrets", "list", "--bogus"], "This command has no option --bogus"],
        [["whoami", "--credential", "both"], "--credential takes one of: env, stored"],
        [["secrets", "rollback", "KEY", "abc"], "whole number"],
        [["restore", "backup"], "This command needs --identity."],
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
