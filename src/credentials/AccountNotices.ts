/**
 * What a person is told about their own sign-in: a new device, a reset link that was used, a factor that was removed, a sign-in that was linked,
 * another e-mail address. It commits with what it tells of; the dashboard shows it until the person has seen it, and where a mail server is set an
 * e-mail follows. Webhooks of the person's teams are told by the trail's entry.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { Caller } from "#schema/Caller.ts"
import type { UserId } from "#schema/Ids.ts"
import { RequestInfo } from "#src/database/RequestInfo.ts"
import { AppConfig } from "#src/AppConfig.ts"
import type { Crypto } from "#src/crypto/Crypto.ts"
import { days } from "#src/Days.ts"
import * as Housekeeping from "#src/Housekeeping.ts"
import { methods } from "#src/Methods.ts"
import { Mail, type MailRefused, type Message } from "#src/outbound/Mail.ts"
import * as Rows from "#src/database/Rows.ts"

const NoticeKind = Schema.Literal("new_device", "password_reset", "factor_removed", "sign_in_linked", "email_changed")
export type NoticeKind = typeof NoticeKind.Type

/** Until then an e-mail is tried again; what is older is not news. */
const mailedFor = days(1)
const keptFor = days(30)
const shownAtMost = 10
const mailsAtOnce = 20
const maxUserAgent = 256

/** Part of the caller's transaction. `about`: what it is about, by its name; empty when the kind says it all. */
export const record = Effect.fnUntraced(function* (
  { crypto, sql }: { readonly sql: SqlClient.SqlClient; readonly crypto: Crypto },
  userId: UserId,
  kind: NoticeKind,
  about = ""
) {
  const now = yield* DateTime.nowAsDate
  const { ip, userAgent } = yield* RequestInfo
  yield* Rows.run(sql`
    INSERT INTO account_notices (id, user_id, kind, about, ip, user_agent, created_at, mail_at)
    VALUES (${yield* crypto.uuid}, ${userId}, ${kind}, ${about}, ${ip}, ${userAgent?.slice(0, maxUserAgent) ?? null},
      ${now}, ${now})`)
})

const NoticeRow = Schema.Struct({
  id: Schema.String,
  kind: NoticeKind,
  about: Schema.String,
  ip: Schema.NullOr(Schema.String),
  userAgent: Schema.NullOr(Schema.String),
  createdAt: Schema.DateFromSelf
})
export type Notice = typeof NoticeRow.Type

const services = Effect.all({ sql: SqlClient.SqlClient })
type Needs = Effect.Effect.Success<typeof services>

/** Those that the person has not seen, the newest first. */
const list = Effect.fn("AccountNotices.list")(({ sql }: Needs, caller: Caller) =>
  Rows.findAll(
    NoticeRow,
    sql`
      SELECT id, kind, about, ip, user_agent, created_at FROM account_notices
      WHERE user_id = ${caller.user?.id ?? null} AND seen_at IS NULL
      ORDER BY created_at DESC, id DESC LIMIT ${shownAtMost}`
  )
)

/** The person has seen all that there is now. */
const dismiss = Effect.fn("AccountNotices.dismiss")(function* ({ sql }: Needs, caller: Caller) {
  const now = yield* DateTime.nowAsDate
  yield* Rows.run(sql`
    UPDATE account_notices SET seen_at = ${now} WHERE user_id = ${caller.user?.id ?? null} AND seen_at IS NULL`)
})

export class AccountNotices extends Effect.Service<AccountNotices>()("credentials/AccountNotices", {
  effect: Effect.map(services, (needs) => methods(needs, { list, dismiss }))
}) {}

// --- by e-mail ---

const DueRow = Schema.Struct({ ...NoticeRow.fields, email: Schema.String, mailAttempts: Schema.Number })
type DueRow = typeof DueRow.Type

