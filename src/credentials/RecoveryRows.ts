/** Authenticators and identities of a person that are out of use, or that a way out puts out of use. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { UserId } from "#schema/Ids.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"
import type { RowSeal } from "#src/rows/RowSeal.ts"
import * as Rows from "#src/database/Rows.ts"

interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly rowSeal: RowSeal
}

/** Limit of a list: passkeys, one app, and identities of a person have lower limits themselves. */
const maxItems = 100

const ItemRow = Schema.Struct({
  kind: Schema.Literal("passkey", "app", "identity"),
  id: Schema.String,
  name: Schema.String,
  createdAt: Schema.DateFromSelf,
  lastUsedAt: Schema.NullOr(Schema.DateFromSelf)
})
export type Item = typeof ItemRow.Type

/** Whether the person has a passkey, an app or a linked identity, in use or not. */
export const hasAny = ({ sql }: Pick<Needs, "sql">, userId: UserId) =>
  Rows.exists(sql`
    SELECT 1 FROM passkeys WHERE user_id = ${userId}
    UNION ALL SELECT 1 FROM totp_factors WHERE user_id = ${userId} AND confirmed
    UNION ALL SELECT 1 FROM sign_in_identities WHERE user_id = ${userId} LIMIT 1`)

/** Items out of use, oldest first. */
export const listOf = ({ sql }: Pick<Needs, "sql">, userId: UserId) =>
  Rows.findAll(
    ItemRow,
    sql`
      SELECT 'passkey' AS kind, id, name, created_at, last_used_at FROM passkeys
      WHERE user_id = ${userId} AND suspended_at IS NOT NULL
      UNION ALL SELECT 'app', id, 'Authenticator app', created_at, last_used_at FROM totp_factors
      WHERE user_id = ${userId} AND suspended_at IS NOT NULL
      UNION ALL SELECT 'identity', id, issuer || ' (' || subject || ')', created_at, last_used_at FROM sign_in_identities
      WHERE user_id = ${userId} AND suspended_at IS NOT NULL
      ORDER BY created_at, id LIMIT ${maxItems}`
  )

/** Part of the caller's transaction: the items come back. */
export const restore = Effect.fnUntraced(function* (
  { rowSeal, sql }: Needs,
  userId: UserId,
  items: ReadonlyArray<Item>
) {
  const inUse = () => ({ suspendedAt: null })
  for (const { id, kind } of items) {
    const where = sql`id = ${id} AND user_id = ${userId} AND suspended_at IS NOT NULL`
    if (kind === "passkey") yield* rowSeal.update("passkeys", where, inUse)
    else if (kind === "app") yield* rowSeal.update("totp_factors", where, inUse)
    else yield* rowSeal.update("sign_in_identities", where, inUse)
  }
})

/** Part of the caller's transaction: deletes what is still out of use. */
export const removeRest = Effect.fnUntraced(function* ({ sql }: Pick<Needs, "sql">, userId: UserId) {
  for (const table of ["passkeys", "totp_factors", "sign_in_identities"] as const) {
    yield* RowJournal.remove(sql, table, sql`user_id = ${userId} AND suspended_at IS NOT NULL`)
  }
})
