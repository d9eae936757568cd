/**
 * A sign-in between the password and the second factor. The browser's cookie opens nothing, and ends with the session
 * that follows.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { TeamIdOut, type UserId, UserIdOut } from "#schema/Ids.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"
import type { RowSeal } from "#src/rows/RowSeal.ts"
import type { Crypto } from "#src/crypto/Crypto.ts"
import * as Rows from "#src/database/Rows.ts"
import { byPassword, type SignInSource } from "./Accounts.ts"
import * as TokenText from "./TokenText.ts"

interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly crypto: Crypto
  readonly rowSeal: RowSeal
}

/** Milliseconds. */
export const stepLife = 600_000
/** Older steps of an account are deleted. */
const stepsPerPerson = 16

const pattern = /^([0-9A-Za-z]{16})\.([0-9A-Za-z]{43})$/
const StepRow = Schema.Struct({
  id: Schema.String,
  lookupId: Schema.String,
  ...TokenText.ProofRow.fields,
  userId: UserIdOut,
  expiresAt: Schema.DateFromSelf,
  issuer: Schema.NullOr(Schema.String),
  onlyTeam: Schema.NullOr(TeamIdOut),
  subject: Schema.NullOr(Schema.String),
  session: Schema.NullOr(Schema.String),
  closedTeams: Schema.NullOr(Schema.Array(TeamIdOut)),
  confirmedTeams: Schema.NullOr(Schema.Array(TeamIdOut)),
  /** Good for nothing but choosing which authenticators and identities come back. */
  recovery: Schema.Boolean,
  mac: Schema.NullOr(Schema.Uint8ArrayFromSelf)
})

/** Returns the text of the browser's cookie. `recovery`: the step finishes no sign-in (`Recovery.ts`). */
export const begin = Effect.fnUntraced(function* (
  { crypto, rowSeal, sql }: Needs,
  userId: UserId,
  { by = byPassword, recovery = false }: { readonly by?: SignInSource; readonly recovery?: boolean } = {}
) {
  const now = yield* DateTime.nowAsDate
  const lookupId = yield* crypto.lookupId
  const secret = Redacted.value(yield* crypto.credentialSecret)
  const salt = yield* crypto.randomBytes(16)
  const hash = TokenText.hash(yield* rowSeal.ready, "sf", salt, secret)
  const expiresAt = new Date(now.getTime() + stepLife)
  const { closedTeams, confirmedTeams, issuer, onlyTeam } = by
  const source = { issuer, onlyTeam, closedTeams, confirmedTeams }
  const row = { id: yield* crypto.uuid, lookupId, hash, userId, expiresAt, ...source, recovery }
  const others = { salt, created_at: now, issuer_subject: by.subject, issuer_session: by.session }
  yield* Rows.run(sql`
    INSERT INTO sign_in_steps ${yield* rowSeal.values("sign_in_steps", row, others)}`)
  yield* RowJournal.remove(
    sql,
    "sign_in_steps",
    sql`user_id = ${userId} AND id NOT IN (
      SELECT id FROM sign_in_steps WHERE user_id = ${userId} ORDER BY id DESC LIMIT ${stepsPerPerson})`
  )
  return Redacted.make(`${lookupId}.${secret}`)
})

/** Undefined for an unknown, used or expired step, and for one of the other purpose. */
export const find = Effect.fnUntraced(function* (
  { rowSeal, sql }: Needs,
  text: Redacted.Redacted | null,
  recovery = false
) {
  const match = text === null ? null : pattern.exec(Redacted.value(text))
  if (match === null) return undefined
  const [, lookupId, secret] = match
  const macs = yield* rowSeal.ready
  const row = yield* Rows.findOne(
    StepRow,
    sql`
      SELECT id, lookup_id, salt, hash, user_id, expires_at, issuer, only_team, issuer_subject AS subject,
        issuer_session AS session, closed_teams, confirmed_teams, recovery, mac
      FROM sign_in_steps
      WHERE lookup_id = ${lookupId} AND expires_at > ${yield* DateTime.nowAsDate}`
  )
  const isAuthentic = TokenText.verify(macs, "sf", row, secret) && macs.isAuthentic("sign_in_steps", row)
  return isAuthentic && row.recovery === recovery ? row : undefined
})

/** Part of the transaction that opens the session. Of two simultaneous calls, one returns true. */
export const end = ({ sql }: Pick<Needs, "sql">, id: string) =>
  Rows.exists(RowJournal.noteEnds(sql, "sign_in_steps")`DELETE FROM sign_in_steps WHERE id = ${id} RETURNING id`)

/** Ends the person's steps when the password or a factor changes, since they began with the old one. */
export const endOf = ({ sql }: Pick<Needs, "sql">, userId: UserId) =>
  RowJournal.remove(sql, "sign_in_steps", sql`user_id = ${userId}`)
