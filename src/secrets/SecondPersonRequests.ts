/**
 * Requests that wait for a second owner or admin (docs/contract/second-person.md): list, approval, denial, link. An
 * approved action runs with the rights that its author has then, and its own transaction takes the request: a crash
 * leaves both undone. An action that makes a link is approved first, and its author makes the link.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { type AnyApiError, isApiError } from "#schema/ApiError.ts"
import { type Caller, CurrentCaller } from "#schema/Caller.ts"
import { Forbidden, GrantAlreadyDecided, GrantNotFound, StepUpRequired } from "#schema/Errors.ts"
import { type SecondPersonRequestId, SecondPersonRequestIdOut, type TeamId, TeamIdOut, UserIdOut } from "#schema/Ids.ts"
import type { SecondPersonRequest } from "#schema/SecondPersonApi.ts"
import { Access } from "#src/access/Access.ts"
import { change } from "#src/access/Change.ts"
import type { TeamPermit } from "#src/access/Permit.ts"
import * as Policy from "#src/access/Policy.ts"
import { manages, SecondPerson, withApproval } from "#src/access/SecondPerson.ts"
import { Waiting } from "#src/access/WaitingActions.ts"
import * as PersonGrants from "#src/credentials/PersonGrants.ts"
import * as Rows from "#src/database/Rows.ts"
import { methods } from "#src/Methods.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { Audit } from "#src/trail/Audit.ts"
import type { AuditEvent } from "#src/trail/Entry.ts"
import { AccessRequests } from "#src/projects/AccessRequests.ts"
import { AccessGrants } from "#src/projects/AccessGrants.ts"
import { Environments } from "#src/projects/Environments.ts"
import { Invitations } from "#src/projects/Invitations.ts"
import { Members } from "#src/projects/Members.ts"
import { Projects } from "#src/projects/Projects.ts"
import { ChangeRequests } from "./ChangeRequests.ts"
import { Teams } from "#src/projects/Teams.ts"

const services = Effect.all({
  access: Access,
  accessRequests: AccessRequests,
  audit: Audit,
  changeRequests: ChangeRequests,
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
/** The sentence under the MAC; the column has that of a request of the release before. */
const aboutOf = ({ about, payload }: RequestRow): string =>
  "about" in payload && typeof payload.about === "string" ? payload.about : about
const GrantsRow = Schema.Struct({ personGrants: Schema.NullOr(Schema.String) })
const ResetRow = Schema.Struct({ userId: UserIdOut })

const listLimit = 500
/** Milliseconds. The author makes the approved link within this time. */
const linkTime = 24 * 3_600_000
/** Milliseconds. A person who rose, or was reset, more recently does not approve. */
const settlingTime = 24 * 3_600_000

const columns = (sql: SqlClient.SqlClient) =>
  sql.literal(`
    r.id, r.team_id, r.user_id, u.email, u.name, r.about, r.payload, r.status, r.created_at, r.expires_at, r.mac
    FROM second_person_requests r JOIN users u ON u.id = r.user_id`)

