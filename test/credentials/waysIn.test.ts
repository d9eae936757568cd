/** Every way out against every way in: a thief who spent some minutes in somebody's browser, and the real person. */
import { assert, describe, it as plainIt, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { Audit } from "#src/trail/Audit.ts"
import * as Operator from "#src/credentials/Operator.ts"
import { Passwords } from "#src/credentials/Passwords.ts"
import { Revocation } from "#src/credentials/Revocation.ts"
import { everythingThatOpens, waysOut } from "#src/credentials/WaysIn.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import * as FakeIssuer from "#test/openid/FakeIssuer.ts"
import * as OpenId from "#test/openid/OpenIdWorld.ts"
import * as MovableClock from "#test/support/MovableClock.ts"
import * as PasskeySignIn from "#test/support/PasskeySignIn.ts"
import * as SignIn from "#test/support/SignIn.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const config = Layer.unwrapEffect(
  Effect.map(OpenId.Corp, ({ clientId, clientSecret, url: issuer }) =>
    TestApp.config({
      baseUrl: PasskeySignIn.origin,
      trustedProxies: ["127.0.0.1"],
      signInIssuers: Option.some(
        Redacted.make(
          JSON.stringify([
            { key: "corp", name: "The corp", issuer, clientId, clientSecret, scopes: "openid email profile" }
          ])
        )
      )
    })
  )
)
const app = TestApp.server.pipe(
  Layer.provideMerge(Layer.merge(TestApp.backends, config)),
  Layer.provideMerge(Layer.scoped(OpenId.Corp, FakeIssuer.make())),
  Layer.provideMerge(Layer.merge(MovableClock.layer, Layer.succeed(TestApp.HostName, "localhost")))
)

const sessionOf = (jar: SignIn.Jar) => jar.get("ampoule_session") ?? ""
const statusOf = (jar: SignIn.Jar) => Effect.map(SignIn.see("/me", jar), ({ status }) => status)
const teamsOf = (jar: SignIn.Jar) =>
  Effect.map(TestApp.get("/me", { session: sessionOf(jar) }), ({ json, status }) =>
    status === 200 ? json.teams.map(({ id }) => id) : undefined
  )
const byPassword = (email: string, password = SignIn.password) =>
  Effect.map(SignIn.submit("/app/sign-in", new Map(), { email, password }), (answer) => ({
    answer,
    jar: SignIn.kept(answer)
  }))
const byIssuer = (person: FakeIssuer.Person) =>
  Effect.gen(function* () {
    const corp = yield* OpenId.Corp
    corp.signs(person)
    return yield* OpenId.signIn(corp, "corp")
  })

/** A member with a password, in these teams. */
const memberOf = (...teams: ReadonlyArray<World.Team>) =>
  Effect.gen(function* () {
    const passwords = yield* Passwords
    const hash = yield* passwords.hash(Redacted.make(SignIn.password), "password")
    const person = yield* World.person({ passwordHash: hash })
    for (const team of teams) yield* World.join(team, person, "member")
    return person
  })

/** A quarter of an hour in the person's browser: a passkey and a linked identity of the thief's. */
const robbed = (person: World.Person) =>
  Effect.gen(function* () {
    const corp = yield* OpenId.Corp
    const { jar } = yield* byPassword(person.email)
    const thiefs = OpenId.personOf()
    corp.signs(thiefs)
    const linked = yield* OpenId.signIn(corp, "corp", jar, "", "/app/account/sign-ins/with/corp")
    assert.strictEqual(linked.answer.status, 303, linked.answer.text)
    const added = yield* PasskeySignIn.add(linked.jar, "thief key")
    assert.strictEqual(yield* statusOf(added.jar), 200)
    return { jar: added.jar, passkey: added.passkey, identity: thiefs }
  })
type Thief = Effect.Effect.Success<ReturnType<typeof robbed>>

const assertOut = (thief: Thief) =>
  Effect.gen(function* () {
    assert.strictEqual(yield* statusOf(thief.jar), 401)
    assert.strictEqual((yield* PasskeySignIn.prove(thief.passkey)).answer.status, 401)

    assert.strictEqual((yield* byIssuer(thief.identity)).answer.status, 401)
  })

