/**
 * Roles in teams by the claims of an issuer. Each sign-in evaluates its issuer's rules: a lost group is a lost role.
 * Rules never make or change an owner, so that a team keeps one.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { type TeamId, TeamIdOut, type UserId } from "#schema/Ids.ts"
import type { Role } from "#schema/Scopes.ts"
import { addressOf } from "#schema/Values.ts"
import type { Audit } from "#src/trail/Audit.ts"
import type { AuditEvent } from "#src/trail/Entry.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"
import type { RowSeal } from "#src/rows/RowSeal.ts"
import * as TeamRows from "#src/access/TeamRows.ts"
import * as VerifiedRows from "#src/access/VerifiedRows.ts"
import { type Revocation, revocationEvents } from "#src/credentials/Revocation.ts"
import * as WaysIn from "#src/credentials/WaysIn.ts"
import * as Plans from "#src/limits/Plans.ts"
import * as Rows from "#src/database/Rows.ts"

export interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly rowSeal: RowSeal
  readonly audit: Audit
  readonly revocation: Revocation
}

/** An abuse limit; a list shows all. */
export const rulesPerTeam = 200

export const RuleRow = Schema.Struct({
  id: Schema.String,
  teamId: TeamIdOut,
  issuer: Schema.String,
  claim: Schema.String,
  value: Schema.String,
  role: Schema.Literal("admin", "member", "viewer"),
  createdAt: Rows.Iso,
  mac: Schema.NullOr(Schema.Uint8ArrayFromSelf)
})
export type RuleRow = typeof RuleRow.Type
export const columns = (sql: SqlClient.SqlClient) =>
  sql.literal("id, team_id, issuer, claim, value, role, created_at, mac")

const ranks: ReadonlyArray<Role> = ["viewer", "member", "admin", "owner"]
const lower = (a: Role, b: Role): Role => (ranks.indexOf(a) < ranks.indexOf(b) ? a : b)
const higher = (a: Role, b: Role): Role => (ranks.indexOf(a) < ranks.indexOf(b) ? b : a)

/** Exact match of the claim, or of one item of its list. A Map, so that no inherited member matches. */
const matches = (rule: Pick<RuleRow, "claim" | "value">, claims: Readonly<Record<string, unknown>>): boolean => {
  const claim: unknown = new Map(Object.entries(claims)).get(rule.claim)
  return Array.isArray(claim) ? claim.includes(rule.value) : claim === rule.value
}

type Roles = ReadonlyMap<TeamId, Role>

/** The highest role of the matching rules, by team. */
export const rolesBy = (
  rules: ReadonlyArray<Pick<RuleRow, "teamId" | "claim" | "value" | "role">>,
  claims: Readonly<Record<string, unknown>>
): Roles => {
  const roles = new Map<TeamId, Role>()
  for (const rule of rules) {
    if (matches(rule, claims)) roles.set(rule.teamId, higher(roles.get(rule.teamId) ?? "viewer", rule.role))
  }
  return roles
}

/** Rules of the issuer, without rows whose MAC fails. A team's issuer has rules of that team only. */
export const of = Effect.fnUntraced(function* (
  { rowSeal, sql }: Pick<Needs, "rowSeal" | "sql">,
  issuer: { readonly key: string; readonly teamId: TeamId | null }
) {
  const macs = yield* rowSeal.ready
  const rows = yield* Rows.findAll(
    RuleRow,
    sql`SELECT ${columns(sql)} FROM sign_in_rules WHERE issuer = ${issuer.key} ORDER BY id`
  )
  return rows.filter(
    (row) => macs.isAuthentic("sign_in_rules", row) && (issuer.teamId === null || issuer.teamId === row.teamId)
  )
})

const MembershipRow = Schema.Struct({
  teamId: TeamIdOut,
  userId: Schema.String,
  ...VerifiedRows.membershipFields
})
type MembershipRow = typeof MembershipRow.Type

interface Person {
  readonly id: UserId
  readonly email: string
}

interface At {
  readonly person: Person
  readonly issuer: string
  readonly now: Date
}

const eventOf = ({ person }: At, teamId: TeamId, action: AuditEvent["action"]): AuditEvent => ({
  actor: "system",
  action,
  outcome: "allowed",
  teamId,
  reason: "SIGN_IN_RULE",
  target: { type: "user", id: person.id, name: person.email }
})

const join = Effect.fnUntraced(function* (needs: Needs, at: At, teamId: TeamId, role: Role) {
  const members = yield* Rows.count(needs.sql`SELECT count(*) AS n FROM memberships WHERE team_id = ${teamId}`)
  if (members >= Plans.membersPerTeam) return []
  const { issuer, now, person } = at
  const isMember = yield* TeamRows.join(needs, { by: null, teamId, userId: person.id, role, now, ruledBy: issuer })
  return isMember ? [eventOf(at, teamId, "member.join")] : []
})