/** People who may decide now: not new in their role, and not reset, for 24 hours. No rule of an issuer gave the role. */
const deciders = Effect.fnUntraced(function* ({ secondPerson, sql }: Needs, teamId: TeamId) {
  const since = new Date((yield* Clock.currentTimeMillis) - settlingTime)
  const managers = yield* secondPerson.decidingIn(teamId)
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

const decodeWaiting = (row: RequestRow) => Effect.orDie(Schema.decodeUnknown(Waiting)(row.payload))
const makesLink = ({ kind }: Waiting) => kind === "invitation" || kind === "password"

/** Requests of these teams that wait, or whose link waits for its author. Their MACs hold; newest first. */
const openIn = Effect.fnUntraced(function* ({ rowSeal, sql }: Needs, teamIds: ReadonlyArray<TeamId>) {
  const macs = yield* rowSeal.ready
  const now = new Date(yield* Clock.currentTimeMillis)
  const rows = yield* Rows.findAll(
    RequestRow,
    sql`
      SELECT ${columns(sql)}
      WHERE r.team_id = any(${teamIds}::uuid[]) AND r.status IN ('pending', 'approved') AND length(r.mac) > 0
        AND r.expires_at > ${now}
      ORDER BY r.id DESC LIMIT ${listLimit}`
  )
  return rows.filter((row) => macs.isAuthentic("second_person_requests", row))
})

/** Pending requests, and approved ones whose link waits for its author. */
const open = Effect.fnUntraced(function* (needs: Needs, caller: Caller, teamIds: ReadonlyArray<TeamId>) {
  const rows = yield* openIn(needs, teamIds)
  const own = caller.user?.id
  const decidable = new Set<TeamId>()
  for (const teamId of new Set(rows.map((row) => row.teamId))) {
    if ((yield* deciders(needs, teamId)).some(({ userId }) => userId === own)) decidable.add(teamId)
  }
  return yield* Effect.forEach(rows, (row) =>
    Effect.map(decodeWaiting(row), ({ kind }): SecondPersonRequest => {
      const isPending = row.status === "pending"
      return {
        id: row.id,
        teamId: row.teamId,
        user: { id: row.userId, email: row.email },
        kind,
        about: aboutOf(row),
        status: isPending ? "pending" : "approved",
        mayDecide: isPending && row.userId !== own && decidable.has(row.teamId),
        hasLink: !isPending && row.userId === own,
        createdAt: row.createdAt.toISOString(),
        expiresAt: row.expiresAt.toISOString()
      }
    })
  )
})

const list = Effect.fn("SecondPersonRequests.list")(function* (needs: Needs, teamId: TeamId) {
  const { caller } = yield* needs.access.team("members:manage", teamId, { audit: "second_person.list" })
  return { items: yield* open(needs, caller, [teamId]) }
})

/** The same in all teams that the person manages, for the page of requests and its badge. */
const listAll = Effect.fn("SecondPersonRequests.listAll")(function* (needs: Needs) {
  const caller = yield* CurrentCaller
  const managed = caller.teams.filter(({ role }) => role !== null && manages(role)).map(({ id }) => id)
  return { items: managed.length === 0 ? [] : yield* open(needs, caller, managed) }
})

const gone = () => new GrantNotFound({ message: "No such request for a second person." })
const over = () => new GrantAlreadyDecided({ message: "This request was already decided." })

const find = ({ sql }: Needs, id: SecondPersonRequestId) =>
  Rows.findOne(RequestRow, sql`SELECT ${columns(sql)} WHERE r.id = ${id}`)

/** The row, if it has such a status, is in time, and is as a server wrote it. Each row that is used passes here. */
const checked = Effect.fnUntraced(function* (
  { rowSeal }: Needs,
  row: RequestRow | undefined,
  accepts: (row: RequestRow) => boolean
) {
  if (row === undefined) return yield* gone()
  // The MAC of a link that was made, or of a request that was decided, is empty.
  if (!accepts(row) || (row.mac?.length === 0 && row.status !== "pending")) return yield* over()
  if (row.expiresAt.getTime() <= (yield* Clock.currentTimeMillis)) return yield* gone()
  return (yield* rowSeal.ready).isAuthentic("second_person_requests", row) ? row : yield* gone()
})

const isPending = ({ status }: RequestRow) => status === "pending"
const isNotDenied = ({ status }: RequestRow) => status !== "denied"

/** The request, and the permit of the decision. The same refusal for what does not exist and what is not visible. */
const toDecide = Effect.fnUntraced(function* (
  needs: Needs,
  id: SecondPersonRequestId,
  audit: "second_person.approve" | "second_person.deny"
) {
  const caller = yield* CurrentCaller
  const current = yield* find(needs, id)
  if (current === undefined) return yield* gone()
  const role = Policy.teamOf(caller, current.teamId)?.role ?? null
  if (role === null || !manages(role)) return yield* gone()
  const row = yield* checked(needs, current, audit === "second_person.approve" ? isPending : isNotDenied)
  const action = audit === "second_person.approve" ? "members:raise" : "members:manage"
  const permit = yield* Effect.catchTag(needs.access.team(action, row.teamId, { audit }), "TEAM_NOT_FOUND", gone)
  const event = permit.event({ target: { type: "second_person_request", id, name: aboutOf(row) } })
  return { permit, event, row }
})

/** Part of a transaction: the locked request, checked again. */
const lock = Effect.fnUntraced(function* (
  needs: Needs,
  id: SecondPersonRequestId,
  accepts: (row: RequestRow) => boolean
) {
  yield* Rows.run(needs.sql`SELECT id FROM second_person_requests WHERE id = ${id} FOR UPDATE`)
  return yield* checked(needs, yield* find(needs, id), accepts)
})

/** Part of the decision's transaction: the pending request, which this person may decide. */
const lockToDecide = Effect.fnUntraced(function* (
  needs: Needs,
  { caller }: Manage,
  { id, teamId, userId }: RequestRow
) {
  const row = yield* lock(needs, id, isPending)
  const by = caller.user?.id
  if (by === userId) return yield* new Forbidden({ message: "Another owner or admin approves it." })
  if (!(yield* deciders(needs, teamId)).some((one) => one.userId === by)) {
    return yield* new Forbidden({
      message:
        "A person who became owner or admin, or was reset, less than 24 hours ago does not decide. Neither does one whose role comes from a sign-in rule."
    })
  }
  return row
})

/** The end of a request empties its MAC, so that a writer of the database cannot bring it back. */
const finish = (sql: SqlClient.SqlClient, id: SecondPersonRequestId, status: "approved" | "denied") =>
  RowJournal.end(sql, "second_person_requests", { status }, sql`id = ${id}`)

/** The author may take a request back, also an approved one before its link is made. */
const deny = Effect.fn("SecondPersonRequests.deny")(function* (needs: Needs, id: SecondPersonRequestId) {
  const { event, permit, row } = yield* toDecide(needs, id, "second_person.deny")
  return yield* change(needs, event, function* () {
    if (permit.caller.user?.id === row.userId) yield* lock(needs, id, isNotDenied)
    else yield* lockToDecide(needs, permit, row)
    yield* finish(needs.sql, id, "denied")
    yield* needs.audit.append(event)
    return { status: "denied" as const }
  })
})

/** The author of the request as a caller, with the role and the grants of now. Undefined: no owner or admin any more. */
const authorOf = Effect.fnUntraced(function* (
  { rowSeal, secondPerson, sql }: Needs,
  { caller, target }: Manage,
  { createdAt, email, id, name, userId }: RequestRow
) {
  const team = Policy.teamOf(caller, target.teamId)
  const author = (yield* secondPerson.managersOf(target.teamId)).find((one) => one.userId === userId)
  if (team === undefined || author === undefined) return undefined
  const { personGrants } = yield* Rows.single(
    GrantsRow,
    sql`SELECT ${sql.literal(PersonGrants.column("m.user_id"))}
      FROM memberships m WHERE m.team_id = ${target.teamId} AND m.user_id = ${userId}`
  )
  const grants =
    personGrants === null
      ? []
      : PersonGrants.inForce(personGrants, yield* Clock.currentTimeMillis, yield* rowSeal.ready)
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
    grants,
    createdAt,
    named: null
  }
  return as
})

const none = <A, E, R>(work: Effect.Effect<A, E, R>) => Effect.as(work, null)

/** Runs the action. Returns a link, if the action makes one. */
const run = (needs: Needs, teamId: TeamId, waiting: Waiting): Effect.Effect<string | null, unknown, CurrentCaller> => {
  const { accessRequests, changeRequests, environments, grants, invitations, members, projects, teams } = needs
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
    case "change_request":
      return none(changeRequests.approve(waiting.requestId, waiting.digest))
    case "team":
      return none(teams.update(teamId, waiting.input))
  }
}

