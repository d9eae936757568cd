/**
 * States that passkeys, the authenticator app and recovery codes share (docs/security.md, "Ways in"): out of use until
 * the person confirms them, younger than a day, and closed for a team until an owner confirms them.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Caller } from "#schema/Caller.ts"
import { GrantNotFound, StepUpRequired } from "#schema/Errors.ts"
import { type TeamId, TeamIdOut, type UserId } from "#schema/Ids.ts"
import type { RowSeal } from "#src/rows/RowSeal.ts"
import { days } from "#src/Days.ts"
import * as Rows from "#src/database/Rows.ts"
import type { FactorProof } from "./Accounts.ts"

interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly rowSeal: RowSeal
}

/** Columns of the shared states. */
export const stateFields = {
  youngUntil: Schema.NullOr(Schema.DateFromSelf),
  closedTeams: Schema.NullOr(Schema.Array(TeamIdOut))
}
export interface State {
  readonly youngUntil: Date | null
  readonly closedTeams: ReadonlyArray<TeamId> | null
}

/**
 * State of a new authenticator: young for a day. It opens no team that its session does not open, so that a thief's
 * session makes no way into it.
 */
export const newState = (caller: Pick<Caller, "closedTeams">, now: Date) => ({
  suspendedAt: null,
  youngUntil: new Date(now.getTime() + days(1)),
  closedTeams: caller.closedTeams
})

export const isYoung = ({ youngUntil }: Pick<State, "youngUntil">, now: number): boolean =>
  youngUntil !== null && youngUntil.getTime() > now

/** Whether the person has a passkey or an app that is in use and older than a day, or confirmed by an older one. */
export const hasOlder = Effect.fnUntraced(function* ({ sql }: Pick<Needs, "sql">, userId: UserId) {
  const now = new Date(yield* Clock.currentTimeMillis)
  return yield* Rows.exists(sql`
    SELECT 1 FROM totp_factors
    WHERE user_id = ${userId} AND confirmed AND suspended_at IS NULL AND (young_until IS NULL OR young_until <= ${now})
    UNION ALL SELECT 1 FROM passkeys
    WHERE user_id = ${userId} AND suspended_at IS NULL AND (young_until IS NULL OR young_until <= ${now}) LIMIT 1`)
})

/** Whether the person has a passkey or an app in use. */
export const hasAny = ({ sql }: Pick<Needs, "sql">, userId: UserId) =>
  Rows.exists(sql`
    SELECT 1 FROM totp_factors WHERE user_id = ${userId} AND confirmed AND suspended_at IS NULL
    UNION ALL SELECT 1 FROM passkeys WHERE user_id = ${userId} AND suspended_at IS NULL LIMIT 1`)

const never = new Date(0)

/**
 * The proof that a use gives. A young authenticator satisfies a team that requires a second factor, and nothing that
 * asks for a second proof. `entered`: the person entered the password, or came from an issuer, just before. That is the
 * proof while all authenticators are young.
 */
export const proofOf = Effect.fnUntraced(function* (
  needs: Pick<Needs, "sql">,
  userId: UserId,
  { closedTeams, youngUntil }: State,
  { entered }: { readonly entered: boolean }
) {
  const now = new Date(yield* Clock.currentTimeMillis)
  const proof = (provedAt: Date | null): FactorProof => ({ factorAt: now, provedAt, closedTeams })
  if (!isYoung({ youngUntil }, now.getTime())) return proof(null)
  return proof(entered && !(yield* hasOlder(needs, userId)) ? now : never)
})

const TimeRow = Schema.Struct({ createdAt: Schema.DateFromSelf })

/**
 * Confirms a young passkey or app. STEP_UP_REQUIRED unless an older authenticator proved the person in this session,
 * after the young one was added. Part of the caller's transaction.
 */
export const confirmYoung = Effect.fnUntraced(function* (
  { rowSeal, sql }: Needs,
  caller: Caller,
  userId: UserId,
  table: "passkeys" | "totp_factors",
  id: string
) {
  const where = sql`id = ${id} AND user_id = ${userId} AND suspended_at IS NULL AND young_until IS NOT NULL`
  const row = yield* Rows.findOne(TimeRow, sql`SELECT created_at FROM ${sql(table)} WHERE ${where}`)
  if (row === undefined) return yield* new GrantNotFound({ message: "It no longer waits for a confirmation." })
  const { factorAt, provedAt } = caller
  if (factorAt === null || provedAt !== null || factorAt.getTime() <= row.createdAt.getTime()) {
    return yield* new StepUpRequired({
      message: "Confirm with a passkey or an app that is older than a day, then confirm the new one."
    })
  }
  yield* rowSeal.update(table, where, () => ({ youngUntil: null }))
})
