import { assert, describe, layer } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { Crypto } from "#src/crypto/Crypto.ts"
import { Listening } from "#src/http/engine/Server.ts"
import { freshAddress } from "#test/support/FreshAddress.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

/** Starts count per address: behind a trusted proxy each test can have addresses of its own. */
const app = TestApp.server.pipe(
  Layer.provideMerge(Layer.merge(TestApp.backends, TestApp.config({ trustedProxies: ["127.0.0.0/8"] })))
)

const fromFresh = () => ({ "x-forwarded-for": freshAddress() })
const start = (asked: TestApp.Asked = {}) =>
  TestApp.post("/auth/cli/device", { ...asked, headers: { ...fromFresh(), ...asked.headers } })
const poll = (deviceCode: unknown, asked: TestApp.Asked = {}) =>
  TestApp.post("/auth/cli/device/token", { json: { deviceCode }, headers: fromFresh(), ...asked })

const begin = Effect.fnUntraced(function* (json: object = {}) {
  const answer = yield* start({ json })
  assert.strictEqual(answer.status, 201, answer.text)
  const { deviceCode, userCode } = answer.json
  return { deviceCode, userCode, page: `/auth/cli/device/requests/${userCode}` as const }
})

const setUp = Effect.gen(function* () {
  const project = yield* World.project()
  const session = (yield* World.session(project.team.owner)).text
  const scopes = ["identity:read", "projects:read", "secrets:read", "secrets:run"]
  return { project, session, body: { teams: [{ teamId: project.team.id, scopes }] } }
})

/** Text of an event stream as it comes in: `until` waits for a part of it, `rest` for its end. */
const open = (deviceCode: string) =>
  Effect.gen(function* () {
    const { port } = yield* Listening
    const response = yield* Effect.promise((signal) =>
      fetch(`http://127.0.0.1:${port}/auth/cli/device/events`, {
        signal,
        headers: { authorization: `Bearer ${deviceCode}` }
      })
    )
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
    if (reader !== undefined) yield* Effect.addFinalizer(() => Effect.promise(() => reader.cancel()))
    let text = ""
    const read = (enough: () => boolean) =>
      Effect.promise(async () => {
        if (reader === undefined) return text
        while (!enough()) {
          const { done, value } = await reader.read()
          if (done) break
          text += value
        }
        return text
      })
    return { response, until: (part: string) => read(() => text.includes(part)), rest: read(() => false) }
  })

const failure = TestApp.refusalOf

