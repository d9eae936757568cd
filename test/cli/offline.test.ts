import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { Ampoule } from "./Ampoule.ts"
import * as FakeServer from "./FakeServer.ts"

const token = "amp_at_0123456789abcdef_secretpart"
const target = ["-p", "demo", "-e", "development"]
const show = ["--", "sh", "-c", 'printf %s "$KEY"']

const setUp = (values: Readonly<Record<string, string>> = { KEY: "canary-value" }) =>
  Effect.gen(function* () {
    const ampoule = yield* Ampoule
    const home = yield* ampoule.home
    const server = yield* FakeServer.make(FakeServer.environment(() => values))
    const env = { AMPOULE_URL: server.url, AMPOULE_API_TOKEN: token }
    const copies = () => {
      const folder = path.join(home, "cache", "ampoule", "offline")
      return fs.existsSync(folder) ? fs.readdirSync(folder).map((name) => path.join(folder, name)) : []
    }
    return {
      server,
      good: server.answer,
      copies,
      run: (options: ReadonlyArray<string> = ["--offline"], credential = token, to: ReadonlyArray<string> = target) =>
        ampoule.run(["run", ...to, ...options, ...show], { home, env: { ...env, AMPOULE_API_TOKEN: credential } })
    }
  })

layer(Ampoule.Default, { excludeTestServices: true })("ampoule run --offline", (it) => {
  it.scoped("uses its copy when the server does not answer, and says how old it is", () =>
    Effect.gen(function* () {
      const { run, server } = yield* setUp()
      assert.strictEqual((yield* run()).stdout, "canary-value")
      const failures: ReadonlyArray<FakeServer.FakeServer["answer"]> = [
        "gone",
        () => FakeServer.refusal(500, "INTERNAL_ERROR"),
        () => ({ status: 502, body: "<html>Bad Gateway</html>" }),
        () => FakeServer.refusal(429, "RATE_LIMITED", { retryAfterSeconds: 9 })
      ]
      for (const failure of failures) {
        server.answer = failure
        const ended = yield* run()
        assert.deepStrictEqual([ended.code, ended.stdout], [0, "canary-value"])
        assert.match(ended.stderr, /Using the offline copy of \d+ s ago/)
      }
    })
  )

  it.scoped("keeps no copy and uses none unless asked to", () =>
    Effect.gen(function* () {
      const { copies, good, run, server } = yield* setUp()
      yield* run([])
      assert.deepStrictEqual(copies(), [])
      yield* run()
      assert.strictEqual(copies().length, 1)
      server.answer = "gone"
      assert.strictEqual((yield* run([])).code, 125)
      server.answer = good
      assert.strictEqual((yield* run([])).code, 0)
    })
  )

  it.scoped("the copy is readable by its owner alone and reveals nothing", () =>
    Effect.gen(function* () {
      const { copies, run } = yield* setUp()
      yield* run()
      const [file] = copies()
      assert.isDefined(file)
      if (file === undefined) return
      assert.strictEqual(fs.statSync(file).mode & 0o777, 0o600)
      assert.strictEqual(fs.statSync(path.dirname(file)).mode & 0o777, 0o700)
      const text = `${file}${fs.readFileSync(file, "latin1")}`
      for (const known of ["canary", "KEY", "development", FakeServer.projectId, "0123456789abcdef"]) {
        assert.notInclude(text, known)
      }
    })
  )

  it.scoped("is deleted when the server says no, with or without --offline", () =>
    Effect.gen(function* () {
      const { copies, good, run, server } = yield* setUp()
      for (const [status, code] of [
        [401, "CREDENTIAL_REVOKED"],
        [403, "FORBIDDEN"],
        [404, "ENVIRONMENT_NOT_FOUND"]
      ] as const) {
        for (const options of [["--offline"], []]) {
          server.answer = good
          yield* run()
          assert.strictEqual(copies().length, 1)
          server.answer = () => FakeServer.refusal(status, code)
          const refused = yield* run(options)
          assert.deepStrictEqual([refused.code, refused.stdout], [125, ""])
          assert.deepStrictEqual(copies(), [], `${status} ${options.join()}`)
          server.answer = "gone"
          assert.strictEqual((yield* run()).code, 125)
        }
      }
    })
  )

  it.scoped("is deleted when the project, or the credential that names its target, is gone", () =>
    Effect.gen(function* () {
      const { copies, good, run, server } = yield* setUp()
      yield* run()
      assert.strictEqual(copies().length, 1)
      server.answer = ({ path }) =>
        path === "/projects" ? { body: { items: [] } } : FakeServer.refusal(404, "PROJECT_NOT_FOUND")
      assert.include((yield* run()).stderr, "cannot see a project demo")
      assert.deepStrictEqual(copies(), [])

      const only = {
        projectId: FakeServer.projectId,
        project: "demo",
        environmentId: FakeServer.projectId,
        environment: "development"
      }
      server.answer = (asked) =>
        asked.path === "/me/verify"
          ? { body: { ...FakeServer.verified, only } }
          : typeof good === "function"
            ? good(asked)
            : undefined
      assert.strictEqual((yield* run(["--offline"], token, [])).stdout, "canary-value")
      assert.strictEqual(copies().length, 1)
      server.answer = () => FakeServer.refusal(401, "CREDENTIAL_REVOKED")
      assert.strictEqual((yield* run(["--offline"], token, [])).code, 125)
      assert.deepStrictEqual(copies(), [])
    })
  )

  it.scoped("--only bounds what the server hands out, in `secrets export` too", () =>
    Effect.gen(function* () {
      const { server } = yield* setUp()
      const ampoule = yield* Ampoule
      const env = { AMPOULE_URL: server.url, AMPOULE_API_TOKEN: token }
      const place = ["--project", FakeServer.projectId, "--env", "development", "--only", "KEY"]
      for (const words of [
        ["run", ...place, "--", "true"],
        ["secrets", "export", ...place]
      ]) {
        assert.strictEqual((yield* ampoule.run(words, { env })).code, 0)
        assert.deepStrictEqual(
          [server.asked.at(-1)?.path, server.asked.at(-1)?.query.get("keys")],
          ["/secrets/inject", "KEY"]
        )
      }
    })
  )

  it.scoped("holds for its credential, project and environment, its age, and as it was written", () =>
    Effect.gen(function* () {
      const { copies, good, run, server } = yield* setUp()
      yield* run()
      server.answer = "gone"
      assert.strictEqual((yield* run(["--offline"], "amp_at_0123456789abcdef_other")).code, 125)
      assert.strictEqual((yield* run(["--offline"], token, ["-p", "demo", "-e", "staging"])).code, 125)
      assert.strictEqual((yield* run(["--offline"])).code, 0)
      assert.strictEqual((yield* run(["--offline", "--offline-max-age", "0s"])).code, 125)
      // Too old was dropped.
      assert.strictEqual((yield* run(["--offline"])).code, 125)

      server.answer = good
      yield* run()
      const [file] = copies()
      if (file === undefined) return assert.fail("no copy")
      const bytes = fs.readFileSync(file)
      bytes.writeUInt8(bytes.readUInt8(bytes.length - 20) ^ 1, bytes.length - 20)
      fs.writeFileSync(file, bytes)
      server.answer = "gone"
      const ended = yield* run()
      assert.deepStrictEqual([ended.code, ended.stdout], [125, ""])
    })
  )

  it.scoped("waits three seconds for a silent server when it has a copy, and --timeout otherwise", () =>
    Effect.gen(function* () {
      const { run, server } = yield* setUp()
      yield* run()
      server.answer = "silent"
      const offline = yield* run()
      assert.deepStrictEqual([offline.code, offline.stdout], [0, "canary-value"])
      assert.match(offline.stderr, /no answer within 3 s\. Using the offline copy of \d+ s\s+ago/)
      const sooner = yield* run(["--offline", "--timeout", "1s"])
      assert.deepStrictEqual([sooner.code, sooner.stdout], [0, "canary-value"])
      assert.include(sooner.stderr, "no answer within 1 s.")
      const without = yield* run(["--timeout=1s"])
      assert.deepStrictEqual([without.code, without.stdout], [125, ""])
      assert.include(without.stderr, "no answer within 1 s.")
      for (const wrong of ["0s", "2h", "soon"]) {
        const refused = yield* run(["--timeout", wrong])
        assert.deepStrictEqual([refused.code, refused.stdout], [2, ""])
        assert.include(refused.stderr, "--timeout takes")
      }
    })
  )

  it.scoped("asks no server with --fallback-only, and runs nothing without a copy", () =>
    Effect.gen(function* () {
      const { run, server } = yield* setUp()
      const none = yield* run(["--fallback-only"])
      assert.deepStrictEqual([none.code, none.stdout], [125, ""])
      assert.include(none.stderr, "No usable offline copy of demo/development")
      yield* run()
      const before = server.asked.length
      const copied = yield* run(["--fallback-only"])
      assert.deepStrictEqual([copied.code, copied.stdout, server.asked.length], [0, "canary-value", before])
      assert.include(copied.stderr, "Using the offline copy of")
      assert.strictEqual((yield* run(["--fallback-only"], "amp_at_0123456789abcdef_other")).code, 125)
      for (const other of [["--watch"], ["--sealed", "x"], ["--plan", "x"]]) {
        const refused = yield* run(["--fallback-only", ...other])
        assert.strictEqual(refused.code, 2, other.join(" "))
        assert.include(refused.stderr, "--fallback-only cannot be combined")
      }
      assert.strictEqual((yield* run(["--fallback-only", "--offline-max-age", "0s"])).code, 125)
    })
  )
})

