import { assert, describe, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { clientAddress, trustedProxies } from "#src/http/engine/RequestContext.ts"
import * as Redacted from "effect/Redacted"
import { auditEntry } from "#test/support/Json.ts"
import * as MovableClock from "#test/support/MovableClock.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const assertRefused = (answer: TestApp.Answer, status: number, code: string) => {
  assert.deepStrictEqual([answer.status, answer.error.code], [status, code], answer.text)
  assert.strictEqual(answer.headers.get("www-authenticate"), status === 401 ? "Bearer" : null)
}

/** Text of a credential that was made as real ones are and stored nowhere. */
const unknown = (kind: "at" | "cg" | "ss" | "dc" | "oa") =>
  Effect.map(World.issue(kind), ({ text }) => Redacted.value(text))

const setUp = Effect.gen(function* () {
  const project = yield* World.project()
  const { owner } = project.team
  const token = yield* World.token({ team: project.team })
  const session = yield* World.session(owner)
  const grant = yield* World.grant({ person: owner, teams: [{ team: project.team, scopes: ["identity:read"] }] })
  return { project, owner, token, session, grant }
})

describe("credentials of a request", () => {
  layer(TestApp.shared, { excludeTestServices: true })((it) => {
    it.effect("none is UNAUTHENTICATED, garbage and unknown are CREDENTIAL_INVALID", () =>
      Effect.gen(function* () {
        assertRefused(yield* TestApp.get("/capabilities"), 401, "UNAUTHENTICATED")
        const header = (authorization: string) => TestApp.get("/capabilities", { headers: { authorization } })
        assertRefused(yield* header("Bearer"), 401, "UNAUTHENTICATED")
        assertRefused(yield* header("Bearer x"), 401, "CREDENTIAL_INVALID")
        assertRefused(yield* header("Basic eDp5"), 401, "CREDENTIAL_INVALID")
        for (const kind of ["at", "cg", "ss", "dc", "oa"] as const) {
          assertRefused(
            yield* TestApp.get("/capabilities", { bearer: yield* unknown(kind) }),
            401,
            "CREDENTIAL_INVALID"
          )
        }
        const { token } = yield* setUp
        assertRefused(yield* header(token.text), 401, "CREDENTIAL_INVALID")
        assertRefused(yield* header(`Bearer ${token.text}x`), 401, "CREDENTIAL_INVALID")
        assert.strictEqual((yield* header(`bEARER   ${token.text} `)).status, 200)
      })
    )

    it.effect("each kind is taken where the route lists it and is a 403 where it does not", () =>
      Effect.gen(function* () {
        const { grant, project, session, token } = yield* setUp
        const kinds = { token: token.text, grant: grant.text, session: session.text }
        const table = [
          ["GET", "/capabilities", "token grant session"],
          ["GET", "/me", "grant session"],
          ["GET", "/me/cli", "grant"],
          ["GET", `/teams/${project.team.id}/api-tokens`, "session"]
        ]
        for (const [method, path, accepted] of table) {
          for (const [kind, text] of Object.entries(kinds)) {
            const answer = yield* TestApp.request(
              method,
              path,
              kind === "session" ? { session: text } : { bearer: text }
            )
            if (accepted.includes(kind)) assert.strictEqual(answer.status, 200, `${kind} ${path}: ${answer.text}`)
            else assertRefused(answer, 403, "CREDENTIAL_KIND_NOT_ACCEPTED")
          }
        }
      })
    )

    it.effect("expired and revoked say so, after the secret was proven", () =>
      Effect.gen(function* () {
        const team = yield* World.team()
        const expired = yield* World.token({ team, expiresIn: -1000 })
        const revoked = yield* World.token({ team, revoked: true })
        assertRefused(yield* TestApp.get("/capabilities", { bearer: expired.text }), 401, "CREDENTIAL_EXPIRED")
        assertRefused(yield* TestApp.get("/capabilities", { bearer: revoked.text }), 401, "CREDENTIAL_REVOKED")
        const { session } = yield* setUp
        yield* World.revoke("sessions", session)
        assertRefused(yield* TestApp.get("/capabilities", { session: session.text }), 401, "CREDENTIAL_REVOKED")
      })
    )

    it.effect("revocation holds from the next request", () =>
      Effect.gen(function* () {
        const { token } = yield* setUp
        assert.strictEqual((yield* TestApp.get("/capabilities", { bearer: token.text })).status, 200)
        yield* World.revoke("api_tokens", token)
        assertRefused(yield* TestApp.get("/capabilities", { bearer: token.text }), 401, "CREDENTIAL_REVOKED")
      })
    )

    it.effect("DELETE /me/token answers a revoked token, not an expired one", () =>
      Effect.gen(function* () {
        const { project, token } = yield* setUp
        for (let i = 0; i < 2; i++) {
          const answer = yield* TestApp.del("/me/token", { bearer: token.text })
          assert.deepStrictEqual([answer.status, answer.json], [200, { revoked: true }])
        }
        const expired = yield* World.token({ team: project.team, expiresIn: -1000 })
        assertRefused(yield* TestApp.del("/me/token", { bearer: expired.text }), 401, "CREDENTIAL_EXPIRED")
      })
    )

    it.effect("with both, the bearer alone counts", () =>
      Effect.gen(function* () {
        const { session, token } = yield* setUp
        const both = { bearer: token.text, session: session.text }
        assertRefused(yield* TestApp.get("/me", both), 403, "CREDENTIAL_KIND_NOT_ACCEPTED")
        const bad = { bearer: "x", session: session.text }
        assertRefused(yield* TestApp.get("/me", bad), 401, "CREDENTIAL_INVALID")
        const proxied = { session: session.text, headers: { authorization: "Basic eDp5" } }
        assert.strictEqual((yield* TestApp.get("/me", proxied)).status, 200)
      })
    )

    it.effect("a session's change from another site is refused, a bearer's is not", () =>
      Effect.gen(function* () {
        const { project, session, token } = yield* setUp
        const create = (key: string, asked: TestApp.Asked) =>
          TestApp.post("/secrets", { ...asked, json: { projectId: project.id, environment: "development", key } })
        const foreign = { origin: "https://evil.example" }
        assertRefused(yield* create("A", { session: session.text, headers: foreign }), 403, "CROSS_SITE_REQUEST")
        assertRefused(
          yield* create("A", { session: session.text, headers: { origin: "null" } }),
          403,
          "CROSS_SITE_REQUEST"
        )
        for (const site of ["cross-site", "same-site"]) {
          const headers = { "sec-fetch-site": site, origin: TestApp.baseUrl }
          assertRefused(yield* create("A", { session: session.text, headers }), 403, "CROSS_SITE_REQUEST")
        }
        const own = { "sec-fetch-site": "same-origin", origin: TestApp.baseUrl }
        assert.strictEqual((yield* create("A", { session: session.text, headers: own })).status, 201)
        assert.strictEqual((yield* create("B", { session: session.text })).status, 201)
        assert.strictEqual((yield* create("C", { bearer: token.text, headers: foreign })).status, 201)
        const value = `/secrets/value?projectId=${project.id}&environment=development&key=A` as const
        const crossSite = { session: session.text, headers: { "sec-fetch-site": "cross-site" } }
        assertRefused(yield* TestApp.get(value, crossSite), 403, "CROSS_SITE_REQUEST")
        assert.strictEqual((yield* TestApp.get("/me", crossSite)).status, 200)
        assert.strictEqual((yield* TestApp.get(value, { session: session.text })).status, 200)
      })
    )

    it.effect("the checks come in the order of the contract", () =>
      Effect.gen(function* () {
        const { session, token } = yield* setUp
        const foreign = { origin: "https://evil.example" }
        const malformed = { body: "{", headers: { "content-type": "application/json", ...foreign } }
        assertRefused(yield* TestApp.post("/secrets", malformed), 401, "UNAUTHENTICATED")
        assertRefused(
          yield* TestApp.post("/secrets", { ...malformed, session: session.text }),
          403,
          "CROSS_SITE_REQUEST"
        )
        assertRefused(yield* TestApp.post("/secrets", { ...malformed, bearer: token.text }), 400, "VALIDATION_FAILED")
        // Every route that a bearer may not take says so before it looks at the body.
        const { project } = yield* setUp
        const tokens = `/teams/${project.team.id}/api-tokens` as const
        assertRefused(
          yield* TestApp.post(tokens, { ...malformed, bearer: token.text }),
          403,
          "CREDENTIAL_KIND_NOT_ACCEPTED"
        )
      })
    )

    it.effect("refusals of a known credential are in the trail, those of unknown ones are not", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const team = yield* World.team()
        const revoked = yield* World.token({ team, revoked: true })
        const answer = yield* TestApp.get("/capabilities", {
          bearer: revoked.text,
          headers: { "user-agent": "ampoule-cli/1" }
        })
        const rows = yield* sql<{ body: string }>`SELECT body FROM audit_entries WHERE team_id = ${team.id}`
        const entries = rows.map(auditEntry)
        assert.strictEqual(entries.length, 1)
        assert.strictEqual(entries[0].action, "credential.refused")
        assert.strictEqual(entries[0].outcome, "denied")
        assert.strictEqual(entries[0].reason, "CREDENTIAL_REVOKED")
        assert.deepStrictEqual(entries[0].actor, { id: revoked.id, name: "ci", type: "api_token" })
        assert.strictEqual(entries[0].requestId, answer.headers.get("x-request-id"))
        assert.strictEqual(entries[0].via, "cli")
        for (let i = 0; i < 30; i++) yield* TestApp.get("/capabilities", { bearer: revoked.text })
        const after = yield* sql<{ n: number }>`SELECT count(*)::int AS n FROM audit_entries WHERE team_id = ${team.id}`
        assert.strictEqual(after[0].n, 10)
      })
    )

    it.effect("what a session does is done through the dashboard", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { project, session } = yield* setUp
        const json = { projectId: project.id, environment: "development", key: "A" }
        assert.strictEqual((yield* TestApp.post("/secrets", { session: session.text, json })).status, 201)
        const rows = yield* sql<{ body: string }>`SELECT body FROM audit_entries WHERE team_id = ${project.team.id}`
        assert.deepStrictEqual(
          rows.map((row) => auditEntry(row).via),
          ["dashboard"]
        )
      })
    )

    it.effect("what is refused to a session was asked through the dashboard as well", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { project, session } = yield* setUp
        assertRefused(
          yield* TestApp.get("/auth/cli/device/events", { session: session.text }),
          403,
          "CREDENTIAL_KIND_NOT_ACCEPTED"
        )
        yield* World.revoke("sessions", session)
        assertRefused(yield* TestApp.get("/me", { session: session.text }), 401, "CREDENTIAL_REVOKED")
        const rows = yield* sql<{ body: string }>`
          SELECT body FROM audit_entries WHERE team_id = ${project.team.id} ORDER BY seq`
        assert.deepStrictEqual(
          rows.map(auditEntry).map(({ action, reason, via }) => [action, reason, via]),
          [
            ["credential.refused", "CREDENTIAL_KIND_NOT_ACCEPTED", "dashboard"],
            ["credential.refused", "CREDENTIAL_REVOKED", "dashboard"]
          ]
        )
      })
    )
  })

  // On a stopped clock: a busy machine takes longer than a second for fifty requests.
  layer(TestApp.layer.pipe(Layer.provideMerge(MovableClock.layer)), { excludeTestServices: true })((it) => {
    it.effect("the credential's own bucket: headers on every answer, 429 at the fifty-first of a second", () =>
      Effect.gen(function* () {
        const { token } = yield* setUp
        const first = yield* TestApp.get("/capabilities", { bearer: token.text })
        assert.strictEqual(first.headers.get("ratelimit-limit"), "50")
        assert.strictEqual(first.headers.get("ratelimit-remaining"), "49")
        assert.match(first.headers.get("ratelimit-reset") ?? "", /^\d+$/)
        const refusedKind = yield* TestApp.get("/me", { bearer: token.text })
        assert.isNotNull(refusedKind.headers.get("ratelimit-remaining"))
        const rest = yield* Effect.all(
          Array.from({ length: 80 }, () => TestApp.get("/capabilities", { bearer: token.text })),
          { concurrency: 20 }
        )
        const limited = rest.filter(({ status }) => status === 429)
        assert.isAbove(limited.length, 0)
        for (const answer of limited) {
          assert.strictEqual(answer.error.code, "RATE_LIMITED")
          assert.strictEqual(answer.headers.get("retry-after"), String(answer.error.retryAfterSeconds))
          assert.strictEqual(answer.headers.get("ratelimit-remaining"), "0")
        }
        const other = yield* setUp
        assert.strictEqual((yield* TestApp.get("/capabilities", { bearer: other.token.text })).status, 200)
      })
    )
  })
})

