/** The account's own mailbox vouches for its address: by a link that works in a session of the account alone. */
import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { randomUUID } from "node:crypto"
import * as Mailbox from "#test/support/Mailbox.ts"
import * as MovableClock from "#test/support/MovableClock.ts"
import * as SignIn from "#test/support/SignIn.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

interface Mails {
  readonly mails: ReadonlyArray<string>
  readonly port: number
  readonly refuses: { by: number | undefined }
}
class Caught extends Context.Tag("test/Caught")<Caught, Mails>() {}

const caught = Layer.scoped(
  Caught,
  Effect.suspend(() => {
    const refuses: { by: number | undefined } = { by: undefined }
    return Effect.map(Mailbox.catcher(refuses), ({ mails, port }) => ({ mails, port, refuses }))
  })
)
const config = Layer.unwrapEffect(
  Effect.map(Caught, ({ port }) =>
    TestApp.config({
      trustedProxies: ["127.0.0.1"],
      smtpUrl: Option.some(Redacted.make(`smtp://127.0.0.1:${port}`)),
      mailFrom: Option.some("ampoule@shop.example")
    })
  )
)
const app = TestApp.server.pipe(
  Layer.provideMerge(Layer.merge(TestApp.backends, config)),
  Layer.provideMerge(Layer.merge(caught, MovableClock.layer))
)

const link = "/app/account/address/link"
const confirmPath = "/app/account/address/confirm"
const words = ["vial of thirty drops", "seven green lamps over a harbour"] as const

/** An account that an invitation of a team made, in the browser that made it. */
const invited = (email: string, password: string = words[0]) =>
  Effect.gen(function* () {
    const team = yield* World.team({ name: `Team ${randomUUID().slice(0, 8)}` })
    const { text: session } = yield* World.session(team.owner)
    const invitation = yield* TestApp.post(`/teams/${team.id}/invitations`, {
      session,
      json: { email, role: "member" }
    })
    const code = new URL(invitation.json.inviteUrl).searchParams.get("code") ?? ""
    const answer = yield* SignIn.submit("/app/invite", new Map(), { code, name: "Ada", password })
    assert.strictEqual(answer.status, 303, answer.text)
    return { team, jar: SignIn.kept(answer) }
  })

/** The link of the last e-mail, which goes to this address. */
const lastLink = (email: string) =>
  Effect.map(Caught, ({ mails }) => {
    const text = (mails.findLast((mail) => mail.includes(`To: ${email}`)) ?? "")
      .replaceAll("=\r\n", "")
      .replaceAll("=3D", "=")
    return /\/app\/account\/address\/confirm\?code=([\w-]+)/.exec(text)?.[1] ?? ""
  })

const namesOf = (email: string) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Effect.map(
      sql<{ readonly email: string; readonly vouchedBy: string | null }>`
        SELECT email, vouched_by FROM users WHERE split_part(email, ' ', 1) = ${email} ORDER BY email`,
      (rows) => rows.map((row) => [row.email, row.vouchedBy])
    )
  )

