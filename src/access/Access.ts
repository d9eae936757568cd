/**
 * The one gate: visible? - rules - Permit. A denial of an identified credential is recorded; "not visible" is "does not
 * exist".
 */
import * as SqlClient from "@effect/sql/SqlClient"
import type * as Statement from "@effect/sql/Statement"
import * as Effect from "effect/Effect"
import type { AuditAction } from "#schema/Audit.ts"
import { type Caller, type CallerTeam, CurrentCaller, type NamedEnvironment } from "#schema/Caller.ts"
import {
  EnvironmentNotFound,
  Forbidden,
  ProjectNotFound,
  ScopeMissing,
  SecretNotFound,
  type StepUpRequired,
  TeamNotFound
} from "#schema/Errors.ts"
import type { EnvironmentId, ProjectId, SecretId, TeamId, UserId } from "#schema/Ids.ts"
import type { Scope, Visibility } from "#schema/Scopes.ts"
import { methods } from "#src/Methods.ts"
import { Audit } from "#src/trail/Audit.ts"
import * as GroupCommit from "#src/database/GroupCommit.ts"
import { type EnvironmentPermit, eventOf, Permit } from "./Permit.ts"
import * as Policy from "./Policy.ts"
import type { RowMac, StoredMac } from "#src/rows/RowMac.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import type { EnvironmentTarget, ProjectTarget, Target, TeamTarget } from "./Target.ts"

/**
 * What the trail calls this use, and the keys it names; written with a denial here, with the use itself by the service.
 */
export interface Intent {
  readonly audit: AuditAction
  readonly keys?: ReadonlyArray<string>
}

/** An environment as a request names it. */
export interface Location {
  readonly projectId: ProjectId
  readonly environment: string
}

// Rows of the reach of a request. Typed at the statement: some of these run before every request of the API, and what
// they return are ids, a slug and a flag of columns that cannot be anything else.
interface ProjectSeal {
  readonly projectTeamId: TeamId
  readonly projectSlug: string
  readonly projectMac: StoredMac
}
interface ProjectRow extends ProjectSeal {
  readonly teamId: TeamId
  readonly projectId: ProjectId
  readonly environmentIds: ReadonlyArray<EnvironmentId>
  readonly visibility: Visibility
}
type EnvironmentRow = NamedEnvironment &
  ProjectSeal & { readonly approvers: string; readonly approvals: number; readonly mac: StoredMac }

/** Concurrent requests share the statement that finds their environments, and it looks for each of them once. */
const found = Effect.flatMap(SqlClient.SqlClient, (sql) => {
  const run = (batch: ReadonlyArray<Location>) => {
    const distinct = new Map(batch.map((at) => [nameOf(at), at]))
    return Effect.map(environmentsBySlug(sql, [...distinct.values()]), (rows) => {
      const byName = new Map(rows.map((row) => [nameOf({ projectId: row.projectId, environment: row.slug }), row]))
      return batch.map((at) => byName.get(nameOf(at)))
    })
  }
  return GroupCommit.make({ run, maxBatch: 128, maxInFlight: 1 })
})
const nameOf = ({ environment, projectId }: Location) => `${projectId} ${environment}`

const services = Effect.all({ sql: SqlClient.SqlClient, audit: Audit, rowSeal: RowSeal, found })
type Needs = Effect.Effect.Success<typeof services>

// --- what is visible ---

const projectColumns = "p.team_id AS project_team_id, p.slug AS project_slug, p.mac AS project_mac"
const environmentColumns = (sql: SqlClient.SqlClient) =>
  sql.literal(`
    e.team_id, e.project_id, e.id AS environment_id, e.slug, e.protected, e.revision, e.described,
    e.readers,
    e.changes, p.visibility,
    array_to_string(e.approvers, ',') AS approvers, e.approvals, e.mac, ${projectColumns}
    FROM environments e
    JOIN projects p ON p.id = e.project_id AND p.deleted_at IS NULL`)

/** The row, when a server wrote it as it is. */
const first = <Row, E>(
  { rowSeal }: Needs,
  rows: Effect.Effect<ReadonlyArray<Row>, E>,
  holds: (macs: RowMac, row: Row) => boolean
): Effect.Effect<Row | undefined> =>
  Effect.zipWith(rowSeal.ready, Effect.orDie(rows), (macs, [row]): Row | undefined =>
    row !== undefined && holds(macs, row) ? row : undefined
  )

