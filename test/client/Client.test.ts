import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import { assert, describe, it, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as net from "node:net"
import { inspect } from "node:util"
import { ProjectId } from "#schema/Ids.ts"
import { EnvironmentSlug, SecretKey } from "#schema/Values.ts"
import * as Client from "#src/client/Client.ts"
import * as FakeServer from "#test/cli/FakeServer.ts"
import * as MovableClock from "#test/support/MovableClock.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import * as Demo from "./Demo.ts"

const development = Schema.decodeSync(EnvironmentSlug)("development")
const key = Schema.decodeSync(SecretKey)
const aProject = Schema.decodeSync(ProjectId)(FakeServer.projectId)
const fetched = Effect.provide(FetchHttpClient.layer)
const client = (options: Client.Options) => fetched(Client.make(options))

const credential = Redacted.make("amp_at_canary-credential")
/** Everything a program could print of a failure. */
const everythingOf = (failure: unknown) =>
  [inspect(failure, { depth: 20, showHidden: true }), String(failure), JSON.stringify(failure)].join("\n")

const readValue = (name: string) => ({
  urlParams: { projectId: aProject, environment: development, key: key(name) }
})
const value = (text: string) => ({
  body: {
    id: FakeServer.projectId,
    projectId: FakeServer.projectId,
    environment: "development",
    key: "A",
    kind: "literal",
    version: 1,
    createdAt: "2026-11-21T08:00:00.000Z",
    updatedAt: "2026-11-21T08:00:00.000Z",
    value: text,
    representation: "materialized"
  }
})

describe("the typed client, on the real server", () => {
  layer(TestApp.shared, { excludeTestServices: true })((it) => {
    it.effect("reads and writes", () =>
      Effect.gen(function* () {
        const { client: options, project } = yield* Demo.make({})
        const api = yield* client(options)
        const projectId = Schema.decodeSync(ProjectId)(project.id)
        const payload = {
          projectId,
          environment: development,
          key: key("DB"),
          value: Redacted.make("postgres://canary")
        }
        const secret = yield* api.secrets.create({ headers: {}, payload })
        assert.strictEqual("version" in secret ? secret.version : undefined, 1)
        const read = yield* api.secrets.readValue({
          urlParams: { projectId, environment: development, key: key("DB") }
        })
        assert.strictEqual(read.value, "postgres://canary")
        const { teams } = yield* api.identity.verify()
        assert.deepStrictEqual(
          teams.map(({ id }) => id as string),
          [project.team.id as string]
        )
      })
    )

    it.effect("fails with the class of the code, so that catchTag finds it, with the members of the code", () =>
      Effect.gen(function* () {
        const { client: options, project, put } = yield* Demo.make({ TAKEN: "x" }, "read")
        const api = yield* client(options)
        const projectId = Schema.decodeSync(ProjectId)(project.id)
        const at = { projectId, environment: development }
        const missing = yield* api.secrets
          .readValue({ urlParams: { ...at, key: key("MISSING") } })
          .pipe(Effect.catchTag("SECRET_NOT_FOUND", () => Effect.succeed("not found")))
        assert.strictEqual(missing, "not found")
        const readOnly = yield* Effect.flip(
          api.secrets.create({ headers: {}, payload: { ...at, key: key("NEW"), value: Redacted.make("x") } })
        )
        assert.strictEqual(readOnly._tag, "API_TOKEN_READ_ONLY")
        const elsewhere = yield* Effect.flip(
          api.secrets.readValue({ urlParams: { ...at, projectId: aProject, key: key("TAKEN") } })
        )
        assert.strictEqual(elsewhere._tag, "PROJECT_NOT_FOUND")
        const unknown = yield* client({ ...options, credential: Redacted.make("amp_at_nobody") })
        const refused = yield* Effect.flip(unknown.identity.verify())
        assert.strictEqual(refused._tag, "CREDENTIAL_INVALID")

        yield* put({ BASE: "x", USER: "${BASE}" })
        const writing = yield* client({ ...options, credential: Redacted.make((yield* World.token(project)).text) })
        const { items } = yield* writing.secrets.list({ urlParams: at })
        const base = items.find((item) => item.key === "BASE")
        assert.isDefined(base)
        const kept = yield* writing.secrets
          .remove({ path: { secretId: base.id }, urlParams: {} })
          .pipe(Effect.catchTag("SECRET_HAS_DEPENDENTS", ({ dependents }) => Effect.succeed(dependents)))
        assert.deepStrictEqual(kept, ["USER"])
      })
    )

    it.effect("names the field of a request that does not fit the contract, and sends none", () =>
      Effect.gen(function* () {
        const { client: options, project } = yield* Demo.make({})
        const api = yield* client(options)
        const projectId = Schema.decodeSync(ProjectId)(project.id)
        const failure = yield* Effect.flip(
          api.secrets.create({
            headers: {},
            payload: {
              projectId,
              environment: development,
              key: key("TOO_LONG"),
              value: Redacted.make("canary".repeat(20_000))
            }
          })
        )
        assert.strictEqual(failure._tag, "VALIDATION_FAILED")
        assert.strictEqual("field" in failure && failure.field, "value")
        assert.notInclude(everythingOf(failure), "canary")
      })
    )
  })

  // The clock does not move by itself: a slow machine must not be given a new window meanwhile.
  layer(Layer.provideMerge(TestApp.layer, MovableClock.layer), { excludeTestServices: true })("at the limit", (it) => {
    it.effect("waits out a 429 as long as the server says, and then has its answer", () =>
      Effect.gen(function* () {
        const { client: options } = yield* Demo.make({})
        const api = yield* client({ ...options, retry: { times: 5, longest: "5 seconds" } })
        const impatient = yield* client({ ...options, retry: { times: 0, longest: "0 seconds" } })
        const one = Effect.either(impatient.identity.verify())
        const hurried = yield* Effect.all(
          Array.from({ length: 60 }, () => one),
          { concurrency: 10 }
        )
        const refused = hurried.filter(Either.isLeft).map(({ left }) => left)
        assert.strictEqual(refused.length, 10)
        for (const failure of refused) {
          assert.strictEqual(failure._tag, "RATE_LIMITED")
          assert.isAbove(failure._tag === "RATE_LIMITED" ? failure.retryAfterSeconds : 0, 0)
        }
        const waiting = yield* Effect.fork(api.identity.verify())
        yield* Effect.sleep("200 millis")
        yield* MovableClock.advance("1 minute")
        assert.strictEqual((yield* waiting).credential.type, "api_token")
      })
    )
  })
})

/** Takes connections, says this much, and leaves it at that. */
const silentServer = (says: string) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.async<{ readonly url: string; readonly close: () => void }>((resume) => {
        const sockets = new Set<net.Socket>()
        const server = net.createServer((socket) => {
          sockets.add(socket)
          socket.on("error", () => {})
          socket.once("data", () => socket.write(says))
        })
        server.listen(0, "127.0.0.1", () => {
          const { port } = server.address() as net.AddressInfo
          const close = () => {
            sockets.forEach((socket) => socket.destroy())
            server.close()
          }
          resume(Effect.succeed({ url: `http://127.0.0.1:${port}`, close }))
        })
      }),
      ({ close }) => Effect.sync(close)
    ),
    ({ url }) => url
  )

