/** Reports of leaked credentials: who may send one, what it ends, whom it tells, and what it leaves nowhere. */
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import * as LocalIssuer from "./LocalIssuer.ts"
import * as ReportSigner from "./ReportSigner.ts"

const scanner = ReportSigner.make()
const stranger = ReportSigner.make()
const other = ReportSigner.make("secp384r1")
const appWith = (leakReportKeys: string) =>
  TestApp.server.pipe(
    Layer.provideMerge(
      Layer.merge(TestApp.backends, TestApp.config({ leakReportKeys: Option.some(leakReportKeys), rateLimits: false }))
    )
  )

const path = "/reports/leaked-credentials"
const url = "https://user:hidden@github.com/example/shop/blob/0f3a/.env?token=hidden#L3"
const bodyOf = (...texts: ReadonlyArray<string>) =>
  JSON.stringify(texts.map((token) => ({ token, type: "ampoule_token", url, source: "content", later: true })))
const send = (body: string, headers: Record<string, string> = scanner.headers(body)) =>
  TestApp.post(path, { body, headers })
const labels = (answer: TestApp.Answer) =>
  (JSON.parse(answer.text) as ReadonlyArray<{ readonly label: string }>).map(({ label }) => label)
const textOf = ({ text }: { readonly text: string | Redacted.Redacted }) =>
  typeof text === "string" ? text : Redacted.value(text)

const setUp = Effect.gen(function* () {
  const project = yield* World.project()
  const { team } = project
  const session = textOf(yield* World.session(team.owner))
  const leaked = Effect.map(TestApp.get(`/teams/${team.id}/leaked-credentials`, { session }), ({ json }) => json.items)
  const entries = (action: string) =>
    Effect.map(TestApp.get(`/teams/${team.id}/audit?action=${action}`, { session }), ({ json }) => json.items)
  return { project, team, session, leaked, entries }
})

