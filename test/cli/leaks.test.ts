/**
 * A value, a token and what a server says must not turn up where nobody asked for them (docs/security.md, "Lessons from
 * others").
 */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as path from "node:path"
import * as Needles from "#test/leaks/Needles.ts"
import { Ampoule } from "./Ampoule.ts"
import * as FakeServer from "./FakeServer.ts"

const canary = "CANARY-value-7f3a"
const secretPart = "CANARYtokensecret"
const token = `amp_at_0123456789abcdef_${secretPart}`

/** Everything below a folder, names included. */
const contents = (folder: string): string =>
  fs.readdirSync(folder, { withFileTypes: true, recursive: true }).reduce((text, entry) => {
    const file = path.join(entry.parentPath, entry.name)
    return `${text}\n${file}\n${entry.isFile() ? fs.readFileSync(file, "latin1") : ""}`
  }, "")

const shapes = [canary, secretPart].flatMap((secret) =>
  Needles.forms(secret).map(([, bytes]) => bytes.toString("latin1"))
)
const has = (text: string): string | undefined => shapes.find((shape) => text.includes(shape))

layer(Ampoule.Default, { excludeTestServices: true })("leaks of the command line", (it) => {
  it.scoped(
    "no value and no credential in any output, file or argument but where it was asked for",
    () =>
      Effect.gen(function* () {
        const ampoule = yield* Ampoule
        const home = yield* ampoule.home
        const temporary = path.join(home, "tmp")
        fs.mkdirSync(temporary)
        const values = { KEY: canary, LONG: canary.repeat(20_000) }
        const server = yield* FakeServer.make(FakeServer.environment(() => values))
        const env = { AMPOULE_URL: server.url, AMPOULE_API_TOKEN: token, TMPDIR: temporary }
        const target = ["-p", "demo", "-e", "development"]
        fs.writeFileSync(path.join(home, "bad.env"), `A=1\nKEY="${canary}\n`)
        fs.writeFileSync(path.join(home, "bad.json"), `{"KEY": "${canary}`)
        const before = contents(home)

        const bodies: ReadonlyArray<FakeServer.FakeServer["answer"]> = [
          "gone",
          // Shapes that a decoder would quote.
          () => ({ body: { values: { KEY: [canary] }, revision: 1 } }),
          () => ({ body: { values: canary, items: canary } }),
          () => ({ body: [canary] }),
          () => ({ status: 200, headers: { "content-type": "application/json" }, body: `{"values": ${canary}` }),
          () => ({ status: 500, body: `<html>${canary}</html>` }),
          () => ({ status: 400, body: { error: canary } }),
          () => ({ status: 400, body: { statusCode: canary, code: canary, message: canary } }),
          () => ({ status: 301, headers: { location: `http://x/${canary}` } }),
          () => FakeServer.refusal(401, "CREDENTIAL_REVOKED"),
          () => FakeServer.refusal(400, "VALIDATION_FAILED", { field: "secrets.0.value" })
        ]
        /** Which answers reach which decoder: one of each way to read one. */
        const talking: ReadonlyArray<ReadonlyArray<string>> = [
          ["secrets", "list"],
          ["secrets", "get", "KEY", "--json"],
          ["secrets", "export"]
        ]
        const commands: ReadonlyArray<{ readonly args: ReadonlyArray<string>; readonly stdin?: string }> = [
          { args: ["run", ...target, "--", "true"] },
          { args: ["run", "--offline", "--only", "KEY", ...target, "--", "true"] },
          { args: ["run", "--redact", "--only", "KEY", ...target, "--", "sh", "-c", 'echo "$KEY"'] },
          { args: ["run", "--only", "KEY", ...target, "--", "no-such-command"] },
          { args: ["secrets", "list", ...target] },
          { args: ["secrets", "get", "KEY", ...target, "--json"] },
          { args: ["secrets", "set", "KEY", ...target], stdin: canary },
          { args: ["secrets", "set", "KEY", canary, ...target] },
          { args: ["secrets", "set", `KEY=${canary}`, ...target] },
          { args: ["secrets", "import", "bad.env", "--yes", ...target] },
          { args: ["secrets", "import", "bad.json", "--yes", ...target] },
          { args: ["secrets", "export", "--format", "docker", ...target, "--help"] },
          { args: ["seal", "bad.env", ...target] },
          { args: ["seal", "check", "--offline", "bad.env"] },
          { args: ["whoami", "--json"] },
          { args: ["doctor"] },
          { args: ["graph", ...target] },
          { args: [canary] },
          { args: ["secrets", "list", `--${canary}`] },
          { args: ["run", "--only", "KEY", "--log-level", "debug", ...target, "--", "true"] }
        ]
        const check = Effect.fnUntraced(function* ({ args, stdin }: (typeof commands)[number]) {
          const ended = yield* ampoule.run(args, { home, env, ...(stdin === undefined ? {} : { stdin }) })
          assert.isUndefined(has(`${ended.stdout}${ended.stderr}`), args.join(" "))
          assert.notInclude(ended.stderr, "internal error", args.join(" "))
        })
        for (const command of commands) yield* check(command)
        for (const answer of bodies) {
          server.answer = answer
          for (const args of talking) yield* check({ args: [...args, ...target] })
        }
        assert.isUndefined(
          has(
            contents(home)
              .replaceAll(before, "")
              .replaceAll(`A=1\nKEY="${canary}`, "")
              .replaceAll(`{"KEY": "${canary}`, "")
          )
        )
        assert.deepStrictEqual(fs.readdirSync(temporary), [])
      }),
    120_000
  )

  it.scoped(
    "a working folder is no home: with an empty or relative HOME no login is taken from it, and nothing put there",
    () =>
      Effect.gen(function* () {
        const ampoule = yield* Ampoule
        const folder = yield* ampoule.home
        const hostile = yield* FakeServer.make(FakeServer.environment(() => ({})))
        const record = {
          url: hostile.url,
          protection: "plaintext_local",
          grantId: "",
          email: "",
          machine: false,
          expiresAt: ""
        }
        for (const base of [".config", "rel", "rel/.config"]) {
          const config = path.join(folder, base, "ampoule")
          fs.mkdirSync(config, { recursive: true, mode: 0o700 })
          const logins = { installationId: FakeServer.teamId, current: hostile.url, logins: [record] }
          fs.writeFileSync(path.join(config, "logins.json"), JSON.stringify(logins), { mode: 0o600 })
          fs.writeFileSync(path.join(config, "credentials.json"), `{"${hostile.url}":"${token}"}`, { mode: 0o600 })
        }
        const before = contents(folder)
        for (const [HOME, XDG_CONFIG_HOME] of [
          ["", ""],
          ["rel", ""],
          ["", "rel"],
          ["", "."]
        ] as const) {
          yield* ampoule.run(["run", "-p", "demo", "-e", "development", "--", "true"], {
            cwd: folder,
            env: { HOME, XDG_CONFIG_HOME, XDG_CACHE_HOME: XDG_CONFIG_HOME, AMPOULE_API_TOKEN: token }
          })
        }
        assert.deepStrictEqual(hostile.asked, [])
        assert.strictEqual(contents(folder), before)
      })
  )

  it.scoped("a full disk is reported and ends with 1; a reader that has gone is not", () =>
    Effect.gen(function* () {
      const ampoule = yield* Ampoule
      const server = yield* FakeServer.make(FakeServer.environment(() => ({ KEY: canary })))
      const env = { AMPOULE_URL: server.url, AMPOULE_API_TOKEN: token }
      const command = `'${process.execPath}' '${ampoule.program}' secrets export -p demo -e development`
      const shell = Effect.fnUntraced(function* (line: string) {
        const home = yield* ampoule.home
        const file = path.join(home, "line.sh")
        fs.writeFileSync(file, line)
        const ended = yield* ampoule.run(
          ["run", "-p", "demo", "-e", "development", "--pass-credentials", "--", "bash", file],
          {
            home,
            env
          }
        )
        return ended
      })
      const full = yield* shell(`${command} > /dev/full`)
      assert.strictEqual(full.code, 1)
      assert.include(full.stderr, "cannot be written (ENOSPC)")
      const gone = yield* shell(`${command} | true; exit "\${PIPESTATUS[0]}"`)
      assert.deepStrictEqual([gone.code, gone.stderr], [0, ""])
    })
  )

  it.scoped("what it starts sees no value among its arguments, and no other process does", () =>
    Effect.gen(function* () {
      const ampoule = yield* Ampoule
      const server = yield* FakeServer.make(FakeServer.environment(() => ({ KEY: canary })))
      const running = yield* ampoule.start(
        ["run", "-p", "demo", "-e", "development", "--", "sh", "-c", "echo ready; sleep 5"],
        {
          env: { AMPOULE_URL: server.url, AMPOULE_API_TOKEN: token }
        }
      )
      yield* running.shows("ready")
      const lines = fs
        .readdirSync("/proc")
        .filter((name) => /^\d+$/.test(name))
        .flatMap((pid) => {
          const file = `/proc/${pid}/cmdline`
          return fs.existsSync(file) ? [fs.readFileSync(file, "latin1")] : []
        })
      assert.isTrue(lines.some((line) => line.includes("echo ready")))
      for (const line of lines) assert.isUndefined(has(line))
    })
  )

  it.scoped("a fault of its own says where, not what", () =>
    Effect.gen(function* () {
      const ampoule = yield* Ampoule
      const server = yield* FakeServer.make(FakeServer.environment(() => ({ KEY: canary })))
      // A library that breaks with the value in its message, in the middle of a run.
      const breaking = path.join(yield* ampoule.home, "breaking.cjs")
      fs.writeFileSync(
        breaking,
        `require("node:child_process").spawn = (command, args, options) => { setImmediate(() => { throw new Error(options.env.KEY) }); return new (require("node:events"))() }`
      )
      // With --redact it starts the command as a child, also where it could become the command.
      const ended = yield* ampoule.run(["run", "--redact", "-p", "demo", "-e", "development", "--", "true"], {
        env: {
          AMPOULE_URL: server.url,
          AMPOULE_API_TOKEN: token,
          NODE_OPTIONS: `--require ${breaking}`,
          BUN_OPTIONS: `--preload ${breaking}`
        }
      })
      assert.strictEqual(ended.code, 70)
      assert.include(ended.stderr, "internal error (Error)")
      assert.isUndefined(has(ended.stdout + ended.stderr))
    })
  )
})