const projectHolds = (macs: RowMac, row: ProjectRow | EnvironmentRow) =>
  macs.holds("projects", {
    id: row.projectId,
    teamId: row.projectTeamId,
    slug: row.projectSlug,
    visibility: row.visibility,
    mac: row.projectMac
  })
const environmentHolds = (macs: RowMac, row: EnvironmentRow) =>
  macs.holds("environments", {
    id: row.environmentId,
    teamId: row.teamId,
    projectId: row.projectId,
    slug: row.slug,
    protected: row.protected,
    readers: row.readers,
    changes: row.changes,
    approvers: row.approvers,
    approvals: row.approvals,
    mac: row.mac
  }) && projectHolds(macs, row)

const projectById = (needs: Needs, projectId: ProjectId) =>
  first(
    needs,
    needs.sql<ProjectRow>`
    SELECT p.team_id, p.id AS project_id, p.visibility, ${needs.sql.literal(projectColumns)},
      array(SELECT e.id FROM environments e WHERE e.project_id = p.id AND e.deleted_at IS NULL) AS environment_ids
    FROM projects p
    WHERE p.id = ${projectId} AND p.deleted_at IS NULL`,
    projectHolds
  )

const oneEnvironment = (needs: Needs, where: Statement.Fragment) =>
  first(
    needs,
    needs.sql<EnvironmentRow>`SELECT ${environmentColumns(needs.sql)} ${where} AND e.deleted_at IS NULL`,
    environmentHolds
  )

const environmentById = (needs: Needs, environmentId: EnvironmentId) =>
  oneEnvironment(needs, needs.sql`WHERE e.id = ${environmentId}`)

/** The LIMIT: see `CredentialRows.ts`. */
const environmentsBySlug = (sql: SqlClient.SqlClient, at: ReadonlyArray<Location>) => sql<EnvironmentRow>`
  SELECT ${environmentColumns(sql)}
  JOIN (SELECT * FROM unnest(
      ${at.map(({ projectId }) => projectId)}::uuid[], ${at.map(({ environment }) => environment)}::text[]
    ) LIMIT ${at.length}) AS q (project_id, slug) ON q.project_id = e.project_id AND q.slug = e.slug
  WHERE e.deleted_at IS NULL`

const environmentBySlug = (needs: Needs, at: Location) =>
  first(
    needs,
    Effect.map(needs.found(at), (row) => (row === undefined ? [] : [row])),
    environmentHolds
  )

const environmentBySecret = (needs: Needs, secretId: SecretId) =>
  oneEnvironment(needs, needs.sql`JOIN secrets s ON s.environment_id = e.id WHERE s.id = ${secretId}`)

/** What is decided about, when the caller sees it. The plan is that of their team, whose row was verified with them. */
const environmentTarget = (caller: Caller, row: NamedEnvironment | undefined): EnvironmentTarget | undefined => {
  const team = row === undefined ? undefined : Policy.teamOf(caller, row.teamId)
  if (row === undefined || team === undefined || !Policy.environmentVisible(caller, row)) return undefined
  return {
    type: "environment",
    teamId: row.teamId,
    plan: team.plan,
    projectId: row.projectId,
    environmentId: row.environmentId,
    slug: row.slug,
    protected: row.protected,
    revision: row.revision,
    described: row.described,
    readers: row.readers,
    changes: row.changes,
    visibility: row.visibility
  }
}

/** PROJECT_NOT_FOUND when the project is not visible, else ENVIRONMENT_NOT_FOUND. */
const visible = Effect.fnUntraced(function* (needs: Needs, caller: Caller, at: Location) {
  const named = caller.named
  const row =
    named !== null && named.projectId === at.projectId && named.slug === at.environment
      ? named
      : yield* environmentBySlug(needs, at)
  const target = environmentTarget(caller, row)
  if (target !== undefined) return target
  const project = yield* projectById(needs, at.projectId)
  if (project === undefined || !Policy.projectVisible(caller, project)) return yield* new ProjectNotFound()
  return yield* new EnvironmentNotFound()
})

// --- what is allowed ---

/** The permit, or the denial on record. */
const issue = <A extends Policy.Action, T extends Target, D extends Policy.Denial | StepUpRequired>(
  { audit }: Needs,
  action: A,
  caller: Caller,
  target: T,
  intent: Intent,
  denial: D | undefined
) =>
  denial === undefined
    ? Effect.succeed(Permit.issue(action, caller, target, intent.audit))
    : Effect.zipRight(
        audit.record(eventOf(caller, target, intent.audit, "denied", { keys: intent.keys, reason: denial._tag })),
        Effect.fail(denial)
      )

