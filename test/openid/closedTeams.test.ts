/** A team that issuers alone open, and a session that one team's issuer opened: the doors beside the front door. */
import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import { randomUUID } from "node:crypto"
import { RowSeal } from "#src/rows/RowSeal.ts"
import * as SignIn from "#test/support/SignIn.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import * as FakeIssuer from "./FakeIssuer.ts"
import * as OpenId from "./OpenIdWorld.ts"

const teamsOf = (jar: SignIn.Jar) =>
  Effect.map(OpenId.meOf(jar), ({ json }) => json.teams.map(({ id }: { readonly id: string }) => id))

/** A team that requires corp, and its owner's session by it. */
const closed = Effect.gen(function* () {
  const corp = yield* OpenId.Corp
  const owner = yield* SignIn.signedIn
  corp.signs(OpenId.personOf([], { email: owner.person.email }))
  yield* OpenId.signIn(corp, "corp", owner.jar, "", "/app/account/sign-ins/with/corp")
  const { jar } = yield* OpenId.signIn(corp, "corp")
  const chosen = yield* TestApp.patch(`/teams/${owner.team.id}/sign-in`, {
    session: OpenId.sessionOf(jar),
    json: { only: ["corp"], breakGlass: [owner.person.id] }
  })
  assert.strictEqual(chosen.status, 200, chosen.text)
  return { team: owner.team, session: OpenId.sessionOf(jar) }
})

/** A member's password session links what corp says of `person`; returns the browser that signs in with it. */
const linkedBy = (member: { readonly jar: SignIn.Jar }, person: FakeIssuer.Person) =>
  Effect.gen(function* () {
    const corp = yield* OpenId.Corp
    corp.signs(person)
    const linked = yield* OpenId.signIn(corp, "corp", member.jar, "", "/app/account/sign-ins/with/corp")
    assert.strictEqual(linked.answer.status, 303, linked.answer.text)
    return (yield* OpenId.signIn(corp, "corp")).jar
  })

layer(OpenId.layer, { excludeTestServices: true })("a team that requires an issuer", (it) => {
  it.effect("is not opened by a foreign or unverified identity that a password session linked", () =>
    Effect.gen(function* () {
      const { session, team } = yield* closed
      for (const more of [{}, { email_verified: false }] as const) {
        const member = yield* SignIn.signedIn
        yield* World.join(team, member.person, "member")
        const email = "email_verified" in more ? member.person.email : `${randomUUID()}@elsewhere.example`
        const person = OpenId.personOf([], { ...more, email })
        const jar = yield* linkedBy(member, person)
        assert.notInclude(yield* teamsOf(jar), team.id)
        assert.include(yield* teamsOf(jar), member.team.id)
        // A further identity, linked in that session, opens no more than the session.
        const second = yield* linkedBy({ jar }, OpenId.personOf())
        assert.notInclude(yield* teamsOf(second), team.id)

        // An owner who sees the address and the day confirms it.
        const path = `/teams/${team.id}/members/${member.person.id}` as const
        const { authenticators } = (yield* TestApp.get(`${path}/access`, { session })).json
        const own = authenticators.find(({ address }) => address === email)
        assert.deepStrictEqual([own?.opensTeam, own?.waitsForOwner], [false, true])
        const confirmed = yield* TestApp.post(`${path}/authenticators/${own?.id ?? ""}/confirm`, { session })
        assert.strictEqual(confirmed.status, 200, confirmed.text)
        const corp = yield* OpenId.Corp
        corp.signs(person)
        assert.include(yield* teamsOf((yield* OpenId.signIn(corp, "corp")).jar), team.id)
      }
    })
  )

  it.effect("is opened by the right verified address, and by what a session of the issuer linked", () =>
    Effect.gen(function* () {
      const { team } = yield* closed
      const member = yield* SignIn.signedIn
      yield* World.join(team, member.person, "member")
      const jar = yield* linkedBy(member, OpenId.personOf([], { email: member.person.email }))
      assert.include(yield* teamsOf(jar), team.id)
      assert.include(yield* teamsOf(yield* linkedBy({ jar }, OpenId.personOf())), team.id)
    })
  )

  it.effect("goes on being opened for 30 days by what was linked before, and shows it to owners", () =>
    Effect.gen(function* () {
      const { session, team } = yield* closed
      const sql = yield* SqlClient.SqlClient
      const rowSeal = yield* RowSeal
      const member = yield* SignIn.signedIn
      yield* World.join(team, member.person, "member")
      const person = OpenId.personOf()
      yield* linkedBy(member, person)
      yield* rowSeal.update("sign_in_identities", sql`user_id = ${member.person.id}`, () => ({ witness: null }))
      const corp = yield* OpenId.Corp
      corp.signs(person)
      assert.include(yield* teamsOf((yield* OpenId.signIn(corp, "corp")).jar), team.id)
      const { authenticators } = (yield* TestApp.get(`/teams/${team.id}/members/${member.person.id}/access`, {
        session
      })).json
      assert.deepStrictEqual(
        authenticators.map(({ opensTeam, waitsForOwner }) => [opensTeam, waitsForOwner]),
        [[true, true]]
      )
      // A session of the last days ends with them.
      yield* sql`UPDATE effect_sql_migrations SET created_at = created_at - interval '29 days' WHERE name = 'ways_in'`
      const last = OpenId.sessionOf((yield* OpenId.signIn(corp, "corp")).jar)
      const [ends] = yield* sql<{ readonly withGrace: boolean; readonly own: boolean }>`
        SELECT s.expires_at = date_trunc('milliseconds', m.created_at) + interval '30 days' AS with_grace, s.expires_at > now() AS own
        FROM sessions s, effect_sql_migrations m
        WHERE m.name = 'ways_in' AND s.user_id = ${member.person.id} ORDER BY s.id DESC LIMIT 1`
      assert.deepStrictEqual(ends, { withGrace: true, own: true })
      assert.include(
        (yield* TestApp.get("/me", { session: last })).json.teams.map(({ id }) => id),
        team.id
      )
      yield* sql`UPDATE effect_sql_migrations SET created_at = created_at + interval '29 days' WHERE name = 'ways_in'`

      yield* sql`UPDATE effect_sql_migrations SET created_at = created_at - interval '31 days' WHERE name = 'ways_in'`
      assert.notInclude(yield* teamsOf((yield* OpenId.signIn(corp, "corp")).jar), team.id)
      yield* sql`UPDATE effect_sql_migrations SET created_at = created_at + interval '31 days' WHERE name = 'ways_in'`
    })
  )

  it.effect("refuses names of a person with control characters, and goes on", () =>
    Effect.gen(function* () {
      const corp = yield* OpenId.Corp
      const group = randomUUID()
      for (const more of [{ sub: "a\u0000b" }, { sub: "" }, { sub: "x".repeat(256) }, { sid: "a\u0000" }]) {
        corp.signs({ ...OpenId.personOf([group]), ...more })
        const { answer } = yield* OpenId.signIn(corp, "corp")
        assert.strictEqual(answer.status, 401, JSON.stringify(more))
      }
    })
  )
})

