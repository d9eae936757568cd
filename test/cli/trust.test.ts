import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { Ampoule, type RunOptions } from "./Ampoule.ts"
import * as FakeServer from "./FakeServer.ts"

/** A folder with a project file that came with a repository, and a command line that never saw it. */
const setUp = Effect.gen(function* () {
  const ampoule = yield* Ampoule
  const server = yield* FakeServer.make(FakeServer.environment(() => ({ DB_PASSWORD: "hunter2" })))
  const home = yield* ampoule.home
  const clone = path.join(home, "clone")
  fs.mkdirSync(path.join(clone, "deep"), { recursive: true })
  const file = path.join(clone, ".ampoule.json")
  const write = (environment: string) =>
    fs.writeFileSync(file, JSON.stringify({ project: FakeServer.projectId, environment }))
  write("production")
  const env = { AMPOULE_URL: server.url, AMPOULE_API_TOKEN: "amp_at_0123456789abcdef_secretpart" }
  const options: RunOptions = { home, cwd: path.join(clone, "deep"), env }
  const run = (args: ReadonlyArray<string>, more: RunOptions = {}) => ampoule.run(args, { ...options, ...more })
  const inject = (...args: ReadonlyArray<string>) =>
    run(["run", ...args, "--", process.execPath, "-p", "process.env.DB_PASSWORD"])
  return { ampoule, clone, file, home, inject, options, run, server, write }
})

const pathsOf = ({ asked }: FakeServer.FakeServer) => asked.map(({ path }) => path)

layer(Ampoule.Default, { excludeTestServices: true })("a project file that came with a repository", (it) => {
  it.scoped("chooses no environment before it is trusted, and again after each change", () =>
    Effect.gen(function* () {
      const { inject, run, server, write } = yield* setUp
      const refused = yield* inject()
      assert.strictEqual(refused.code, 2)
      assert.include(refused.stderr, "not trusted yet")
      assert.include(refused.stderr, "ampoule trust")
      assert.notInclude(refused.stdout, "hunter2")
      assert.deepStrictEqual(pathsOf(server), ["/me/verify"])

      const trusted = yield* run(["trust"])
      assert.include(trusted.stderr, "environment production")
      assert.strictEqual((yield* inject()).stdout, "hunter2\n")

      write("staging")
      assert.strictEqual((yield* inject()).code, 2)
      write("production")
      assert.strictEqual((yield* inject()).code, 0)
    })
  )

  it.scoped("is trusted in one place only", () =>
    Effect.gen(function* () {
      const { file, home, run } = yield* setUp
      yield* run(["trust"])
      const other = path.join(home, "other")
      fs.mkdirSync(other)
      fs.copyFileSync(file, path.join(other, ".ampoule.json"))
      assert.strictEqual((yield* run(["run", "--", "true"], { cwd: other })).code, 2)
    })
  )

  it.scoped("needs no trust where the command names project and environment itself", () =>
    Effect.gen(function* () {
      const { inject, server } = yield* setUp
      const own = ["--project", FakeServer.projectId, "--env", "development"]
      assert.strictEqual((yield* inject(...own)).stdout, "hunter2\n")
      assert.strictEqual(server.asked.at(-1)?.query.get("environment"), "development")
    })
  )

  it.scoped("chooses no project either before it is trusted", () =>
    Effect.gen(function* () {
      const { inject, options, run, server } = yield* setUp
      const commands = [
        ["run", "--env", "development", "--", "true"],
        ["run", "--offline", "--fallback-only", "--env", "development", "--", "true"],
        ["secrets", "list", "--env", "development"],
        ["projects", "environments"],
        ["use", "development"]
      ]
      for (const args of commands) {
        const refused = yield* run(args)
        assert.include(refused.stderr, "not trusted yet", args.join(" "))
        assert.match(refused.stderr, /choose yourself: --project ID-OR-SLUG\./, args.join(" "))
        assert.strictEqual(refused.code, 2, args.join(" "))
      }
      const variable = yield* run(["secrets", "list"], { env: { ...options.env, AMPOULE_ENVIRONMENT: "development" } })
      assert.include(variable.stderr, "not trusted yet")
      assert.deepStrictEqual([...new Set(pathsOf(server))], ["/me/verify"])
      yield* run(["trust"])
      assert.strictEqual((yield* inject("--env", "development")).stdout, "hunter2\n")
    })
  )

  it.scoped("is asked about once at a terminal", () =>
    Effect.gen(function* () {
      const { ampoule, inject, options } = yield* setUp
      const no = yield* ampoule.terminal(["run", "--", "echo", "started"], options)
      yield* no.shows("environment production")
      no.child.stdin?.write("n\n")
      assert.notStrictEqual((yield* no.ended).code, 0)
      assert.notInclude(no.output.stdout, "started\r\n")
      const yes = yield* ampoule.terminal(["run", "--", "echo", "started"], options)
      yield* yes.shows("[y/N]")
      yes.child.stdin?.write("y\n")
      assert.strictEqual((yield* yes.ended).code, 0)
      assert.include(yes.output.stdout, "started")
      assert.strictEqual((yield* inject()).code, 0)
    })
  )

  it.scoped.skipIf(process.getuid?.() !== 0)("of another user is passed over, unless it is trusted by name", () =>
    Effect.gen(function* () {
      const { file, inject, run, server } = yield* setUp
      fs.chownSync(file, 12_345, 12_345)
      const refused = yield* inject()
      assert.strictEqual(refused.code, 2)
      assert.include(refused.stderr, "belongs to another user")
      assert.include(refused.stderr, "Which project?")
      assert.deepStrictEqual(pathsOf(server), ["/me/verify"])
      yield* run(["trust"])
      assert.strictEqual((yield* inject()).stdout, "hunter2\n")
    })
  )
})