const decide = <A extends Policy.Action, T extends Target>(
  needs: Needs,
  action: A,
  caller: Caller,
  target: T,
  intent: Intent
) => {
  const team = Policy.teamOf(caller, target.teamId)
  const request = team === undefined ? undefined : { caller, team, target, action }
  const denial: Policy.DenialOf<A> | Forbidden | StepUpRequired | undefined =
    request === undefined ? new Forbidden() : (Policy.decide(request) ?? Policy.asksAgain(request, intent.audit))
  return issue(needs, action, caller, target, intent, denial)
}

const visibleEnvironment = (needs: Needs, at: Location) =>
  Effect.flatMap(CurrentCaller, (caller) => visible(needs, caller, at))

/** An environment by project and slug. */
const environment = <A extends Scope>(needs: Needs, action: A, at: Location, intent: Intent) =>
  Effect.flatMap(CurrentCaller, (caller) =>
    Effect.flatMap(visible(needs, caller, at), (target) => decide(needs, action, caller, target, intent))
  )

/** The environment that secrets are copied from, into one that the caller may write. The permit is for values there. */
const sourceOfCopy = Effect.fnUntraced(function* (
  needs: Needs,
  at: Location,
  into: EnvironmentPermit<"secrets:write">,
  intent: Intent
) {
  const caller = yield* CurrentCaller
  const source = yield* visible(needs, caller, at)
  const team = Policy.teamOf(caller, source.teamId)
  const denial =
    team === undefined
      ? new Forbidden()
      : (Policy.decideCopy({ caller, team }, source, into.target) ??
        Policy.asksAgain({ caller, team, target: source, action: "secrets:run" }, intent.audit))
  return yield* issue(needs, "secrets:run", caller, source, intent, denial)
})

/** The environment of a change of `author` that waits. The permit writes it as the one who approves it. */
const approvalOf = Effect.fnUntraced(function* (
  needs: Needs,
  environmentId: EnvironmentId,
  by: { readonly approvers: ReadonlyArray<UserId>; readonly author: UserId },
  intent: Intent
) {
  const caller = yield* CurrentCaller
  const found = environmentTarget(caller, yield* environmentById(needs, environmentId))
  if (found === undefined) return yield* new EnvironmentNotFound()
  const team = Policy.teamOf(caller, found.teamId)
  const target = { ...found, changes: "direct" } as const
  const denial =
    team === undefined ? new Forbidden() : Policy.decideApproval({ caller, team }, target, by.approvers, by.author)
  return yield* issue(needs, "secrets:write", caller, target, intent, denial)
})

const environmentWithId = Effect.fnUntraced(function* <A extends Policy.Action>(
  needs: Needs,
  action: A,
  environmentId: EnvironmentId,
  intent: Intent
) {
  const caller = yield* CurrentCaller
  const target = environmentTarget(caller, yield* environmentById(needs, environmentId))
  if (target === undefined) return yield* new EnvironmentNotFound()
  return yield* decide(needs, action, caller, target, intent)
})

/** The environment that owns a secret, live or deleted. */
const environmentOfSecret = Effect.fnUntraced(function* <A extends Scope>(
  needs: Needs,
  action: A,
  secretId: SecretId,
  intent: Intent
) {
  const caller = yield* CurrentCaller
  const target = environmentTarget(caller, yield* environmentBySecret(needs, secretId))
  if (target === undefined) return yield* new SecretNotFound()
  return yield* decide(needs, action, caller, target, intent)
})

const project = Effect.fnUntraced(function* <A extends Policy.Action>(
  needs: Needs,
  action: A,
  projectId: ProjectId,
  intent: Intent
) {
  const caller = yield* CurrentCaller
  const row = yield* projectById(needs, projectId)
  const team = row === undefined ? undefined : Policy.teamOf(caller, row.teamId)
  if (row === undefined || team === undefined || !Policy.projectVisible(caller, row))
    return yield* new ProjectNotFound()
  const target: ProjectTarget = {
    type: "project",
    teamId: row.teamId,
    plan: team.plan,
    projectId: row.projectId,
    visibility: row.visibility
  }
  return yield* decide(needs, action, caller, target, intent)
})

