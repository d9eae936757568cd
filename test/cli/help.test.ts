import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { spawnSync } from "node:child_process"
import * as fs from "node:fs"
import * as Release from "#src/Release.ts"
import { commitOf } from "#src/commit.mjs"
import { parsed } from "#test/support/Json.ts"
import { Ampoule, isExecutable } from "./Ampoule.ts"
import * as FakeServer from "./FakeServer.ts"

/** The commands a help page lists. */
const listed = (page: string): ReadonlyArray<string> =>
  [...(/\nCommands:\n([^]*?)\n(?:\n|$)/.exec(page)?.[1] ?? "").matchAll(/^ {2}([a-z-]+) /gm)].map((match) => match[1])

interface Loaded {
  readonly stdout: string
  /** Of ours: by what program it belongs to, with its bytes. */
  readonly files: ReadonlyArray<readonly [name: string, bytes: number]>
  /** Modules of Node. */
  readonly builtIn: ReadonlyArray<string>
}

const totalOf = ({ files }: Loaded): number => files.reduce((sum, [, bytes]) => sum + bytes, 0)
const namesOf = ({ files }: Loaded): ReadonlyArray<string> => [...new Set(files.map(([name]) => name))].sort()

/** Files that a command line loads, by Node's own account: bytes and names are the same on every machine. */
const loadedBy = Effect.fnUntraced(function* (
  words: ReadonlyArray<string>,
  env: Readonly<Record<string, string>> = {}
) {
  const ampoule = yield* Ampoule
  const folder = yield* ampoule.home
  const hook = `${folder}/hook.cjs`
  fs.writeFileSync(
    hook,
    `process.on("exit", () => require("fs").writeFileSync(${JSON.stringify(`${folder}/built-in`)}, process.moduleLoadList.join("\\n")))`
  )
  const { code, stderr, stdout } = yield* ampoule.run(words, {
    env: { ...env, NODE_V8_COVERAGE: `${folder}/coverage`, NODE_OPTIONS: `--require ${hook}` }
  })
  assert.strictEqual(code, 0, stderr)
  const reports = fs.readdirSync(`${folder}/coverage`)
  const Report = Schema.Struct({ result: Schema.Array(Schema.Struct({ url: Schema.String })) })
  const urls = reports.flatMap((report) =>
    parsed(Report)(fs.readFileSync(`${folder}/coverage/${report}`, "utf8")).result.map(({ url }) => url)
  )
  const files = [...new Set(urls)]
    .filter((url) => url.startsWith("file:") && !url.endsWith("hook.cjs"))
    .map((url) => [/([A-Za-z]+)[^/]*$/.exec(url)?.[1] ?? url, fs.statSync(new URL(url)).size] as const)
  assert.isNotEmpty(files)
  return { stdout, files, builtIn: fs.readFileSync(`${folder}/built-in`, "utf8").split("\n") } satisfies Loaded
})

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
          "secrets restore-at",
          "secrets rename",
          "secrets note",
          "secrets notes",
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
          "access requests",
          "access approve",
          "access withdraw",
          "exposed",
          "changes list",
          "changes show",
          "incident",
          "changes approve",
          "changes withdraw",
          "activity",
          "projects create",
          "environments create",
          "tokens create",
          "members invite",
          "second-person list",
          "second-person link",
          "sessions list",
          "sessions end",
          "sessions end-all",
          "doctor",
          "licences",
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
      assert.strictEqual((yield* ampoule.run(["version"])).stdout, `${Release.named(Release.version, commitOf("."))}\n`)
    })
  )

  it.scoped("says its version without loading anything else", () =>
    Effect.gen(function* () {
      const ampoule = yield* Ampoule
      const released = Release.named(Release.version, commitOf("."))
      for (const flag of ["--version", "-v"]) {
        const ended = yield* ampoule.run([flag], { env: { NODE_DEBUG: "esm" } })
        assert.deepStrictEqual([ended.code, ended.stdout], [0, `${released}\n`])
      }
      if (isExecutable) return
      // The launcher alone, with its look at a home that may be on another machine.
      assert.isBelow(totalOf(yield* loadedBy(["--version"])), 5_800)
    })
  )

  it.scoped.skipIf(isExecutable)(
    "loads for a page of the help that page, and for `secrets get` and `run` one small program",
    () =>
      Effect.gen(function* () {
        const help = yield* loadedBy(["secrets", "get", "--help"])
        assert.deepStrictEqual(namesOf(help), ["ampoule", "manual"])
        assert.isBelow(totalOf(help), 40_000)
        const server = yield* FakeServer.make(() => ({
          body: { value: "v", values: { A: "1" }, items: [], hasMore: false }
        }))
        const env = { AMPOULE_URL: server.url, AMPOULE_API_TOKEN: "amp_at_0123456789abcdef_secretpart" }
        const place = ["-p", FakeServer.projectId, "-e", "development"]
        const get = yield* loadedBy(["secrets", "get", ...place, "KEY"], env)
        assert.deepStrictEqual(namesOf(get), ["ampoule", "get"])
        assert.deepStrictEqual(namesOf(yield* loadedBy(["secrets", "list", ...place], env)), ["ampoule", "get"])
        assert.isBelow(totalOf(get), 230_000)
        // A child is what stays: what the process becomes leaves no report of itself.
        const run = yield* loadedBy(["run", ...place, "--redact", "--", "true"], env)
        assert.deepStrictEqual(namesOf(run), ["ampoule", "run"])
        assert.isBelow(totalOf(run), 280_000)
        // The other client of HTTP that Node has costs more than all of them, and an import of `node:http` loads it.
        assert.isEmpty([...get.builtIn, ...run.builtIn].filter((name) => name.includes("undici")))
        // Wherever the options are, and in either form.
        for (const words of [
          ["secrets", "get", "KEY", ...place],
          ["secrets", "get", "KEY", `--project=${FakeServer.projectId}`, "--json=false", "--env=development"]
        ]) {
          const behind = yield* loadedBy(words, env)
          assert.deepStrictEqual([namesOf(behind), behind.stdout], [namesOf(get), get.stdout])
        }
        server.answer = () => ({
          body: {
            ...FakeServer.verified,
            items: [],
            checks: {},
            page: 1,
            pageSize: 1,
            total: 0,
            hasMore: false,
            upTo: "",
            unknownBefore: null
          }
        })
        for (const words of [["whoami"], ["projects"], ["projects", "list"], ["exposed", ...place], ["doctor"]]) {
          const loaded = yield* loadedBy(words, env)
          // `doctor` loads the keychain's library, whose file is called `index`.
          assert.deepStrictEqual(
            namesOf(loaded).filter((name) => name !== "index"),
            ["ampoule", "show"],
            words.join(" ")
          )
          assert.isBelow(totalOf(loaded), 260_000)
          assert.isEmpty(loaded.builtIn.filter((name) => name.includes("undici")))
        }
        server.answer = () => ({ body: { items: [], page: 1, pageSize: 1, total: 0, hasMore: false } })
        const parsed = yield* loadedBy(["secrets", "list", ...place, "--last-read"], env)
        assert.include(namesOf(parsed), "cli")
      })
  )

  it.scoped.skipIf(isExecutable)(
    "keeps the compiled code of a small program, for it alone, where nobody else can write",
    () =>
      Effect.gen(function* () {
        const ampoule = yield* Ampoule
        const home = yield* ampoule.home
        const server = yield* FakeServer.make(() => ({ body: { value: "v", items: [], hasMore: false } }))
        const env = { AMPOULE_URL: server.url, AMPOULE_API_TOKEN: "amp_at_0123456789abcdef_secretpart" }
        const words = ["secrets", "get", "-p", FakeServer.projectId, "-e", "development", "KEY"]
        /** The program's user agent shows whose code ran. */
        const run = (more: Readonly<Record<string, string>> = {}) =>
          Effect.map(ampoule.run(words, { home, env: { ...env, ...more } }), ({ code, stderr, stdout }) => {
            assert.deepStrictEqual([code, stdout, stderr], [0, "v", ""])
            return server.asked.at(-1)?.headers["user-agent"]
          })
        const ours = `ampoule-cli/${Release.version}`
        assert.strictEqual(yield* run({ NODE_DISABLE_COMPILE_CACHE: "1" }), ours)
        const folder = `${home}/cache/ampoule/compiled`
        assert.isFalse(fs.existsSync(folder))
        assert.strictEqual(yield* run(), ours)
        const [name = "", ...others] = fs.readdirSync(folder)
        const file = `${folder}/${name}`
        assert.deepStrictEqual([others, fs.statSync(folder).mode & 0o777], [[], 0o700])
        assert.strictEqual(fs.statSync(file).mode & 0o777, 0o600)

        // Code of another program, of the same length: V8 does not notice, and it shows that the code is read.
        const digest = fs.readFileSync(file).subarray(0, 32)
        const forge = (before: Uint8Array, mode = 0o600) => {
          const text = fs.readFileSync(ampoule.program.replace("ampoule.cjs", "get.cjs"), "utf8")
          const forged = text.replaceAll(`"${Release.version}"`, '"6.6.6"')
          assert.notStrictEqual(forged, text)
          const script = `
          const wrapped = "(function (exports, require, module, __filename, __dirname) {" + require("fs").readFileSync(0, "utf8") + "\\n})"
          const script = new vm.Script(wrapped)
          script.runInThisContext()({}, require, {}, "", "")
          process.stdout.write(script.createCachedData())`
          const forgery = spawnSync(ampoule.node, ["-e", script], { input: forged, maxBuffer: 1e8 })
          assert.strictEqual(forgery.status, 0, String(forgery.stderr))
          fs.rmSync(file, { force: true })
          fs.writeFileSync(file, Buffer.concat([before, forgery.stdout]))
          fs.chmodSync(file, mode)
        }
        forge(digest)
        assert.strictEqual(yield* run(), "ampoule-cli/6.6.6")
        for (const spoil of [
          () => forge(Buffer.from("0".repeat(32))),
          () => forge(digest, 0o620),
          () => fs.writeFileSync(file, Buffer.concat([digest, Buffer.alloc(100_000)])),
          () => fs.writeFileSync(file, digest),
          () => fs.writeFileSync(file, "")
        ]) {
          spoil()
          const spoilt = fs.readFileSync(file)
          assert.strictEqual(yield* run(), ours)
          // Made anew, and read from then on.
          assert.isFalse(fs.readFileSync(file).equals(spoilt))
          const modified = fs.statSync(file).mtimeMs
          assert.strictEqual(yield* run(), ours)
          assert.deepStrictEqual([fs.statSync(file).mtimeMs, fs.statSync(file).mode & 0o777], [modified, 0o600])
        }
        assert.deepStrictEqual(fs.readdirSync(folder), [name])

        // A folder that cannot be is no reason to fail.
        fs.writeFileSync(`${home}/none`, "")
        assert.strictEqual(yield* run({ XDG_CACHE_HOME: `${home}/none` }), ours)
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
      assert.deepStrictEqual(complete("ampoule secrets export --form"), ["--format"])
      assert.deepStrictEqual(complete("ampoule secrets export --format "), [
        "dotenv",
        "json",
        "yaml",
        "shell",
        "fish",
        "powershell",
        "nushell",
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
        // No status: the shell is missing.
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
        [["secrets", "rollback", "KEY", "abc"], "VERSION takes a whole number."],
        [["secrets", "set", "A", "--expected-version", "x"], "--expected-version takes a whole number."],
        [["secrets", "list", "--projct", "shop"], "Did you mean --project?"],
        [["secrets", "list", "--env", "a", "-e", "b"], "-e can be given only once."],
        [["secrets", "get", "A", "B"], "Too many arguments: `secrets get` takes one, KEY."],
        [["secrets", "list", "A"], "Too many arguments: `secrets list` takes none."],
        [["secrets", "get", "A", "--project"], "--project needs a text: --project id-or-slug."],
        [["secrets", "list", "--json=yes"], "--json takes no text."],
        [["nope"], "The commands are: init, use, run, secrets"],
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
