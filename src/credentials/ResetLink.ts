/** A link that sets a person's password. It opens the whole account. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type { UserId } from "#schema/Ids.ts"
import type { Crypto } from "#src/crypto/Crypto.ts"
import { days } from "#src/Days.ts"
import * as Rows from "#src/Rows.ts"
import { issue } from "./Issue.ts"
import type { Revocation } from "./Revocation.ts"

interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly crypto: Crypto
  readonly revocation: Revocation
  readonly baseUrl: string
}

/** Short, since the link opens an account. */
const life = days(1)

/** Part of the caller's transaction; earlier links of the person stop working. `createdBy`: null = the operator. */
export const create = Effect.fnUntraced(function* (
  { baseUrl, crypto, revocation, sql }: Needs,
  link: { readonly userId: UserId; readonly createdBy: UserId | null }
) {
  const now = yield* DateTime.nowAsDate
  const expiresAt = new Date(now.getTime() + life)
  const { proof, text } = yield* issue(crypto, "pr")
  yield* revocation.resetLinksOf(link.userId)
  yield* Rows.run(sql`
    INSERT INTO password_resets (id, lookup_id, salt, hash, user_id, created_by, created_at, expires_at)
    VALUES (${yield* crypto.uuid}, ${proof.lookupId}, ${proof.salt}, ${proof.hash}, ${link.userId}, ${link.createdBy},
      ${now}, ${expiresAt})`)
  return { url: Redacted.make(`${baseUrl}/reset?code=${Redacted.value(text)}`), expiresAt }
})
