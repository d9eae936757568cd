/** A person's own e-mail address: on the page, by the route, and by the operator. */
import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { sendDue } from "#src/credentials/AccountNotices.ts"
import { auditEntry } from "#test/support/Json.ts"
import * as Seals from "#test/support/Seals.ts"
import * as SignIn from "#test/support/SignIn.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const app = TestApp.server.pipe(
  Layer.provideMerge(Layer.merge(TestApp.backends, TestApp.config({ trustedProxies: ["127.0.0.1"] })))
)
const sessionOf = (jar: SignIn.Jar) => jar.get("ampoule_session") ?? ""
const signIn = (email: string) =>
  Effect.map(SignIn.submit("/app/sign-in", new Map(), { email, password: SignIn.password }), (answer) => ({
    status: answer.status,
    jar: SignIn.kept(answer)
  }))
const change = (jar: SignIn.Jar, email: string, currentPassword = SignIn.password) =>
  TestApp.post("/me/email", { session: sessionOf(jar), json: { email, currentPassword } })
const other = (email: string) => `new-${email}`

/** A team's entries about changed addresses, the oldest first. */
const trail = (teamId: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const rows = yield* sql<{ readonly body: string }>`
      SELECT body FROM audit_entries WHERE team_id = ${teamId} AND action = 'email.change' ORDER BY id`
    return rows.map((row) => auditEntry(row))
  })
/** Whether the entry says which row it changed: `ampoule audit verify` tells by it that the address was put back. */
const namesTheRow = (teamId: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const rows = yield* sql<{ readonly body: string }>`
      SELECT body FROM audit_entries WHERE team_id = ${teamId} AND action = 'email.change'`
    return rows.some(({ body }) => /"users\/[^":]+:[^":]+:[^":]+"/.test(body))
  })
const outcomes = (teamId: string) =>
  Effect.map(trail(teamId), (entries) => entries.map(({ outcome, reason }) => `${outcome} ${reason ?? ""}`.trim()))