describe("the typed client, when the other end misbehaves", () => {
  it.scopedLive("takes a code that it does not know for an unexpected answer that names it", () =>
    Effect.gen(function* () {
      const server = yield* FakeServer.make(() => FakeServer.refusal(418, "ADDED_LATER", { hint: "canary-text" }))
      const api = yield* client({ url: server.url, credential })
      const failure = yield* Effect.flip(api.identity.verify())
      assert.deepInclude(failure, { _tag: "UnexpectedAnswer", status: 418, code: "ADDED_LATER" })
      assert.notInclude(everythingOf(failure), "canary")
    })
  )

  it.scopedLive("never repeats what an answer says that is not one of the contract", () =>
    Effect.gen(function* () {
      const answers: ReadonlyArray<FakeServer.Answer> = [
        { status: 502, body: "<h1>canary-page</h1>" },
        { status: 401, body: { statusCode: 401, code: "canary text in place of a code", message: "canary" } },
        { status: 400, body: { code: 7, message: "canary" } },
        // A code of the contract without what belongs to it.
        { status: 409, body: { code: "SECRET_HAS_DEPENDENTS", statusCode: 409, message: "canary" } },
        { status: 200, body: { value: { canary: true } } },
        { status: 200, body: { ...value("").body, value: 7, key: "canary" } },
        { status: 200, body: "canary-page" },
        { status: 200 }
      ]
      for (const answer of answers) {
        const server = yield* FakeServer.make(() => answer)
        const api = yield* client({ url: server.url, credential })
        const failure = yield* Effect.flip(api.secrets.readValue(readValue("A")))
        assert.strictEqual(failure._tag, "UnexpectedAnswer", JSON.stringify(answer))
        assert.notInclude(everythingOf(failure), "canary", JSON.stringify(answer))
      }
    })
  )

  it.scopedLive("says of a server that is missing, breaks off or is silent that it cannot be reached", () =>
    Effect.gen(function* () {
      const server = yield* FakeServer.make(() => undefined)
      server.answer = "gone"
      const nowhere = ["http://127.0.0.1:1", "no address", "ftp://127.0.0.1", server.url]
      for (const url of nowhere) {
        const failure = yield* Effect.flip((yield* client({ url, credential })).identity.verify())
        assert.strictEqual(failure._tag, "ServerUnreachable", url)
        assert.notInclude(everythingOf(failure), "canary", url)
      }
      const silent = yield* silentServer("")
      const waiting = yield* client({ url: silent, credential, timeout: "100 millis" })
      assert.deepInclude(yield* Effect.flip(waiting.identity.verify()), {
        _tag: "ServerUnreachable",
        reason: "The server did not answer in time."
      })
      const stalls = yield* silentServer(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{"
      )
      const halfWay = yield* client({ url: stalls, credential, timeout: "100 millis" })
      assert.deepInclude(yield* Effect.flip(halfWay.identity.verify()), { _tag: "ServerUnreachable" })
    })
  )

  it.scopedLive("refuses a credential that no header can carry, without repeating it", () =>
    Effect.gen(function* () {
      const server = yield* FakeServer.make(() => value("x"))
      for (const text of [
        "amp_at_canary\r\nx-injected: 1",
        "amp_at_canary\n",
        "",
        "amp_at_canäry",
        "amp_at_canary\0"
      ]) {
        const api = yield* client({ url: server.url, credential: Redacted.make(text) })
        const failure = yield* Effect.flip(api.secrets.readValue(readValue("A")))
        assert.strictEqual(failure._tag, "CREDENTIAL_INVALID")
        assert.notInclude(everythingOf(failure), "can")
      }
      assert.strictEqual(server.asked.length, 0)
    })
  )

  it.scopedLive("follows no redirect with the credential", () =>
    Effect.gen(function* () {
      const other = yield* FakeServer.make(() => value("stolen"))
      for (const location of [`${other.url}/secrets/value`, "/elsewhere"]) {
        const server = yield* FakeServer.make(({ path }) =>
          path === "/elsewhere" ? value("stolen") : { status: 307, headers: { location } }
        )
        const api = yield* client({ url: server.url, credential })
        const failure = yield* Effect.flip(api.secrets.readValue(readValue("A")))
        assert.deepInclude(failure, { _tag: "UnexpectedAnswer", status: 307 })
        assert.strictEqual(server.asked.length, 1)
      }
      assert.strictEqual(other.asked.length, 0)
    })
  )
})

describe("a route", () => {
  type Failures = Effect.Effect.Error<ReturnType<Client.Client["secrets"]["readValue"]>>["_tag"]

  it.scoped("fails with the codes that it declares; another is a later server's", () =>
    Effect.gen(function* () {
      const server = yield* FakeServer.make(({ path }) =>
        path.startsWith("/secrets/value")
          ? FakeServer.refusal(409, "SECRET_ALREADY_EXISTS")
          : FakeServer.refusal(404, "ROUTE_NOT_FOUND")
      )
      const api = yield* client({ url: server.url, credential })
      const own: Failures = "SECRET_NOT_FOUND"
      // @ts-expect-error reading a value cannot fail with it
      const foreign: Failures = "SECRET_ALREADY_EXISTS"
      assert.notStrictEqual(own, foreign)
      const failure = yield* Effect.flip(api.secrets.readValue(readValue("A")))
      assert.deepInclude(failure, { _tag: "UnexpectedAnswer", status: 409, code: "SECRET_ALREADY_EXISTS" })
      const common = yield* Effect.catchTag(api.projects.list(), "ROUTE_NOT_FOUND", ({ _tag }) => Effect.succeed(_tag))
      assert.strictEqual(common, "ROUTE_NOT_FOUND")
    })
  )
})

const limited = (seconds: string): FakeServer.Answer => ({
  ...FakeServer.refusal(429, "RATE_LIMITED", { retryAfterSeconds: Number(seconds) }),
  headers: { "retry-after": seconds }
})
const unavailable: FakeServer.Answer = {
  ...FakeServer.refusal(500, "DEPENDENCY_UNAVAILABLE"),
  headers: { "retry-after": "0" }
}

describe("retries of the typed client", () => {
  const asking = (
    answers: ReadonlyArray<FakeServer.Answer>,
    retry: NonNullable<Client.Options["retry"]>,
    write?: { readonly idempotencyKey?: string }
  ) =>
    Effect.scoped(
      Effect.gen(function* () {
        let at = 0
        const server = yield* FakeServer.make(() => answers[Math.min(at++, answers.length - 1)])
        const api = yield* client({ url: server.url, credential, retry })
        const headers = write?.idempotencyKey === undefined ? {} : { "idempotency-key": write.idempotencyKey }
        const call: Effect.Effect<void, Client.ClientError> =
          write === undefined
            ? Effect.asVoid(api.secrets.readValue(readValue("A")))
            : Effect.asVoid(
                api.secrets.createBulk({
                  headers,
                  payload: {
                    projectId: aProject,
                    environment: development,
                    secrets: [{ key: key("A"), value: Redacted.make("x") }]
                  }
                })
              )
        const result = yield* Effect.either(call)
        return { asked: server.asked.length, failed: Either.isLeft(result) ? result.left._tag : undefined }
      })
    )

  it.live("end with the first answer that is one", () =>
    Effect.gen(function* () {
      const answers = [limited("0"), limited("0"), value("x")]
      assert.deepStrictEqual(yield* asking(answers, { times: 3, longest: "1 seconds" }), {
        asked: 3,
        failed: undefined
      })
    })
  )

  it.live("are bounded in number and in the length of a wait", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* asking([limited("0")], { times: 3, longest: "1 seconds" }), {
        asked: 4,
        failed: "RATE_LIMITED"
      })
      assert.deepStrictEqual(yield* asking([limited("2")], { times: 3, longest: "1 seconds" }), {
        asked: 1,
        failed: "RATE_LIMITED"
      })
    })
  )

  it.live("do not happen without a number of seconds in Retry-After", () =>
    Effect.gen(function* () {
      for (const after of ["", "soon", "-1", "1e9", "Sat, 21 Nov 2026 08:00:00 GMT"]) {
        const refusal = { ...limited("0"), headers: { "retry-after": after } }
        assert.strictEqual((yield* asking([refusal, value("x")], { times: 3, longest: "1 seconds" })).asked, 1, after)
      }
    })
  )

  it.live(
    "repeat a write that may have been carried out only under an Idempotency-Key; a 429 was not carried out",
    () =>
      Effect.gen(function* () {
        const retry = { times: 3, longest: "1 seconds" } as const
        assert.strictEqual((yield* asking([unavailable], retry)).asked, 4)
        assert.deepStrictEqual(yield* asking([unavailable], retry, {}), { asked: 1, failed: "DEPENDENCY_UNAVAILABLE" })
        assert.strictEqual((yield* asking([unavailable], retry, { idempotencyKey: "k" })).asked, 4)
        assert.strictEqual((yield* asking([limited("0")], retry, {})).asked, 4)
        assert.strictEqual((yield* asking([FakeServer.refusal(500, "INTERNAL_ERROR")], retry)).asked, 1)
      })
  )
})
