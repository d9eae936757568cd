/**
 * Requests that wait for a second owner or admin (docs/contract/second-person.md): list, approval, denial. An approved
 * action runs with the rights that its author has then.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { isApiError } from "#schema/ApiError.ts"
import { type Caller, CurrentCaller } from "#schema/Caller.ts"
import { Forbidden, GrantAlreadyDecided, GrantNotFound } from "#schema/Errors.ts"
import { type SecondPersonRequestId, SecondPersonRequestIdOut, type TeamId, TeamIdOut, UserIdOut } from "#schema/Ids.ts"
import type { SecondPersonRequest } from "#schema/SecondPersonApi.ts"
import { Access } from "#src/access/Access.ts"
import { change } from "#src/access/Change.ts"
import type { TeamPermit } from "#src/access/Permit.ts"
import * as Policy from "#src/access/Policy.ts"
import { approved, SecondPerson, Waiting } from "#src/access/SecondPerson.ts"
import * as Rows from "#src/database/Rows.ts"
import { methods } from "#src/Methods.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { Audit } from "#src/trail/Audit.ts"
import { AccessRequests } from "./AccessRequests.ts"
import { AccessGrants } from "./AccessGrants.ts"
import { Environments } from "./Environments.ts"
import { Invitations } from "./Invitations.ts"
import { Members } from "./Members.ts"
import { Projects } from "./Projects.ts"
import { Teams } from "./Teams.ts"

const services = Effect.all({
  access: Access,
  accessRequests: AccessRequests,
  audit: Audit,
  environments: Environments,
  grants: AccessGrants,
  invitations: Invitations,
  members: Members,
  projects: Projects,
  rowSeal: RowSeal,
  secondPerson: SecondPerson,
  sql: SqlClient.SqlClient,
  teams: Teams
})
type Needs = Effect.Effect.Success<typeof services>
type Manage = TeamPermit<"members:manage" | "members:raise">

const RequestRow = Schema.Struct({
  id: SecondPersonRequestIdOut,
  teamId: TeamIdOut,
  userId: UserIdOut,
  email: Schema.String,
  name: Schema.String,
  about: Schema.String,
  payload: Schema.Object,
  status: Schema.Literal("pending", "approved", "denied"),
  createdAt: Schema.DateFromSelf,
  expiresAt: Schema.DateFromSelf,
  mac: Schema.NullOr(Schema.Uint8ArrayFromSelf)
})
type RequestRow = typeof RequestRow.Type
const ResetRow = Schema.Struct({ userId: UserIdOut })

const listLimit = 100
/** Milliseconds. A person who rose, or was reset, more recently does not approve. */
const settlingTime = 24 * 3_600_000

const columns = (sql: SqlClient.SqlClient) =>
  sql.literal(`
    r.id, r.team_id, r.user_id, u.email, u.name, r.about, r.payload, r.status, r.created_at, r.expires_at, r.mac
    FROM second_person_requests r JOIN users u ON u.id = r.user_id`)

/** People who may decide now: not new in their role, and not reset, for 24 hours. */
const deciders = Effect.fnUntraced(function* ({ secondPerson, sql }: Needs, teamId: TeamId) {
  const since = new Date((yield* Clock.currentTimeMillis) - settlingTime)
  const managers = yield* secondPerson.managersOf(teamId)
  const reset = yield* Rows.findAll(
    ResetRow,
    sql`
      SELECT DISTINCT user_id FROM account_notices
      WHERE user_id = any(${managers.map(({ userId }) => userId)}::uuid[]) AND created_at > ${since}
        AND kind IN ('password_reset', 'factor_removed')`
  )
  const isReset = new Set(reset.map(({ userId }) => userId))
  return managers.filter(({ updatedAt, userId }) => updatedAt <= since && !isReset.has(userId))
})