layer(OpenId.layer, { excludeTestServices: true })("a session of a team's own issuer", (it) => {
  it.scoped("is good for that team alone: it links no other issuer, makes no team and joins none", () =>
    Effect.gen(function* () {
      const team = yield* World.team()
      const { text: owner } = yield* World.session(team.owner)
      const issuer = yield* FakeIssuer.make()
      const registered = yield* TestApp.post(`/teams/${team.id}/sign-in/issuers`, {
        session: owner,
        json: { name: "Own", issuer: issuer.url, clientId: issuer.clientId, clientSecret: issuer.clientSecret }
      })
      const group = randomUUID()
      yield* OpenId.rule(team, owner, [registered.json.key, group, "member"])
      const person = OpenId.personOf([group])
      issuer.signs(person)
      const { jar } = yield* OpenId.signIn(issuer, registered.json.key)
      const session = OpenId.sessionOf(jar)
      assert.deepStrictEqual(yield* teamsOf(jar), [team.id])
      const created = yield* TestApp.post("/teams", { session, json: { name: "Another" } })
      assert.deepStrictEqual(TestApp.codeOf(created), [403, "FORBIDDEN"])
      assert.strictEqual((yield* OpenId.begin("corp", jar, "", "/app/account/sign-ins/with/corp")).answer.status, 403)
      const elsewhere = yield* World.team()
      const invited = yield* TestApp.post(`/teams/${elsewhere.id}/invitations`, {
        session: (yield* World.session(elsewhere.owner)).text,
        json: { email: person["email"], role: "member" }
      })
      const code = new URL(invited.json.inviteUrl).searchParams.get("code")
      const accepted = yield* TestApp.post("/invitations/accept", { session, json: { code } })
      assert.deepStrictEqual(TestApp.codeOf(accepted), [403, "FORBIDDEN"])
      // The same invitation works in a session that covers the account.
      const { json } = yield* OpenId.meOf(jar)
      const whole = yield* World.session(json.user)
      const joined = yield* TestApp.post("/invitations/accept", { session: whole.text, json: { code } })
      assert.strictEqual(joined.status, 200, joined.text)
    })
  )
})