const notPossible = (reason: string) =>
  new Forbidden({ message: `The action is not possible now, and nothing has changed. ${reason}` })

/** A request that could not be taken in the transaction of its action: the transaction is undone. */
class NotTaken extends Data.TaggedError("NotTaken")<{
  readonly error: Forbidden | GrantNotFound | GrantAlreadyDecided
}> {}

/**
 * Runs the action with `take` in its transaction, at each attempt of a transaction that runs again. `take` fails as a
 * defect, since no use case knows its errors.
 */
const runTaking = Effect.fnUntraced(function* (
  needs: Needs,
  row: RequestRow,
  take: Effect.Effect<ReadonlyArray<AuditEvent>, Forbidden | GrantNotFound | GrantAlreadyDecided>
) {
  const refusal = (error: AnyApiError): Forbidden | StepUpRequired =>
    error instanceof StepUpRequired ? error : notPossible(error.message)
  return yield* run(needs, row.teamId, yield* decodeWaiting(row)).pipe(
    withApproval(Effect.catchAll(take, (error) => Effect.die(new NotTaken({ error })))),
    Effect.catchAll((error: unknown) => (isApiError(error) ? Effect.fail(refusal(error)) : Effect.die(error))),
    Effect.catchSomeDefect((defect) =>
      defect instanceof NotTaken ? Option.some(Effect.fail(defect.error)) : Option.none()
    )
  )
})

