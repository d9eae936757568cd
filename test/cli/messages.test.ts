/** Sentences that name what was typed, and the next thing to type. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { Ampoule } from "./Ampoule.ts"
import * as FakeServer from "./FakeServer.ts"

const environmentId = "01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7f"
const token = "amp_at_0123456789abcdef_secretpart"

/** Knows the project `demo`, its environment `development` and the key DATABASE_URL. */
const route: FakeServer.Route = ({ path, query }) => {
  if (path === "/projects") return { body: { items: [FakeServer.project] } }
  if (path === `/projects/${FakeServer.projectId}/environments`) {
    return { body: { items: [{ id: environmentId, slug: "development" }] } }
  }
  if (query.get("environment") !== "development") return FakeServer.refusal(404, "ENVIRONMENT_NOT_FOUND")
  if (path === "/secrets/value") return FakeServer.refusal(404, "SECRET_NOT_FOUND")
  if (path === "/secrets/inject") return { body: { values: { DATABASE_URL: "v" } } }
  if (path !== "/secrets") return undefined
  const items = [FakeServer.secret({ key: "DATABASE_URL" })]
  return { body: { items, page: 1, pageSize: 500, total: 1, hasMore: false } }
}

const setUp = Effect.gen(function* () {
  const ampoule = yield* Ampoule
  const server = yield* FakeServer.make(route)
  const home = yield* ampoule.home
  const env = { AMPOULE_URL: server.url, AMPOULE_API_TOKEN: token }
  const run = (...words: ReadonlyArray<string>) =>
    Effect.map(ampoule.run(words, { env, home }), (ended) => ({
      ...ended,
      sentences: ended.stderr.replaceAll(/\s+/g, " ").trim()
    }))
  return { ampoule, server, env, run }
})

layer(Ampoule.Default, { excludeTestServices: true })("sentences of the command line", (it) => {
  it.scoped("a mistyped project, environment or key is answered with the nearest one", () =>
    Effect.gen(function* () {
      const { run, server } = yield* setUp
      const place = ["-p", "demo", "-e", "development"]
      const cases: ReadonlyArray<readonly [ReadonlyArray<string>, string]> = [
        [
          ["secrets", "get", "DATABSE_URL", ...place],
          "development has no secret DATABSE_URL. [SECRET_NOT_FOUND] Did you mean DATABASE_URL? `ampoule secrets list"
        ],
        [["secrets", "unset", "DATABSE_URL", ...place], "Did you mean DATABASE_URL?"],
        [
          ["secrets", "get", "KEY", "-p", "deno", "-e", "development"],
          "cannot see a project deno. Did you mean demo? `ampoule projects` lists"
        ],
        [
          ["secrets", "list", "-p", "demo", "-e", "devlopment"],
          "demo has no environment devlopment that this credential can reach. [ENVIRONMENT_NOT_FOUND] Did you mean development? devlopment comes from --env. `ampoule projects environments demo` lists"
        ],
        [["run", "-p", "demo", "-e", "devlopment", "--", "true"], "Did you mean development?"],
        [
          ["run", ...place, "--only", "DATABASE_ULR", "--", "true"],
          "The environment has no DATABASE_ULR (--only). Did you mean DATABASE_URL?"
        ],
        [["secrets", "get", "database-url", ...place], "database-url is not a secret key. Did you mean DATABASE_URL?"],
        [["secrets", "set", ...place, "--", "-X"], "That is not a secret key."]
      ]
      for (const [words, sentence] of cases) {
        const { code, sentences, stdout } = yield* run(...words)
        assert.notStrictEqual(code, 0, words.join(" "))
        assert.strictEqual(stdout, "")
        assert.include(sentences, sentence)
      }
      // Words that a person may have typed as values.
      for (const words of [
        ["set", "correct-horse-battery"],
        ["set", "--from-args", "hunter2=x"]
      ]) {
        const misplaced = yield* run("secrets", ...words, ...place)
        assert.include(misplaced.sentences, "That is not a secret key.")
        assert.notMatch(misplaced.sentences, /hunter2|horse/i)
      }
      // A name that is far from all others, and a server that says nothing more.
      assert.notInclude((yield* run("secrets", "get", "STRIPE_KEY", ...place)).sentences, "Did you mean")
      server.answer = (asked) => (asked.path === "/secrets" ? FakeServer.refusal(403, "SCOPE_MISSING") : route(asked))
      const alone = yield* run("secrets", "get", "DATABSE_URL", ...place)
      assert.include(alone.sentences, "development has no secret DATABSE_URL. [SECRET_NOT_FOUND] `ampoule secrets list")
    })
  )

  it.scoped("`whoami` names the projects and environments to which a credential is restricted", () =>
    Effect.gen(function* () {
      const { run, server } = yield* setUp
      const restrictions = { projectIds: [FakeServer.projectId], environmentIds: [environmentId, "unknown-id"] }
      server.answer = (asked) =>
        asked.path === "/me/verify" ? { body: { ...FakeServer.verified, restrictions } } : route(asked)
      const { stdout } = yield* run("whoami")
      assert.match(stdout, /^only projects: +demo$/m)
      assert.match(stdout, /^only environments: +demo\/development, unknown-id$/m)
      server.answer = ({ path }) =>
        path === "/me/verify"
          ? { body: { ...FakeServer.verified, restrictions } }
          : FakeServer.refusal(403, "SCOPE_MISSING")
      assert.match((yield* run("whoami")).stdout, new RegExp(`^only projects: +${FakeServer.projectId}$`, "m"))
    })
  )

  it.scoped("a command inside `run` says why it has no credential, and how to give it one", () =>
    Effect.gen(function* () {
      const { ampoule, run } = yield* setUp
      const place = ["-p", "demo", "-e", "development"]
      const inner = [ampoule.node, ampoule.program, "run", ...place, "--", "printenv", "DATABASE_URL"]
      const withheld = yield* run("run", ...place, "--", ...inner)
      assert.deepStrictEqual([withheld.code, withheld.stdout], [125, ""])
      assert.include(
        withheld.sentences,
        "No credential: this command runs inside `ampoule run`, which does not pass AMPOULE_API_TOKEN on. Use `ampoule run --pass-credentials` for the outer one"
      )
      const passed = yield* run("run", ...place, "--pass-credentials", "--", ...inner)
      assert.deepStrictEqual([passed.code, passed.stdout], [0, "v\n"])
      const own = yield* run("run", ...place, "--", "env", `AMPOULE_API_TOKEN=${token}`, ...inner)
      assert.deepStrictEqual([own.code, own.stdout], [0, "v\n"])
      const alone = yield* ampoule.run(["whoami"], { env: { AMPOULE_WITHHELD: "hunter2" } })
      assert.include(alone.stderr, "No credential.\n")
    })
  )
})
