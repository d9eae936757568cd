/**
 * Notices to people about their own sign-in: on the dashboard, by webhooks of their teams, and by e-mail where one is
 * set.
 */
import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as MailSmtp from "#layers/MailSmtp.ts"
import { sendDue } from "#src/credentials/AccountNotices.ts"
import { Mail } from "#src/outbound/Mail.ts"
import { auditEntry } from "#test/support/Json.ts"
import * as Mailbox from "#test/support/Mailbox.ts"
import * as SignIn from "#test/support/SignIn.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const app = TestApp.server.pipe(
  Layer.provideMerge(Layer.merge(TestApp.backends, TestApp.config({ trustedProxies: ["127.0.0.1"] })))
)
const sessionOf = (jar: SignIn.Jar) => ({ session: jar.get("ampoule_session") ?? "" })
const deviceOf = (jar: SignIn.Jar): SignIn.Jar => new Map([["ampoule_device", jar.get("ampoule_device") ?? ""]])
const signIn = (email: string, jar: SignIn.Jar = new Map()) =>
  Effect.map(SignIn.submit("/app/sign-in", jar, { email, password: SignIn.password }), (answer) =>
    SignIn.kept(answer, jar)
  )

layer(app, { excludeTestServices: true })("a person", (it) => {
  it.scoped("shows a new device, a used reset link and a removed factor", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { jar, person, team } = yield* SignIn.signedIn
      const webhook = yield* TestApp.post(`/teams/${team.id}/webhooks`, {
        ...sessionOf(jar),
        json: { name: "alarms", url: "https://hooks.example.com/x" }
      })
      assert.strictEqual(webhook.status, 201, webhook.text)
      const heading = "New sign-in:"
      // The first browser of an account is nothing new, and neither is one that is known.
      assert.notInclude((yield* SignIn.see("/app", jar)).text, heading)
      const again = yield* signIn(person.email, deviceOf(jar))
      assert.notInclude((yield* SignIn.see("/app", again)).text, heading)
      const stranger = yield* signIn(person.email)
      assert.include((yield* SignIn.see("/app", stranger)).text, heading)
      assert.include((yield* SignIn.see("/app", again)).text, heading)
      // Nobody else sees it, and the person puts it away.
      const other = yield* SignIn.signedIn
      assert.notInclude((yield* SignIn.see("/app", other.jar)).text, heading)
      assert.strictEqual((yield* SignIn.submit("/app/account/sessions/seen", other.jar)).status, 303)
      assert.include((yield* SignIn.see("/app", again)).text, heading)
      assert.strictEqual((yield* SignIn.submit("/app/account/sessions/seen", again)).status, 303)
      assert.notInclude((yield* SignIn.see("/app", again)).text, heading)

      const enrolled = yield* SignIn.enrol(again)
      const removed = yield* SignIn.submit("/app/account/second-factor/app/remove", enrolled.jar)
      assert.strictEqual(removed.status, 303)
      const after = SignIn.kept(removed, enrolled.jar)
      assert.include((yield* SignIn.see("/app", after)).text, "Removed from your account: authenticator app.")
      const link = yield* TestApp.post(`/teams/${team.id}/members/${person.id}/password-reset`, sessionOf(after))
      assert.strictEqual(link.status, 201, link.text)
      const code = new URL(link.json.resetUrl).searchParams.get("code") ?? ""
      const reset = yield* SignIn.submit("/app/reset", new Map(), { code, newPassword: SignIn.password })
      assert.strictEqual(reset.status, 303, reset.text)
      const fresh = yield* signIn(person.email)
      assert.include((yield* SignIn.see("/app", fresh)).text, "Your password was set with a reset link")

      const events = yield* sql<{ readonly event: string }>`
        SELECT d.event FROM webhook_deliveries d JOIN webhooks w ON w.id = d.webhook_id
        WHERE w.team_id = ${team.id} ORDER BY d.event_id`
      assert.deepStrictEqual(
        events.map(({ event }) => event),
        ["session.new_device", "factor.removed", "password.reset", "session.new_device"]
      )
      const entries = yield* sql<{ readonly body: string }>`
        SELECT body FROM audit_entries WHERE team_id = ${team.id} AND action = 'session.new_device'`
      assert.deepStrictEqual(
        entries.map(auditEntry).map(({ actor }) => actor.id),
        [person.id, person.id]
      )
    })
  )

  it.scoped(
    "gets an e-mail of it where a mail server is set: once, later when the server is away, never what it refuses",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const refuses: { by: number | undefined } = { by: undefined }
        const { mails, port } = yield* Mailbox.catcher(refuses)
        const mail = yield* Mail.pipe(
          Effect.provide(
            MailSmtp.layer.pipe(
              Layer.provide(
                TestApp.config({
                  smtpUrl: Option.some(Redacted.make(`smtp://127.0.0.1:${port}`)),
                  mailFrom: Option.some("ampoule@shop.example")
                })
              )
            )
          )
        )
        const send = Option.getOrThrow(mail)
        const deliver = sendDue({ sql, baseUrl: TestApp.baseUrl }, send)
        yield* Effect.repeat(deliver, { while: (n) => n > 0 })
        mails.length = 0

        const { jar, person } = yield* SignIn.signedIn
        yield* signIn(person.email)
        const due = sql<{ readonly n: number }>`
        SELECT count(*)::int AS n FROM account_notices WHERE user_id = ${person.id} AND mail_at IS NOT NULL`
        assert.strictEqual((yield* due)[0].n, 1)
        // Away for a moment: it is tried again, not at once.
        refuses.by = 451
        yield* deliver
        assert.lengthOf(mails, 0)
        assert.strictEqual((yield* due)[0].n, 1)
        refuses.by = undefined
        yield* deliver
        assert.lengthOf(mails, 0)
        yield* sql`UPDATE account_notices SET mail_at = now() - interval '1 minute' WHERE user_id = ${person.id}`
        yield* deliver
        yield* deliver
        assert.lengthOf(mails, 1)
        const [text = ""] = mails
        assert.include(text, `To: ${person.email}`)
        assert.include(text, "From: ampoule@shop.example")
        assert.include(text, "Subject: A new sign-in to your Ampoule account")
        for (const secret of [jar.get("ampoule_session"), jar.get("ampoule_device"), SignIn.password]) {
          assert.notInclude(text, secret ?? "?")
        }
        assert.strictEqual((yield* due)[0].n, 0)
        // A refusal for good ends the attempts.
        yield* signIn(person.email)
        refuses.by = 550
        yield* deliver
        assert.strictEqual((yield* due)[0].n, 0)
        assert.lengthOf(mails, 1)
      })
  )
})