const subjects: { readonly [Kind in NoticeKind]: string } = {
  new_device: "A new sign-in to your Ampoule account",
  password_reset: "Your Ampoule password was set with a link",
  factor_removed: "A way to prove who you are was removed from your Ampoule account",
  sign_in_linked: "A sign-in was linked to your Ampoule account",
  email_changed: "The e-mail address of your Ampoule account was changed"
}
const sentences: { readonly [Kind in NoticeKind]: (notice: DueRow) => string } = {
  new_device: () => "Somebody signed in to your account with a browser that had not signed in to it before.",
  password_reset: () => "Somebody used a reset link and set a new password for your account.",
  factor_removed: ({ about }) => `This was removed from your account: ${about}.`,
  sign_in_linked: ({ about }) => `Whoever signs in with this opens your account from now on: ${line(about)}.`,
  email_changed: ({ about }) => `Another e-mail address signs you in from now on, no longer ${about}.`
}

/** What comes from a browser or a person stays on one line. */
const line = (text: string) => text.replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ")

/** Of a change of the address, the one before: whoever has the account now must not be the only one who is told. */
const recipientOf = ({ about, email, kind }: DueRow) => (kind === "email_changed" ? about : email)

const messageOf = (notice: DueRow, baseUrl: string): Message => ({
  to: recipientOf(notice),
  subject: subjects[notice.kind],
  text: [
    sentences[notice.kind](notice),
    "",
    `When: ${notice.createdAt.toISOString()}`,
    `Address: ${notice.ip ?? "unknown"}`,
    `Browser: ${line(notice.userAgent ?? "unknown")}`,
    `Server: ${baseUrl}`,
    "",
    ...advice(notice, baseUrl),
    ""
  ].join("\n")
})

/** Whose address was changed cannot sign in with the one that they know. */
const advice = ({ kind }: DueRow, baseUrl: string): ReadonlyArray<string> =>
  kind === "email_changed"
    ? [
        "If it was you, there is nothing to do. If not, tell an owner or admin of your team at once: they deactivate the account. The operator of the server gives it its address back."
      ]
    : [
        "If it was you, there is nothing to do. If not, sign in, change your password, and look at where you are signed in:",
        `${baseUrl}/app/account/sessions`
      ]

/** Doubles with every attempt. Milliseconds. */
const pauseAfter = (attempts: number) => Math.min(3_600_000, 30_000 * 2 ** Math.min(attempts, 10))

/** Takes what is due from the other processes, sends it, and says what became of it. */
export const sendDue = Effect.fnUntraced(function* (
  { baseUrl, sql }: { readonly sql: SqlClient.SqlClient; readonly baseUrl: string },
  send: (message: Message) => Effect.Effect<void, MailRefused>
) {
  const now = yield* Clock.currentTimeMillis
  const due = yield* Rows.findAll(
    DueRow,
    sql`
      UPDATE account_notices n SET mail_attempts = n.mail_attempts + 1, mail_at = ${new Date(now + 60_000)}
      FROM users u WHERE u.id = n.user_id AND n.id IN (
        SELECT id FROM account_notices
        WHERE mail_at <= ${new Date(now)} AND created_at > ${new Date(now - mailedFor)}
        ORDER BY mail_at LIMIT ${mailsAtOnce} FOR UPDATE SKIP LOCKED)
      RETURNING n.id, n.kind, n.about, n.ip, n.user_agent, n.created_at, n.mail_attempts, u.email`
  )
  yield* Effect.forEach(due, (notice) =>
    Effect.flatMap(Effect.either(send(messageOf(notice, baseUrl))), (sent) => {
      const isOver = sent._tag === "Right" || sent.left.lasting
      const again = isOver ? null : new Date(now + pauseAfter(notice.mailAttempts))
      return Rows.run(sql`UPDATE account_notices SET mail_at = ${again} WHERE id = ${notice.id}`)
    })
  )
  return due.length
})

/** What nobody sends, and what is old. */
const forget = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  const now = yield* Clock.currentTimeMillis
  yield* Rows.run(sql`DELETE FROM account_notices WHERE created_at < ${new Date(now - keptFor)}`)
})

export const layer = Layer.scopedDiscard(
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { baseUrl } = yield* AppConfig
    const mail = yield* Mail
    yield* Housekeeping.every("1 hour", forget(sql), "notices of accounts")
    if (Option.isSome(mail)) yield* Housekeeping.every("5 seconds", sendDue({ sql, baseUrl }, mail.value), "e-mail")
  })
)