layer(appWith(ReportSigner.documentOf(scanner, other)), { excludeTestServices: true })("a leaked credential", (it) => {
  it.effect("is revoked by a signed report, recorded once, and told; its text is left nowhere", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { entries, leaked, session, team } = yield* setUp
      const hook = yield* TestApp.post(`/teams/${team.id}/webhooks`, {
        session,
        json: { name: "told", url: "https://hooks.example.com/told", events: ["credential.leaked"] }
      })
      assert.strictEqual(hook.status, 201, hook.text)
      const token = yield* World.token({ team, name: "ci" })
      const text = textOf(token)
      const wrong = `${text.slice(0, 25)}${text.slice(25, 26) === "a" ? "b" : "a"}${text.slice(26)}`
      const body = bodyOf(text, wrong, "ghp_nothing", text)
      const report = yield* send(body)
      assert.strictEqual(report.status, 200, report.text)
      assert.deepStrictEqual(labels(report), ["true_positive", "false_positive", "false_positive", "true_positive"])
      assert.strictEqual(report.headers.get("cache-control"), "no-store")
      assert.deepStrictEqual(TestApp.codeOf(yield* TestApp.get("/me/verify", { bearer: text })), [
        401,
        "CREDENTIAL_REVOKED"
      ])
      const [one, ...more] = yield* leaked
      assert.deepInclude(one, {
        type: "api_token",
        credentialId: token.id,
        name: "ci",
        revoked: true,
        source: "content",
        url: "https://github.com/example/shop/blob/0f3a/.env"
      })
      assert.lengthOf(more, 0)
      // The same report again changes nothing and sends no notice.
      assert.deepStrictEqual(labels(yield* send(body)), labels(report))
      assert.lengthOf(yield* entries("credential.leaked"), 1)
      assert.lengthOf(yield* entries("token.revoke"), 1)
      const events = yield* sql<{
        body: string
      }>`SELECT body FROM webhook_deliveries WHERE webhook_id = ${hook.json.id}`
      assert.lengthOf(events, 1)
      const written = yield* sql<{ all: string }>`
        SELECT coalesce(string_agg(t.row, ' '), '') AS all FROM (
          SELECT body AS row FROM audit_entries UNION ALL SELECT body FROM webhook_deliveries
          UNION ALL SELECT l::text FROM leaked_credentials l
        ) AS t`
      assert.notInclude(written[0].all, text.slice(24, 60))
      assert.notInclude(written[0].all, "hidden")
    })
  )

  it.effect("of a person ends too: login, session, invitation; one that no scanner knows is not ours", () =>
    Effect.gen(function* () {
      const { entries, leaked, session, team } = yield* setUp
      const bob = yield* World.member(team, "member")
      const login = yield* World.grant({ person: bob, teams: [{ team, scopes: ["identity:read"] }] })
      const theirs = yield* World.session(bob)
      const invited = yield* TestApp.post(`/teams/${team.id}/invitations`, {
        session,
        json: { email: "new@example.com", role: "member" }
      })
      const code = new URL(invited.json.inviteUrl).searchParams.get("code") ?? ""
      const report = yield* send(bodyOf(textOf(login), textOf(theirs), code))
      assert.deepStrictEqual(labels(report), ["true_positive", "true_positive", "true_positive"])
      assert.strictEqual((yield* TestApp.get("/me/cli", { bearer: login.text })).status, 401)
      assert.strictEqual((yield* TestApp.get("/me", { session: theirs.text })).status, 401)
      const joined = yield* TestApp.post("/invitations/accept", {
        json: { code, name: "New", password: "vial of thirty drops" }
      })
      assert.isAtLeast(joined.status, 400)
      assert.sameMembers(
        (yield* leaked).map(({ type }) => type),
        ["cli_grant", "session", "invitation"]
      )
      assert.lengthOf(yield* entries("credential.leaked"), 3)
    })
  )

  it.effect("keeps working where the team chose a notice alone, and gives one notice", () =>
    Effect.gen(function* () {
      const { entries, leaked, session, team } = yield* setUp
      const rule = (leakedCredentials: string, as: string = session) =>
        TestApp.patch(`/teams/${team.id}`, { session: as, json: { leakedCredentials } })
      assert.strictEqual((yield* rule("notify")).json.leakedCredentials, "notify")
      assert.deepStrictEqual(TestApp.codeOf(yield* rule("ignore")), [400, "VALIDATION_FAILED"])
      const admin = yield* World.member(team, "admin")
      assert.deepStrictEqual(TestApp.codeOf(yield* rule("revoke", textOf(yield* World.session(admin)))), [
        403,
        "FORBIDDEN"
      ])
      const token = textOf(yield* World.token({ team }))
      for (const _ of [1, 2]) assert.deepStrictEqual(labels(yield* send(bodyOf(token))), ["true_positive"])
      assert.strictEqual((yield* TestApp.get("/me/verify", { bearer: token })).status, 200)
      assert.deepStrictEqual(
        (yield* leaked).map(({ revoked }) => revoked),
        [false]
      )
      assert.lengthOf(yield* entries("credential.leaked"), 1)
      // The rule of the day counts.
      yield* rule("revoke")
      yield* send(bodyOf(token))
      assert.deepStrictEqual(
        (yield* leaked).map(({ revoked }) => revoked),
        [true]
      )
      assert.strictEqual((yield* TestApp.get("/me/verify", { bearer: token })).status, 401)
    })
  )

  it.effect("is not touched by a report that no configured key signed, whatever it says", () =>
    Effect.gen(function* () {
      const { leaked, team } = yield* setUp
      const token = textOf(yield* World.token({ team }))
      const body = bodyOf(token)
      const good = scanner.headers(body)
      const without = (name: string) => Object.fromEntries(Object.entries(good).filter(([one]) => one !== name))
      const refused = (headers: Record<string, string>, sent = body) => Effect.map(send(sent, headers), TestApp.codeOf)
      const unauthenticated = [401, "UNAUTHENTICATED"] as const
      assert.deepStrictEqual(yield* refused(without("github-public-key-identifier")), [...unauthenticated])
      assert.deepStrictEqual(yield* refused(without("github-public-key-signature")), [...unauthenticated])
      const attacks: ReadonlyArray<readonly [Record<string, string>, string?]> = [
        // By a key that nobody configured, under its own name and under the scanner's.
        [stranger.headers(body)],
        [{ ...stranger.headers(body), "github-public-key-identifier": scanner.identifier }],
        // By a key on another curve, which the document names.
        [other.headers(body)],
        // Of another body, and of this one with a space more.
        [scanner.headers("[]")],
        [good, `${body} `],
        [{ ...good, "github-public-key-signature": "" }],
        [{ ...good, "github-public-key-signature": "A".repeat(96) }],
        [{ ...good, "github-public-key-signature": "A".repeat(5_000) }],
        [{ ...good, "github-public-key-identifier": "__proto__" }]
      ]
      for (const [headers, sent] of attacks) {
        const answer = yield* send(sent ?? body, headers)
        assert.strictEqual(answer.status, 401, answer.text)
        assert.notInclude(answer.text, token)
      }
      assert.strictEqual((yield* TestApp.get("/me/verify", { bearer: token })).status, 200)
      assert.lengthOf(yield* leaked, 0)
    })
  )

  it.effect("is looked for in what is a list of at most 1,000 reports alone", () =>
    Effect.gen(function* () {
      const { team } = yield* setUp
      const token = textOf(yield* World.token({ team }))
      const many = Array.from({ length: 1_001 }, () => token)
      for (const body of ["", "{}", "null", "[1]", `[{"token":"${token}"}]`, `[{"token":"${token}`, bodyOf(...many)]) {
        const answer = yield* send(body)
        assert.deepStrictEqual(TestApp.codeOf(answer), [400, "VALIDATION_FAILED"], body.slice(0, 40))
        assert.notInclude(answer.text, token)
      }
      const huge = yield* send(JSON.stringify([{ token: "x".repeat(1_100_000), type: "t" }]))
      assert.deepStrictEqual(TestApp.codeOf(huge), [413, "PAYLOAD_TOO_LARGE"])
      assert.deepStrictEqual(JSON.parse((yield* send("[]")).text), [])
      assert.lengthOf(labels(yield* send(bodyOf(...many.slice(1).map(() => "nothing")))), 1_000)
      assert.strictEqual((yield* TestApp.get("/me/verify", { bearer: token })).status, 200)
    })
  )
})

