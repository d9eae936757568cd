/** Teams that a linked identity opens, of those that require its issuer. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { TeamId, UserId } from "#schema/Ids.ts"
import { days } from "#src/Days.ts"
import * as Rows from "#src/database/Rows.ts"

interface Needs {
  readonly sql: SqlClient.SqlClient
}

/**
 * Reason to believe that an identity is the account's person. `address`: the issuer's verified address is the account's.
 * `session`: linked in a session of the same issuer. `none`: it opens no team that requires its issuer until an owner
 * there confirms it.
 */
export const Witness = Schema.Literal("address", "session", "none")
export type Witness = typeof Witness.Type

interface IdentityState {
  readonly confirmedTeams: ReadonlyArray<TeamId> | null
  /** Null: linked before witnesses existed. */
  readonly witness: Witness | null
}

/** Days for which identities of before the upgrade go on opening teams that require their issuer. */
const graceDays = 30
const MigrationRow = Schema.Struct({ createdAt: Schema.DateFromSelf })

/** End of the grace of identities that were linked before witnesses existed. */
const graceEnd = ({ sql }: Needs) =>
  Effect.map(
    Rows.findOne(MigrationRow, sql`SELECT created_at FROM effect_sql_migrations WHERE name = 'ways_in'`),
    (row) => (row?.createdAt.getTime() ?? 0) + days(graceDays)
  )

/** Of the teams that require the issuer, the only ones that the identity opens; null: all of them. */
export const opens = Effect.fnUntraced(function* (needs: Needs, { confirmedTeams, witness }: IdentityState) {
  if (witness === "address" || witness === "session") return null
  const isInGrace = witness === null && (yield* Clock.currentTimeMillis) < (yield* graceEnd(needs))
  return isInGrace ? null : (confirmedTeams ?? [])
})

const WitnessRow = Schema.Struct({ witness: Schema.NullOr(Witness) })

/**
 * Latest end of a session by the identity of this sign-in, in ms. A session of an identity in its grace ends with the
 * grace; others may last.
 */
export const graceOf = Effect.fnUntraced(function* (
  needs: Needs,
  userId: UserId,
  by: Pick<IdentityState, "confirmedTeams"> & { readonly issuer: string | null; readonly subject: string | null }
) {
  if (by.issuer === null || by.confirmedTeams !== null) return Infinity
  const row = yield* Rows.findOne(
    WitnessRow,
    needs.sql`
      SELECT witness FROM sign_in_identities
      WHERE user_id = ${userId} AND subject = ${by.subject} AND witness IS NULL`
  )
  return row === undefined ? Infinity : yield* graceEnd(needs)
})
