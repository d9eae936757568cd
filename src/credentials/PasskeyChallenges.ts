/**
 * Challenges of passkeys. Each is good once, for five minutes, for one browser and one purpose. Purposes are a sign-in,
 * its second step, a confirmation of one session, and a new passkey.
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

/** Purpose of a challenge. `boundTo`: id of the sign-in step or the session. */
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

interface NewChallenge {
  readonly challenge: string
  /** Text of the browser's cookie: its pages share it, and it opens nothing. */
  readonly browser: Redacted.Redacted
}

export const begin = Effect.fnUntraced(function* (
  { crypto, rowSeal, sql }: Needs,
  purpose: Purpose,
  cookie: Redacted.Redacted | null
) {
  const now = yield* DateTime.nowAsDate
  const isOurs = cookie !== null && browserPattern.test(Redacted.value(cookie))
  const browser = isOurs ? cookie : yield* crypto.credentialSecret
  const challenge = Buffer.from(yield* crypto.randomBytes(32)).toString("base64url")
  const salt = yield* crypto.randomBytes(16)
  const hash = TokenText.hash(yield* rowSeal.ready, "pc", salt, Redacted.value(browser))
  const expiresAt = new Date(now.getTime() + ceremonyMillis)
  const row = { id: yield* crypto.uuid, challenge, hash, ...purpose, expiresAt }
  yield* Rows.run(sql`
    INSERT INTO passkey_challenges ${yield* rowSeal.values("passkey_challenges", row, { salt, created_at: now })}`)
  const result: NewChallenge = { challenge, browser }
  return result
})

/**
 * Deletes and returns the challenge that the response answers, whether or not the response is right. Undefined: no such
 * challenge, or it is too old, of another browser, or for another purpose.
 */
export const take = Effect.fnUntraced(function* (
  { rowSeal, sql }: Needs,
  purpose: Purpose,
  cookie: Redacted.Redacted | null,
  answer: Assertion | Attestation
) {
  const clientData = challengeOf(answer)
  if (Option.isNone(clientData) || cookie === null) return undefined
  const macs = yield* rowSeal.ready
  const row = yield* Rows.findOne(
    ChallengeRow,
    sql`
      DELETE FROM passkey_challenges WHERE challenge = ${clientData.value.challenge} AND expires_at > ${yield* DateTime.nowAsDate}
      RETURNING id, challenge, salt, hash, purpose, user_id, bound_to, expires_at, mac`
  )
  const isOwn = TokenText.verify(macs, "pc", row, Redacted.value(cookie)) && macs.isAuthentic("passkey_challenges", row)
  return isOwn && row.purpose === purpose.purpose && row.userId === purpose.userId && row.boundTo === purpose.boundTo
    ? row.challenge
    : undefined
})