const linkOf = (team: World.Team, person: World.Person) =>
  Effect.gen(function* () {
    const { text } = yield* World.session(team.owner)
    const created = yield* TestApp.post(`/teams/${team.id}/members/${person.id}/password-reset`, { session: text })
    return created.json.resetUrl
  })
const newPassword = "another of thirty drops"
const use = (link: string) =>
  TestApp.post("/password-reset", { json: { code: new URL(link).searchParams.get("code"), newPassword } })

const operatorsLink = (email: string) =>
  Effect.gen(function* () {
    const needs = {
      sql: yield* SqlClient.SqlClient,
      crypto: yield* Crypto,
      audit: yield* Audit,
      revocation: yield* Revocation,
      rowSeal: yield* RowSeal,
      baseUrl: PasskeySignIn.origin
    }
    return Redacted.value((yield* Operator.resetLink(needs, email)).url)
  })

/** The person with the new password: what is shown, and the browser after the choice. */
const recover = (email: string, keep: ReadonlyArray<string> = []) =>
  Effect.gen(function* () {
    const begun = yield* byPassword(email, newPassword)
    assert.strictEqual(begun.answer.headers.get("location"), "/app/sign-in/recovery")
    // The step is good for nothing else.
    assert.strictEqual(yield* statusOf(begun.jar), 401)
    assert.strictEqual((yield* SignIn.submit("/app/sign-in/code", begun.jar, { code: "123456" })).status, 401)
    const page = yield* SignIn.see("/app/sign-in/recovery", begun.jar)
    const ids = [...new Set([...page.text.matchAll(/name="item-([0-9a-f-]{36})"/g)].map(([, id = ""]) => id))]
    const names = [...page.text.matchAll(/<legend>.*?<bdi>([^<]*)<\/bdi>/g)].map(([, name = ""]) => name)
    const undecided = yield* SignIn.submit("/app/sign-in/recovery", begun.jar, {})
    if (ids.length > 0) assert.strictEqual(undecided.status, 400)
    const choice = (id: string, i: number) => [`item-${id}`, keep.includes(names[i] ?? "") ? "keep" : "remove"] as const
    const answer = yield* SignIn.submit("/app/sign-in/recovery", begun.jar, Object.fromEntries(ids.map(choice)))
    return { page, names, answer, jar: SignIn.kept(answer, begun.jar) }
  })

