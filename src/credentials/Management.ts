/**
 * Management from the command line (docs/contract/management.md). A login requests it, its person approves in the
 * browser, and the command receives a session of 10 minutes for one team and nothing else.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { DevicePollResponse, ManagementStart } from "#schema/DeviceApi.ts"
import { GrantNotFound, ScopeMissing, StepUpRequired } from "#schema/Errors.ts"
import { GrantIdOut, type TeamId, type UserId } from "#schema/Ids.ts"
import { Role } from "#schema/Scopes.ts"
import type { Access } from "#src/access/Access.ts"
import type { Audit } from "#src/trail/Audit.ts"
import * as Actions from "#src/access/Actions.ts"
import * as Policy from "#src/access/Policy.ts"
import { RequestInfo } from "#src/database/RequestInfo.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"
import type { RowSeal } from "#src/rows/RowSeal.ts"
import type { Crypto } from "#src/crypto/Crypto.ts"
import * as Rows from "#src/database/Rows.ts"
import * as Accounts from "./Accounts.ts"
import {
  decide,
  requestOfCode,
  type Needs as DecisionNeeds,
  recheck,
  currentPerson,
  targetOf
} from "./DeviceApproval.ts"
import * as DeviceRequests from "./DeviceRequests.ts"
import { managementLife } from "./Liveness.ts"
import * as TokenText from "./TokenText.ts"

interface Needs extends DecisionNeeds {
  readonly access: Access
  readonly baseUrl: string
  readonly crypto: Crypto
  readonly rowSeal: RowSeal
  readonly audit: Audit
}

/** Requested by a login whose person manages the team. Gives nothing yet: the person decides in the browser. */
export const start = Effect.fn("DeviceGrants.startManagement")(function* (
  needs: Needs,
  { host, teamId }: ManagementStart
) {
  const permit = yield* needs.access
    .team("management:begin", teamId, { audit: "management.request" })
    .pipe(Effect.catchTag(StepUpRequired.code, () => Effect.dieMessage("a login is not asked again")))
  const { credentialId, user } = permit.caller
  if (user === null) return yield* Effect.dieMessage("a login has a person")
  const requester = { manages: teamId, loginId: GrantIdOut.make(credentialId), askedBy: user.id }
  const authorization = yield* DeviceRequests.open(needs, host === undefined ? null : { host }, requester)
  yield* needs.audit.record(permit.event())
  return authorization
})

/** Only by the login's person, with a recent proof. */
export const approve = Effect.fn("DeviceGrants.approveManagement")(function* (needs: Needs, typed: string) {
  const { audit, sql } = needs
  const { caller, user } = yield* currentPerson
  const { row } = yield* requestOfCode(needs, typed)
  const { manages: teamId } = row
  if (teamId === null) return yield* new GrantNotFound()
  const permit = yield* needs.access
    .team("management:begin", teamId, { audit: "management.approve" })
    .pipe(Effect.catchTag(ScopeMissing.code, () => Effect.dieMessage("a session holds no scopes")))
  const event = permit.event({ target: targetOf(row) })
  if (!Policy.hasRecentProof(caller, yield* Clock.currentTimeMillis)) {
    yield* audit.record({ ...event, outcome: "denied", reason: StepUpRequired.code })
    return yield* new StepUpRequired()
  }
  const teams = [{ teamId, scopes: [] }]
  yield* Rows.transaction(sql, function* () {
    yield* recheck(needs, caller, user.id, teams)
    yield* decide(needs, row, user.id, {
      status: "approved",
      factorAt: caller.factorAt,
      teams,
      machine: false,
      projectIds: null,
      environmentIds: null
    })
    yield* audit.append(event)
  }).pipe(Effect.catchTag("AboveRole", () => Effect.dieMessage("management gives no scope")))
  yield* DeviceRequests.announce(needs, row.id)
  return { status: "approved" as const }
})

const ManagerRow = Schema.Struct({ name: Schema.String, role: Role })

/** The team's name and the person's role, while they manage the team and the login works. */
const managerOf = ({ sql }: Needs, loginId: string | null, teamId: TeamId, userId: UserId, now: Date) =>
  Effect.map(
    Rows.findOne(
      ManagerRow,
      sql`
        SELECT t.name, m.role FROM memberships m JOIN teams t ON t.id = m.team_id
        JOIN cli_grants l ON l.id = ${loginId} AND l.user_id = m.user_id AND l.revoked_at IS NULL AND l.expires_at > ${now}
        JOIN cli_grant_teams lt ON lt.grant_id = l.id AND lt.team_id = m.team_id
        WHERE m.user_id = ${userId} AND m.team_id = ${teamId} AND m.active FOR SHARE OF m, l`
    ),
    (row) => (row !== undefined && Actions.byRole[row.role].has("management:begin") ? row : undefined)
  )

const denied: DevicePollResponse = { status: "failed", reason: "denied" }

/** Part of the poll's transaction, which locks the request's row: creates the session, once. */
export const deliver = Effect.fnUntraced(function* (needs: Needs, row: DeviceRequests.RequestRow, decidedBy: UserId) {
  const { audit, crypto, rowSeal, sql } = needs
  const { factorAt, loginId, manages } = row
  const now = new Date(yield* Clock.currentTimeMillis)
  // A team that the person lost is removed from the approved ones.
  const teamId = row.teams?.some((team) => team.teamId === manages) === true ? manages : null
  const team = teamId === null ? undefined : yield* managerOf(needs, loginId, teamId, decidedBy, now)
  if (teamId === null || team === undefined || decidedBy !== row.askedBy) return denied
  const { ip, userAgent } = yield* RequestInfo
  const id = yield* crypto.uuid
  const { proof, text } = yield* TokenText.issue(needs, "ss")
  const { hash, lookupId, salt } = proof
  const expiresAt = new Date(now.getTime() + managementLife)
  const session = yield* rowSeal.values(
    "sessions",
    {
      id,
      lookupId,
      hash,
      userId: decidedBy,
      createdAt: now,
      expiresAt,
      factorAt,
      manages,
      loginId,
      issuer: null,
      onlyTeam: null,
      provedAt: null,
      closedTeams: null,
      confirmedTeams: null
    },
    {
      salt,
      active_team_id: teamId,
      last_used_at: now,
      last_used_ip: ip,
      last_used_user_agent: userAgent?.slice(0, Accounts.maxUserAgent) ?? null
    }
  )
  yield* Rows.run(sql`INSERT INTO sessions ${session}`)
  yield* RowJournal.end(sql, "device_requests", { delivered_at: now }, sql`id = ${row.id}`)
  const email = row.decidedByEmail ?? ""
  yield* audit.append({
    actor: { userId: decidedBy, email },
    action: "management.begin",
    outcome: "allowed",
    teamId,
    target: { type: "session", id, name: row.hostname ?? "" }
  })
  const answer: DevicePollResponse = {
    status: "granted",
    credential: Redacted.value(text),
    expiresAt: expiresAt.toISOString(),
    user: { id: decidedBy, email },
    teams: [{ id: teamId, name: team.name, scopes: [] }]
  }
  return answer
})