layer(app, { excludeTestServices: true })("a person's e-mail address", (it) => {
  it.effect("is changed on the page: it signs in from then on, other sessions end, each team's trail has it", () =>
    Effect.gen(function* () {
      const { jar, person, team } = yield* SignIn.signedIn
      const second = yield* World.team()
      yield* World.join(second, person, "viewer")
      const token = yield* World.token({ team })
      const elsewhere = (yield* signIn(person.email)).jar
      const device = new Map([["ampoule_device", jar.get("ampoule_device") ?? ""]])

      const page = yield* SignIn.see("/app/account", jar)
      assert.match(page.text, new RegExp(`<input(?=[^>]*name="email")(?=[^>]*value="${person.email}")[^>]*required`))
      const email = other(person.email)
      const answer = yield* SignIn.submit("/app/account/email", jar, {
        email: email.toUpperCase(),
        currentPassword: SignIn.password
      })
      assert.deepStrictEqual([answer.status, answer.headers.get("location")], [303, "/app/account?done=email-changed"])
      assert.isTrue((yield* namesTheRow(team.id)) || (yield* namesTheRow(second.id)))
      const after = SignIn.kept(answer, jar)
      assert.strictEqual((yield* TestApp.get("/me", { session: sessionOf(after) })).json.user.email, email)
      assert.include((yield* SignIn.see("/app", after)).text, `Before, it was ${person.email}.`)
      for (const ended of [jar, elsewhere]) {
        assert.strictEqual((yield* TestApp.get("/me", { session: sessionOf(ended) })).error.code, "CREDENTIAL_REVOKED")
      }
      // Credentials that are not bound to the address go on.
      assert.strictEqual((yield* TestApp.get("/me/verify", { bearer: token.text })).status, 200)
      assert.strictEqual((yield* signIn(person.email)).status, 401)
      const back = yield* SignIn.submit("/app/sign-in", device, { email, password: SignIn.password })
      assert.strictEqual(back.status, 303)

      for (const { id } of [team, second]) {
        const [entry, ...more] = yield* trail(id)
        assert.lengthOf(more, 0)
        assert.deepInclude(entry, { outcome: "allowed", target: { type: "user", id: person.id, name: email } })
        assert.strictEqual(entry?.actor.name, person.email)
      }
    })
  )

  it.effect("is announced to the address before, by e-mail", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { jar, person } = yield* SignIn.signedIn
      assert.strictEqual((yield* change(jar, other(person.email))).status, 200)
      const sent: Array<{ readonly to: string; readonly text: string }> = []
      yield* sendDue({ sql, baseUrl: TestApp.baseUrl }, (message) => Effect.sync(() => void sent.push(message)))
      const own = sent.filter(({ to }) => to === person.email || to === other(person.email))
      assert.deepStrictEqual(
        own.map(({ to }) => to),
        [person.email]
      )
      assert.include(own[0]?.text, `${person.email} no longer works`)
      assert.include(own[0]?.text, "tell an owner or admin")
      assert.notInclude(own[0]?.text, other(person.email))
    })
  )

  it.effect("needs the password, and that no account has it; guesses are counted and in the trail", () =>
    Effect.gen(function* () {
      const { jar, person, team } = yield* SignIn.signedIn
      const stranger = yield* World.person()
      const wrong = yield* SignIn.submit("/app/account/email", jar, {
        email: other(person.email),
        currentPassword: "vial of thirteen drops"
      })
      assert.strictEqual(wrong.status, 401)
      assert.match(wrong.text, /<input(?=[^>]*id="email-password")(?=[^>]*aria-invalid="true")[^>]*>/)
      assert.notMatch(wrong.text, /<input(?=[^>]*id="f-currentPassword")(?=[^>]*aria-invalid)[^>]*>/)
      // The form keeps its input, except the password.
      assert.include(wrong.text, `value="${other(person.email)}"`)
      assert.notInclude(wrong.text, "vial of thirteen drops")

      assert.deepStrictEqual(TestApp.refusalOf(yield* change(jar, person.email)), [400, "VALIDATION_FAILED", "email"])
      assert.deepStrictEqual(TestApp.refusalOf(yield* change(jar, "nobody")), [400, "VALIDATION_FAILED", "email"])
      for (let i = 0; i < 5; i += 1) {
        assert.deepStrictEqual(TestApp.refusalOf(yield* change(jar, stranger.email)), [409, "NAME_TAKEN", "email"])
      }
      assert.deepStrictEqual(TestApp.codeOf(yield* change(jar, stranger.email)), [429, "RATE_LIMITED"])
      assert.deepStrictEqual(TestApp.codeOf(yield* change(jar, other(person.email))), [429, "RATE_LIMITED"])
      assert.deepStrictEqual(yield* outcomes(team.id), [
        "denied SIGN_IN_FAILED",
        ...Array.from({ length: 5 }, () => "denied NAME_TAKEN")
      ])
      for (const entry of yield* trail(team.id)) assert.notInclude(JSON.stringify(entry), stranger.email)
      assert.strictEqual((yield* TestApp.get("/me", { session: sessionOf(jar) })).json.user.email, person.email)
    })
  )

  it.effect("goes to one of two who want it at once, and the other keeps theirs", () =>
    Effect.gen(function* () {
      const people = yield* Effect.all([SignIn.signedIn, SignIn.signedIn, SignIn.signedIn])
      const address = other(people[0].person.email)
      const answers = yield* Effect.forEach(people, ({ jar }) => change(jar, address), { concurrency: "unbounded" })
      assert.deepStrictEqual(answers.map(({ status }) => status).toSorted(), [200, 409, 409])
      for (const [i, answer] of answers.entries()) {
        const { jar, person } = people[i] ?? people[0]
        if (answer.status === 409) {
          assert.strictEqual((yield* TestApp.get("/me", { session: sessionOf(jar) })).json.user.email, person.email)
        }
      }
    })
  )

  it.effect("needs a recent proof of the second factor, where there is one, and keeps it", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { jar, person } = yield* SignIn.signedIn
      const enrolled = yield* SignIn.enrol(jar)
      const old = yield* World.session(person)
      const before = new Date((yield* Clock.currentTimeMillis) - 16 * 60_000)
      yield* Seals.after("sessions", sql`UPDATE sessions SET factor_at = ${before} WHERE id = ${old.id}`)
      const late = new Map([["ampoule_session", old.text]])
      assert.deepStrictEqual(TestApp.codeOf(yield* change(late, other(person.email))), [403, "STEP_UP_REQUIRED"])
      const form = { email: other(person.email), currentPassword: SignIn.password }
      const led = yield* SignIn.submit("/app/account/email", late, form)
      assert.strictEqual(led.status, 307)
      assert.match(led.headers.get("location") ?? "", /^\/app\/confirm\/before\?to=/)
      assert.strictEqual((yield* change(enrolled.jar, other(person.email))).status, 200)
      const begun = yield* SignIn.submit("/app/sign-in", new Map(), {
        email: other(person.email),
        password: SignIn.password
      })
      assert.match(begun.headers.get("location") ?? "", /^\/app\/sign-in\/code/)
      assert.lengthOf(
        yield* sql`SELECT 1 FROM account_notices WHERE user_id = ${person.id} AND kind = 'email_changed'`,
        1
      )
    })
  )

  it.effect("is not changed by a session that one of the teams does not take, nor without a password", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { jar, person } = yield* SignIn.signedIn
      const strict = yield* World.team()
      yield* World.join(strict, person, "member")
      yield* Seals.after("teams", sql`UPDATE teams SET sign_in_only = '{corp}' WHERE id = ${strict.id}`)
      const refused = yield* change(jar, other(person.email))
      assert.deepStrictEqual(TestApp.codeOf(refused), [403, "FORBIDDEN"])
      assert.include(refused.error.message, "does not accept this session")

      const vouched = yield* World.person({ passwordHash: "" })
      yield* World.team({ owner: vouched })
      const session = new Map([["ampoule_session", (yield* World.session(vouched)).text]])
      const without = yield* change(session, other(vouched.email))
      assert.deepStrictEqual(TestApp.codeOf(without), [403, "FORBIDDEN"])
      assert.include(without.error.message, "An issuer vouches for your address")
    })
  )

  it.effect(
    "of a row that no server wrote is not changed, and a sign-in under way opens nothing with the one before",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { jar, person } = yield* SignIn.signedIn
        const enrolled = yield* SignIn.enrol(jar)
        const begun = yield* SignIn.submit("/app/sign-in", new Map(), {
          email: person.email,
          password: SignIn.password
        })
        assert.strictEqual((yield* change(enrolled.jar, other(person.email))).status, 200)
        const late = yield* SignIn.submit("/app/sign-in/code", SignIn.kept(begun), {
          code: yield* SignIn.codeOf(enrolled.secret, 1)
        })
        assert.notStrictEqual(late.status, 303)

        const forged = yield* SignIn.signedIn
        yield* sql`UPDATE users SET email = ${`forged-${forged.person.email}`} WHERE id = ${forged.person.id}`
        assert.notStrictEqual((yield* change(forged.jar, other(forged.person.email))).status, 200)
        const [row] = yield* sql<{ readonly email: string }>`SELECT email FROM users WHERE id = ${forged.person.id}`
        assert.strictEqual(row?.email, `forged-${forged.person.email}`)
      })
  )
})
