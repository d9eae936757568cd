import { gzipSync } from "node:zlib"
import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as SqlError from "@effect/sql/SqlError"
import { assert, describe, it, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Schema from "effect/Schema"
import * as Http from "node:http"
import * as Net from "node:net"
import { Probe } from "#src/trail/Probe.ts"
import { IntegrityFailure } from "#schema/Errors.ts"
import { strict } from "#schema/Strict.ts"
import { SecretText } from "#schema/Values.ts"
import { VaultUnavailable } from "#schema/Vault.ts"
import { DependencyDown } from "#src/database/Dependency.ts"
import type { Settings } from "#src/AppConfig.ts"
import * as ErrorEnvelope from "#src/http/engine/ErrorEnvelope.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Endpoints from "#src/http/engine/Endpoints.ts"
import * as Server from "#src/http/engine/Server.ts"
import * as Shutdown from "#src/http/engine/Shutdown.ts"
import { RateLimiter } from "#src/limits/RateLimiter.ts"
import * as RateLimitMemory from "#layers/RateLimitMemory.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const uuidV7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

/** Headers of every answer, and every failure's body. */
const assertFailure = (answer: TestApp.Answer, status: number, code: string, field?: string) => {
  assert.strictEqual(answer.status, status, answer.text)
  assert.strictEqual(answer.headers.get("content-type"), "application/json")
  assert.strictEqual(answer.error.statusCode, status)
  assert.strictEqual(answer.error.code, code)
  assert.isString(answer.error.message)
  assert.strictEqual(answer.error.field, field)
  assert.match(answer.headers.get("x-request-id") ?? "", uuidV7)
  assert.strictEqual(answer.headers.get("x-content-type-options"), "nosniff")
  assert.strictEqual(answer.headers.get("cross-origin-resource-policy"), "same-origin")
  assert.strictEqual(answer.headers.get("cache-control"), "no-store")
}

const json = { "content-type": "application/json" }

/** Bytes on the wire, for what `fetch` would not send. */
const rawTo = (port: number, text: string) =>
  Effect.async<string>((resume) => {
    const socket = Net.connect(port, "127.0.0.1", () => socket.write(text))
    let received = ""
    socket.setEncoding("utf8")
    socket.on("data", (chunk: string) => (received += chunk))
    socket.on("close", () => resume(Effect.succeed(received)))
    socket.on("error", () => resume(Effect.succeed(received)))
    return Effect.sync(() => socket.destroy())
  })
const raw = (text: string) => Effect.flatMap(Server.Listening, ({ port }) => rawTo(port, text))

describe("the envelope of failures", () => {
  layer(TestApp.shared, { excludeTestServices: true })((it) => {
    const setUp = Effect.gen(function* () {
      const project = yield* World.project()
      const { text } = yield* World.token({ team: project.team })
      return { project, bearer: text, secret: { projectId: project.id, environment: "development", key: "A" } }
    })

    it.effect("unknown routes, wrong methods, other spellings of a path", () =>
      Effect.gen(function* () {
        const unknown = ["/nope", "/health/live/", "/Health/live", "//health/live", "/health%2flive", "/health/live;x"]
        for (const path of unknown) assertFailure(yield* TestApp.get(path), 404, "ROUTE_NOT_FOUND")
        assertFailure(yield* TestApp.post("/health/live"), 404, "ROUTE_NOT_FOUND")
        assertFailure(yield* TestApp.request("OPTIONS", "/secrets"), 404, "ROUTE_NOT_FOUND")
        for (const path of ["/health/../health/live", "/./health/live", "/health/%2e%2e/health/live"]) {
          const answer = yield* raw(`GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)
          assert.include(answer, "HTTP/1.1 404")
          assert.include(answer, "ROUTE_NOT_FOUND")
        }
      })
    )

    it.effect("HEAD answers where GET does", () =>
      Effect.gen(function* () {
        const answer = yield* TestApp.request("HEAD", "/health/live")
        assert.deepStrictEqual([answer.status, answer.text], [200, ""])
        assert.match(answer.headers.get("x-request-id") ?? "", uuidV7)
      })
    )

    it.effect("what is not HTTP gets the same body", () =>
      Effect.gen(function* () {
        const garbage = yield* raw("GET / HTTP/9\r\n\r\n")
        assert.include(garbage, "HTTP/1.1 400")
        assert.include(garbage, `"code":"VALIDATION_FAILED"`)
        const headers = yield* raw(`GET /health/live HTTP/1.1\r\nHost: a\r\nX: ${"a".repeat(40_000)}\r\n\r\n`)
        assert.include(headers, "HTTP/1.1 413")
        assert.include(headers, `"code":"PAYLOAD_TOO_LARGE"`)
        const hostless = yield* raw("GET /nope HTTP/1.1\r\nConnection: close\r\n\r\n")
        assert.include(hostless, "ROUTE_NOT_FOUND")
      })
    )

    it.effect("a request that does not arrive in time is called late, and not malformed", () =>
      Effect.gen(function* () {
        const server = yield* Effect.acquireRelease(
          Effect.async<Http.Server>((resume) => {
            const server = Http.createServer({
              headersTimeout: 50,
              requestTimeout: 100,
              connectionsCheckingInterval: 20
            })
            server.on(
              "clientError",
              Server.refuseGarbage(() => "an id")
            )
            server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
          }),
          (server) => Effect.sync(() => (server.closeAllConnections(), server.close()))
        )
        const address = server.address()
        const port = typeof address === "object" ? (address?.port ?? 0) : 0
        for (const part of ["POST /secrets HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf", "POST /secrets HT"]) {
          const answer = yield* rawTo(port, part)
          assert.include(answer, "HTTP/1.1 400")
          assert.include(answer, "did not arrive in time")
        }
      }).pipe(Effect.scoped)
    )

    it.effect("a request id of the client is not taken over", () =>
      Effect.gen(function* () {
        const answer = yield* TestApp.get("/health/live", { headers: { "x-request-id": "mine" } })
        assert.match(answer.headers.get("x-request-id") ?? "", uuidV7)
      })
    )

    it.effect("malformed bodies", () =>
      Effect.gen(function* () {
        const { bearer } = yield* setUp
        const json = { "content-type": "application/json" }
        for (const body of ["{", "{'a':1}", "\u0000", '{"a":NaN}']) {
          assertFailure(yield* TestApp.post("/secrets", { bearer, body, headers: json }), 400, "VALIDATION_FAILED")
        }
        const notUtf8 = new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x7d])
        assertFailure(
          yield* TestApp.post("/secrets", { bearer, body: notUtf8, headers: json }),
          400,
          "VALIDATION_FAILED"
        )
        assertFailure(yield* TestApp.post("/secrets", { bearer }), 400, "VALIDATION_FAILED")
        for (const body of ["null", "[]", "7", '"text"']) {
          assertFailure(yield* TestApp.post("/secrets", { bearer, body, headers: json }), 400, "VALIDATION_FAILED")
        }
      })
    )

    it.effect("JSON in UTF-8 alone is a media type, and absent counts as it", () =>
      Effect.gen(function* () {
        const { bearer, secret } = yield* setUp
        for (const type of [
          "text/plain",
          "application/x-www-form-urlencoded",
          "application/json; charset=latin1",
          "a"
        ]) {
          const options = { bearer, body: JSON.stringify(secret), headers: { "content-type": type } }
          assertFailure(yield* TestApp.post("/secrets", options), 415, "UNSUPPORTED_MEDIA_TYPE")
        }
        const form = new Uint8Array(Buffer.from("--b\r\n"))
        const multipart = { bearer, body: form, headers: { "content-type": "multipart/form-data; boundary=b" } }
        assertFailure(yield* TestApp.post("/secrets", multipart), 415, "UNSUPPORTED_MEDIA_TYPE")
        const packed = new Uint8Array(gzipSync(JSON.stringify(secret)))
        const headers = { "content-type": "application/json", "content-encoding": "gzip" }
        const compressed = yield* TestApp.post("/secrets", { bearer, body: packed, headers })
        assertFailure(compressed, 415, "UNSUPPORTED_MEDIA_TYPE")
        assert.include(compressed.text, "without a content-encoding")
        const utf8 = { bearer, json: secret, headers: { "content-type": "application/json; charset=UTF-8" } }
        assert.strictEqual((yield* TestApp.post("/secrets", utf8)).status, 201)
        const untyped = new Uint8Array(Buffer.from(JSON.stringify({ ...secret, key: "B" })))
        assert.strictEqual((yield* TestApp.post("/secrets", { bearer, body: untyped })).status, 201)
      })
    )

    it.effect("the member at fault is named", () =>
      Effect.gen(function* () {
        const { bearer, project, secret } = yield* setUp
        const post = (json: unknown) => TestApp.post("/secrets", { bearer, json })
        assertFailure(yield* post({ ...secret, projectId: "x" }), 400, "VALIDATION_FAILED", "projectId")
        assertFailure(yield* post({ ...secret, extra: 1 }), 400, "VALIDATION_FAILED", "extra")
        assertFailure(yield* post({ ...secret, key: undefined }), 400, "VALIDATION_FAILED", "key")
        assertFailure(yield* post({ ...secret, value: 5 }), 400, "VALIDATION_FAILED", "value")
        assertFailure(yield* post({ ...secret, value: "\ud800" }), 400, "VALIDATION_FAILED", "value")
        const bulk = {
          projectId: project.id,
          environment: "development",
          secrets: [
            { key: "A", value: "" },
            { key: "a", value: "" }
          ]
        }
        assertFailure(
          yield* TestApp.post("/secrets/bulk", { bearer, json: bulk }),
          400,
          "VALIDATION_FAILED",
          "secrets.1.key"
        )
        const query = `/secrets?projectId=${project.id}&environment=development` as const
        assertFailure(yield* TestApp.get(`${query}&page=0`, { bearer }), 400, "VALIDATION_FAILED", "page")
        assertFailure(yield* TestApp.get(`${query}&nope=1`, { bearer }), 400, "VALIDATION_FAILED", "nope")
        assertFailure(yield* TestApp.get(`${query}&page=1&page=2`, { bearer }), 400, "VALIDATION_FAILED", "page")
        assertFailure(
          yield* TestApp.get("/secrets?environment=development", { bearer }),
          400,
          "VALIDATION_FAILED",
          "projectId"
        )
        assertFailure(yield* TestApp.del("/secrets/x", { bearer }), 400, "VALIDATION_FAILED", "secretId")
      })
    )

    it.effect("a DELETE takes no body: what it brings is refused by its name, and nothing is deleted", () =>
      Effect.gen(function* () {
        const { bearer, secret } = yield* setUp
        const created = yield* TestApp.post("/secrets", { bearer, json: { ...secret, value: "v" } })
        const path = `/secrets/${created.json.id}` as const
        const refused = { disposition: "cascade" }
        assertFailure(yield* TestApp.del(path, { bearer, json: refused }), 400, "VALIDATION_FAILED", "disposition")
        assertFailure(yield* TestApp.del("/me/token", { bearer, json: { id: 1 } }), 400, "VALIDATION_FAILED", "id")
        assertFailure(yield* TestApp.del(path, { bearer, json: [1] }), 400, "VALIDATION_FAILED", "0")
        assertFailure(yield* TestApp.del(path, { bearer, json: "x" }), 400, "VALIDATION_FAILED")
        assertFailure(yield* TestApp.del(path, { bearer, body: "{", headers: json }), 400, "VALIDATION_FAILED")
        // The credential comes first, as everywhere (docs/contract/errors.md).
        assertFailure(yield* TestApp.del(path, { json: refused }), 401, "UNAUTHENTICATED")
        // No body in any of the ways to say so.
        assert.strictEqual((yield* TestApp.del(path, { bearer, headers: json })).status, 200)
        assertFailure(yield* TestApp.del(path, { bearer, json: {} }), 404, "SECRET_NOT_FOUND")
        assertFailure(yield* TestApp.del(path, { bearer, json: null }), 404, "SECRET_NOT_FOUND")
      })
    )

    it.effect("what comes with a GET is not read, and the next request of the connection is answered", () =>
      Effect.gen(function* () {
        const { bearer } = yield* setUp
        const head = `host: 127.0.0.1\r\nauthorization: Bearer ${bearer}\r\n`
        const body = JSON.stringify({ nope: "x".repeat(2_000_000) })
        const answers = yield* raw(
          `GET /me/verify HTTP/1.1\r\n${head}content-type: application/json\r\n` +
            `content-length: ${body.length}\r\n\r\n${body}` +
            `GET /capabilities HTTP/1.1\r\n${head}connection: close\r\n\r\n`
        )
        assert.lengthOf(answers.match(/HTTP\/1\.1 200 OK/g) ?? [], 2, answers.slice(0, 2_000))
      })
    )

    it.effect("parameters may be long; what is wrong with them is said, not 404", () =>
      Effect.gen(function* () {
        const { bearer } = yield* setUp
        assertFailure(
          yield* TestApp.del(`/secrets/${"a".repeat(4000)}`, { bearer }),
          400,
          "VALIDATION_FAILED",
          "secretId"
        )
      })
    )

    it.effect("too large bodies, announced or chunked, get their 413 after the credential was checked", () =>
      Effect.gen(function* () {
        const { bearer, secret } = yield* setUp
        const big = JSON.stringify({ ...secret, value: "a".repeat(1024 * 1024) })
        const headers = { "content-type": "application/json" }
        assertFailure(yield* TestApp.post("/secrets", { bearer, body: big, headers }), 413, "PAYLOAD_TOO_LARGE")
        assertFailure(yield* TestApp.post("/secrets", { body: big, headers }), 401, "UNAUTHENTICATED")
        const chunked = () =>
          new ReadableStream<Uint8Array>({
            start(controller) {
              for (let i = 0; i < 40; i++) controller.enqueue(new Uint8Array(64 * 1024).fill(32))
              controller.close()
            }
          })
        assertFailure(yield* TestApp.post("/secrets", { bearer, body: chunked(), headers }), 413, "PAYLOAD_TOO_LARGE")
        const bulk = yield* TestApp.post("/secrets/bulk", { bearer, body: chunked(), headers })
        assertFailure(bulk, 400, "VALIDATION_FAILED")
      })
    )

    it.effect.prop(
      "no text of a request comes back in an answer, wherever it stood",
      [
        FastCheck.string({ minLength: 6, maxLength: 40 }),
        FastCheck.constantFrom("key", "value", "environment", "kind", "projectId", "expectedVersion")
      ],
      ([noise, member]) =>
        Effect.gen(function* () {
          const canary = `Canary7f3a ${noise}`
          const { bearer, secret } = yield* setUp
          const answers = [
            yield* TestApp.post("/secrets", { bearer, json: { ...secret, [member]: canary, kind: "x" } }),
            yield* TestApp.post("/secrets", { bearer, json: { ...secret, [member]: [canary, { [member]: canary }] } }),
            yield* TestApp.post("/secrets", { bearer, json: canary }),
            yield* TestApp.post("/secrets", {
              bearer,
              body: `{"value": ${canary}`,
              headers: { "content-type": "application/json" }
            }),
            yield* TestApp.get(`/secrets?${member}=${encodeURIComponent(canary)}`, { bearer }),
            yield* TestApp.del(`/secrets/${encodeURIComponent(canary)}`, { bearer })
          ]
          for (const answer of answers) {
            assert.isAtLeast(answer.status, 400)
            assert.notInclude(answer.text, "Canary7f3a")
          }
        }),
      { fastCheck: { numRuns: 25 } }
    )
  })
})

const crash = new Error("Canary in the message")
const sqlError = (cause: unknown) => new SqlError.SqlError({ cause, message: "Failed to execute statement" })

/** Routes that fail in the ways that a correct server does not show. */
const Failing = HttpApi.make("failing").add(
  HttpApiGroup.make("failing")
    .add(HttpApiEndpoint.get("defect", "/defect"))
    .add(HttpApiEndpoint.get("sql", "/sql"))
    .add(HttpApiEndpoint.get("outage", "/outage"))
    .add(HttpApiEndpoint.get("vault", "/vault"))
    .add(HttpApiEndpoint.get("down", "/down"))
    .add(HttpApiEndpoint.get("integrity", "/integrity").addError(IntegrityFailure))
    .add(
      HttpApiEndpoint.get("answer", "/answer").addSuccess(
        Schema.Struct({ value: Schema.String.pipe(Schema.maxLength(3)) })
      )
    )
    .add(HttpApiEndpoint.post("redacted", "/redacted").setPayload(strict(Schema.Struct({ value: SecretText }))))
)
const failing = Endpoints.group(Failing, "failing", (handlers) =>
  Effect.succeed(
    handlers
      .handle("defect", () => Effect.die(crash))
      .handle("sql", () =>
        Effect.die(
          sqlError(Object.assign(new Error("x"), { code: "23505", detail: "Canary", constraint: "users_key" }))
        )
      )
      .handle("outage", () => Effect.die(sqlError(Object.assign(new Error("Canary"), { code: "ECONNREFUSED" }))))
      .handle("vault", () => Effect.die(new VaultUnavailable({ reason: "gone" })))
      .handle("down", () => Effect.die(new DependencyDown({ dependency: "vault" })))
      .handle("integrity", () => new IntegrityFailure())
      .handle("answer", () => Effect.succeed({ value: "Canary" }))
      .handle("redacted", () => Effect.void)
  )
)
const lines: Array<string> = []
const failingServer = (settings: Partial<Settings> = {}) =>
  Server.layer({ host: "127.0.0.1", port: 0, traced: false }).pipe(
    Layer.provide(HttpApiBuilder.api(Failing)),
    Layer.provide(failing),
    Layer.provide(Shutdown.layer),
    Layer.provide(Layer.succeed(Probe, Probe.make({ check: Effect.void, doubt: () => {} }))),
    Layer.provide(Layer.mergeAll(RateLimiter.Default, TestApp.config(settings))),
    Layer.provide(Layer.mergeAll(RateLimitMemory.layer, Crypto.Default)),
    Layer.provide(
      Logger.replace(
        Logger.defaultLogger,
        Logger.map(Logger.jsonLogger, (line) => void lines.push(line))
      )
    )
  )

describe("failures that are nobody's fault but ours", () => {
  layer(failingServer(), { excludeTestServices: true })((it) => {
    it.effect("a defect says nothing but the request id, which the log knows", () =>
      Effect.gen(function* () {
        for (const path of ["/defect", "/sql"]) {
          lines.length = 0
          const answer = yield* TestApp.get(path)
          assertFailure(answer, 500, "INTERNAL_ERROR")
          assert.strictEqual(lines.length, 1)
          assert.include(lines[0], answer.headers.get("x-request-id") ?? "no id")
          assert.notInclude(lines[0] + answer.text, "Canary")
        }
        assert.include(lines[0], "code=23505")
        assert.include(lines[0], "constraint=users_key")
      })
    )

    it.effect("what a dependency's outage breaks says so, and when to come back", () =>
      Effect.gen(function* () {
        for (const path of ["/outage", "/vault", "/down"]) {
          lines.length = 0
          const answer = yield* TestApp.get(path)
          assertFailure(answer, 500, "DEPENDENCY_UNAVAILABLE")
          assert.match(answer.headers.get("retry-after") ?? "", /^[1-9]\d*$/)
          assert.notInclude(lines.join() + answer.text, "Canary")
        }
        assertFailure(yield* TestApp.get("/integrity"), 500, "INTEGRITY_FAILURE")
      })
    )

    it.effect("an answer that breaks its own schema is our failure and does not leave", () =>
      Effect.gen(function* () {
        lines.length = 0
        const answer = yield* TestApp.get("/answer")
        assertFailure(answer, 500, "INTERNAL_ERROR")
        assert.notInclude(lines.join() + answer.text, "Canary")
      })
    )

    it.effect("a secret that is refused is not repeated", () =>
      Effect.gen(function* () {
        const answer = yield* TestApp.post("/redacted", { json: { value: "Canary".repeat(20_000) } })
        assertFailure(answer, 400, "VALIDATION_FAILED", "value")
        assert.notInclude(answer.text, "Canary")
        assert.include(answer.error.message, "65536")
      })
    )
  })
})

describe("a server whose public address is https://", () => {
  layer(failingServer({ baseUrl: "https://ampoule.example.com" }), { excludeTestServices: true })((it) => {
    it.effect("sends HSTS with every answer; one on plain http does not", () =>
      Effect.gen(function* () {
        for (const path of ["/defect", "/nope", "/integrity"]) {
          const { headers } = yield* TestApp.get(path)
          assert.strictEqual(headers.get("strict-transport-security"), "max-age=31536000", path)
        }
        const plain = yield* Effect.provide(TestApp.get("/nope"), Layer.fresh(failingServer()))
        assert.isNull(plain.headers.get("strict-transport-security"))
      })
    )
  })
})

it("issues: the deepest counts, library text never passes", () => {
  const issues = [
    { _tag: "Type", path: [], message: 'Expected null, actual {"a":"Canary"}' },
    { _tag: "Type", path: ["a", 0, "b"], message: 'Expected string, actual "Canary"' },
    { _tag: "Unexpected", path: ["Canary"], message: "is unexpected, expected: a" }
  ]
  const failure = ErrorEnvelope.validationFailed(issues)
  assert.deepStrictEqual([failure.field, failure.message], ["a.0.b", "This member is not valid."])
  const own = ErrorEnvelope.validationFailed([{ _tag: "Type", path: ["a"], message: "must be a uuid" }])
  assert.strictEqual(own.message, "This member must be a uuid.")
  const sly = ErrorEnvelope.validationFailed([{ _tag: "Type", path: ["a"], message: 'must be "Canary"' }])
  assert.strictEqual(sly.message, "This member is not valid.")
})
