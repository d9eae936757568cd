/**
 * Challenges that wait for a passkey's answer: each good once, for five minutes, for the browser that asked, and for what
 * it asked: a sign-in, the second step of one, a confirmation of one session, or a new passkey.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { type UserId, UserIdOut } from "#schema/Ids.ts"
import type { RowSeal } from "#src/rows/RowSeal.ts"
import type { Crypto } from "#src/crypto/Crypto.ts"
import * as Rows from "#src/database/Rows.ts"
import { type Assertion, type Attestation, ceremonyMillis, challengeOf } from "./PasskeyProof.ts"
import * as TokenText from "./TokenText.ts"

interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly crypto: Crypto
  readonly rowSeal: RowSeal
}

/** What a challenge is for. `boundTo`: the step or the session that asked. */
export type Purpose =
  | { readonly purpose: "sign-in"; readonly userId: null; readonly boundTo: null }
  | { readonly purpose: "second-step" | "confirm" | "add"; readonly userId: UserId; readonly boundTo: string }

const browserPattern = /^[0-9A-Za-z]{43}$/

const ChallengeRow = Schema.Struct({
  id: Schema.String,
  challenge: Schema.String,
  ...TokenText.ProofRow.fields,
  purpose: Schema.String,
  userId: Schema.NullOr(UserIdOut),
  boundTo: Schema.NullOr(Schema.String),
  expiresAt: Schema.DateFromSelf,
  mac: Schema.NullOr(Schema.Uint8ArrayFromSelf)
})

export interface Begun {
  readonly challenge: string
  /** What the browser keeps: it is the same for its pages side by side, and opens nothing. */
  readonly browser: Redacted.Redacted
}

export const begin = Effect.fnUntraced(function* (
  { crypto, rowSeal, sql }: Needs,
  purpose: Purpose,
  presented: Redacted.Redacted | null
) {
  const now = yield* DateTime.nowAsDate
  const isOurs = presented !== null && browserPattern.test(Redacted.value(presented))
  const browser = isOurs ? presented : yield* crypto.credentialSecret
  const challenge = Buffer.from(yield* crypto.randomBytes(32)).toString("base64url")
  const salt = yield* crypto.randomBytes(16)
  const hash = TokenText.hash(yield* rowSeal.ready, "pc", salt, Redacted.value(browser))
  const expiresAt = new Date(now.getTime() + ceremonyMillis)
  const row = { id: yield* crypto.uuid, challenge, hash, ...purpose, expiresAt }
  yield* Rows.run(sql`
    INSERT INTO passkey_challenges ${yield* rowSeal.values("passkey_challenges", row, { salt, created_at: now })}`)
  const begun: Begun = { challenge, browser }
  return begun
})

/**
 * The challenge that the answer is for, gone from now on, whatever becomes of the answer. Undefined: there is none, or it
 * is too old, of another browser, or for something else.
 */
export const take = Effect.fnUntraced(function* (
  { rowSeal, sql }: Needs,
  purpose: Purpose,
  presented: Redacted.Redacted | null,
  answer: Assertion | Attestation
) {
  const said = challengeOf(answer)
  if (Option.isNone(said) || presented === null) return undefined
  const macs = yield* rowSeal.ready
  const row = yield* Rows.findOne(
    ChallengeRow,
    sql`
      DELETE FROM passkey_challenges WHERE challenge = ${said.value.challenge} AND expires_at > ${yield* DateTime.nowAsDate}
      RETURNING id, challenge, salt, hash, purpose, user_id, bound_to, expires_at, mac`
  )
  const isOwn = TokenText.verify(macs, "pc", row, Redacted.value(presented)) && macs.holds("passkey_challenges", row)
  return isOwn && row.purpose === purpose.purpose && row.userId === purpose.userId && row.boundTo === purpose.boundTo
    ? row.challenge
    : undefined
})
