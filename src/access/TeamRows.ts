/** Inserts teams and memberships, and removes a departing person from approvers. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import type { Caller } from "#schema/Caller.ts"
import { Forbidden } from "#schema/Errors.ts"
import type { TeamId, UserId } from "#schema/Ids.ts"
import type { Plan, Role } from "#schema/Scopes.ts"
import * as Policy from "./Policy.ts"
import * as Rows from "#src/database/Rows.ts"
import type { RowSeal } from "#src/rows/RowSeal.ts"

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
  if (by !== null) yield* checkReach(by, teamId)
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

/** Refuses a session of a team's own issuer where it does not reach; null: things of the installation. */
export const checkReach = (by: Pick<Caller, "onlyTeam">, teamId: TeamId | null) =>
  Policy.reaches(by, teamId)
    ? Effect.void
    : new Forbidden({
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
      secondPerson: false,
      allowedKeys: null
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