/** The approval, and the action in the same transaction. An action that has become impossible changes nothing. */
const approve = Effect.fn("SecondPersonRequests.approve")(function* (needs: Needs, id: SecondPersonRequestId) {
  const { event, permit, row } = yield* toDecide(needs, id, "second_person.approve")
  const { audit, rowSeal, sql } = needs
  const isLink = makesLink(yield* decodeWaiting(row))
  const author = yield* change(needs, event, function* () {
    yield* lockToDecide(needs, permit, row)
    const author = yield* authorOf(needs, permit, row)
    if (author === undefined) return yield* notPossible("Its author is no owner or admin of the team.")
    if (!isLink) return author
    const expiresAt = new Date((yield* Clock.currentTimeMillis) + linkTime)
    yield* rowSeal.update("second_person_requests", sql`id = ${id}`, () => ({ status: "approved", expiresAt }))
    yield* audit.append(event)
    return author
  })
  if (isLink) return { status: "approved" as const }
  let isTaken = false
  const take = Effect.gen(function* () {
    yield* lockToDecide(needs, permit, row)
    yield* finish(sql, id, "approved")
    isTaken = true
    return [event]
  })
  yield* Effect.provideService(runTaking(needs, row, take), CurrentCaller, author)
  // An action that needed no approval by now did not take it, or took it only in an attempt that was undone.
  if (!isTaken || (yield* find(needs, id))?.status === "pending") {
    yield* change(needs, event, function* () {
      yield* audit.append(...(yield* take))
    })
  }
  return { status: "approved" as const }
})

/** Makes the approved link, once. For its author alone: to others it does not exist. */
const link = Effect.fn("SecondPersonRequests.link")(function* (needs: Needs, id: SecondPersonRequestId) {
  const caller = yield* CurrentCaller
  const current = yield* find(needs, id)
  if (
    current === undefined ||
    current.userId !== caller.user?.id ||
    Policy.teamOf(caller, current.teamId) === undefined
  ) {
    return yield* gone()
  }
  const row = yield* checked(needs, current, isNotDenied)
  if (!makesLink(yield* decodeWaiting(row))) return yield* gone()
  if (row.status === "pending") return yield* new Forbidden({ message: "Another owner or admin approves it first." })
  const take = Effect.gen(function* () {
    yield* lock(needs, id, ({ status }) => status === "approved")
    yield* finish(needs.sql, id, "approved")
    return []
  })
  const url = yield* runTaking(needs, row, take)
  return url === null ? yield* Effect.dieMessage("the action makes a link") : { url }
})

export class SecondPersonRequests extends Effect.Service<SecondPersonRequests>()("secrets/SecondPersonRequests", {
  effect: Effect.map(services, (needs) => methods(needs, { list, listAll, approve, deny, link }))
}) {}