/** Pending requests of the team whose MACs hold, newest first. */
const pendingOf = Effect.fnUntraced(function* ({ rowSeal, sql }: Needs, teamId: TeamId) {
  const macs = yield* rowSeal.ready
  const now = new Date(yield* Clock.currentTimeMillis)
  const rows = yield* Rows.findAll(
    RequestRow,
    sql`
      SELECT ${columns(sql)} WHERE r.team_id = ${teamId} AND r.status = 'pending' AND r.expires_at > ${now}
      ORDER BY r.id DESC LIMIT ${listLimit}`
  )
  return rows.filter((row) => macs.isAuthentic("second_person_requests", row))
})

const recordOf = (row: RequestRow, mayDecide: boolean): SecondPersonRequest => ({
  id: row.id,
  teamId: row.teamId,
  user: { id: row.userId, email: row.email },
  about: row.about,
  mayDecide,
  createdAt: row.createdAt.toISOString(),
  expiresAt: row.expiresAt.toISOString()
})

const list = Effect.fn("SecondPersonRequests.list")(function* (needs: Needs, teamId: TeamId) {
  const { caller } = yield* needs.access.team("members:manage", teamId, { audit: "second_person.list" })
  const rows = yield* pendingOf(needs, teamId)
  if (rows.length === 0) return { items: [] }
  const own = caller.user?.id
  const mayDecide = (yield* deciders(needs, teamId)).some(({ userId }) => userId === own)
  return { items: rows.map((row) => recordOf(row, mayDecide && row.userId !== own)) }
})

/** Pending requests in all teams that the person manages, for the page of requests. */
const listAll = Effect.fn("SecondPersonRequests.listAll")(function* (needs: Needs) {
  const { teams } = yield* CurrentCaller
  const managed = teams.filter(({ role }) => role === "owner" || role === "admin")
  const lists = yield* Effect.forEach(managed, ({ id }) => list(needs, id))
  return { items: lists.flatMap(({ items }) => items) }
})

const gone = () => new GrantNotFound({ message: "No such request for a second person." })
const over = () => new GrantAlreadyDecided({ message: "This request was already decided." })

const find = ({ sql }: Needs, id: SecondPersonRequestId) =>
  Rows.findOne(RequestRow, sql`SELECT ${columns(sql)} WHERE r.id = ${id}`)

/** The request, and the permit of the decision. The same refusal for what does not exist and what is not visible. */
const toDecide = Effect.fnUntraced(function* (
  needs: Needs,
  id: SecondPersonRequestId,
  audit: "second_person.approve" | "second_person.deny"
) {
  const caller = yield* CurrentCaller
  const row = yield* find(needs, id)
  if (row === undefined) return yield* gone()
  const role = Policy.teamOf(caller, row.teamId)?.role
  if (role !== "owner" && role !== "admin") return yield* gone()
  const action = audit === "second_person.approve" ? "members:raise" : "members:manage"
  const permit = yield* Effect.catchTag(needs.access.team(action, row.teamId, { audit }), "TEAM_NOT_FOUND", gone)
  const event = permit.event({ target: { type: "second_person_request", id, name: row.about } })
  return { permit, event, row }
})

/** Part of the decision's transaction: takes the pending request, whose MAC the decision empties. */
const take = Effect.fnUntraced(function* (
  needs: Needs,
  { caller }: Manage,
  { id, teamId, userId }: RequestRow,
  status: "approved" | "denied"
) {
  const { rowSeal, sql } = needs
  yield* Rows.run(sql`SELECT id FROM second_person_requests WHERE id = ${id} FOR UPDATE`)
  const row = yield* find(needs, id)
  if (row === undefined) return yield* gone()
  if (row.status !== "pending") return yield* over()
  if (row.expiresAt.getTime() <= (yield* Clock.currentTimeMillis)) return yield* gone()
  if (!(yield* rowSeal.ready).isAuthentic("second_person_requests", row)) return yield* gone()
  const by = caller.user?.id
  // The author may take the request back, and never approves it.
  if (status === "denied" && by === userId) return yield* finish(sql, id, status)
  if (by === userId) return yield* new Forbidden({ message: "Another owner or admin approves it." })
  if (!(yield* deciders(needs, teamId)).some((one) => one.userId === by)) {
    return yield* new Forbidden({
      message: "A person who became owner or admin, or was reset, less than 24 hours ago does not decide."
    })
  }
  return yield* finish(sql, id, status)
})
const finish = (sql: SqlClient.SqlClient, id: SecondPersonRequestId, status: "approved" | "denied") =>
  RowJournal.end(sql, "second_person_requests", { status }, sql`id = ${id}`)

