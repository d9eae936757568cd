/** Sign-in by an issuer: what an attacker, a wrong issuer or a stranger gets of it. */
import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import { randomUUID } from "node:crypto"
import { auditEntry } from "#test/support/Json.ts"
import * as SignIn from "#test/support/SignIn.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import type * as FakeIssuer from "./FakeIssuer.ts"
import * as OpenId from "./OpenIdWorld.ts"

/** A team that lets in a group of its own, by `corp`. */
const scene = Effect.gen(function* () {
  const corp = yield* OpenId.Corp
  const team = yield* World.team()
  const { text: owner } = yield* World.session(team.owner)
  const group = randomUUID()
  const rule = yield* OpenId.rule(team, owner, ["corp", group, "member"])
  assert.strictEqual(rule.status, 201, rule.text)
  return { corp, team, owner, group, person: OpenId.personOf([group]) }
})

/** Reasons of refused sign-ins, the newest first. */
const reasons = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly body: string }>`
    SELECT body FROM audit_entries WHERE action = 'session.create' ORDER BY at DESC, seq DESC LIMIT 20`
  return rows.map((row) => auditEntry(row).reason)
})

const refused = (key: string, jar: SignIn.Jar, path: string, reason: string) =>
  Effect.gen(function* () {
    const answer = yield* SignIn.see(path, jar)
    assert.strictEqual(answer.status, 401, `${key}: ${reason}`)
    const after = SignIn.kept(answer, jar)
    assert.isFalse(after.has("ampoule_session") && (yield* OpenId.isIn(after)), reason)
    assert.include((yield* reasons).slice(0, 5), reason)
  })