layer(app, { excludeTestServices: true })("a thief's way in", (it) => {
  for (const [name, link] of [
    ["an owner's reset link", linkOf],
    ["the operator's reset link", (_: World.Team, person: World.Person) => operatorsLink(person.email)]
  ] as const) {
    it.effect(`ends with ${name}, and the person comes back with the new password alone`, () =>
      Effect.gen(function* () {
        const team = yield* World.team()
        const person = yield* memberOf(team)
        const thief = yield* robbed(person)
        const { json } = yield* use(yield* link(team, person))
        assert.deepStrictEqual(
          json.waysIn.map(({ ending, way }) => `${way} ${ending}`),
          Object.entries(waysOut.reset_link.everywhere).map(([way, ending]) => `${way} ${ending}`)
        )
        yield* assertOut(thief)
        assert.deepStrictEqual(
          TestApp.codeOf(
            yield* TestApp.post("/auth/session", { json: { email: person.email, password: newPassword } })
          ),
          [401, "SECOND_FACTOR_REQUIRED"]
        )
        const back = yield* recover(person.email)
        assert.include(back.page.text, "Added on")
        assert.lengthOf(back.names, 2)
        assert.strictEqual(back.answer.status, 303, back.answer.text)
        assert.deepStrictEqual(yield* teamsOf(back.jar), [team.id])
        yield* assertOut(thief)
        const remaining = yield* SignIn.see("/app/account/ways-in", back.jar)
        assert.include(remaining.text, "Your password alone")
      })
    )
  }

  it.effect("is removed, and what is the person's comes back as their second factor", () =>
    Effect.gen(function* () {
      const team = yield* World.team()
      const person = yield* memberOf(team)
      const own = yield* PasskeySignIn.add((yield* byPassword(person.email)).jar, "mine")
      yield* SignIn.agedFactors(person)
      const corp = yield* OpenId.Corp
      const thiefs = OpenId.personOf()
      corp.signs(thiefs)
      const session = (yield* PasskeySignIn.prove(own.passkey)).jar
      yield* OpenId.signIn(corp, "corp", session, "", "/app/account/sign-ins/with/corp")
      yield* use(yield* linkOf(team, person))
      assert.strictEqual((yield* PasskeySignIn.prove(own.passkey)).answer.status, 401)
      const back = yield* recover(person.email, ["mine"])
      assert.match(back.answer.headers.get("location") ?? "", /^\/app\/sign-in\/code/)
      assert.strictEqual(yield* statusOf(back.jar), 401)
      const proved = yield* PasskeySignIn.prove(own.passkey, back.jar, "/app/sign-in/code/passkey")
      assert.deepStrictEqual(yield* teamsOf(proved.jar), [team.id])
      assert.deepStrictEqual(yield* teamsOf((yield* PasskeySignIn.prove(own.passkey)).jar), [team.id])
      assert.strictEqual((yield* byIssuer(thiefs)).answer.status, 401)
      // The next sign-in asks nothing of the kind.
      assert.match(
        (yield* byPassword(person.email, newPassword)).answer.headers.get("location") ?? "",
        /^\/app\/sign-in\/code/
      )
    })
  )

  it.effect("ends with end-access and with an incident, which ends the password too", () =>
    Effect.gen(function* () {
      for (const wayOut of ["end_access", "incident"] as const) {
        const team = yield* World.team()
        const person = yield* memberOf(team)
        const thief = yield* robbed(person)
        const session = (yield* World.session(team.owner)).text
        const answer =
          wayOut === "incident"
            ? yield* TestApp.post(`/teams/${team.id}/incidents`, { session, json: { person: person.id } })
            : yield* TestApp.post(`/teams/${team.id}/members/${person.id}/end-access`, { session, json: {} })
        assert.isBelow(answer.status, 300, answer.text)
        yield* assertOut(thief)
        const { answer: refused } = yield* byPassword(person.email)
        assert.strictEqual(refused.status, 401)
        assert.include(refused.text, wayOut === "incident" ? "wrong" : "put out of use")
        yield* use(yield* linkOf(team, person))
        assert.deepStrictEqual(yield* teamsOf((yield* recover(person.email)).jar), [team.id])
        yield* assertOut(thief)
      }
    })
  )

  it.effect("is listed after a change of the password, for the person to remove", () =>
    Effect.gen(function* () {
      const team = yield* World.team()
      const person = yield* memberOf(team)
      const thief = yield* robbed(person)
      const jar = (yield* PasskeySignIn.prove(thief.passkey)).jar
      const changed = yield* SignIn.submit("/app/account", jar, { currentPassword: SignIn.password, newPassword })
      assert.match(changed.headers.get("location") ?? "", /^\/app\/account\/ways-in/)
      assert.strictEqual(yield* statusOf(jar), 401)
      const sql = yield* SqlClient.SqlClient
      const codes = yield* sql`SELECT 1 FROM recovery_codes WHERE user_id = ${person.id}`
      assert.lengthOf(codes, 0)
      const page = yield* SignIn.see("/app/account/ways-in", SignIn.kept(changed, jar))
      for (const name of ["thief key", thief.identity.sub]) assert.include(page.text, name)
    })
  )

  it.effect("is closed for the team of an actor who manages that team alone, until an owner there confirms it", () =>
    Effect.gen(function* () {
      const [here, elsewhere] = [yield* World.team(), yield* World.team()]
      const person = yield* memberOf(here, elsewhere)
      const thief = yield* robbed(person)
      const session = (yield* World.session(here.owner)).text
      const path = `/teams/${here.id}/members/${person.id}` as const
      const ended = yield* TestApp.post(`${path}/end-access`, { session, json: {} })
      assert.isFalse(ended.json.signedOut)
      assert.deepStrictEqual(
        ended.json.waysIn.map(({ ending, way }) => `${way} ${ending}`),
        Object.entries(waysOut.end_access.here).map(([way, ending]) => `${way} ${ending}`)
      )
      // The other team goes on as it was.
      assert.deepStrictEqual(yield* teamsOf(thief.jar), [elsewhere.id])
      const byPasskey = yield* PasskeySignIn.prove(thief.passkey)
      assert.deepStrictEqual(yield* teamsOf(byPasskey.jar), [elsewhere.id])
      // An authenticator that is added in such a session opens no more than the session.
      const second = yield* PasskeySignIn.add(
        yield* SignIn.submit("/app/confirm", byPasskey.jar, { password: SignIn.password }).pipe(
          Effect.map((answer) => SignIn.kept(answer, byPasskey.jar))
        ),
        "second"
      )
      assert.deepStrictEqual(yield* teamsOf((yield* PasskeySignIn.prove(second.passkey)).jar), [elsewhere.id])

      const listed = (yield* TestApp.get(`${path}/access`, { session })).json.authenticators
      assert.deepStrictEqual(
        listed.map(({ opensTeam, waitsForOwner }) => [opensTeam, waitsForOwner]),
        [
          [false, true],
          [false, true],
          [false, true]
        ]
      )
      const passkey = listed.find(({ name }) => name === "thief key")
      const confirm = `${path}/authenticators/${passkey?.id ?? ""}/confirm` as const
      const admin = yield* World.member(here, "admin")
      const byAdmin = yield* TestApp.post(confirm, { session: (yield* World.session(admin)).text })
      assert.deepStrictEqual(TestApp.codeOf(byAdmin), [403, "FORBIDDEN"])
      const page = yield* TestApp.get(`/app${path}`, { session })
      assert.include(page.text, `authenticators/${passkey?.id ?? ""}/confirm`)
      assert.strictEqual((yield* TestApp.post(confirm, { session })).status, 200)
      assert.deepStrictEqual(TestApp.codeOf(yield* TestApp.post(confirm, { session })), [404, "GRANT_NOT_FOUND"])
      const after = yield* teamsOf((yield* PasskeySignIn.prove(thief.passkey)).jar)
      assert.sameMembers([...(after ?? [])], [here.id, elsewhere.id])
    })
  )

  it.effect(
    "that is younger than a day opens nothing that asks for a second proof, unless an older one confirms it",
    () =>
      Effect.gen(function* () {
        const team = yield* World.team()
        const project = yield* World.project({ team })
        const person = yield* memberOf(team)
        const written = yield* TestApp.post("/secrets", {
          session: (yield* World.session(team.owner)).text,
          json: { projectId: project.id, environment: "production", key: "K", value: "the value" }
        })
        assert.strictEqual(written.status, 201, written.text)
        const reads = (jar: SignIn.Jar) =>
          Effect.map(
            TestApp.get(`/secrets/value?projectId=${project.id}&environment=production&key=K`, {
              session: sessionOf(jar)
            }),
            (answer) => (answer.status === 200 ? "value" : TestApp.codeOf(answer)[1])
          )
        const own = yield* PasskeySignIn.add((yield* byPassword(person.email)).jar, "mine")
        // While all are young, the password is the proof.
        assert.strictEqual(yield* reads((yield* PasskeySignIn.prove(own.passkey)).jar), "STEP_UP_REQUIRED")
        const alone = (yield* PasskeySignIn.prove(own.passkey)).jar
        const entered = yield* SignIn.submit("/app/confirm", alone, { password: SignIn.password })
        assert.strictEqual(yield* reads(SignIn.kept(entered, alone)), "value")
        yield* MovableClock.advance("25 hours")
        const older = (yield* PasskeySignIn.prove(own.passkey)).jar
        assert.strictEqual(yield* reads(older), "value")

        const added = yield* PasskeySignIn.add(older, "thief key")
        yield* MovableClock.advance("1 minute")
        const young = (yield* PasskeySignIn.prove(added.passkey)).jar
        assert.strictEqual(yield* reads(young), "STEP_UP_REQUIRED")
        // Neither the password nor the young one itself proves it.
        assert.strictEqual((yield* SignIn.submit("/app/confirm", young, { password: SignIn.password })).status, 401)
        assert.strictEqual(
          (yield* PasskeySignIn.prove(added.passkey, young, "/app/confirm/passkey")).answer.status,
          401
        )
        const sql = yield* SqlClient.SqlClient
        const [{ id }] = yield* sql<{ readonly id: string }>`
        SELECT id FROM passkeys WHERE user_id = ${person.id} AND name = 'thief key'`
        const confirm = `/app/account/second-factor/passkeys/${id}/confirm` as const
        const refused = yield* SignIn.submit(confirm, young)
        assert.match(refused.headers.get("location") ?? "", /^\/app\/confirm/)
        const proved = yield* PasskeySignIn.prove(own.passkey, young, "/app/confirm/passkey")
        const done = yield* SignIn.submit(confirm, proved.jar)
        assert.match(
          done.headers.get("location") ?? "",
          /done=factor-confirmed/,
          `${proved.answer.status} ${done.text}`
        )
        assert.strictEqual(yield* reads((yield* PasskeySignIn.prove(added.passkey)).jar), "value")
      })
  )
})