/** Removes a person whom no rule matches from the team, with their credentials. */
const removeMember = Effect.fnUntraced(function* (needs: Needs, at: At, teamId: TeamId) {
  const { revocation, rowSeal, sql } = needs
  const { email, id } = at.person
  yield* RowJournal.remove(sql, "memberships", sql`team_id = ${teamId} AND user_id = ${id}`)
  yield* RowJournal.remove(sql, "access_grants", sql`team_id = ${teamId} AND user_id = ${id}`)
  yield* TeamRows.removeApprover({ rowSeal, sql }, id, teamId)
  yield* RowJournal.end(
    sql,
    "invitations",
    { revoked_at: at.now },
    sql`team_id = ${teamId} AND email = ${addressOf(email)} AND accepted_at IS NULL AND revoked_at IS NULL`
  )
  yield* revocation.linksBy(id, teamId)
  yield* revocation.sessionsWithoutTeam(id)
  const { tokens } = yield* WaysIn.end(needs, "removal", { person: id, teamId })
  return [eventOf(at, teamId, "member.remove"), ...revocationEvents("system", tokens)]
})

/** As every change of a role, ends the credentials that the person made in the earlier one. */
const change = Effect.fnUntraced(function* (needs: Needs, at: At, teamId: TeamId, role: Role) {
  const { revocation, rowSeal, sql } = needs
  const { id } = at.person
  yield* rowSeal.update("memberships", sql`team_id = ${teamId} AND user_id = ${id}`, () => ({
    role,
    updatedAt: at.now
  }))
  yield* revocation.linksBy(id, teamId)
  const revoked = yield* revocation.tokensOf(id, teamId)
  return [eventOf(at, teamId, "member.update"), ...revocationEvents("system", revoked)]
})

/** Leaves memberships that a person set, or another issuer's rules. */
const applyIn = (needs: Needs, at: At, teamId: TeamId, before: MembershipRow | undefined, ruled: Role | undefined) => {
  if (before === undefined) return ruled === undefined ? Effect.succeed([]) : join(needs, at, teamId, ruled)
  if (before.ruledBy !== at.issuer || before.role === "owner") return Effect.succeed([])
  if (ruled === undefined) return removeMember(needs, at, teamId)
  const role = before.roleLimit === null ? ruled : lower(ruled, before.roleLimit)
  return role === before.role ? Effect.succeed([]) : change(needs, at, teamId, role)
}

const TeamRow = Schema.Struct({ teamId: TeamIdOut })

/**
 * Part of the caller's transaction, before its first lock of an account: locks the teams whose membership the sign-in
 * may change, in the order of all membership changes. `userId`: of an account that exists.
 */
export const lockTeams = Effect.fnUntraced(function* (
  { sql }: Pick<Needs, "sql">,
  { issuer, roles, userId }: { readonly issuer: string; readonly roles: Roles; readonly userId: UserId | undefined }
) {
  const ruled =
    userId === undefined
      ? []
      : yield* Rows.findAll(
          TeamRow,
          sql`SELECT team_id FROM memberships WHERE user_id = ${userId} AND ruled_by = ${issuer} LIMIT 1000`
        )
  const teamIds = [...roles.keys(), ...ruled.map(({ teamId }) => teamId)]
  return yield* Rows.findAll(
    TeamRow,
    sql`SELECT id AS team_id FROM teams WHERE id = any(${teamIds}::uuid[]) ORDER BY id FOR NO KEY UPDATE`
  )
})

/** Part of the caller's transaction, with `teams` locked. */
export const apply = Effect.fnUntraced(function* (
  needs: Needs,
  at: At,
  roles: Roles,
  teams: ReadonlyArray<typeof TeamRow.Type>
) {
  const { audit, rowSeal, sql } = needs
  const macs = yield* rowSeal.ready
  for (const { teamId } of teams) {
    const row = yield* Rows.findOne(
      MembershipRow,
      sql`
        SELECT team_id, user_id, role, active, deactivated_at, updated_at, ruled_by, role_limit, break_glass, mac
        FROM memberships WHERE team_id = ${teamId} AND user_id = ${at.person.id}`
    )
    // A membership whose MAC fails is neither trusted nor replaced.
    if (row !== undefined && !macs.isAuthentic("memberships", row)) continue
    const events = yield* applyIn(needs, at, teamId, row, roles.get(teamId))
    if (events.length > 0) yield* audit.append(...events)
  }
})
