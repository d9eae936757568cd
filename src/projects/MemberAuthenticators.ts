/**
 * Passkeys, apps and linked identities of a member, with the day each was added. Owners confirm those that do not open
 * their team (docs/security.md, "Ways in").
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { GrantNotFound, MemberNotFound } from "#schema/Errors.ts"
import { type TeamId, TeamIdOut, type UserId } from "#schema/Ids.ts"
import type { MemberAuthenticator } from "#schema/PersonAccessApi.ts"
import { Access } from "#src/access/Access.ts"
import { change } from "#src/access/Change.ts"
import { Audit } from "#src/trail/Audit.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { opens, Witness } from "#src/credentials/IdentityState.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"

const services = Effect.all({ access: Access, audit: Audit, rowSeal: RowSeal, sql: SqlClient.SqlClient })
type Needs = Effect.Effect.Success<typeof services>

/** Limit of one list; a person's own limits are lower. */
const maxItems = 100

const Row = Schema.Struct({
  type: Schema.Literal("passkey", "app", "identity"),
  id: Schema.String,
  name: Schema.String,
  address: Schema.NullOr(Schema.String),
  createdAt: Rows.Iso,
  lastUsedAt: Schema.NullOr(Rows.Iso),
  isSuspended: Schema.Boolean,
  isClosed: Schema.Boolean,
  confirmedTeams: Schema.NullOr(Schema.Array(TeamIdOut)),
  witness: Schema.NullOr(Witness),
  /** The team requires this issuer. */
  isRequired: Schema.Boolean
})
type Row = typeof Row.Type

/** Identities of other teams' issuers are those teams' to see. */
const rowsOf = ({ sql }: Pick<Needs, "sql">, teamId: TeamId, userId: UserId) =>
  Rows.findAll(
    Row,
    sql`
      WITH team AS (SELECT id, sign_in_only FROM teams WHERE id = ${teamId})
      SELECT c.type, c.id, c.name, c.address, c.created_at, c.last_used_at, c.suspended_at IS NOT NULL AS is_suspended,
        coalesce(c.closed_teams @> ARRAY[${teamId}]::uuid[], false) AS is_closed, c.confirmed_teams, c.witness,
        c.is_required
      FROM (
        SELECT 'passkey' AS type, id, name, NULL AS address, created_at, last_used_at, suspended_at, closed_teams,
          NULL::uuid[] AS confirmed_teams, NULL AS witness, false AS is_required FROM passkeys WHERE user_id = ${userId}
        UNION ALL
        SELECT 'app', id, 'Authenticator app', NULL, created_at, last_used_at, suspended_at, closed_teams,
          NULL, NULL, false FROM totp_factors WHERE user_id = ${userId} AND confirmed
        UNION ALL
        SELECT 'identity', i.id, i.issuer, i.address, i.created_at, i.last_used_at, i.suspended_at, i.closed_teams,
          i.confirmed_teams, i.witness, t.sign_in_only IS NOT NULL
        FROM sign_in_identities i CROSS JOIN team t
        WHERE i.user_id = ${userId} AND (i.source = '' OR i.source IN (
          SELECT s.id::text FROM sign_in_issuers s WHERE s.team_id = ${teamId}))
      ) AS c ORDER BY c.created_at DESC, c.id LIMIT ${maxItems}`
  )

/** Whether an identity needs an owner to open the team while it requires the issuer: it has no witness, or a grace only. */
const waits = ({ confirmedTeams, type, witness }: Row, teamId: TeamId): boolean =>
  type === "identity" && (witness === null || witness === "none") && !(confirmedTeams?.includes(teamId) ?? false)

const recordOf = Effect.fnUntraced(function* (needs: Pick<Needs, "sql">, row: Row, teamId: TeamId) {
  const { address, createdAt, id, isClosed, isRequired, isSuspended, lastUsedAt, name, type } = row
  const open = type === "identity" && isRequired ? yield* opens(needs, row) : null
  const record: MemberAuthenticator = {
    type,
    id,
    name,
    address,
    addedAt: createdAt,
    lastUsedAt,
    opensTeam: !isSuspended && !isClosed && (open === null || open.includes(teamId)),
    waitsForOwner: !isSuspended && (isClosed || waits(row, teamId))
  }
  return record
})

/** Part of a use case that checked the right to see the member. */
export const listOf = (needs: Pick<Needs, "sql">, teamId: TeamId, userId: UserId) =>
  Effect.flatMap(rowsOf(needs, teamId, userId), (rows) => Effect.forEach(rows, (row) => recordOf(needs, row, teamId)))

const without = (teams: unknown, teamId: TeamId): ReadonlyArray<string> | null => {
  const rest = Array.isArray(teams) ? teams.filter((id: unknown) => id !== teamId) : []
  return rest.length === 0 ? null : rest
}

const opened = (teamId: TeamId) => (row: { readonly closedTeams: unknown }) => ({
  closedTeams: without(row.closedTeams, teamId)
})

/** For owners: the authenticator or identity opens this team again, from the person's next sign-in. */
const confirm = Effect.fn("MemberAuthenticators.confirm")(function* (
  { access, audit, rowSeal, sql }: Needs,
  teamId: TeamId,
  userId: UserId,
  id: string
) {
  const permit = yield* access.team("team-rules:manage", teamId, { audit: "factor.vouch" })
  const about = permit.event({ target: { type: "user", id: userId, name: "" } })
  yield* change({ audit, sql }, about, function* () {
    yield* Rows.run(sql`SELECT id FROM teams WHERE id = ${teamId} FOR NO KEY UPDATE`)
    const isMember = yield* Rows.exists(
      sql`SELECT 1 FROM memberships WHERE team_id = ${teamId} AND user_id = ${userId}`
    )
    if (!isMember) return yield* new MemberNotFound()
    const row = (yield* rowsOf({ sql }, teamId, userId)).find((one) => one.id === id)
    if (row === undefined || row.isSuspended || !(row.isClosed || waits(row, teamId))) {
      return yield* new GrantNotFound({ message: "It does not wait for a confirmation." })
    }
    const where = sql`id = ${id} AND user_id = ${userId}`
    if (row.type === "passkey") yield* rowSeal.update("passkeys", where, opened(teamId))
    else if (row.type === "app") yield* rowSeal.update("totp_factors", where, opened(teamId))
    else {
      yield* rowSeal.update("sign_in_identities", where, ({ closedTeams, confirmedTeams }) => ({
        closedTeams: without(closedTeams, teamId),
        confirmedTeams: [...(without(confirmedTeams, teamId) ?? []), teamId].toSorted()
      }))
    }
    yield* audit.append({ ...about, target: { type: "user", id: userId, name: `${row.type} ${row.name}` } })
  })
})

export class MemberAuthenticators extends Effect.Service<MemberAuthenticators>()("projects/MemberAuthenticators", {
  effect: Effect.map(services, (needs) => methods(needs, { confirm }))
}) {}