/** Tables with a person that let nobody in, each with its reason. */
const exceptions: ReadonlyMap<string, string> = new Map([
  ["memberships", "a role; a removal deletes the row"],
  ["access_grants", "a right of a member; end-access and removals delete it"],
  ["access_requests", "a wish; it opens nothing before a decision"],
  ["second_person_requests", "a wish; it opens nothing before a decision"],
  ["teams", "a rule of the team (`second_person`), and no person"],
  ["change_requests", "a proposed write; it opens nothing"],
  ["account_notices", "words to the person"],
  ["environments", "approvers of requests; a removal takes the person out"],
  ["projects", "the person who made it"],
  ["sign_in_rules", "a rule of a team; it names no person"],
  ["incidents", "a report about the person"],
  ["value_requests", "a page for one value, which its person opens with a session"],
  ["secret_versions", "the author of a version"],
  ["secrets", "the author of a secret"],
  ["idempotency_keys", "the caller of a request"],
  ["run_plans", "a plan, which its credential alone reads"],
  ["audit_views", "a person's filters of the trail"],
  ["leaked_credentials", "a report about a credential"],
  ["webhooks", "the person who made it; it sends no value"],
  ["sealing_keys", "the person who added it"],
  ["mcp_sessions", "a conversation; each message proves its credential"],
  ["oauth_clients", "a client; its grants name the person"],
  ["audit_entries", "the trail"],
  ["exposure_credentials", "the index of the trail"],
  ["exposure_reads", "the index of the trail"],
  ["setup_codes", "the first start; no person has it"]
])