layer(TestApp.layer, { excludeTestServices: true })("without keys", (it) => {
  it.effect("the route is not there", () =>
    Effect.gen(function* () {
      const answer = yield* send("[]")
      assert.deepStrictEqual(TestApp.codeOf(answer), [404, "ROUTE_NOT_FOUND"])
    })
  )
})

const document = { body: ReportSigner.documentOf(scanner), status: 200, asked: 0 }
const address = Layer.unwrapScoped(
  Effect.map(
    LocalIssuer.serve((_, response) => {
      document.asked++
      response.writeHead(document.status, { "content-type": "application/json" }).end(document.body)
    }),
    ({ url }) => appWith(`${url}/keys`)
  )
)
layer(address, { excludeTestServices: true })("keys at an address", (it) => {
  it.effect("are read once, and not again for each name that nobody knows", () =>
    Effect.gen(function* () {
      for (let i = 0; i < 5; i++) {
        assert.strictEqual((yield* send("[]")).status, 200)
        assert.strictEqual((yield* send("[]", stranger.headers("[]"))).status, 401)
      }
      assert.strictEqual(document.asked, 1)
    })
  )
})

const broken = Layer.unwrapScoped(
  Effect.map(
    LocalIssuer.serve((_, response) => void response.writeHead(503).end()),
    ({ url }) => appWith(`${url}/keys`)
  )
)
layer(broken, { excludeTestServices: true })("keys that cannot be read", (it) => {
  it.effect("are a dependency that is down: the scanner tries again", () =>
    Effect.gen(function* () {
      const answer = yield* send("[]")
      assert.deepStrictEqual(TestApp.codeOf(answer), [500, "DEPENDENCY_UNAVAILABLE"])
    })
  )
})