describe("requests that nobody vouches for", () => {
  layer(
    TestApp.server.pipe(
      Layer.provideMerge(Layer.merge(TestApp.backends, TestApp.config({ trustedProxies: ["127.0.0.0/8"] })))
    ),
    {
      excludeTestServices: true
    }
  )((it) => {
    const from = (ip: string) => ({ headers: { "x-forwarded-for": ip } })

    it.effect("300 a minute per address, then 429; health and known credentials are exempt", () =>
      Effect.gen(function* () {
        const paths = ["/capabilities", "/nope", "/openapi.json"]
        const ask = (i: number) => TestApp.get(paths[i % 3], from("203.0.113.7"))
        const answers = yield* Effect.all(
          Array.from({ length: 300 }, (_, i) => ask(i)),
          { concurrency: 10 }
        )
        assert.deepStrictEqual([...new Set(answers.map(({ status }) => status))].sort(), [200, 401, 404])
        for (let i = 0; i < 3; i++) {
          const answer = yield* ask(i)
          assertRefused(answer, 429, "RATE_LIMITED")
          assert.isNotNull(answer.headers.get("retry-after"))
        }
        assert.strictEqual((yield* TestApp.get("/health/live", from("203.0.113.7"))).status, 200)
        assertRefused(yield* TestApp.get("/capabilities", from("203.0.113.8")), 401, "UNAUTHENTICATED")
        const { text } = yield* World.token({ team: yield* World.team() })
        const vouched = yield* TestApp.get("/capabilities", { ...from("203.0.113.7"), bearer: text })
        assert.strictEqual(vouched.status, 200)
      })
    )
  })

  layer(TestApp.shared, { excludeTestServices: true })((it) => {
    it.effect("X-Forwarded-For of a stranger is a claim and does not count", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const team = yield* World.team()
        const revoked = yield* World.token({ team, revoked: true })
        yield* TestApp.get("/capabilities", { bearer: revoked.text, headers: { "x-forwarded-for": "203.0.113.7" } })
        const rows = yield* sql<{ body: string }>`SELECT body FROM audit_entries WHERE team_id = ${team.id}`
        assert.strictEqual(auditEntry(rows[0]).ip, "127.0.0.1")
      })
    )

    it.effect("the client is the rightmost address that is not a proxy of ours", () =>
      Effect.sync(() => {
        const trusted = trustedProxies(["10.0.0.0/8", "::1", "nonsense"])
        const client = (peer: string, ...nodes: ReadonlyArray<string>) => clientAddress(peer, nodes, trusted)
        assert.strictEqual(client("::ffff:10.0.0.1", "1.1.1.1", " 2.2.2.2", " 10.9.9.9"), "2.2.2.2")
        // One address has one spelling, so that a client has one bucket.
        assert.strictEqual(client("10.0.0.1", "::ffff:c000:0209", "::ffff:10.9.9.9"), "192.0.2.9")
        assert.strictEqual(client("9.9.9.9", "1.1.1.1"), "9.9.9.9")
        assert.strictEqual(client("9.9.9.9", "junk"), "9.9.9.9")
        assert.strictEqual(client("::1", "2001:db8::5"), "2001:db8::5")
        assert.strictEqual(client("::1"), "::1")
        assert.strictEqual(client("10.0.0.1", "junk", "2.2.2.2"), "2.2.2.2")
        // The proxy's own address would admit everybody behind it.
        assert.strictEqual(client("10.0.0.1", "junk", "10.0.0.2"), "unknown")
      })
    )
  })
})