layer(OpenId.layer, { excludeTestServices: true })("sign-in by an issuer", (it) => {
  it.effect("makes an account for whom a rule lets in, once, and opens it from then on", () =>
    Effect.gen(function* () {
      const { corp, person, team } = yield* scene
      corp.signs(person)
      const first = yield* OpenId.signIn(corp, "corp", new Map(), "/app/start")
      assert.deepStrictEqual([first.answer.status, first.answer.headers.get("location")], [303, "/app/start"])
      const me = yield* OpenId.meOf(first.jar)
      assert.deepStrictEqual(
        me.json.teams.map(({ id, role }: { readonly id: string; readonly role: string }) => [id, role]),
        [[team.id, "member"]]
      )
      assert.strictEqual(me.json.user.email, person["email"])
      const second = yield* OpenId.signIn(corp, "corp")
      assert.deepStrictEqual((yield* OpenId.meOf(second.jar)).json.user, me.json.user)
      // There is no password to guess.
      const guessed = yield* TestApp.post("/auth/session", { json: { email: person["email"], password: "" } })
      assert.include([400, 401], guessed.status)
    })
  )

  it.effect("refuses answers that are not what was asked for, each with its reason in the trail", () =>
    Effect.gen(function* () {
      const { corp, person } = yield* scene
      const other = yield* OpenId.Other
      const cases: ReadonlyArray<readonly [name: string, wrong: FakeIssuer.Mischief, reason: string]> = [
        ["mixed-up issuer", { answer: { iss: other.url } }, "OAUTH_INVALID_RESPONSE"],
        ["no iss where the issuer says that it sends one", { answer: { iss: undefined } }, "OAUTH_INVALID_RESPONSE"],
        ["another state", { answer: { state: "of-somebody-else" } }, "OAUTH_INVALID_RESPONSE"],
        ["foreign nonce", { claims: { nonce: "of-somebody-else" } }, "OAUTH_JWT_CLAIM_COMPARISON_FAILED nonce"],
        ["no nonce", { claims: { nonce: undefined } }, "OAUTH_INVALID_RESPONSE"],
        ["alg none", { sign: "none" }, "OAUTH_"],
        ["key confusion", { sign: "hmac-of-key" }, "OAUTH_"],
        ["another key", { sign: "other-key" }, "OAUTH_INVALID_RESPONSE"],
        ["claims of another issuer", { claims: { iss: other.url } }, "OAUTH_JWT_CLAIM_COMPARISON_FAILED iss"],
        ["wrong audience", { claims: { aud: "another-client" } }, "OAUTH_JWT_CLAIM_COMPARISON_FAILED aud"],
        ["two audiences", { claims: { aud: ["ampoule", "another-client"], azp: "ampoule" } }, "ID_TOKEN_AUDIENCES"],
        ["expired", { claims: { iat: 1_000, exp: 2_000 } }, "OAUTH_JWT_TIMESTAMP_CHECK_FAILED exp"],
        ["refused there", { answer: { code: undefined, error: "access_denied" } }, "access_denied"]
      ]
      for (const [name, wrong, reason] of cases) {
        corp.signs(person, wrong)
        const { answer, jar } = yield* OpenId.signIn(corp, "corp")
        assert.strictEqual(answer.status, 401, name)
        assert.isFalse(jar.has("ampoule_session"), name)
        assert.isTrue(
          (yield* reasons).slice(0, 1).some((said) => said?.includes(reason)),
          `${name}: ${(yield* reasons)[0]}`
        )
      }
    })
  )

  it.effect("is good in the browser that asked alone, and once", () =>
    Effect.gen(function* () {
      const { corp, person } = yield* scene
      corp.signs(person)
      // Another person's answer, brought to a victim who began nothing, and to one who began a sign-in of their own.
      const attackers = yield* OpenId.begin("corp")
      const planted = OpenId.answered(corp, attackers.url)
      yield* refused("login CSRF", new Map(), planted, "FLOW_UNKNOWN")
      const victims = yield* OpenId.begin("corp")
      yield* refused("login CSRF", victims.jar, planted, "OAUTH_INVALID_RESPONSE")
      // The same answer twice, in the browser that asked: state and code are used up.
      const begun = yield* OpenId.begin("corp")
      const path = OpenId.answered(corp, begun.url)
      assert.strictEqual((yield* SignIn.see(path, begun.jar)).status, 303)
      yield* refused("replayed state", begun.jar, path, "FLOW_USED")
      // The code in a sign-in of its own.
      const again = yield* OpenId.begin("corp")
      const code = new URL(path, TestApp.baseUrl).searchParams.get("code") ?? ""
      const injected = new URL(OpenId.answered(corp, again.url), TestApp.baseUrl)
      injected.searchParams.set("code", code)
      yield* refused(
        "replayed code",
        again.jar,
        injected.pathname + injected.search,
        "OAUTH_RESPONSE_BODY_ERROR invalid_grant"
      )
      // An answer of one issuer at the address of the other.
      const mixed = yield* OpenId.begin("corp")
      const elsewhere = OpenId.answered(corp, mixed.url).replace("/with/corp/", "/with/other/")
      yield* refused("another issuer's address", mixed.jar, elsewhere, "FLOW_UNKNOWN")
      // A cookie that no server sealed.
      const forged = new Map([["ampoule_flow", Buffer.alloc(200, 1).toString("base64url")]])
      yield* refused("forged flow", forged, path, "FLOW_UNKNOWN")
    })
  )

  it.effect("leads to pages of this dashboard alone", () =>
    Effect.gen(function* () {
      const { corp, person } = yield* scene
      corp.signs(person)
      const bad = [
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "/app//evil.example",
        "javascript:alert(1)"
      ]
      for (const next of bad) {
        const { answer } = yield* OpenId.signIn(corp, "corp", new Map(), next)
        assert.strictEqual(answer.headers.get("location"), "/app", next)
      }
      const crossSite = yield* SignIn.submit(
        "/app/sign-in/with/corp",
        new Map(),
        {},
        { "sec-fetch-site": "cross-site" }
      )
      assert.strictEqual(crossSite.status, 403)
    })
  )

  it.effect("never takes an account by its e-mail address", () =>
    Effect.gen(function* () {
      const { corp, group } = yield* scene
      const other = yield* OpenId.Other
      const owner = yield* SignIn.signedIn
      const email = owner.person.email
      // Any person that the issuer vouches for, at any issuer.
      for (const [issuer, key] of [
        [corp, "corp"],
        [other, "other"]
      ] as const) {
        issuer.signs(OpenId.personOf([group], { email }))
        const { answer, jar } = yield* OpenId.signIn(issuer, key)
        assert.strictEqual(answer.status, 401)
        assert.isFalse(jar.has("ampoule_session"))
      }
      assert.include(yield* reasons, "EMAIL_TAKEN")
      // An address that nobody vouches for makes no account.
      for (const email_verified of [false, undefined, "true"]) {
        corp.signs(OpenId.personOf([group], { email_verified }))
        assert.strictEqual((yield* OpenId.signIn(corp, "corp")).answer.status, 401)
        assert.strictEqual((yield* reasons)[0], "EMAIL_UNVERIFIED")
      }
      // The same subject at another issuer is another person.
      const person = OpenId.personOf([group])
      corp.signs(person)
      assert.strictEqual((yield* OpenId.signIn(corp, "corp")).answer.status, 303)
      other.signs(person)
      assert.strictEqual((yield* OpenId.signIn(other, "other")).answer.status, 401)
      // Whom no rule names is nobody.
      corp.signs(OpenId.personOf(["strangers"]))
      const stranger = (yield* OpenId.signIn(corp, "corp")).answer
      assert.strictEqual(stranger.status, 401)
      assert.include(stranger.text, "No account here is linked to this sign-in.")
      // That is for a password.
      assert.notInclude(stranger.text, "Check both")
      assert.strictEqual((yield* reasons)[0], "NOT_LET_IN")
    })
  )

  it.effect("ends the session that the browser had, and keeps nothing that another planted", () =>
    Effect.gen(function* () {
      const { corp, person } = yield* scene
      const planted = yield* SignIn.signedIn
      corp.signs(person)
      const { jar } = yield* OpenId.signIn(corp, "corp", planted.jar)
      assert.notStrictEqual(OpenId.sessionOf(jar), OpenId.sessionOf(planted.jar))
      assert.isTrue(yield* OpenId.isIn(jar))
      assert.isFalse(yield* OpenId.isIn(planted.jar))
    })
  )

  it.effect("asks for the person's own second factor, unless the issuer's word is taken and it gave it", () =>
    Effect.gen(function* () {
      const { corp } = yield* scene
      const other = yield* OpenId.Other
      const owner = yield* SignIn.signedIn
      const { jar: enrolled, secret } = yield* SignIn.enrol(owner.jar)
      const person = OpenId.personOf()
      for (const [issuer, key] of [
        [corp, "corp"],
        [other, "other"]
      ] as const) {
        issuer.signs(person)
        const linked = yield* OpenId.signIn(issuer, key, enrolled, "", `/app/account/sign-ins/with/${key}`)
        assert.include(linked.answer.headers.get("location"), "sign-in-linked", linked.answer.text)
      }
      const tries = [
        [corp, "corp", undefined, "/app/sign-in/code"],
        [corp, "corp", ["pwd"], "/app/sign-in/code"],
        [corp, "corp", "mfa", "/app/sign-in/code"],
        [corp, "corp", ["pwd", "mfa"], "/app"],
        [other, "other", ["pwd", "mfa"], "/app/sign-in/code"]
      ] as const
      for (const [issuer, key, amr, leadsTo] of tries) {
        issuer.signs({ ...person, amr })
        const { answer, jar } = yield* OpenId.signIn(issuer, key)
        const path = answer.headers.get("location")?.split("?")[0]
        assert.strictEqual(path, leadsTo, `${key} ${String(amr)}`)
        assert.strictEqual(jar.has("ampoule_session"), leadsTo === "/app")
      }
      // With the code, the sign-in goes on where it was.
      other.signs(person)
      const begun = yield* OpenId.signIn(other, "other")
      const code = yield* SignIn.codeOf(secret, 1)
      const done = yield* SignIn.submit("/app/sign-in/code", begun.jar, { code, next: "/app" })
      assert.strictEqual(done.status, 303, done.text)
      assert.strictEqual((yield* OpenId.meOf(SignIn.kept(done, begun.jar))).json.user.id, owner.person.id)
    })
  )

  it.effect("is linked in a session of the account alone, and another account's stays with it", () =>
    Effect.gen(function* () {
      const { corp } = yield* scene
      const one = yield* SignIn.signedIn
      const two = yield* SignIn.signedIn
      const person = OpenId.personOf()
      corp.signs(person)
      const at = "/app/account/sign-ins/with/corp"
      assert.strictEqual((yield* OpenId.begin("corp", new Map(), "", at)).url, undefined)
      // Begun by one, answered in the browser of another: nobody is linked to anybody.
      const begun = yield* OpenId.begin("corp", one.jar, "", at)
      const path = OpenId.answered(corp, begun.url)
      const swapped = new Map([...two.jar, ["ampoule_flow", begun.jar.get("ampoule_flow") ?? ""]])
      assert.strictEqual((yield* SignIn.see(path, swapped)).status, 401)
      assert.strictEqual((yield* reasons)[0], "ANOTHER_PERSON")
      yield* OpenId.signIn(corp, "corp", one.jar, "", at)
      const stolen = yield* OpenId.signIn(corp, "corp", two.jar, "", at)
      assert.strictEqual(stolen.answer.status, 409)
      // The account's person alone gets a notice of the new way in.
      const notice = "This sign-in opens your account from now on: The corp."
      assert.include((yield* SignIn.see("/app", one.jar)).text, notice)
      assert.notInclude((yield* SignIn.see("/app", two.jar)).text, notice)
      const mine = yield* TestApp.get("/me/sign-ins", { session: OpenId.sessionOf(one.jar) })
      assert.deepStrictEqual(
        mine.json.items.map(({ issuer, name, subject }) => [name, issuer, subject]),
        [["The corp", corp.url, person.sub]]
      )
      assert.deepStrictEqual(
        (yield* TestApp.get("/me/sign-ins", { session: OpenId.sessionOf(two.jar) })).json.items,
        []
      )
      const { jar } = yield* OpenId.signIn(corp, "corp")
      assert.strictEqual((yield* OpenId.meOf(jar)).json.user.id, one.person.id)
      // Removed, it opens nothing, and what it opened is over.
      const [{ id }] = mine.json.items
      const others = yield* TestApp.del(`/me/sign-ins/${id}`, { session: OpenId.sessionOf(two.jar) })
      assert.deepStrictEqual(TestApp.codeOf(others), [404, "GRANT_NOT_FOUND"])
      const removed = yield* TestApp.del(`/me/sign-ins/${id}`, { session: OpenId.sessionOf(one.jar) })
      assert.strictEqual(removed.status, 200)
      assert.isFalse(yield* OpenId.isIn(jar))
      assert.strictEqual((yield* OpenId.signIn(corp, "corp")).answer.status, 401)
    })
  )

  it.effect(
    "confirms that the person is there by a fresh word of the issuer alone, and opens a new session for it",
    () =>
      Effect.gen(function* () {
        const { corp, group, person } = yield* scene
        const other = yield* OpenId.Other
        corp.signs(person)
        const { jar } = yield* OpenId.signIn(corp, "corp")
        const confirm = OpenId.signIn(corp, "corp", jar, "/app/grants", "/app/confirm/with/corp")
        const begun = yield* OpenId.begin("corp", jar, "", "/app/confirm/with/corp")
        const asks = (url: URL | undefined) => ["prompt", "max_age"].map((name) => url?.searchParams.get(name))
        assert.deepStrictEqual(asks(begun.url), ["login", "300"])
        const old = Math.floor(Date.now() / 1_000) - 3_600
        for (const [claims, reason] of [
          [{ auth_time: old }, "OAUTH_JWT_TIMESTAMP_CHECK_FAILED auth_time"],
          [{ auth_time: undefined }, "OAUTH_INVALID_RESPONSE"],
          [{ sub: randomUUID() }, "EMAIL_TAKEN"]
        ] as const) {
          corp.signs(person, { claims })
          assert.strictEqual((yield* confirm).answer.status, 401, JSON.stringify(claims))
          assert.include((yield* reasons)[0], reason)
          assert.isTrue(yield* OpenId.isIn(jar))
        }
        // Another person's sign-in confirms nobody.
        corp.signs(OpenId.personOf([group]))
        yield* OpenId.signIn(corp, "corp")
        assert.strictEqual((yield* confirm).answer.status, 401)
        assert.strictEqual((yield* reasons)[0], "ANOTHER_PERSON")
        corp.signs(person)
        const done = yield* confirm
        assert.deepStrictEqual([done.answer.status, done.answer.headers.get("location")], [303, "/app/grants"])
        assert.isFalse(yield* OpenId.isIn(jar))
        assert.isTrue(yield* OpenId.isIn(done.jar))
        // Some issuers never say when somebody signed in: linking needs the account's own recent proof, and the issuer to ask.
        other.signs(OpenId.personOf(), { claims: { auth_time: undefined } })
        const account = yield* SignIn.signedIn
        const at = "/app/account/sign-ins/with/other"
        assert.deepStrictEqual(asks((yield* OpenId.begin("other", account.jar, "", at)).url), ["login", null])
        const linked = yield* OpenId.signIn(other, "other", account.jar, "", at)
        assert.include(linked.answer.headers.get("location"), "sign-in-linked")
      })
  )

  it.effect("is ended by the issuer: one session by its name there, or all of the person", () =>
    Effect.gen(function* () {
      const { corp, person } = yield* scene
      const other = yield* OpenId.Other
      corp.signs({ ...person, sid: "one" })
      const one = yield* OpenId.signIn(corp, "corp")
      corp.signs({ ...person, sid: "two" })
      const two = yield* OpenId.signIn(corp, "corp")
      const send = (token: string, key = "corp") =>
        SignIn.submit(`/app/sign-in/with/${key}/logout`, new Map(), { logout_token: token })
      const refusals = [
        yield* other.logoutToken({ sub: person.sub }),
        yield* corp.logoutToken({ sub: person.sub, aud: "another-client" }),
        yield* corp.logoutToken({ sub: person.sub, nonce: "n" }),
        yield* corp.logoutToken({ sub: person.sub, events: {} }),
        yield* corp.logoutToken({}),
        "nonsense"
      ]
      for (const token of refusals) assert.strictEqual((yield* send(token)).status, 400, token)
      assert.isTrue(yield* OpenId.isIn(one.jar))
      const token = yield* corp.logoutToken({ sub: person.sub, sid: "one" })
      assert.strictEqual((yield* send(token, "other")).status, 400)
      assert.strictEqual((yield* send(token)).status, 200)
      assert.deepStrictEqual([yield* OpenId.isIn(one.jar), yield* OpenId.isIn(two.jar)], [false, true])
      assert.strictEqual((yield* send(token)).status, 400)
      assert.strictEqual((yield* send(yield* corp.logoutToken({ sub: person.sub }))).status, 200)
      assert.isFalse(yield* OpenId.isIn(two.jar))
    })
  )
})