const team = Effect.fnUntraced(function* <A extends Policy.Action>(
  needs: Needs,
  action: A,
  teamId: TeamId,
  intent: Intent
) {
  const caller = yield* CurrentCaller
  const membership = Policy.teamOf(caller, teamId)
  if (membership === undefined) return yield* new TeamNotFound()
  const target: TeamTarget = { type: "team", teamId, plan: membership.plan }
  return yield* decide(needs, action, caller, target, intent)
})

/** The scope is missing in some teams: each of their trails says so. */
const lacksScope = Effect.fnUntraced(function* (
  { audit }: Needs,
  caller: Caller,
  teams: ReadonlyArray<CallerTeam>,
  scope: Scope,
  intent: Intent
) {
  const denial = new ScopeMissing({ requiredScope: scope })
  yield* audit.record(
    ...teams.map((t) => ({
      actor: caller,
      action: intent.audit,
      outcome: "denied" as const,
      teamId: t.id,
      reason: denial._tag
    }))
  )
  return yield* denial
})

/** Subject "all granted teams": the scope must be held in each of them. */
const allTeams = Effect.fnUntraced(function* (needs: Needs, scope: Scope, intent: Intent) {
  const caller = yield* CurrentCaller
  const lacking = caller.teams.filter((t) => t.scopes !== null && !t.scopes.includes(scope))
  return lacking.length === 0 ? caller : yield* lacksScope(needs, caller, lacking, scope, intent)
})

/**
 * Subject "each granted team": the teams that hold the scope; refused when none does. A person without a team lacks no
 * scope.
 */
const eachTeam = Effect.fnUntraced(function* (needs: Needs, scope: Scope, intent: Intent) {
  const caller = yield* CurrentCaller
  const teams = caller.teams.filter((t) => t.scopes === null || t.scopes.includes(scope))
  return teams.length > 0 || caller.teams.length === 0
    ? { caller, teams }
    : yield* lacksScope(needs, caller, caller.teams, scope, intent)
})

/** More environments than a page shows are searched no further. */
const maxSearched = 5_000

/**
 * Each environment where the caller may do this, in the order of projects: for what looks through all of them. Where the
 * caller may not, nothing was asked for, so nothing is refused and nothing is recorded. `within`: of these projects alone.
 */
const eachEnvironment = Effect.fnUntraced(function* <A extends Scope>(
  needs: Needs,
  action: A,
  intent: Intent,
  within?: ReadonlyArray<ProjectId>
) {
  const { caller, teams } = yield* eachTeam(needs, action, intent)
  const macs = yield* needs.rowSeal.ready
  const rows = yield* Effect.orDie(needs.sql<EnvironmentRow>`
    SELECT ${environmentColumns(needs.sql)}
    WHERE e.team_id = any(${teams.map(({ id }) => id)}::uuid[]) AND e.deleted_at IS NULL
      ${within === undefined ? needs.sql`` : needs.sql`AND e.project_id = any(${within}::uuid[])`}
    ORDER BY p.team_id, p.slug COLLATE "C", e.position, e.id LIMIT ${maxSearched}`)
  return rows.flatMap((row) => {
    const team = Policy.teamOf(caller, row.teamId)
    const target = environmentHolds(macs, row) ? environmentTarget(caller, row) : undefined
    if (team === undefined || target === undefined) return []
    const request = { caller, team, target, action }
    const isDenied = Policy.decide(request) ?? Policy.asksAgain(request, intent.audit)
    return isDenied === undefined ? [Permit.issue(action, caller, target, intent.audit)] : []
  })
})

export class Access extends Effect.Service<Access>()("access/Access", {
  effect: Effect.gen(function* () {
    const needs = yield* services
    return {
      ...methods(needs, { visibleEnvironment, sourceOfCopy, approvalOf, allTeams, eachTeam }),
      environment: <A extends Scope>(action: A, at: Location, intent: Intent) => environment(needs, action, at, intent),
      eachEnvironment: <A extends Scope>(action: A, intent: Intent, within?: ReadonlyArray<ProjectId>) =>
        eachEnvironment(needs, action, intent, within),
      environmentWithId: <A extends Policy.Action>(action: A, id: EnvironmentId, intent: Intent) =>
        environmentWithId(needs, action, id, intent),
      environmentOfSecret: <A extends Scope>(action: A, id: SecretId, intent: Intent) =>
        environmentOfSecret(needs, action, id, intent),
      project: <A extends Policy.Action>(action: A, id: ProjectId, intent: Intent) =>
        project(needs, action, id, intent),
      team: <A extends Policy.Action>(action: A, id: TeamId, intent: Intent) => team(needs, action, id, intent)
    } as const
  })
}) {}