const deny = Effect.fn("SecondPersonRequests.deny")(function* (needs: Needs, id: SecondPersonRequestId) {
  const { event, permit, row } = yield* toDecide(needs, id, "second_person.deny")
  return yield* change(needs, event, function* () {
    yield* take(needs, permit, row, "denied")
    yield* needs.audit.append(event)
    return { status: "denied" as const, url: null }
  })
})

/** The author of the request as a caller, with the role of now. Undefined: no owner or admin any more. */
const authorOf = Effect.fnUntraced(function* (
  { secondPerson }: Needs,
  { caller, target }: Manage,
  { createdAt, email, id, name, userId }: RequestRow
) {
  const team = Policy.teamOf(caller, target.teamId)
  const author = (yield* secondPerson.managersOf(target.teamId)).find((one) => one.userId === userId)
  if (team === undefined || author === undefined) return undefined
  const as: Caller = {
    ...caller,
    kind: "session",
    credentialId: id,
    name: null,
    user: { id: userId, email, name },
    teams: [{ ...team, role: author.role, scopes: null, factorIsOld: false }],
    withheld: [],
    accessLevel: null,
    mcpScopes: [],
    restrictions: { projectIds: null, environmentIds: null },
    grants: [],
    createdAt,
    named: null
  }
  return as
})

const none = <A, E, R>(work: Effect.Effect<A, E, R>) => Effect.as(work, null)

/** Runs the action. Returns a link, if the action makes one. */
const run = (needs: Needs, teamId: TeamId, waiting: Waiting): Effect.Effect<string | null, unknown, CurrentCaller> => {
  const { accessRequests, environments, grants, invitations, members, projects, teams } = needs
  switch (waiting.kind) {
    case "project_grant":
      return none(grants.grantProject(waiting.projectId, waiting.input))
    case "environment_grant":
      return none(grants.grantEnvironment(waiting.environmentId, waiting.input))
    case "environment":
      return none(environments.update(waiting.environmentId, waiting.input))
    case "project":
      return none(projects.update(waiting.projectId, waiting.input))
    case "member":
      return none(members.update(teamId, waiting.userId, waiting.input))
    case "invitation":
      return Effect.map(invitations.invite(teamId, waiting.input), ({ inviteUrl }) => inviteUrl)
    case "password":
      return Effect.map(members.passwordResetLink(teamId, waiting.userId), (link) => Redacted.value(link))
    case "access_request":
      return none(accessRequests.approve(waiting.requestId))
    case "team":
      return none(teams.update(teamId, waiting.input))
  }
}

const noLonger = (reason: string) =>
  new Forbidden({ message: `The request is over, because the action is not possible any more. ${reason}` })

/** Takes the request, then runs the action. An action that has become impossible stays undone. */
const approve = Effect.fn("SecondPersonRequests.approve")(function* (needs: Needs, id: SecondPersonRequestId) {
  const { event, permit, row } = yield* toDecide(needs, id, "second_person.approve")
  const { teamId } = row
  const author = yield* change(needs, event, function* () {
    yield* take(needs, permit, row, "approved")
    yield* needs.audit.append(event)
    return yield* authorOf(needs, permit, row)
  })
  if (author === undefined) return yield* noLonger("Its author is no owner or admin of the team.")
  const waiting = yield* Effect.orDie(Schema.decodeUnknown(Waiting)(row.payload))
  const url: string | null = yield* run(needs, teamId, waiting).pipe(
    approved,
    Effect.provideService(CurrentCaller, author),
    Effect.catchAll((error: unknown) => (isApiError(error) ? noLonger(error.message) : Effect.die(error)))
  )
  return { status: "approved" as const, url }
})

export class SecondPersonRequests extends Effect.Service<SecondPersonRequests>()("projects/SecondPersonRequests", {
  effect: Effect.map(services, (needs) => methods(needs, { list, listAll, approve, deny }))
}) {}
