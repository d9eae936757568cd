import * as SqlClient from "@effect/sql/SqlClient"
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as EndedCredentials from "#src/credentials/EndedCredentials.ts"
import * as MovableClock from "#test/support/MovableClock.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const app = TestApp.server.pipe(
  Layer.provideMerge(Layer.merge(TestApp.backends, TestApp.config())),
  Layer.provideMerge(MovableClock.layer)
)

const purge = Effect.flatMap(SqlClient.SqlClient, EndedCredentials.purge)
const codeIn = (address: string) => new URL(address).searchParams.get("code") ?? ""

/** One of each that ends by itself, and how each is presented. */
const codeOf = (answer: TestApp.Answer) => (answer.status < 400 ? undefined : answer.error.code)

const credentials = Effect.gen(function* () {
  const team = yield* World.team()
  const owner = yield* World.session(team.owner)
  const member = yield* World.member(team, "member")
  const session = yield* World.session(member)
  const grant = yield* World.grant({ person: member, teams: [{ team, scopes: ["identity:read"] }] })
  const ownCredentials = { session: owner.text }
  const invited = yield* TestApp.post(`/teams/${team.id}/invitations`, {
    ...ownCredentials,
    json: { email: `${member.id}-friend@example.com`, role: "member" }
  })
  const reset = yield* TestApp.post(`/teams/${team.id}/members/${member.id}/password-reset`, ownCredentials)
  const invitation = codeIn(invited.json.inviteUrl)
  const link = codeIn(reset.json.resetUrl)
  return {
    session: Effect.map(TestApp.get("/me", { session: session.text }), codeOf),
    grant: Effect.map(TestApp.get("/me", { bearer: grant.text }), codeOf),
    invitation: Effect.map(TestApp.post("/invitations/accept", { json: { code: invitation } }), codeOf),
    reset: Effect.map(
      TestApp.post("/password-reset", { json: { code: link, newPassword: "vial of forty drops!" } }),
      codeOf
    )
  }
})

layer(app, { excludeTestServices: true })("credentials that ended", (it) => {
  it.effect("keep their own refusal for 30 days more, then are forgotten", () =>
    Effect.gen(function* () {
      const { grant, invitation, reset, session } = yield* credentials
      const [invalid, expired] = ["CREDENTIAL_INVALID", "CREDENTIAL_EXPIRED"] as const

      yield* MovableClock.advance("30 days")
      yield* purge
      assert.deepStrictEqual(yield* Effect.all([reset, invitation, session]), [expired, expired, expired])
      // A day and 30 days after the link was made; 7 and 30 after the other two.
      yield* MovableClock.advance("2 days")
      yield* purge
      assert.deepStrictEqual(yield* Effect.all([reset, invitation, session]), [invalid, expired, expired])
      yield* MovableClock.advance("6 days")
      yield* purge
      assert.deepStrictEqual(yield* Effect.all([reset, invitation, session]), [invalid, invalid, invalid])
      assert.isUndefined(yield* grant)

      yield* MovableClock.advance("171 days")
      yield* purge
      assert.strictEqual(yield* grant, expired)
      yield* MovableClock.advance("2 days")
      yield* purge
      assert.strictEqual(yield* grant, invalid)
    })
  )

  it.effect("by revocation keep their own refusal as long as they would have lived, and 30 days", () =>
    Effect.gen(function* () {
      const team = yield* World.team()
      const grant = yield* World.grant({ person: team.owner, teams: [{ team, scopes: ["identity:read"] }] })
      yield* World.revoke("cli_grants", grant)
      yield* MovableClock.advance("209 days")
      yield* purge
      assert.strictEqual((yield* TestApp.get("/me", { bearer: grant.text })).error.code, "CREDENTIAL_REVOKED")
      yield* MovableClock.advance("2 days")
      yield* purge
      assert.strictEqual((yield* TestApp.get("/me", { bearer: grant.text })).error.code, "CREDENTIAL_INVALID")
    })
  )

  it.effect("go in one purge however many there are, and the living stay", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const person = yield* World.person()
      const old = EndedCredentials.batch * 2 + 7
      yield* sql`
        INSERT INTO sessions (id, lookup_id, salt, hash, user_id, created_at, expires_at, last_used_at)
        SELECT gen_random_uuid(), 'old' || n, '\\x00', '\\x00', ${person.id}, at, at, at
        FROM generate_series(1, ${old}) AS n, (SELECT timestamptz '2001-01-01' AS at) AS long_ago`
      const living = yield* World.session(person)
      yield* purge
      const rows = yield* sql`SELECT id FROM sessions WHERE user_id = ${person.id}`
      assert.deepStrictEqual(rows, [{ id: living.id }])
    })
  )
})