layer(Ampoule.Default, { excludeTestServices: true })("ampoule run --watch", (it) => {
  const program = 'trap "echo stopped-$KEY; exit 0" TERM; echo "started-$KEY-pid$$."; while :; do sleep 0.05; done'
  const watched = Effect.fnUntraced(function* (script = program) {
    const ampoule = yield* Ampoule
    const values: Record<string, string> = { KEY: "one", OTHER: "x" }
    const server = yield* FakeServer.make(FakeServer.environment(() => values))
    const running = yield* ampoule.start(
      ["run", "--watch", "--watch-interval", "1s", "--except", "OTHER", ...target, "--", "sh", "-c", script],
      { env: { AMPOULE_URL: server.url, AMPOULE_API_TOKEN: token }, detached: true }
    )
    yield* running.shows("started-one")
    const polls = () => server.asked.filter(({ path }) => path === "/secrets/inject").length
    const afterPolls = (count: number) =>
      Effect.repeat(Effect.sleep("20 millis"), { while: () => polls() < count, times: 2_000 })
    return { values, server, running, polls, afterPolls }
  })

  it.scoped("restarts the command when its environment changes, and only then", () =>
    Effect.gen(function* () {
      const { afterPolls, polls, running, server, values } = yield* watched()
      yield* afterPolls(2)
      assert.isDefined(server.asked.at(-1)?.headers["if-none-match"])
      // Another revision, but not of what the command gets.
      values["OTHER"] = "y"
      yield* afterPolls(polls() + 2)
      assert.notInclude(running.output.stdout, "stopped")
      values["KEY"] = "two"
      yield* running.shows("started-two")
      assert.include(running.output.stdout, "stopped-one")
      assert.include(running.output.stderr, "restarting")
      running.child.kill("SIGTERM")
      const ended = yield* running.ended
      assert.strictEqual(ended.code, 0)
      assert.include(ended.stdout, "stopped-two")
    })
  )

  it.scoped("keeps the running command when the server is away or the new environment cannot be had", () =>
    Effect.gen(function* () {
      const { afterPolls, polls, running, server, values } = yield* watched()
      const good = server.answer
      server.answer = "gone"
      yield* running.shows("The command keeps running")
      server.answer = good
      values["PATH"] = "/evil"
      values["KEY"] = "two"
      yield* running.shows("Not passed on: PATH")
      yield* afterPolls(polls() + 1)
      assert.notInclude(running.output.stdout, "stopped")
      delete values["PATH"]
      yield* running.shows("started-two")
      running.child.kill("SIGTERM")
      assert.strictEqual((yield* running.ended).code, 0)
    })
  )

  it.scoped("restarts a command that handled a hangup long ago", () =>
    Effect.gen(function* () {
      const { running, values } = yield* watched(
        'trap "echo reloaded-$KEY" HUP; trap "exit 0" TERM; echo "started-$KEY."; while :; do sleep 0.05; done'
      )
      running.child.kill("SIGHUP")
      yield* running.shows("reloaded-one")
      // Twice the time that a command has to end.
      yield* Effect.sleep("21 seconds")
      values["KEY"] = "two"
      yield* running.shows("started-two")
      running.child.kill("SIGTERM")
      assert.strictEqual((yield* running.ended).code, 0)
    })
  )

  it.scoped("ends with the command when that ends by itself", () =>
    Effect.gen(function* () {
      const ampoule = yield* Ampoule
      const server = yield* FakeServer.make(FakeServer.environment(() => ({ KEY: "1" })))
      const ended = yield* ampoule.run(["run", "--watch", ...target, "--", "sh", "-c", "exit 7"], {
        env: { AMPOULE_URL: server.url, AMPOULE_API_TOKEN: token }
      })
      assert.strictEqual(ended.code, 7)
    })
  )
})