layer(TestApp.shared, { excludeTestServices: true })("who manages members", (it) => {
  it.effect("sees who has no second factor, and ends one way in of a member; nobody else does", () =>
    Effect.gen(function* () {
      const team = yield* World.team()
      const person = yield* World.member(team, "member")
      const elsewhere = yield* World.team()
      const owner = { session: (yield* World.session(team.owner)).text }
      const theirs = yield* World.session(person)
      const login = yield* World.grant({ person, teams: [{ team, scopes: ["identity:read"] }] })
      const wide = yield* World.grant({
        person,
        teams: [team, elsewhere].map((team) => ({ team, scopes: ["identity:read"] as const }))
      })
      const token = yield* World.token({ team, creator: person })
      const members = yield* TestApp.get(`/teams/${team.id}/members`, owner)
      assert.deepStrictEqual(
        members.json.items.map(({ secondFactor }) => secondFactor),
        [false, false]
      )
      const seen = yield* TestApp.get(`/teams/${team.id}/members`, { session: theirs.text })
      assert.deepStrictEqual(
        seen.json.items.map(({ secondFactor }) => secondFactor),
        [undefined, undefined]
      )
      const page = yield* TestApp.get(`/app/teams/${team.id}/members`, owner)
      assert.include(page.text, "no second factor")

      const end = (id: string, as: TestApp.Asked = owner, of = person) =>
        Effect.map(TestApp.del(`/teams/${team.id}/members/${of.id}/credentials/${id}`, as), TestApp.codeOf)
      assert.deepStrictEqual(yield* end(theirs.id, { session: theirs.text }), [403, "FORBIDDEN"])
      // Another person's, under this member's name.
      const ofOwner = yield* World.session(team.owner)
      for (const id of [ofOwner.id, team.id]) assert.deepStrictEqual(yield* end(id), [404, "GRANT_NOT_FOUND"])
      // A session opens all teams of a person: only who manages them in all of those ends it.
      yield* World.join(elsewhere, person, "member")
      assert.deepStrictEqual(yield* end(theirs.id), [403, "FORBIDDEN"])
      for (const id of [login.id, token.id]) assert.deepStrictEqual(yield* end(id), [200, undefined])
      for (const bearer of [login.text, token.text]) {
        assert.deepStrictEqual(TestApp.codeOf(yield* TestApp.get("/me/verify", { bearer })), [
          401,
          "CREDENTIAL_REVOKED"
        ])
      }
      // A person with teams left continues there.
      assert.deepStrictEqual(yield* end(wide.id), [200, undefined])
      assert.deepStrictEqual(yield* end(wide.id), [404, "GRANT_NOT_FOUND"])
      const me = yield* TestApp.get("/me", { bearer: wide.text })
      assert.deepStrictEqual(
        me.json.teams.map(({ id }) => id),
        [elsewhere.id]
      )
      const sql = yield* SqlClient.SqlClient
      const revoked = yield* sql<{ readonly body: string }>`
        SELECT body FROM audit_entries WHERE team_id = ${team.id} AND action = 'grant.revoke'`
      assert.sameMembers(
        revoked.map(auditEntry).map(({ target }) => target?.id),
        [login.id, wide.id]
      )
      const alone = yield* World.member(team, "viewer")
      const session = yield* World.session(alone)
      assert.include((yield* TestApp.get(`/app/teams/${team.id}/members/${alone.id}`, owner)).text, session.id)
      const ended = yield* TestApp.post(
        `/app/teams/${team.id}/members/${alone.id}/credentials/${session.id}/end`,
        owner
      )
      assert.strictEqual(ended.status, 303, ended.text)
      assert.deepStrictEqual(TestApp.codeOf(yield* TestApp.get("/me", { session: session.text })), [
        401,
        "CREDENTIAL_REVOKED"
      ])
      assert.deepStrictEqual(yield* end(session.id, owner, alone), [404, "GRANT_NOT_FOUND"])
      // An admin ends nothing of an owner.
      const admin = { session: (yield* World.session(yield* World.member(team, "admin"))).text }
      assert.deepStrictEqual(yield* end(ofOwner.id, admin, team.owner), [403, "FORBIDDEN"])
    })
  )
})