layer(app, { excludeTestServices: true })("an account's own mailbox", (it) => {
  it.effect("vouches for its address, and the account is named by it again", () =>
    Effect.gen(function* () {
      const email = `${randomUUID()}@example.com`
      const { jar, team } = yield* invited(email)
      const other = yield* invited(email, words[1])
      const label = `${email} (by ${team.name})`
      assert.deepStrictEqual(yield* namesOf(email), [
        [email, "none"],
        [label, "none"]
      ])
      const page = yield* SignIn.see("/app/account", jar)
      assert.include(page.text, label)
      assert.include(page.text, "Send a confirmation link")
      const sent = yield* SignIn.submit(link, jar)
      assert.deepStrictEqual([sent.status, sent.headers.get("location")], [303, "/app/account?done=confirmation-sent"])
      const code = yield* lastLink(email)
      assert.notStrictEqual(code, "")

      // A page that is only opened changes nothing.
      const opened = yield* SignIn.see(`${confirmPath}?code=${code}`, jar)
      assert.include(opened.text, "Confirm the address")
      assert.strictEqual((yield* namesOf(email))[1][1], "none")
      const confirmed = yield* SignIn.submit(confirmPath, jar, { code })
      assert.strictEqual(confirmed.headers.get("location"), "/app/account?done=address-confirmed")
      assert.deepStrictEqual(yield* namesOf(email), [
        [email, "mailbox"],
        [`${email} (by ${other.team.name})`, "none"]
      ])
      assert.include((yield* SignIn.see("/app/account", jar)).text, "You confirmed it from its mailbox.")
      // The other account of the address cannot take it back.
      yield* SignIn.submit(link, other.jar)
      const late = yield* SignIn.submit(confirmPath, other.jar, { code: yield* lastLink(email) })
      assert.strictEqual(late.status, 409)
      assert.include(late.text, "Another account has this address.")
    })
  )

  it.effect("vouches in a session of this account alone, within a day, by the link as it was sent", () =>
    Effect.gen(function* () {
      const email = `${randomUUID()}@example.com`
      const squatter = yield* invited(email)
      const owner = yield* invited(email, words[1])
      yield* SignIn.submit(link, squatter.jar)
      const code = yield* lastLink(email)
      const before = yield* namesOf(email)
      // The mailbox's owner opens the stranger's link: signed out, and in their own account.
      const signedOut = yield* SignIn.see(`${confirmPath}?code=${code}`, new Map())
      assert.deepStrictEqual(
        [signedOut.status, signedOut.headers.get("location")],
        [303, `/app/sign-in?next=${encodeURIComponent(`${confirmPath}?code=${code}`)}`]
      )
      for (const [jar, text] of [
        [owner.jar, code],
        [squatter.jar, `${code.slice(0, -2)}${code.endsWith("A") ? "BB" : "AA"}`],
        [squatter.jar, ""]
      ] as const) {
        const refused = yield* SignIn.submit(confirmPath, jar, { code: text })
        assert.strictEqual(refused.status, 401)
        assert.include(refused.text, "This link is not for the account")
      }
      yield* MovableClock.advance("12 hours")
      const { jar } = {
        jar: SignIn.kept(yield* SignIn.submit("/app/sign-in", new Map(), { email, password: words[0] }))
      }
      yield* MovableClock.advance("13 hours")
      const again = SignIn.kept(yield* SignIn.submit("/app/sign-in", jar, { email, password: words[0] }))
      assert.strictEqual((yield* SignIn.submit(confirmPath, again, { code })).status, 401)
      assert.deepStrictEqual(yield* namesOf(email), before)
    })
  )

  it.effect("gets three links an hour, and a clear word when the mail server does not take one", () =>
    Effect.gen(function* () {
      const { mails, refuses } = yield* Caught
      const email = `${randomUUID()}@example.com`
      const { jar } = yield* invited(email)
      refuses.by = 550
      const refused = yield* SignIn.submit(link, jar)
      refuses.by = undefined
      assert.strictEqual(refused.status, 500)
      assert.include(refused.text, "The mail server did not take the message.")
      const count = mails.length
      const statuses: Array<number> = []
      for (let i = 0; i < 3; i++) statuses.push((yield* SignIn.submit(link, jar)).status)
      assert.deepStrictEqual(statuses, [303, 303, 429])
      assert.lengthOf(mails, count + 2)
    })
  )

  it.effect("gets twelve links an hour for all accounts of the address, and other addresses have their own count", () =>
    Effect.gen(function* () {
      const { mails } = yield* Caught
      const email = `${randomUUID()}@example.com`
      const statuses: Array<number> = []
      for (let i = 0; i < 5; i++) {
        const { jar } = yield* invited(email, `seven green lamps, number ${i}`)
        for (let n = 0; n < 3; n++) statuses.push((yield* SignIn.submit(link, jar)).status)
      }
      assert.deepStrictEqual(statuses, [...Array<number>(12).fill(303), 429, 429, 429])
      assert.lengthOf(
        mails.filter((mail) => mail.includes(`To: ${email}`) && mail.includes("Subject: Confirm")),
        12
      )
      const { jar } = yield* invited(`${randomUUID()}@example.com`)
      assert.strictEqual((yield* SignIn.submit(link, jar)).status, 303)
    })
  )
})
