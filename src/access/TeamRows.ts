/** Inserts teams and memberships, and removes a departing person from approvers. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Caller } from "#schema/Caller.ts"
import { Forbidden } from "#schema/Errors.ts"
import type { TeamId, UserId } from "#schema/Ids.ts"
import { type Plan, Role } from "#schema/Scopes.ts"
import * as Rows from "#src/database/Rows.ts"
import type { RowMac, StoredMac } from "#src/rows/RowMac.ts"
import type { RowSeal } from "#src/rows/RowSeal.ts"
import type { AuthorizationRow } from "#src/rows/AuthorizationRows.ts"

/** Columns of a membership under its MAC, without the team and person, and the MAC. */
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
 * Whether the MAC of the team's rules is valid, whatever other columns the row has. Copies member by member: spreading
 * a row of forty members takes longer than its MAC (docs/architecture.md, "The hot path").
 */
export const isTeamAuthentic = (
  macs: RowMac,
  id: TeamId,
  row: Omit<AuthorizationRow<"teams">, "id"> & { readonly teamMac: StoredMac }
): boolean =>
  macs.isAuthentic("teams", {
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
    secondPerson: row.secondPerson,
    mac: row.teamMac
  })

/** Whether the membership's MAC is valid. */
export const isMembershipAuthentic = (
  macs: RowMac,
  teamId: TeamId,
  userId: UserId,
  row: Omit<AuthorizationRow<"memberships">, "teamId" | "userId"> & { readonly mac: StoredMac }
): boolean =>
  macs.isAuthentic("memberships", {
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

/** Maximum age of the last second-factor proof in minutes, unless the team sets another. */
const defaultStepUpMinutes = 15

interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly rowSeal: RowSeal
}

/**
 * Returns whether the person is a new member; an existing member keeps the role. Runs in the caller's transaction. Every
 * membership is made here, so that a session of a team's own issuer gains none in another team (FORBIDDEN).
 */
export const join = Effect.fnUntraced(function* (
  { rowSeal, sql }: Needs,
  {
    by,
    now,
    role,
    ruledBy = null,
    teamId,
    userId
  }: {
    /** Session of the person who joins; null: a new person, the server or the operator. */
    readonly by: Pick<Caller, "onlyTeam"> | null
    readonly teamId: TeamId
    readonly userId: UserId
    readonly role: Role
    readonly now: Date
    /** The issuer whose rules let the person in. */
    readonly ruledBy?: string | null
  }
) {
  if (by !== null && by.onlyTeam !== null && by.onlyTeam !== teamId) return yield* goodForOneTeam()
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

/** A session of a team's own issuer is good for that team alone. */
export const goodForOneTeam = () =>
  new Forbidden({
    message:
      "Your team's own issuer signed you in, which is good for that team alone. Sign in with your password or another issuer."
  })

/** Inserts a team with its owner, in the caller's transaction. `by`: as in `join`. */
export const insertTeam = Effect.fnUntraced(function* (
  needs: Needs,
  team: {
    readonly id: TeamId
    readonly name: string
    readonly plan: Plan
    readonly owner: UserId
    readonly now: Date
    readonly by: Pick<Caller, "onlyTeam"> | null
  }
) {
  const { by, id, name, now, owner, plan } = team
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
      sessionAddresses: null,
      secondPerson: false
    },
    { name, created_at: now, updated_at: now }
  )
  yield* Rows.run(needs.sql`INSERT INTO teams ${row}`)
  yield* join(needs, { by, teamId: id, userId: owner, role: "owner", now })
})

/** Removes the person from the approvers of environments, in one team or, with null, in all. */
export const removeApprover = ({ rowSeal, sql }: Needs, userId: UserId, teamId: TeamId | null) =>
  rowSeal.update(
    "environments",
    // `any(approvers)` is equivalent, but has no index.
    sql`approvers @> ARRAY[${userId}]::uuid[] AND (${teamId}::uuid IS NULL OR team_id = ${teamId})`,
    ({ approvers }) => ({ approvers: Array.isArray(approvers) ? approvers.filter((id) => id !== userId) : [] })
  )
