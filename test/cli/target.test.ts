/** Sources of a command's project and environment: option, variable, the credential's only environment, trusted file. */
import { assert, describe, it as plain, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { manual } from "#src/cli/Commands.ts"
import { optionOf, type Page } from "#src/cli/help/Page.ts"
import { AnyObject, parsed } from "#test/support/Json.ts"
import * as Sampled from "#test/support/Sampled.ts"
import { Ampoule, type RunOptions } from "./Ampoule.ts"
import * as FakeServer from "./FakeServer.ts"
import { targetedCommands, untargeted } from "./TargetCommands.ts"

const only = {
  projectId: FakeServer.projectId,
  project: "demo",
  environmentId: "01980a5f-3a4b-7c5d-8e6f-70819a2b3c4d",
  environment: "production"
}
const verified = (names: typeof only | null | undefined) => ({
  body: names === undefined ? { restrictions: {} } : { only: names }
})

/** A server that says which environment the credential reaches, and a command line with its token. */
const setUp = (names: typeof only | null | undefined) =>
  Effect.gen(function* () {
    const ampoule = yield* Ampoule
    const environment = FakeServer.environment(() => ({ A: "1" }))
    const server = yield* FakeServer.make((asked) =>
      asked.path === "/me/verify" ? verified(names) : environment(asked)
    )
    const home = yield* ampoule.home
    const env = { AMPOULE_URL: server.url, AMPOULE_API_TOKEN: "amp_at_0123456789abcdef_secretpart" }
    const run = (args: ReadonlyArray<string>, more: RunOptions = {}) =>
      ampoule.run(args, { home, ...more, env: { ...env, ...more.env } })
    /** Paths, and the environment that each named. */
    const requestsOf = <A, E, R>(work: Effect.Effect<A, E, R>) =>
      Effect.gen(function* () {
        const before = server.asked.length
        const result = yield* work
        const requests = server.asked
          .slice(before)
          .map(({ path, query }) => `${path} ${query.get("environment") ?? ""}`)
        return { result, requests: requests.map((one) => one.trim()) }
      })
    const program = (...options: ReadonlyArray<string>) => ["run", ...options, "--", "true"]
    const file = (content: object) => fs.writeFileSync(path.join(home, ".ampoule.json"), JSON.stringify(content))
    return { file, home, program, requestsOf, run, server }
  })

const ofProject = { AMPOULE_PROJECT: FakeServer.projectId }

layer(Ampoule.Default, { excludeTestServices: true })("the target of a command", (it) => {
  it.scoped("costs one request when it is named, and two when only the credential says it", () =>
    Effect.gen(function* () {
      const { program, requestsOf, run } = yield* setUp(only)
      const byOptions = yield* requestsOf(run(program("-p", FakeServer.projectId, "-e", "staging")))
      assert.deepStrictEqual(byOptions.requests, ["/secrets/inject staging"])
      const env = { ...ofProject, AMPOULE_ENVIRONMENT: "qa" }
      const byVariables = yield* requestsOf(run(program(), { env }))
      assert.deepStrictEqual(byVariables.requests, ["/secrets/inject qa"])
      const byBoth = yield* requestsOf(run(program("-e", "staging"), { env }))
      assert.deepStrictEqual(byBoth.requests, ["/secrets/inject staging"])
      for (const variables of [{}, { AMPOULE_PROJECT: "", AMPOULE_ENVIRONMENT: " " }, { AMPOULE_PROJECT: "demo" }]) {
        const { requests, result } = yield* requestsOf(run(program(), { env: variables }))
        assert.deepStrictEqual(requests, ["/me/verify", "/secrets/inject production"])
        assert.deepStrictEqual([result.code, result.stderr], [0, ""])
      }
    })
  )

  it.scoped("of a folder costs one request more in an hour, to learn that the credential reaches several", () =>
    Effect.gen(function* () {
      const { file, program, requestsOf, run } = yield* setUp(null)
      file({ project: FakeServer.projectId, environment: "staging" })
      yield* run(["trust"])
      const first = yield* requestsOf(run(program()))
      assert.deepStrictEqual(first.requests, ["/me/verify", "/secrets/inject staging"])
      const second = yield* requestsOf(run(program()))
      assert.deepStrictEqual(second.requests, ["/secrets/inject staging"])
      // Without the file, the remembered answer decides nothing.
      const elsewhere = yield* requestsOf(run(program(), { cwd: "/" }))
      assert.deepStrictEqual(elsewhere.requests, ["/me/verify"])
      assert.strictEqual(elsewhere.result.code, 2)
    })
  )

  it.scoped("comes from the credential rather than from a trusted file, and says so", () =>
    Effect.gen(function* () {
      const { file, home, program, requestsOf, run } = yield* setUp(only)
      file({ project: "demo", environment: "staging" })
      const untrusted = yield* requestsOf(run(program()))
      assert.deepStrictEqual(untrusted.requests, ["/me/verify", "/secrets/inject production"])
      assert.deepStrictEqual([untrusted.result.code, untrusted.result.stderr], [0, ""])
      yield* run(["trust"])
      const { stderr } = yield* run(program())
      const place = path.join(home, ".ampoule.json")
      assert.include(
        stderr.replaceAll(/\s+/g, " "),
        `the credential's only environment chooses the environment production, not staging of ${place}`
      )
      const named = yield* run(program("--project", "demo", "--env", "production"))
      assert.strictEqual(named.stderr, "")
      const variables = { AMPOULE_PROJECT: "demo", AMPOULE_ENVIRONMENT: "qa" }
      const byVariable = yield* run(program(), { env: variables })
      assert.include(byVariable.stderr.replaceAll(/\s+/g, " "), "AMPOULE_ENVIRONMENT chooses the environment qa")
      // The same in other letters is no surprise.
      const same = yield* run(program(), { env: { ...ofProject, AMPOULE_ENVIRONMENT: "staging" } })
      assert.strictEqual(same.stderr, "")
    })
  )

  it.scoped("that variables name needs no trust, and no file that can be read", () =>
    Effect.gen(function* () {
      const { home, program, requestsOf, run } = yield* setUp(null)
      fs.writeFileSync(path.join(home, ".ampoule.json"), "{")
      const { requests, result } = yield* requestsOf(
        run(program(), { env: { ...ofProject, AMPOULE_ENVIRONMENT: "production" } })
      )
      assert.deepStrictEqual([result.code, result.stderr], [0, ""])
      assert.deepStrictEqual(requests, ["/secrets/inject production"])
    })
  )

  it.scoped("is asked for with the sources that were tried", () =>
    Effect.gen(function* () {
      const messageOf = (names: typeof only | null | undefined, env: Readonly<Record<string, string>>) =>
        Effect.gen(function* () {
          const { program, run } = yield* setUp(names)
          const { code, stderr } = yield* run(program(), { env })
          assert.strictEqual(code, 2)
          return stderr.replaceAll(/\s+/g, " ")
        })
      const several = yield* messageOf(null, {})
      assert.include(several, "Which project? Use --project ID-OR-SLUG, or set AMPOULE_PROJECT")
      assert.include(several, "the credential does not reach exactly one environment")
      assert.include(several, "there is no .ampoule.json here or above")
      const older = yield* messageOf(undefined, {})
      assert.include(older, "the server is older and does not say which environments the credential reaches")
      const environment = yield* messageOf(null, { AMPOULE_PROJECT: "shop" })
      assert.include(environment, "Which environment? Use --env SLUG, or set AMPOULE_ENVIRONMENT")
      assert.include(environment, "The project is shop (AMPOULE_PROJECT).")
      const other = yield* messageOf(only, { AMPOULE_PROJECT: "shop" })
      assert.include(other, "the credential reaches only production of demo, not shop")
      const wrong = yield* messageOf(only, { AMPOULE_ENVIRONMENT: "Not A Slug" })
      assert.include(wrong, '"Not A Slug" is not an environment (AMPOULE_ENVIRONMENT).')
    })
  )

  it.scoped("is remembered for runs without the server", () =>
    Effect.gen(function* () {
      const { requestsOf, run, server } = yield* setUp(only)
      const offline = ["run", "--offline", "--", process.execPath, "-p", "process.env.A"]
      assert.strictEqual((yield* run(offline)).stdout, "1\n")
      server.answer = "gone"
      const { requests, result } = yield* requestsOf(run(offline))
      assert.deepStrictEqual([result.code, result.stdout], [0, "1\n"])
      assert.include(result.stderr, "Using the offline copy")
      assert.deepStrictEqual(requests, ["/me/verify"])
      assert.strictEqual((yield* run(["run", "--", "true"])).code, 125)
    })
  )

  it.scoped("names its source when it does not exist", () =>
    Effect.gen(function* () {
      const { program, run, server } = yield* setUp(only)
      server.answer = ({ path }) =>
        path === "/me/verify" ? verified(only) : FakeServer.refusal(404, "ENVIRONMENT_NOT_FOUND")
      const { stderr } = yield* run(program(), { env: { ...ofProject, AMPOULE_ENVIRONMENT: "stagign" } })
      assert.include(stderr.replaceAll(/\s+/g, " "), "stagign comes from AMPOULE_ENVIRONMENT.")
    })
  )

  it.scoped("of `ampoule use` is shown with its sources", () =>
    Effect.gen(function* () {
      const { run } = yield* setUp(only)
      const choice = parsed(AnyObject)((yield* run(["use", "--json"], { env: ofProject })).stdout)
      assert.deepStrictEqual(choice, {
        project: FakeServer.projectId,
        environment: "production",
        projectFrom: "AMPOULE_PROJECT",
        environmentFrom: "the credential's only environment"
      })
    })
  )

  for (const { needs, words } of targetedCommands.filter(({ words }) =>
    Sampled.chosen(`target of ${words.join(" ")}`)
  )) {
    it.scoped(`\`ampoule ${words.join(" ")}\` takes it from a variable and the only environment`, () =>
      Effect.gen(function* () {
        const { home, run, server } = yield* setUp(only)
        const at = "2026-11-21T08:00:00.000Z"
        const production = { id: only.environmentId, slug: "production", name: "P", protected: true, createdAt: at }
        const bodies = new Map<string, object>([
          ["/me/verify", { only }],
          ["/capabilities", { version: "1.1.0", features: { sealedValues: true }, limits: {} }],
          [`/projects/${only.projectId}/environments`, { projectId: only.projectId, items: [production] }]
        ])
        const projects = FakeServer.environment(() => ({}))
        server.answer = (request) => (bodies.has(request.path) ? { body: bodies.get(request.path) } : projects(request))
        for (const name of ["plain.env", "template"]) fs.writeFileSync(path.join(home, name), "A=1\n")
        const ended = yield* run(words, { env: ofProject, stdin: "value" })
        assert.notInclude(ended.stderr, "Which ")
        // Without a terminal or an approval in the browser, these end before a request about the target.
        if (needs === "no question") return
        const id = needs === "project" ? only.projectId : only.environmentId
        const names = (projectId: string | null, environment: string | null) =>
          projectId === only.projectId && (needs === "project" || environment === "production")
        const isAsked = server.asked.some(
          ({ body, path, query }) =>
            path.includes(id) ||
            names(query.get("projectId"), query.get("environment")) ||
            (body.includes(only.projectId) && body.includes("production"))
        )
        const isPage = ended.stdout.includes(`/app/projects/${only.projectId}/env/production`)
        const requests = server.asked.map(({ path, query }) => `${path}?${query.toString()}`)
        assert.isTrue(isAsked || isPage, [...requests, ended.stderr].join("\n"))
      })
    )
  }
})

/** Paths of the commands that take `--project` or an environment's option. */
const optionTakers = (page: Page, words: ReadonlyArray<string>): ReadonlyArray<string> => {
  const names = page.options.map(optionOf).flatMap((option) => option.names)
  const takes = ["--project", "--env", "--environment"].some((name) => names.includes(name))
  return [...(takes ? [words.join(" ")] : []), ...page.below.flatMap((one) => optionTakers(one, [...words, one.name]))]
}

describe("the catalogue of commands", () => {
  plain("says of each command with --project or --env how it takes its target", () => {
    const answered = [...untargeted.keys(), ...targetedCommands.map(({ path }) => path)]
    assert.deepStrictEqual([...new Set(optionTakers(manual(), []))].toSorted(), answered.toSorted())
  })
})
