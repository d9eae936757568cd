/**
 * Notices to a person about their own sign-in: a new device, a used reset link, a removed factor, a linked sign-in, a
 * changed e-mail address. A notice commits with the change that it reports. The dashboard shows it until the person
 * dismisses it; a server with a mail server also sends an e-mail. Webhooks of the person's teams follow the entry in
 * the trail instead.
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
import { addressOf } from "#schema/Values.ts"
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

/** Age at which an unsent e-mail is given up. */
const mailPeriod = days(1)
const retention = days(30)
const listLimit = 10
const mailBatch = 20
const maxUserAgent = 256

/** Part of the caller's transaction. `about`: the name of the changed thing; empty when the kind says enough. */
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

/** Notices that the person has not dismissed, newest first. */
const list = Effect.fn("AccountNotices.list")(({ sql }: Needs, caller: Caller) =>
  Rows.findAll(
    NoticeRow,
    sql`
      SELECT id, kind, about, ip, user_agent, created_at FROM account_notices
      WHERE user_id = ${caller.user?.id ?? null} AND seen_at IS NULL
      ORDER BY created_at DESC, id DESC LIMIT ${listLimit}`
  )
)

/** Marks every current notice as seen. */
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
  sign_in_linked: ({ about }) => `This sign-in opens your account from now on: ${line(about)}.`,
  email_changed: ({ about }) => `You sign in with another e-mail address from now on. ${about} no longer works.`
}

/**
 * Control characters and line breaks become spaces: text from a browser or a person must not add lines to an e-mail.
 */
const line = (text: string) => text.replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ")

/** The old address receives the notice of a changed address: a thief of the account may own the new one. */
const recipientOf = ({ about, email, kind }: DueRow) => addressOf(kind === "email_changed" ? about : email)

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

/** After a changed address the person cannot sign in themselves, so the advice names others who can help. */
const advice = ({ kind }: DueRow, baseUrl: string): ReadonlyArray<string> =>
  kind === "email_changed"
    ? [
        "If it was you, do nothing. If not, tell an owner or admin of your team at once, so that they deactivate the account. The operator of the server can restore your address."
      ]
    : [
        "If it was you, do nothing. If not, sign in, change your password, and check your sessions:",
        `${baseUrl}/app/account/sessions`
      ]

/** Milliseconds before the next attempt; doubles with every attempt. */
const pauseAfter = (attempts: number) => Math.min(3_600_000, 30_000 * 2 ** Math.min(attempts, 10))

/** Claims due notices so that no other process sends them, sends them, and records the result. */
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
        WHERE mail_at <= ${new Date(now)} AND created_at > ${new Date(now - mailPeriod)}
        ORDER BY mail_at LIMIT ${mailBatch} FOR UPDATE SKIP LOCKED)
      RETURNING n.id, n.kind, n.about, n.ip, n.user_agent, n.created_at, n.mail_attempts, u.email`
  )
  yield* Effect.forEach(due, (notice) =>
    Effect.flatMap(Effect.either(send(messageOf(notice, baseUrl))), (result) => {
      const isFinal = result._tag === "Right" || result.left.lasting
      const retryAt = isFinal ? null : new Date(now + pauseAfter(notice.mailAttempts))
      return Rows.run(sql`UPDATE account_notices SET mail_at = ${retryAt} WHERE id = ${notice.id}`)
    })
  )
  return due.length
})

/** Deletes old notices, sent or not. */
const forget = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  const now = yield* Clock.currentTimeMillis
  yield* Rows.run(sql`DELETE FROM account_notices WHERE created_at < ${new Date(now - retention)}`)
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