describe("the device routes", () => {
  layer(app, { excludeTestServices: true })((it) => {
    it.effect("start with no body, an empty body, null and {} alike", () =>
      Effect.gen(function* () {
        const attempts: ReadonlyArray<TestApp.Asked> = [
          {},
          { body: "" },
          { body: "", headers: { "content-type": "application/json" } },
          { body: "null", headers: { "content-type": "application/json" } },
          { json: {} }
        ]
        for (const one of attempts) {
          const { headers, json, status } = yield* start(one)
          assert.strictEqual(status, 201)
          assert.strictEqual(headers.get("cache-control"), "no-store")
          assert.sameMembers(Object.keys(json), [
            "deviceCode",
            "userCode",
            "verificationUri",
            "verificationUriComplete",
            "expiresInSeconds",
            "pollIntervalSeconds"
          ])
        }
      })
    )

    it.effect("refuse an unknown member, a wrong one and a host that would deceive its reader", () =>
      Effect.gen(function* () {
        const cases: ReadonlyArray<readonly [unknown, string | undefined]> = [
          [{ extra: 1 }, "extra"],
          [{ credentialProtection: "paper" }, "credentialProtection"],
          [{ machineCredential: true }, "machineCredential"],
          [{ installationId: "1" }, "installationId"],
          [{ host: { hostname: "x".repeat(257) } }, "host.hostname"],
          [{ host: { hostname: "a\u202eb" } }, "host.hostname"],
          [{ host: { os: "a\u0000" } }, "host.os"],
          [{ host: { hostname: "a", arch: "b" } }, "host.arch"],
          [[], undefined],
          ["{}", undefined]
        ]
        for (const [json, field] of cases) {
          assert.deepStrictEqual(
            failure(yield* start({ json })),
            [400, "VALIDATION_FAILED", field],
            JSON.stringify(json)
          )
        }
        assert.strictEqual((yield* start({ json: { host: { hostname: "x".repeat(256), os: "" } } })).status, 201)
      })
    )

    it.effect("take 10 starts a minute from an address, then say when to come back", () =>
      Effect.gen(function* () {
        const headers = { "x-forwarded-for": "198.51.100.77" }
        for (let i = 0; i < 10; i++) assert.strictEqual((yield* start({ headers })).status, 201)
        const refused = yield* start({ headers })
        assert.deepStrictEqual(failure(refused), [429, "RATE_LIMITED", undefined])
        assert.strictEqual(refused.headers.get("retry-after"), String(refused.error.retryAfterSeconds))
        assert.isAtLeast(refused.error.retryAfterSeconds ?? 0, 1)
      })
    )

    it.effect("count a start that is malformed as well, before they look at it", () =>
      Effect.gen(function* () {
        const headers = { "x-forwarded-for": "198.51.100.78" }
        const malformed: ReadonlyArray<TestApp.Asked> = [
          { headers, json: { zz: 1 } },
          { headers: { ...headers, "content-type": "application/json" }, body: "{" },
          { headers: { ...headers, "content-type": "text/plain" }, body: "{}" }
        ]
        const statuses = []
        for (let i = 0; i < 15; i++) statuses.push((yield* start(malformed[i % 3])).status)
        assert.deepStrictEqual(
          statuses,
          statuses.map((_, i) => (i >= 10 ? 429 : i % 3 === 2 ? 415 : 400))
        )
        assert.deepStrictEqual(failure(yield* start({ headers })), [429, "RATE_LIMITED", undefined])
      })
    )

    it.effect("lead from the start to a credential that works until its logout", () =>
      Effect.gen(function* () {
        const { body, project, session } = yield* setUp
        const { deviceCode, page, userCode } = yield* begin({ host: { hostname: "laptop", os: "linux" } })
        const answer = yield* TestApp.get(page, { session })
        assert.strictEqual(answer.status, 200)
        assert.strictEqual(answer.json.userCode, userCode)
        assert.strictEqual(answer.json.status, "pending")
        assert.deepStrictEqual(answer.json.host, { hostname: "laptop", os: "linux" })
        assert.deepStrictEqual((yield* poll(deviceCode)).json, { status: "pending" })

        const approved = yield* TestApp.post(`${page}/approve`, { session, json: body })
        assert.strictEqual(approved.status, 200)
        assert.deepStrictEqual(approved.json, { status: "approved" })
        const granted = yield* poll(deviceCode)
        assert.strictEqual(granted.status, 201)
        assert.strictEqual(granted.headers.get("cache-control"), "no-store")
        assert.sameMembers(Object.keys(granted.json), [
          "status",
          "credential",
          "grantId",
          "expiresAt",
          "user",
          "teams",
          "restrictions"
        ])
        assert.strictEqual(granted.json.user?.email, project.team.owner.email)
        assert.deepStrictEqual((yield* poll(deviceCode)).json, { status: "failed", reason: "consumed" })

        const bearer = granted.json.credential ?? assert.fail("no credential")
        assert.strictEqual((yield* TestApp.get("/capabilities", { bearer })).status, 200)
        const logout = yield* TestApp.post("/auth/cli/logout", { bearer })
        assert.strictEqual(logout.status, 201)
        assert.deepStrictEqual(logout.json, { revoked: true })
        for (const path of ["/capabilities", "/me"]) {
          assert.deepStrictEqual(failure(yield* TestApp.get(path, { bearer })), [401, "CREDENTIAL_REVOKED", undefined])
        }
        assert.deepStrictEqual(failure(yield* TestApp.post("/auth/cli/logout", { bearer })), [
          401,
          "CREDENTIAL_REVOKED",
          undefined
        ])
      })
    )

    it.effect("approve by a POST of a signed-in person from the same origin alone", () =>
      Effect.gen(function* () {
        const { body, project, session } = yield* setUp
        const { deviceCode, page } = yield* begin()
        for (const path of [page, `${page}/approve`, "/device"]) yield* TestApp.get(path, { session })
        assert.deepStrictEqual((yield* poll(deviceCode)).json, { status: "pending" })

        const elsewhere = { session, json: body, headers: { origin: "http://evil.example" } }
        assert.deepStrictEqual(failure(yield* TestApp.post(`${page}/approve`, elsewhere)), [
          403,
          "CROSS_SITE_REQUEST",
          undefined
        ])
        const { text: token } = yield* World.token({ team: project.team })
        const { text: grant } = yield* World.grant({
          person: project.team.owner,
          teams: [{ team: project.team, scopes: ["identity:read"] }]
        })
        for (const bearer of [token, grant]) {
          assert.deepStrictEqual(failure(yield* TestApp.post(`${page}/approve`, { bearer, json: body })), [
            403,
            "CREDENTIAL_KIND_NOT_ACCEPTED",
            undefined
          ])
        }
        assert.deepStrictEqual(failure(yield* TestApp.post(`${page}/approve`, { json: body })), [
          401,
          "UNAUTHENTICATED",
          undefined
        ])
        assert.strictEqual((yield* TestApp.post(`${page}/approve`, { session, json: body })).status, 200)
      })
    )

    it.effect("refuse what cannot be granted, each with its code", () =>
      Effect.gen(function* () {
        const { body, project, session } = yield* setUp
        const other = yield* World.project()
        const viewer = (yield* World.session(yield* World.member(project.team, "viewer"))).text
        const { page } = yield* begin()
        const [team] = body.teams
        const approve = (json: unknown, as = session) =>
          Effect.map(TestApp.post(`${page}/approve`, { session: as, json }), failure)
        const invalid = (field: string) => [400, "VALIDATION_FAILED", field]
        assert.deepStrictEqual(
          yield* approve({ teams: [{ ...team, scopes: ["secrets:read", "audit:read"] }] }),
          invalid("teams.0.scopes.1")
        )
        assert.deepStrictEqual(yield* approve({ teams: [] }), invalid("teams"))
        assert.deepStrictEqual(yield* approve({ teams: [{ ...team, scopes: [] }] }), invalid("teams.0.scopes"))
        assert.deepStrictEqual(yield* approve({ ...body, projectIds: [] }), invalid("projectIds"))
        assert.deepStrictEqual(yield* approve({ ...body, environmentIds: [] }), invalid("environmentIds"))
        assert.deepStrictEqual(yield* approve({ ...body, extra: true }), invalid("extra"))
        assert.deepStrictEqual(yield* approve({}), invalid("teams"))
        assert.deepStrictEqual(yield* approve({ teams: [{ ...team, teamId: other.team.id }] }), [
          404,
          "TEAM_NOT_FOUND",
          undefined
        ])
        assert.deepStrictEqual(yield* approve({ ...body, projectIds: [other.id] }), [
          404,
          "PROJECT_NOT_FOUND",
          undefined
        ])
        assert.deepStrictEqual(yield* approve({ ...body, environmentIds: [other.staging.id] }), [
          404,
          "ENVIRONMENT_NOT_FOUND",
          undefined
        ])
        assert.deepStrictEqual(yield* approve(body, viewer), [403, "FORBIDDEN", undefined])
        assert.strictEqual((yield* approve(body))[0], 200)
        const decided = [409, "GRANT_ALREADY_DECIDED", undefined]
        assert.deepStrictEqual(yield* approve(body), decided)
        assert.deepStrictEqual(failure(yield* TestApp.post(`${page}/deny`, { session })), decided)
        for (const method of ["GET", "POST"]) {
          const unknown = `/auth/cli/device/requests/BBBB-BBBB${method === "GET" ? "" : "/deny"}` as const
          assert.deepStrictEqual(failure(yield* TestApp.request(method, unknown, { session })), [
            404,
            "GRANT_NOT_FOUND",
            undefined
          ])
        }
      })
    )

    it.effect("take the device code in the body of the token route, and nowhere else", () =>
      Effect.gen(function* () {
        const { deviceCode } = yield* begin()
        const token = "/auth/cli/device/token"
        assert.deepStrictEqual((yield* poll("nonsense")).json, { status: "failed", reason: "unknown" })
        assert.deepStrictEqual(failure(yield* poll(deviceCode, { json: { deviceCode, more: 1 } })), [
          400,
          "VALIDATION_FAILED",
          "more"
        ])
        assert.deepStrictEqual(failure(yield* poll(deviceCode, { json: {} })), [400, "VALIDATION_FAILED", "deviceCode"])
        assert.deepStrictEqual(failure(yield* poll(7)), [400, "VALIDATION_FAILED", "deviceCode"])
        assert.strictEqual(
          (yield* TestApp.post(`${token}?deviceCode=${deviceCode}`, { headers: fromFresh() })).status,
          400
        )
        assert.deepStrictEqual(failure(yield* TestApp.get(`/auth/cli/device/events?deviceCode=${deviceCode}`)), [
          401,
          "UNAUTHENTICATED",
          undefined
        ])
      })
    )

    it.scoped("stream the decision and close", () =>
      Effect.gen(function* () {
        const { body, project, session } = yield* setUp
        const { deviceCode, page } = yield* begin()
        const stream = yield* open(deviceCode)
        assert.strictEqual(stream.response.status, 200)
        assert.match(stream.response.headers.get("content-type") ?? "", /^text\/event-stream/)
        assert.strictEqual(stream.response.headers.get("cache-control"), "no-store")
        const connected = 'event: connected\ndata: {"event":"connected"}\n\n'
        assert.strictEqual(yield* stream.until("\n\n"), connected)
        yield* TestApp.post(`${page}/approve`, { session, json: body })
        const email = project.team.owner.email
        const approved = `event: approved\ndata: {"event":"approved","email":"${email}"}\n\n`
        assert.strictEqual(yield* stream.rest, connected + approved)
        // Decided but not fetched yet: a new stream says so at once. Fetched: the code is used up.
        assert.strictEqual(yield* (yield* open(deviceCode)).rest, connected + approved)
        yield* poll(deviceCode)
        assert.strictEqual((yield* open(deviceCode)).response.status, 401)
      })
    )

    it.effect("refuse the stream to every other credential", () =>
      Effect.gen(function* () {
        const { project, session } = yield* setUp
        const { deviceCode } = yield* begin()
        const path = "/auth/cli/device/events"
        const { text: bearer } = yield* World.token({ team: project.team })
        const answers: ReadonlyArray<readonly [TestApp.Asked, number, string]> = [
          [{}, 401, "UNAUTHENTICATED"],
          [{ bearer: "junk" }, 401, "CREDENTIAL_INVALID"],
          [{ bearer: deviceCode.slice(0, -1) + (deviceCode.endsWith("0") ? "1" : "0") }, 401, "CREDENTIAL_INVALID"],
          [{ bearer }, 403, "CREDENTIAL_KIND_NOT_ACCEPTED"],
          [{ session }, 403, "CREDENTIAL_KIND_NOT_ACCEPTED"]
        ]
        for (const [asked, status, code] of answers) {
          const answer = yield* TestApp.get(path, asked)
          assert.deepStrictEqual(failure(answer), [status, code, undefined])
          assert.strictEqual(answer.headers.get("ratelimit-limit"), status === 403 ? "50" : null)
        }
      })
    )

    it.effect("list a person's own grants, and revoke them", () =>
      Effect.gen(function* () {
        const { project, session } = yield* setUp
        const teams = [{ team: project.team, scopes: ["identity:read"] as const }]
        const grant = yield* World.grant({ person: project.team.owner, teams })
        const stranger = yield* World.session(yield* World.member(project.team, "owner"))
        const listed = yield* TestApp.get("/me/cli-grants", { session })
        assert.deepStrictEqual(
          listed.json.items.map((item: { readonly id: string }) => item.id),
          [grant.id]
        )
        assert.deepStrictEqual((yield* TestApp.get("/me/cli-grants", { session: stranger.text })).json, { items: [] })
        const path = `/me/cli-grants/${grant.id}` as const
        const unknown = [404, "GRANT_NOT_FOUND", undefined]
        assert.deepStrictEqual(failure(yield* TestApp.del(path, { session: stranger.text })), unknown)
        const deleted = yield* TestApp.del(path, { session })
        assert.strictEqual(deleted.status, 200)
        assert.deepStrictEqual(deleted.json, { deleted: true })
        assert.deepStrictEqual(failure(yield* TestApp.del(path, { session })), unknown)
        assert.deepStrictEqual(failure(yield* TestApp.get("/capabilities", { bearer: grant.text })), [
          401,
          "CREDENTIAL_REVOKED",
          undefined
        ])
      })
    )

    it.effect("do not keep a stopping server: an open stream ends first", () =>
      Effect.gen(function* () {
        const scope = yield* Scope.make()
        const context = yield* Layer.buildWithScope(Layer.provideMerge(app, Crypto.Default), scope)
        yield* Effect.scoped(
          Effect.gen(function* () {
            const { deviceCode } = yield* begin()
            const stream = yield* open(deviceCode)
            yield* stream.until("\n\n")
            yield* Scope.close(scope, Exit.void)
            assert.strictEqual(yield* stream.rest, 'event: connected\ndata: {"event":"connected"}\n\n')
          })
        ).pipe(Effect.provideService(Listening, Context.get(context, Listening)))
      })
    )
  })
})