layer(TestApp.backends, { excludeTestServices: true })("the list of what lets a person in", (it) => {
  it.effect("names each table with a person, or its exception has a reason", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const rows = yield* sql<{ readonly name: string }>`
        SELECT DISTINCT c.relname::text AS name FROM pg_class c
        JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = current_schema()
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE c.relkind IN ('r', 'p') AND (
          a.attname ~ '(^|_)(user|person|owner|author|member|principal|actor)(_id)?$'
          OR a.attname ~ '_by$' OR a.attname IN ('payload', 'approvers')
          OR EXISTS (SELECT 1 FROM pg_constraint k
            WHERE k.conrelid = c.oid AND k.contype = 'f' AND a.attnum = ANY(k.conkey)
              AND k.confrelid = 'users'::regclass))
        ORDER BY 1`
      const members = new Set<string>(Object.values(everythingThatOpens).flat())
      const unknown = rows.map(({ name }) => name).filter((name) => !members.has(name) && !exceptions.has(name))
      assert.deepStrictEqual(unknown, [], "add each to WaysIn.ts, or to the exceptions with its reason")
      const tables = yield* sql<{
        readonly name: string
      }>`SELECT relname::text AS name FROM pg_class WHERE relkind IN ('r', 'p')`
      const existing = new Set(tables.map(({ name }) => name))
      assert.deepStrictEqual(
        [...members, ...exceptions.keys()].filter((name) => !existing.has(name)),
        []
      )
    })
  )
})

describe("a way out", () => {
  plainIt("says of each way in what becomes of it", () => {
    const ways = Object.keys(everythingThatOpens).toSorted()
    for (const { everywhere, here } of Object.values(waysOut)) {
      for (const plan of [everywhere, here]) {
        if (plan !== null) assert.deepStrictEqual(Object.keys(plan).toSorted(), ways)
      }
    }
  })
})
