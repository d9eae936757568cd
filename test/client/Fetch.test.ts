/** Answers that only another end gives: `ampoule/client/promise` with a server that says what a test wants. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { createServer } from "node:net"
import { inspect } from "node:util"
import * as Ampoule from "#src/client/Promises.ts"
import * as FakeServer from "#test/cli/FakeServer.ts"
import { freePort } from "#test/support/FreePort.ts"

const target = { credential: "amp_at_canary-credential", project: "demo", environment: "development" }
const values = FakeServer.environment(() => ({ KEY: "value" }))

const refusalOf = (options: Ampoule.Options) =>
  Effect.promise(async () => {
    try {
      await Ampoule.open(options)
    } catch (error) {
      if (error instanceof Ampoule.AmpouleError) return error
      throw error
    }
    throw new Error("it was not refused")
  })

/** The code of the refusal when every request gets this answer, and how many requests there were. */
const refused = (answer: FakeServer.Answer, options: Partial<Ampoule.Options> = {}) =>
  Effect.gen(function* () {
    const server = yield* FakeServer.make(() => answer)
    const error = yield* refusalOf({ ...target, url: server.url, ...options })
    assert.notInclude(inspect(error, { depth: 20, showHidden: true }), "canary")
    return [error.code, server.asked.length] as const
  })

const verifies =
  (only: unknown): FakeServer.Route =>
  (asked) =>
    asked.path === "/me/verify" ? { body: { only } } : values(asked)
const only = {
  projectId: FakeServer.projectId,
  project: "demo",
  environmentId: FakeServer.teamId,
  environment: "development"
}

describe("the target of the promise client", () => {
  it.scopedLive("is the credential's only environment when nothing names another: two requests", () =>
    Effect.gen(function* () {
      const server = yield* FakeServer.make(verifies(only))
      const { credential } = target
      const environment = yield* Effect.promise(() => Ampoule.open({ credential, url: server.url, variables: {} }))
      assert.strictEqual(environment.get("KEY"), "value")
      assert.deepStrictEqual(
        server.asked.map(({ path, query }) => [path, query.get("projectId"), query.get("environment")]),
        [
          ["/me/verify", null, null],
          ["/secrets/inject", FakeServer.projectId, "development"]
        ]
      )
    })
  )

  it.scopedLive("is asked for where the credential reaches several, or an older server does not say", () =>
    Effect.gen(function* () {
      const { credential } = target
      const cases = [
        [verifies(null), {}, "AMPOULE_PROJECT"],
        [verifies(undefined), { project: "demo" }, "AMPOULE_ENVIRONMENT"],
        [verifies(only), { project: "other" }, "AMPOULE_ENVIRONMENT"],
        [() => FakeServer.refusal(403, "SCOPE_MISSING"), {}, "AMPOULE_PROJECT"]
      ] as const
      for (const [answer, names, variable] of cases) {
        const server = yield* FakeServer.make(answer)
        const error = yield* refusalOf({ ...names, credential, url: server.url, variables: {} })
        assert.strictEqual(error.code, "TARGET_MISSING")
        assert.include(error.message, variable)
      }
      // Another refusal says more than the question.
      const server = yield* FakeServer.make(() => FakeServer.refusal(403, "CREDENTIAL_KIND_NOT_ACCEPTED"))
      const refusal = yield* refusalOf({ credential, url: server.url, variables: {} })
      assert.strictEqual(refusal.code, "CREDENTIAL_KIND_NOT_ACCEPTED")
    })
  )

  it.scopedLive("needs the id of a project when two teams have one of that slug", () =>
    Effect.gen(function* () {
      const items = [FakeServer.projectId, FakeServer.teamId].map((id) => ({ id, slug: "demo" }))
      assert.deepStrictEqual(yield* refused({ body: { items } }), ["PROJECT_UNCLEAR", 1])
    })
  )
})

describe("an exchange of the promise client", () => {
  it.scopedLive("takes nothing of an answer that is not one of the contract, and repeats nothing of it", () =>
    Effect.gen(function* () {
      const project = FakeServer.projectId
      const answers: ReadonlyArray<FakeServer.Answer> = [
        { body: "<p>canary</p>" },
        { body: null },
        { body: { values: { KEY: 7 } } },
        { body: { values: 7 } },
        { body: { values: [] } },
        { body: { values: { lower: "canary" } } },
        { body: { values: { "LD_PRELOAD=x": "canary" } } },
        { status: 502, body: "canary" },
        { status: 500, body: { code: "canary code" } },
        { status: 302, headers: { location: "/canary" }, body: "" }
      ]
      for (const answer of answers) {
        assert.deepStrictEqual(yield* refused(answer, { project }), ["UNEXPECTED_ANSWER", 1], JSON.stringify(answer))
      }
    })
  )

  it.scopedLive("is repeated as the server asks, at most as often and as long as the options say", () =>
    Effect.gen(function* () {
      const busy = { ...FakeServer.refusal(429, "RATE_LIMITED"), headers: { "retry-after": "0" } }
      const down = { ...FakeServer.refusal(500, "DEPENDENCY_UNAVAILABLE"), headers: { "retry-after": "0" } }
      assert.deepStrictEqual(yield* refused(busy), ["RATE_LIMITED", 4])
      assert.deepStrictEqual(yield* refused(down), ["DEPENDENCY_UNAVAILABLE", 4])
      const once = { retry: { times: 1, longest: "1 second" } } as const
      assert.deepStrictEqual(yield* refused(busy, once), ["RATE_LIMITED", 2])
      const long = { ...busy, headers: { "retry-after": "2" } }
      assert.deepStrictEqual(yield* refused(long, once), ["RATE_LIMITED", 1])
      assert.deepStrictEqual(yield* refused({ ...busy, headers: {} }), ["RATE_LIMITED", 1])
      const broken = { ...FakeServer.refusal(500, "INTERNAL_ERROR"), headers: { "retry-after": "0" } }
      assert.deepStrictEqual(yield* refused(broken), ["INTERNAL_ERROR", 1])
    })
  )

  it.scopedLive("names the address and the cause where no answer arrives", () =>
    Effect.gen(function* () {
      const url = `http://127.0.0.1:${yield* freePort}`
      const gone = yield* refusalOf({ ...target, url })
      assert.strictEqual(gone.message, `${url} could not be reached (ECONNREFUSED).`)
      assert.strictEqual((gone.cause as Error).message, "ECONNREFUSED")
      const silent = yield* Effect.acquireRelease(
        Effect.async<{ readonly url: string; readonly close: () => void }>((resume) => {
          const server = createServer().listen(0, "127.0.0.1", () => {
            const address = server.address()
            const port = typeof address === "object" && address !== null ? address.port : 0
            resume(Effect.succeed({ url: `http://127.0.0.1:${port}`, close: () => void server.close() }))
          })
        }),
        ({ close }) => Effect.sync(close)
      )
      const late = yield* refusalOf({ ...target, url: silent.url, timeout: "100 millis" })
      assert.strictEqual(late.message, `${silent.url} did not answer within 0.1 s.`)
      assert.strictEqual(late.code, "SERVER_UNREACHABLE")
    })
  )
})
