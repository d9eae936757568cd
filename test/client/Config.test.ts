import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import { assert, describe, it, layer } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Config from "effect/Config"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import { inspect } from "node:util"
import * as Ampoule from "#src/client/Config.ts"
import * as Environment from "#src/client/Environment.ts"
import * as FakeServer from "#test/cli/FakeServer.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import { freePort } from "#test/support/FreePort.ts"
import * as Demo from "./Demo.ts"
import * as Variables from "./Variables.ts"

const credential = Redacted.make("amp_at_canary-credential")
const tagOf = (error: unknown) => (typeof error === "object" && error !== null && "_tag" in error ? error._tag : error)
const plain = (name: string) => Effect.map(Config.redacted(name), Redacted.value)
/** Until the condition holds; the test's own time limit ends a wait for something that never comes. */
const until = <E, R>(condition: Effect.Effect<boolean, E, R>) =>
  Effect.repeat(condition, { until: (holds) => holds, schedule: Schedule.spaced("20 millis") })

describe("ConfigProvider", () => {
  layer(TestApp.shared, { excludeTestServices: true })((it) => {
    it.effect("reads straight from the environment: redacted, nested, lists, numbers, composed", () =>
      Effect.gen(function* () {
        const { options } = yield* Demo.make({
          DB_HOST: "db.internal",
          DB_PORT: "5432",
          DATABASE_URL: "postgres://${DB_HOST}:${DB_PORT}/app",
          ORIGINS: "https://a.example,https://b.example",
          EMPTY: ""
        })
        const read = Effect.gen(function* () {
          const url = yield* Config.redacted("DATABASE_URL")
          assert.notInclude(inspect(url), "db.internal")
          assert.strictEqual(Redacted.value(url), "postgres://db.internal:5432/app")
          const nested = yield* Config.nested(
            Config.all({ host: Config.string("HOST"), port: Config.port("PORT") }),
            "DB"
          )
          assert.deepStrictEqual(nested, { host: "db.internal", port: 5432 })
          assert.deepStrictEqual(yield* Config.array(Config.string(), "ORIGINS"), [
            "https://a.example",
            "https://b.example"
          ])
          assert.strictEqual(yield* Config.string("EMPTY"), "")
          assert.deepStrictEqual(yield* Config.withDefault(Config.string("ABSENT_HERE"), "default"), "default")
        })
        yield* Effect.provide(read, Ampoule.layer(options))
        // By id as well as by slug.
        const byId = yield* Effect.provide(
          plain("DB_HOST"),
          Ampoule.layer({ ...options, project: yield* idOf(options) })
        )
        assert.strictEqual(byId, "db.internal")
      })
    )

    it.effect("reads the fallback for what the environment does not have: the process's variables by default", () =>
      Effect.gen(function* () {
        const { options } = yield* Demo.make({ BOTH: "ours" })
        const fallback = ConfigProvider.fromMap(
          new Map([
            ["BOTH", "theirs"],
            ["OTHER", "theirs"]
          ])
        )
        const two = Effect.all([plain("BOTH"), plain("OTHER")])
        assert.deepStrictEqual(yield* Effect.provide(two, Ampoule.layer({ ...options, fallback })), ["ours", "theirs"])
        const path = yield* Effect.provide(plain("PATH"), Ampoule.layer(options))
        assert.strictEqual(path, process.env["PATH"])
        const none = ConfigProvider.fromMap(new Map())
        const missing = yield* Effect.exit(Effect.provide(plain("PATH"), Ampoule.layer({ ...options, fallback: none })))
        assert.isTrue(Exit.isFailure(missing))
      })
    )

    it.effect("sees a change after a refresh; a look that finds none is no read of values and not audited", () =>
      Effect.gen(function* () {
        const { options, project, put } = yield* Demo.make({ KEY: "one" })
        const environment = yield* Effect.provide(Environment.open(options), FetchHttpClient.layer)
        const now = () => Redacted.value(environment.values.get("KEY") ?? Redacted.make("none"))
        assert.strictEqual(yield* Demo.entries(project, "secret.inject"), 1)
        assert.isFalse(yield* environment.refresh)
        assert.isFalse(yield* environment.refresh)
        assert.strictEqual(now(), "one")
        assert.strictEqual(yield* Demo.entries(project, "secret.inject"), 1)
        yield* put({ KEY: "two" })
        assert.isTrue(yield* environment.refresh)
        assert.strictEqual(now(), "two")
        assert.isFalse(yield* environment.refresh)
        assert.strictEqual(yield* Demo.entries(project, "secret.inject"), 2)
      })
    )

    it.effect("picks a change up by itself, and keeps the last values when a look fails", () =>
      Effect.gen(function* () {
        const { options, put, token } = yield* Demo.make({ KEY: "one" })
        yield* Effect.gen(function* () {
          assert.strictEqual(yield* plain("KEY"), "one")
          yield* put({ KEY: "two", ADDED: "new" })
          yield* until(Effect.map(plain("KEY"), (value) => value === "two"))
          assert.strictEqual(yield* plain("ADDED"), "new")
          yield* World.revoke("api_tokens", token)
          yield* Effect.sleep("200 millis")
          assert.strictEqual(yield* plain("KEY"), "two")
        }).pipe(Effect.provide(Ampoule.layer({ ...options, refresh: "50 millis" })))
      })
    )

    it.effect("fails at the start when the environment cannot be had, with the reason and without the credential", () =>
      Effect.gen(function* () {
        const { options } = yield* Demo.make({ KEY: "canary-value" })
        const wrong: ReadonlyArray<readonly [Partial<Ampoule.Options>, string]> = [
          [{ credential }, "CREDENTIAL_INVALID"],
          [{ project: "no-such-project" }, "ProjectUnclear"],
          [{ project: FakeServer.projectId }, "PROJECT_NOT_FOUND"],
          [{ environment: "nowhere" }, "ENVIRONMENT_NOT_FOUND"],
          [{ url: "http://127.0.0.1:1" }, "ServerUnreachable"]
        ]
        for (const [change, tag] of wrong) {
          let ran = false
          const program = Effect.zipRight(
            Effect.sync(() => (ran = true)),
            plain("KEY")
          )
          const exit = yield* Effect.exit(Effect.provide(program, Ampoule.layer({ ...options, ...change })))
          assert.isTrue(Exit.isFailure(exit), tag)
          assert.isFalse(ran, tag)
          if (Exit.isFailure(exit)) {
            assert.strictEqual(tagOf(Cause.squash(exit.cause)), tag)
            for (const shown of [Cause.pretty(exit.cause), inspect(exit, { depth: 20 }), JSON.stringify(exit)]) {
              assert.notInclude(shown, "canary", tag)
              assert.notInclude(shown, Redacted.value(options.credential), tag)
            }
          }
        }
      })
    )
  })

  it.scopedLive(
    "finds server, credential and target in the variables, and the only environment of the credential",
    () =>
      Effect.gen(function* () {
        const values = FakeServer.environment(() => ({ GOOD: "value" }))
        const only = {
          projectId: FakeServer.projectId,
          project: "demo",
          environmentId: FakeServer.teamId,
          environment: "development"
        }
        const server = yield* FakeServer.make((asked) =>
          asked.path === "/me/verify" ? { body: { only } } : values(asked)
        )
        const read = Effect.suspend(() => Effect.provide(plain("GOOD"), Ampoule.layer()))
        const variables = { AMPOULE_URL: server.url, AMPOULE_API_TOKEN: "amp_at_variable" }
        assert.strictEqual(yield* Effect.scoped(Effect.zipRight(Variables.set(variables), read)), "value")
        const target = { ...variables, AMPOULE_PROJECT: "demo", AMPOULE_ENVIRONMENT: "development" }
        assert.strictEqual(yield* Effect.scoped(Effect.zipRight(Variables.set(target), read)), "value")
        assert.deepStrictEqual(
          server.asked.map(({ headers, path }) => [path, headers.authorization]),
          ["/me/verify", "/secrets/inject", "/projects", "/secrets/inject"].map((path) => [
            path,
            "Bearer amp_at_variable"
          ])
        )
      })
  )

  it.scopedLive("says in the message what is missing, and which server refused", () =>
    Effect.gen(function* () {
      const server = yield* FakeServer.make((asked) =>
        asked.path === "/me/verify"
          ? { body: { only: null } }
          : { ...FakeServer.refusal(404, "ENVIRONMENT_NOT_FOUND"), headers: { "x-request-id": "request-1" } }
      )
      const project = FakeServer.projectId
      const url = `http://127.0.0.1:${yield* freePort}`
      const cases: ReadonlyArray<readonly [Ampoule.Options, string]> = [
        [{}, "Set AMPOULE_API_TOKEN, or pass"],
        [{ credential, url: "canary" }, "`url` is no address of a server"],
        [{ credential, url: server.url }, "AMPOULE_PROJECT"],
        [{ credential, url: server.url, project }, "AMPOULE_ENVIRONMENT"],
        [{ credential, url: server.url, project, environment: "nowhere" }, "No such environment: nowhere."],
        [{ credential, url, project, environment: "nowhere" }, `ECONNREFUSED ${url}`]
      ]
      yield* Variables.set({})
      for (const [options, sentence] of cases) {
        const failure = yield* Effect.flip(Effect.provide(Environment.open(options), FetchHttpClient.layer))
        assert.include(failure.message, sentence)
        assert.notInclude(inspect(failure, { depth: 20, showHidden: true }), "canary")
        if (failure._tag === "ENVIRONMENT_NOT_FOUND") {
          assert.deepStrictEqual([failure.status, failure.address, failure.requestId], [404, server.url, "request-1"])
        }
      }
    })
  )

  it.scopedLive("takes nothing of an answer with a name that no secret can have, or of no environment at all", () =>
    Effect.gen(function* () {
      const names = ["lower", "LD_PRELOAD=x", "A B", "1", ""]
      for (const name of names) {
        const server = yield* FakeServer.make(FakeServer.environment(() => ({ GOOD: "canary", [name]: "canary" })))
        const options = { url: server.url, credential, project: "demo", environment: "development" }
        const opened = Effect.provide(plain("GOOD"), Ampoule.layer(options))
        const failure = yield* Effect.flip(opened)
        assert.deepInclude(failure, { _tag: "UnexpectedAnswer" }, name)
        assert.notInclude(inspect(failure, { depth: 20 }), "canary")
      }
    })
  )

  it.scopedLive("asks for the id when two teams have a project of that slug", () =>
    Effect.gen(function* () {
      const one = { id: FakeServer.projectId, teamId: FakeServer.teamId, name: "Demo", slug: "demo" }
      const at = { createdAt: "2026-11-21T08:00:00.000Z", updatedAt: "2026-11-21T08:00:00.000Z" }
      const items = [one, { ...one, id: FakeServer.teamId }].map((project) => ({ ...project, ...at }))
      const server = yield* FakeServer.make(() => ({ body: { items } }))
      const options = { url: server.url, credential, project: "demo", environment: "development" }
      const failure = yield* Effect.flip(Effect.provide(Environment.open(options), FetchHttpClient.layer))
      assert.deepInclude(failure, {
        _tag: "ProjectUnclear",
        reason: "several projects have this slug; use the id"
      })
      assert.strictEqual(server.asked.length, 1)
    })
  )
})

const idOf = (options: { readonly credential: Redacted.Redacted }) =>
  Effect.map(TestApp.get("/projects", { bearer: options.credential }), (answer): string => answer.json.items[0].id)
