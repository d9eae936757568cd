/** Sign-in by an issuer and teams: who joins, who leaves, whose word counts where, and owners behind glass. */
import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import { randomUUID } from "node:crypto"
import { auditEntry } from "#test/support/Json.ts"
import * as SignIn from "#test/support/SignIn.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import * as FakeIssuer from "./FakeIssuer.ts"
import * as OpenId from "./OpenIdWorld.ts"

const teamsOf = (jar: SignIn.Jar) =>
  Effect.map(
    OpenId.meOf(jar),
    ({ json }) => new Map(json.teams.map(({ id, role }: { readonly id: string; readonly role: string }) => [id, role]))
  )

const entriesOf = (team: World.Team, action: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const rows = yield* sql<{ readonly body: string }>`
      SELECT body FROM audit_entries WHERE team_id = ${team.id} AND action = ${action} ORDER BY at, seq`
    return rows.map(auditEntry)
  })

/** Signs the person in, who is in these groups now. */
const inGroups = (person: FakeIssuer.Person, groups: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const corp = yield* OpenId.Corp
    corp.signs({ ...person, groups })
    return yield* OpenId.signIn(corp, "corp")
  })

layer(OpenId.layer, { excludeTestServices: true })("teams and issuers", (it) => {
  it.effect("a group that is lost is a role that is lost, with what the person made in it", () =>
    Effect.gen(function* () {
      const team = yield* World.team()
      const { text: owner } = yield* World.session(team.owner)
      const [readers, admins] = [randomUUID(), randomUUID()]
      yield* OpenId.rule(team, owner, ["corp", readers, "viewer"])
      yield* OpenId.rule(team, owner, ["corp", admins, "admin"])
      const person = OpenId.personOf()

      const first = yield* inGroups(person, [readers, admins])
      assert.deepStrictEqual([...(yield* teamsOf(first.jar))], [[team.id, "admin"]])
      const token = yield* TestApp.post(`/teams/${team.id}/api-tokens`, {
        session: OpenId.sessionOf(first.jar),
        json: { name: "ci" }
      })
      const works = Effect.map(TestApp.get("/me/verify", { bearer: token.json.value }), ({ status }) => status)
      assert.strictEqual(yield* works, 200)

      const second = yield* inGroups(person, [readers])
      assert.deepStrictEqual([...(yield* teamsOf(second.jar))], [[team.id, "viewer"]])
      assert.strictEqual(yield* works, 401)

      const third = yield* inGroups(person, [])
      assert.strictEqual((yield* teamsOf(third.jar)).size, 0)
      // Earlier sessions ended with the last team.
      assert.isFalse(yield* OpenId.isIn(first.jar))
      const changes = [...(yield* entriesOf(team, "member.join")), ...(yield* entriesOf(team, "member.remove"))]
      assert.deepStrictEqual(
        changes.map(({ action, reason }) => [action, reason]),
        [
          ["member.join", "SIGN_IN_RULE"],
          ["member.remove", "SIGN_IN_RULE"]
        ]
      )
      // The claim may be a text as well as a list: a hosted domain.
      const hosted = yield* TestApp.post(`/teams/${team.id}/sign-in/rules`, {
        session: owner,
        json: { issuer: "corp", claim: "hd", value: `${readers}.example`, role: "member" }
      })
      assert.strictEqual(hosted.status, 201, hosted.text)
      const ofDomain = yield* inGroups({ ...person, hd: `${readers}.example` }, [])
      assert.deepStrictEqual([...(yield* teamsOf(ofDomain.jar))], [[team.id, "member"]])
      const ofAnother = yield* inGroups({ ...person, hd: `sub.${readers}.example` }, [])
      assert.strictEqual((yield* teamsOf(ofAnother.jar)).size, 0)
      // Back in the group, back in the team.
      assert.deepStrictEqual([...(yield* teamsOf((yield* inGroups(person, [admins])).jar))], [[team.id, "admin"]])
    })
  )

  it.effect("rules raise nobody above what an owner set, and touch neither owners nor those who were invited", () =>
    Effect.gen(function* () {
      const corp = yield* OpenId.Corp
      const team = yield* World.team()
      const { text: owner } = yield* World.session(team.owner)
      const group = randomUUID()
      yield* OpenId.rule(team, owner, ["corp", group, "admin"])
      const person = OpenId.personOf()
      const { jar } = yield* inGroups(person, [group])
      const userId = (yield* OpenId.meOf(jar)).json.user.id
      const member = `/teams/${team.id}/members/${userId}`
      const set = (json: object) => TestApp.patch(member, { session: owner, json })
      const roleNow = (groups: ReadonlyArray<string>) =>
        Effect.flatMap(inGroups(person, groups), ({ jar }) => Effect.map(teamsOf(jar), (teams) => teams.get(team.id)))

      yield* set({ role: "viewer" })
      assert.strictEqual(yield* roleNow([group]), "viewer")
      yield* set({ role: "member" })
      assert.strictEqual(yield* roleNow([group]), "member")
      // Whom an owner deactivated, no group brings back.
      yield* set({ active: false })
      corp.signs({ ...person, groups: [group] })
      assert.strictEqual((yield* OpenId.signIn(corp, "corp")).answer.status, 401)
      yield* set({ active: true })
      // An owner is one whatever groups say: a team keeps its last.
      yield* set({ role: "owner" })
      yield* TestApp.post(`/teams/${team.id}/leave`, { session: owner })
      assert.strictEqual(yield* roleNow([]), "owner")
      // No rule makes one.
      const session = OpenId.sessionOf((yield* inGroups(person, [])).jar)
      const makesOwner = yield* OpenId.rule(team, session, ["corp", group, "owner"])
      assert.deepStrictEqual(TestApp.refusalOf(makesOwner), [400, "VALIDATION_FAILED", "role"])

      const invited = yield* SignIn.signedIn
      const linked = OpenId.personOf()
      corp.signs(linked)
      yield* OpenId.signIn(corp, "corp", invited.jar, "", "/app/account/sign-ins/with/corp")
      const { text: invitedOwner } = yield* World.session(invited.person)
      yield* OpenId.rule(invited.team, invitedOwner, ["corp", group, "viewer"])
      const after = yield* inGroups(linked, [group])
      assert.strictEqual((yield* teamsOf(after.jar)).get(invited.team.id), "owner")
      assert.strictEqual((yield* teamsOf((yield* inGroups(linked, [])).jar)).get(invited.team.id), "owner")
    })
  )

  it.scoped("a team's own issuer signs people in to that team alone, whatever it says", () =>
    Effect.gen(function* () {
      const corp = yield* OpenId.Corp
      const victim = yield* SignIn.signedIn
      const attacker = yield* World.team()
      const { text: session } = yield* World.session(attacker.owner)
      const { issuer, key } = yield* OpenId.ownIssuer(attacker, session)
      yield* OpenId.rule(attacker, session, [key, "all", "member"])

      // The subject and the address of somebody whom another issuer signs in.
      const person = OpenId.personOf()
      corp.signs(person)
      yield* OpenId.signIn(corp, "corp", victim.jar, "", "/app/account/sign-ins/with/corp")
      issuer.signs({ ...person, email: victim.person.email, groups: ["all"] })
      assert.strictEqual((yield* OpenId.signIn(issuer, key)).answer.status, 401)

      // A member of both teams who linked it: nothing of the other team is reached, nor the account changed.
      yield* World.join(attacker, victim.person, "member")
      issuer.signs(person)
      const linked = yield* OpenId.signIn(issuer, key, victim.jar, "", `/app/account/sign-ins/with/${key}`)
      assert.include(linked.answer.headers.get("location"), "sign-in-linked")
      const { jar } = yield* OpenId.signIn(issuer, key)
      assert.deepStrictEqual([...(yield* teamsOf(jar)).keys()], [attacker.id])
      const own = OpenId.sessionOf(jar)
      assert.deepStrictEqual(TestApp.codeOf(yield* TestApp.get(`/teams/${victim.team.id}/members`, { session: own })), [
        404,
        "TEAM_NOT_FOUND"
      ])
      assert.strictEqual((yield* SignIn.submit("/app/account/second-factor/app", jar)).status, 403)
      assert.strictEqual((yield* SignIn.submit("/app/account/name", jar, { name: "Mallory" })).status, 403)
      const another = yield* OpenId.begin("corp", jar, "", "/app/account/sign-ins/with/corp")
      assert.strictEqual(another.url, undefined)
      // Confirmed with the password, the session is good for what it was.
      const confirmed = yield* SignIn.submit("/app/confirm", jar, { password: SignIn.password })
      assert.deepStrictEqual([...(yield* teamsOf(SignIn.kept(confirmed, jar))).keys()], [attacker.id])

      // Disabled or removed, it signs nobody in, and what it opened is over.
      const at = `/teams/${attacker.id}/sign-in/issuers/${key}`
      const begun = yield* OpenId.begin(key)
      yield* TestApp.patch(at, { session, json: { enabled: false } })
      assert.isFalse(yield* OpenId.isIn(jar))
      assert.strictEqual((yield* SignIn.see(OpenId.answered(issuer, begun.url), begun.jar)).status, 401)
      assert.strictEqual((yield* OpenId.begin(key)).answer.status, 401)
      yield* TestApp.patch(at, { session, json: { enabled: true } })
      assert.strictEqual((yield* OpenId.signIn(issuer, key)).answer.status, 303)
      assert.strictEqual((yield* TestApp.del(at, { session })).status, 200)
      assert.strictEqual((yield* OpenId.begin(key)).answer.status, 401)
      const { json } = yield* TestApp.get(`/teams/${attacker.id}/sign-in`, { session })
      assert.deepStrictEqual(json.rules, [])
    })
  )

  it.effect("a team takes issuers alone; an owner behind glass gets in with a password, and an alarm", () =>
    Effect.gen(function* () {
      const corp = yield* OpenId.Corp
      const first = yield* SignIn.signedIn
      const { team } = first
      const member = yield* SignIn.signedIn
      yield* World.join(team, member.person, "member")
      const person = OpenId.personOf([], { email: first.person.email })
      corp.signs(person)
      yield* OpenId.signIn(corp, "corp", first.jar, "", "/app/account/sign-ins/with/corp")
      const choose = (session: string, only: ReadonlyArray<string> | null, breakGlass: ReadonlyArray<string>) =>
        TestApp.patch(`/teams/${team.id}/sign-in`, { session, json: { only, breakGlass } })
      // No owner locks themself out: by a password, without a person behind glass, or with one without a key.
      const byPassword = OpenId.sessionOf(first.jar)
      assert.deepStrictEqual(TestApp.refusalOf(yield* choose(byPassword, ["corp"], [team.owner.id])), [
        400,
        "VALIDATION_FAILED",
        "only"
      ])
      const { jar } = yield* OpenId.signIn(corp, "corp")
      const session = OpenId.sessionOf(jar)
      for (const [only, glass, field] of [
        [["corp"], [], "breakGlass"],
        [["corp"], [member.person.id], "breakGlass"],
        [["other"], [team.owner.id], "only"],
        [["corp", randomUUID()], [team.owner.id], "only"]
      ] as const) {
        assert.deepStrictEqual(TestApp.refusalOf(yield* choose(session, only, glass)), [
          400,
          "VALIDATION_FAILED",
          field
        ])
      }
      const chosen = yield* choose(session, ["corp"], [team.owner.id])
      assert.strictEqual(chosen.status, 200, chosen.text)

      const webhook = yield* TestApp.post(`/teams/${team.id}/webhooks`, {
        session,
        json: { name: "alarms", url: "https://hooks.example.com/x", events: ["session.break_glass"] }
      })
      assert.strictEqual(webhook.status, 201, webhook.text)

      // Passwords open nothing of the team, from the next request.
      assert.isFalse((yield* teamsOf(member.jar)).has(team.id))
      const again = yield* SignIn.submit("/app/sign-in", new Map(), {
        email: member.person.email,
        password: SignIn.password
      })
      const back = SignIn.kept(again)
      assert.isFalse((yield* teamsOf(back)).has(team.id))
      const list = yield* TestApp.get(`/teams/${team.id}/members`, { session: OpenId.sessionOf(back) })
      assert.deepStrictEqual(TestApp.codeOf(list), [404, "TEAM_NOT_FOUND"])
      assert.isTrue((yield* teamsOf(jar)).has(team.id))
      assert.lengthOf(yield* entriesOf(team, "session.break_glass"), 0)

      const glass = yield* SignIn.submit("/app/sign-in", new Map(), {
        email: team.owner.email,
        password: SignIn.password
      })
      const inside = SignIn.kept(glass)
      assert.strictEqual((yield* teamsOf(inside)).get(team.id), "owner")
      assert.lengthOf(yield* entriesOf(team, "session.break_glass"), 1)
      const sql = yield* SqlClient.SqlClient
      const events = yield* sql<{ readonly event: string }>`
        SELECT d.event FROM webhook_deliveries d JOIN webhooks w ON w.id = d.webhook_id WHERE w.team_id = ${team.id}`
      assert.deepStrictEqual(
        events.map(({ event }) => event),
        ["session.break_glass"]
      )
      const page = yield* SignIn.see(`/app/teams/${team.id}/sign-in`, inside)
      assert.include(page.text, "An owner signed in with a password")
      // Another issuer of the installation is not one of them.
      const other = yield* OpenId.Other
      other.signs(person)
      yield* OpenId.signIn(other, "other", inside, "", "/app/account/sign-ins/with/other")
      assert.isFalse((yield* teamsOf((yield* OpenId.signIn(other, "other")).jar)).has(team.id))
      // Taken back, passwords are good again.
      assert.strictEqual((yield* choose(OpenId.sessionOf(inside), null, [])).status, 200)
      assert.isTrue((yield* teamsOf(back)).has(team.id))
    })
  )

  it.effect(
    "groups come from UserInfo where the ID token has none, about the same person; an outage takes no role",
    () =>
      Effect.gen(function* () {
        const corp = yield* OpenId.Corp
        const team = yield* World.team()
        const { text: owner } = yield* World.session(team.owner)
        const group = randomUUID()
        yield* OpenId.rule(team, owner, ["corp", group, "member"])
        const { groups: _, ...person } = OpenId.personOf()
        const { email, email_verified, ...nameless } = person
        const signIn = (says: FakeIssuer.Person, wrong: FakeIssuer.Mischief) => {
          corp.signs(says, wrong)
          return OpenId.signIn(corp, "corp")
        }
        // The address too: an account is made of what both say.
        const claims = { groups: [group], email, email_verified }
        const first = yield* signIn(nameless, { userInfo: claims })
        assert.strictEqual(first.answer.status, 303, first.answer.text)
        assert.deepStrictEqual([...(yield* teamsOf(first.jar))], [[team.id, "member"]])
        assert.strictEqual((yield* OpenId.meOf(first.jar)).json.user.email, email)

        // Out of order, of another subject, or kept elsewhere: the sign-in is refused, and the person stays in the team.
        for (const [wrong, says] of [
          [{ userInfo: { groups: [] }, userInfoFails: true }, person],
          [{ userInfo: { sub: "somebody-else", groups: [group] } }, person],
          [{ userInfo: {} }, { ...person, _claim_names: { groups: "src1" } }],
          [{ userInfo: { _claim_names: { groups: "src1" } } }, person]
        ] as const) {
          const { answer, jar } = yield* signIn(says, wrong)
          assert.strictEqual(answer.status, 401, JSON.stringify(wrong))
          assert.isFalse(jar.has("ampoule_session"))
          assert.isTrue((yield* teamsOf(first.jar)).has(team.id), JSON.stringify(wrong))
        }
        // The ID token's claims count, and UserInfo adds none of them.
        const both = yield* signIn({ ...person, groups: ["other"] }, { userInfo: { groups: [group] } })
        assert.strictEqual((yield* teamsOf(both.jar)).size, 0)
        // UserInfo vouches for its own address alone, and does not say how somebody signed in.
        const stranger = OpenId.personOf([group], { email_verified: undefined })
        const vouched = yield* signIn(stranger, { userInfo: { email: "other@example.com", email_verified: true } })
        assert.strictEqual(vouched.answer.status, 401)
        const account = yield* SignIn.signedIn
        const { jar: enrolled } = yield* SignIn.enrol(account.jar)
        const linked = OpenId.personOf()
        corp.signs(linked)
        yield* OpenId.signIn(corp, "corp", enrolled, "", "/app/account/sign-ins/with/corp")
        const { answer } = yield* signIn({ ...linked, groups: undefined }, { userInfo: { amr: ["mfa"], acr: "mfa" } })
        assert.strictEqual(answer.headers.get("location")?.split("?")[0], "/app/sign-in/code")
      })
  )

  it.scoped("whom a team keeps out for the password reads why, and the next step; no one else reads anything", () =>
    Effect.gen(function* () {
      const corp = yield* OpenId.Corp
      const sql = yield* SqlClient.SqlClient
      const owner = yield* SignIn.signedIn
      const name = `Shop ${randomUUID().slice(0, 8)}`
      const team = yield* World.team({ owner: owner.person, name })
      corp.signs(OpenId.personOf([], { email: owner.person.email }))
      yield* OpenId.signIn(corp, "corp", owner.jar, "", "/app/account/sign-ins/with/corp")
      const { jar } = yield* OpenId.signIn(corp, "corp")
      const chosen = yield* TestApp.patch(`/teams/${team.id}/sign-in`, {
        session: OpenId.sessionOf(jar),
        json: { only: ["corp"], breakGlass: [owner.person.id] }
      })
      assert.strictEqual(chosen.status, 200, chosen.text)

      const person = yield* World.member(team, "member")
      const opened = Effect.map(World.session(person), ({ text }): SignIn.Jar => new Map([["ampoule_session", text]]))
      const alone = yield* opened
      yield* sql`
        INSERT INTO account_notices (id, user_id, kind, about, created_at)
        VALUES (${randomUUID()}, ${person.id}, 'new_device', '', now())`
      const led = yield* SignIn.see("/app", alone)
      assert.deepStrictEqual([led.status, led.headers.get("location")], [303, "/app/teams/new"])
      const newTeamPage = yield* SignIn.see("/app/teams/new", alone)
      for (const words of [
        `${name} accepts only sign-ins with The corp`,
        "You signed in with a password or a passkey.",
        "Link The corp",
        // They see notices of their own sign-in here too.
        "New sign-in:"
      ]) {
        assert.include(newTeamPage.text, words)
      }
      assert.notInclude(newTeamPage.text, "You have no team here")
      assert.notInclude(newTeamPage.text, "Link The other")

      // The page's advice works: linked, it is the way in.
      const theirs = OpenId.personOf([], { email: person.email })
      corp.signs(theirs)
      yield* OpenId.signIn(corp, "corp", alone, "", "/app/account/sign-ins/with/corp")
      assert.include((yield* SignIn.see("/app/account/sign-ins", alone)).text, "Sign in with The corp")
      const inside = (yield* OpenId.signIn(corp, "corp", alone)).jar
      assert.isTrue((yield* teamsOf(inside)).has(team.id))
      assert.notInclude((yield* SignIn.see("/app", inside)).text, "accepts only sign-ins")

      // The team's own page of sign-ins says it before anybody types a password, and offers what it takes.
      const page = yield* SignIn.see(`/app/sign-in?team=${team.id}`, new Map())
      assert.include(page.text, "This team accepts only these sign-ins.")
      assert.include(page.text, "Sign in with The corp")
      assert.notInclude(page.text, "Sign in with The other")
      assert.notInclude(page.text, name)
      assert.include((yield* SignIn.see("/app/sign-in", new Map())).text, "Sign in with The other")

      // A session that another team's issuer opened learns nothing of it, nor does who is no member any more.
      const elsewhere = yield* World.team()
      yield* World.join(elsewhere, person, "member")
      const { text: session } = yield* World.session(elsewhere.owner)
      const { issuer, key } = yield* OpenId.ownIssuer(elsewhere, session)
      issuer.signs(theirs)
      yield* OpenId.signIn(issuer, key, inside, "", `/app/account/sign-ins/with/${key}`)
      const bound = (yield* OpenId.signIn(issuer, key)).jar
      assert.deepStrictEqual([...(yield* teamsOf(bound)).keys()], [elsewhere.id])
      assert.notInclude((yield* SignIn.see("/app/account/sign-ins", bound)).text, name)
      assert.include((yield* SignIn.see("/app", yield* opened)).text, name)
      yield* TestApp.del(`/teams/${team.id}/members/${person.id}`, { session: OpenId.sessionOf(jar) })
      assert.notInclude((yield* SignIn.see("/app", yield* opened)).text, name)
    })
  )

  it.scoped("rows that no server wrote let nobody in", () =>
    Effect.gen(function* () {
      const corp = yield* OpenId.Corp
      const sql = yield* SqlClient.SqlClient
      const team = yield* World.team()
      const { text: owner } = yield* World.session(team.owner)
      const group = randomUUID()
      yield* OpenId.rule(team, owner, ["corp", group, "member"])
      const victim = OpenId.personOf([group])
      corp.signs(victim)
      const { jar } = yield* OpenId.signIn(corp, "corp")
      const victimId = (yield* OpenId.meOf(jar)).json.user.id

      // An identity of the attacker's, pointed at the victim.
      const attacker = OpenId.personOf([group])
      yield* sql`
        INSERT INTO sign_in_identities (id, source, issuer, subject, user_id, created_at, mac)
        SELECT gen_random_uuid(), source, issuer, ${attacker.sub}, user_id, created_at, mac
        FROM sign_in_identities WHERE user_id = ${victimId}`
      corp.signs(attacker)
      assert.strictEqual((yield* OpenId.signIn(corp, "corp")).answer.status, 401)
      // A rule that gives more than its author wrote.
      yield* sql`UPDATE sign_in_rules SET role = 'admin' WHERE team_id = ${team.id}`
      corp.signs(OpenId.personOf([group]))
      assert.strictEqual((yield* OpenId.signIn(corp, "corp")).answer.status, 401)
      // The issuer's address.
      const { issuer, key } = yield* OpenId.ownIssuer(team, owner)
      issuer.signs(OpenId.personOf())
      yield* sql`UPDATE sign_in_issuers SET issuer = ${corp.url} WHERE id = ${key}`
      assert.strictEqual((yield* OpenId.begin(key)).answer.status, 401)
    })
  )

  it.effect("an issuer that is none, or inside of the server's network, is refused", () =>
    Effect.gen(function* () {
      const corp = yield* OpenId.Corp
      const team = yield* World.team()
      const { text: session } = yield* World.session(team.owner)
      const add = (issuer: string) =>
        TestApp.post(`/teams/${team.id}/sign-in/issuers`, { session, json: { name: "x", issuer, clientId: "c" } })
      for (const issuer of [
        `${corp.url}/nothing`,
        "https://10.0.0.1",
        "https://[::1]",
        "ftp://example.com",
        "http://example.com"
      ]) {
        assert.deepStrictEqual(TestApp.refusalOf(yield* add(issuer)), [400, "VALIDATION_FAILED", "issuer"], issuer)
      }
    })
  )
})
