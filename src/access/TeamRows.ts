/** New teams and memberships, and what a person who leaves decided. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { TeamId, UserId } from "#schema/Ids.ts"
import { type Plan, Role } from "#schema/Scopes.ts"
import * as Rows from "#src/database/Rows.ts"
import type { RowMac, StoredMac } from "#src/rows/RowMac.ts"
import type { RowSeal } from "#src/rows/RowSeal.ts"
import type { SealedRow } from "#src/rows/SealedRows.ts"

/** Of a membership: what its seal covers beside its team and person, with the seal. */
export const membershipFields = {
  role: Role,
  active: Schema.Boolean,
  deactivatedAt: Schema.NullOr(Schema.DateFromSelf),
  updatedAt: Schema.DateFromSelf,
  ruledBy: Schema.NullOr(Schema.String),
  roleLimit: Schema.NullOr(Role),
  breakGlass: Schema.Boolean,
  mac: Schema.NullOr(Schema.Uint8ArrayFromSelf)
}

/**
 * Whether a server wrote the team's rules as they are, whatever else the row says. Member by member: a copy of a row with
 * forty members takes longer than its MAC (docs/architecture.md, "The hot path").
 */
export const teamHolds = (
  macs: RowMac,
  id: TeamId,
  row: Omit<SealedRow<"teams">, "id"> & { readonly teamMac: StoredMac }
): boolean =>
  macs.holds("teams", {
    id,
    plan: row.plan,
    adminsNeedGrants: row.adminsNeedGrants,
    tokensFollowCreators: row.tokensFollowCreators,
    secondFactorRequired: row.secondFactorRequired,
    stepUpMinutes: row.stepUpMinutes,
    leakedCredentials: row.leakedCredentials,
    signInOnly: row.signInOnly,
    suspended: row.suspended,
    sessionAddresses: row.sessionAddresses,
    mac: row.teamMac
  })

/** Whether a server wrote the membership as it is. */
export const membershipHolds = (
  macs: RowMac,
  teamId: TeamId,
  userId: UserId,
  row: Omit<SealedRow<"memberships">, "teamId" | "userId"> & { readonly mac: StoredMac }
): boolean =>
  macs.holds("memberships", {
    teamId,
    userId,
    role: row.role,
    active: row.active,
    deactivatedAt: row.deactivatedAt,
    updatedAt: row.updatedAt,
    ruledBy: row.ruledBy,
    roleLimit: row.roleLimit,
    breakGlass: row.breakGlass,
    mac: row.mac
  })

/** How old the last proof of a second factor may be, where a team does not say. */
export const defaultStepUpMinutes = 15

interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly rowSeal: RowSeal
}

/** Whether the person was no member before; one who was keeps the role. Part of the caller's transaction. */
export const join = Effect.fnUntraced(function* (
  { rowSeal, sql }: Needs,
  {
    now,
    role,
    ruledBy = null,
    teamId,
    userId
  }: {
    readonly teamId: TeamId
    readonly userId: UserId
    readonly role: Role
    readonly now: Date
    /** The issuer whose rules let the person in. */
    readonly ruledBy?: string | null
  }
) {
  const row = yield* rowSeal.values(
    "memberships",
    {
      teamId,
      userId,
      role,
      active: true,
      deactivatedAt: null,
      updatedAt: now,
      ruledBy,
      roleLimit: null,
      breakGlass: false
    },
    { created_at: now }
  )
  return yield* Rows.exists(
    sql`INSERT INTO memberships ${row} ON CONFLICT (team_id, user_id) DO NOTHING RETURNING user_id`
  )
})

/** A team with its owner. Part of the caller's transaction. */
export const insertTeam = Effect.fnUntraced(function* (
  needs: Needs,
  team: {
    readonly id: TeamId
    readonly name: string
    readonly plan: Plan
    readonly owner: UserId
    readonly now: Date
  }
) {
  const { id, name, now, owner, plan } = team
  const row = yield* needs.rowSeal.values(
    "teams",
    {
      id,
      plan,
      adminsNeedGrants: false,
      tokensFollowCreators: false,
      secondFactorRequired: false,
      stepUpMinutes: defaultStepUpMinutes,
      leakedCredentials: "revoke",
      signInOnly: null,
      suspended: false,
      sessionAddresses: null
    },
    { name, created_at: now, updated_at: now }
  )
  yield* Rows.run(needs.sql`INSERT INTO teams ${row}`)
  yield* join(needs, { teamId: id, userId: owner, role: "owner", now })
})

/** The person decides no request for access any more, in one team or (null) everywhere. */
export const removeApprover = ({ rowSeal, sql }: Needs, userId: UserId, teamId: TeamId | null) =>
  rowSeal.update(
    "environments",
    // `any(approvers)` says the same, and has no index.
    sql`approvers @> ARRAY[${userId}]::uuid[] AND (${teamId}::uuid IS NULL OR team_id = ${teamId})`,
    ({ approvers }) => ({ approvers: Array.isArray(approvers) ? approvers.filter((id) => id !== userId) : [] })
  )
