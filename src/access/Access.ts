/**
 * The gate for every use case: is the target visible, do the rules allow the action, then a Permit. It records each
 * denial of an identified credential. A target that is not visible does not exist.
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
import * as VerifiedRows from "./VerifiedRows.ts"
import { type EnvironmentPermit, eventOf, Permit } from "./Permit.ts"
import type { Action } from "./Actions.ts"
import * as Policy from "./Policy.ts"
import type { StoredMac } from "#src/rows/RowMac.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import type { EnvironmentTarget, ProjectTarget, Target, TeamTarget } from "./Target.ts"

/**
 * The action and the keys for the audit entry. Access writes the entry of a denial; the service writes the entry of the
 * use.
 */
export interface Intent {
  readonly audit: AuditAction
  readonly keys?: ReadonlyArray<string>
}

/** An environment, by its project and slug. */
export interface Location {
  readonly projectId: ProjectId
  readonly environment: string
}

/** Typed at the statement, without a decoder: it runs before every request that names a project. */
interface ProjectRow {
  readonly teamId: TeamId
  readonly projectId: ProjectId
  readonly environmentIds: ReadonlyArray<EnvironmentId>
  readonly slug: string
  readonly visibility: Visibility
  readonly mac: StoredMac
}

/** Concurrent requests share one statement, which looks up each environment once. */
const findEnvironment = Effect.flatMap(SqlClient.SqlClient, (sql) => {
  const run = (batch: ReadonlyArray<Location>) => {
    const distinct = new Map(batch.map((at) => [nameOf(at), at]))
    return Effect.map(environmentsBySlug(sql, [...distinct.values()]), (rows) => {
      const byName = new Map(rows.map((row) => [nameOf({ projectId: row.eProjectId, environment: row.eSlug }), row]))
      return batch.map((at) => byName.get(nameOf(at)))
    })
  }
  return GroupCommit.make({ run, maxBatch: 128, maxInFlight: 1 })
})
const nameOf = ({ environment, projectId }: Location) => `${projectId} ${environment}`

const services = Effect.all({ sql: SqlClient.SqlClient, audit: Audit, rowSeal: RowSeal, found: findEnvironment })
type Needs = Effect.Effect.Success<typeof services>

// --- what is visible ---

/** Environments `e` with their projects `p`; `rest`: further joins, the condition and the order. */
export const selectEnvironments = (sql: SqlClient.SqlClient, rest: Statement.Fragment) =>
  sql<VerifiedRows.EnvironmentRow>`
    SELECT ${sql.literal(VerifiedRows.columns("p"))}
    FROM environments e JOIN projects p ON p.id = e.project_id AND p.deleted_at IS NULL
    ${rest}`

/** The project, if its MAC is valid. */
const projectById = ({ rowSeal, sql }: Needs, id: ProjectId) =>
  Effect.zipWith(
    rowSeal.ready,
    Effect.orDie(sql<ProjectRow>`
      SELECT p.team_id, p.id AS project_id, p.slug, p.visibility, p.mac,
        array(SELECT e.id FROM environments e WHERE e.project_id = p.id AND e.deleted_at IS NULL) AS environment_ids
      FROM projects p
      WHERE p.id = ${id} AND p.deleted_at IS NULL`),
    (macs, [row]): ProjectRow | undefined => {
      if (row === undefined) return undefined
      const { mac, slug, teamId, visibility } = row
      return macs.isAuthentic("projects", { id: row.projectId, teamId, slug, visibility, mac }) ? row : undefined
    }
  )

const namedOf = <E>({ rowSeal }: Needs, row: Effect.Effect<VerifiedRows.EnvironmentRow | undefined, E>) =>
  Effect.zipWith(rowSeal.ready, Effect.orDie(row), (macs, found) =>
    found === undefined ? null : VerifiedRows.namedEnvironment(found, macs)
  )

const oneEnvironment = (needs: Needs, where: Statement.Fragment) =>
  namedOf(
    needs,
    Effect.map(selectEnvironments(needs.sql, needs.sql`${where} AND e.deleted_at IS NULL`), ([row]) => row)
  )

const environmentById = (needs: Needs, environmentId: EnvironmentId) =>
  oneEnvironment(needs, needs.sql`WHERE e.id = ${environmentId}`)

/** The LIMIT gives the planner the number of rows: see `CredentialRows.ts`. */
const environmentsBySlug = (sql: SqlClient.SqlClient, at: ReadonlyArray<Location>) =>
  selectEnvironments(
    sql,
    sql`
      JOIN (SELECT * FROM unnest(
          ${at.map(({ projectId }) => projectId)}::uuid[], ${at.map(({ environment }) => environment)}::text[]
        ) LIMIT ${at.length}) AS q (project_id, slug) ON q.project_id = e.project_id AND q.slug = e.slug
      WHERE e.deleted_at IS NULL`
  )

const environmentBySlug = (needs: Needs, at: Location) => namedOf(needs, needs.found(at))

const environmentBySecret = (needs: Needs, secretId: SecretId) =>
  oneEnvironment(needs, needs.sql`JOIN secrets s ON s.environment_id = e.id WHERE s.id = ${secretId}`)

/** The target of a decision, if the caller may see it. The plan comes from the caller's team, whose row was verified. */
const environmentTarget = (caller: Caller, environment: NamedEnvironment | null): EnvironmentTarget | undefined => {
  const team = environment === null ? undefined : Policy.teamOf(caller, environment.teamId)
  if (environment === null || team === undefined || !Policy.environmentVisible(caller, environment)) return undefined
  return { type: "environment", plan: team.plan, ...environment }
}

/** Fails with PROJECT_NOT_FOUND when the project is not visible, else with ENVIRONMENT_NOT_FOUND. */
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

/** Issues the permit, or records the denial and fails with it. */
const issue = <A extends Action, T extends Target, D extends Policy.Denial | StepUpRequired>(
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

const decide = <A extends Action, T extends Target>(
  needs: Needs,
  action: A,
  caller: Caller,
  target: T,
  intent: Intent
) => {
  const team = Policy.teamOf(caller, target.teamId)
  const request = team === undefined ? undefined : { caller, team, target, action }
  const denial: Policy.DenialOf<A> | Forbidden | StepUpRequired | undefined =
    request === undefined ? new Forbidden() : (Policy.decide(request) ?? Policy.needsStepUp(request))
  return issue(needs, action, caller, target, intent, denial)
}

const visibleEnvironment = (needs: Needs, at: Location) =>
  Effect.flatMap(CurrentCaller, (caller) => visible(needs, caller, at))

/** An environment by project and slug. */
const environment = <A extends Scope>(needs: Needs, action: A, at: Location, intent: Intent) =>
  Effect.flatMap(CurrentCaller, (caller) =>
    Effect.flatMap(visible(needs, caller, at), (target) => decide(needs, action, caller, target, intent))
  )

/**
 * The environment that secrets are copied from. The caller may write `into`; the permit is for values of the source.
 */
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
        Policy.needsStepUp({ team, target: source, action: "secrets:run" }))
  return yield* issue(needs, "secrets:run", caller, source, intent, denial)
})

/**
 * The environment of a pending change by `author`; null: a second person decides about one's own. The permit lets the
 * approver write the change.
 */
const approvalOf = Effect.fnUntraced(function* (
  needs: Needs,
  environmentId: EnvironmentId,
  by: { readonly approvers: ReadonlyArray<UserId>; readonly author: UserId | null },
  intent: Intent
) {
  const caller = yield* CurrentCaller
  const row = environmentTarget(caller, yield* environmentById(needs, environmentId))
  if (row === undefined) return yield* new EnvironmentNotFound()
  const team = Policy.teamOf(caller, row.teamId)
  const target = { ...row, changes: "direct" } as const
  const denial =
    team === undefined
      ? new Forbidden()
      : (Policy.decideApproval({ caller, team }, target, by.approvers, by.author) ??
        (intent.audit === "change.approve"
          ? Policy.needsStepUp({ team, target, action: "changes:approve" })
          : undefined))
  return yield* issue(needs, "secrets:write", caller, target, intent, denial)
})

const environmentWithId = Effect.fnUntraced(function* <A extends Action>(
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

const project = Effect.fnUntraced(function* <A extends Action>(
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

const team = Effect.fnUntraced(function* <A extends Action>(needs: Needs, action: A, teamId: TeamId, intent: Intent) {
  const caller = yield* CurrentCaller
  const membership = Policy.teamOf(caller, teamId)
  if (membership === undefined) return yield* new TeamNotFound()
  const target: TeamTarget = { type: "team", teamId, plan: membership.plan }
  return yield* decide(needs, action, caller, target, intent)
})

/** Records in the trail of each team that the scope is missing there. */
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

/** For the subject "all granted teams": requires the scope in each of them. */
const allTeams = Effect.fnUntraced(function* (needs: Needs, scope: Scope, intent: Intent) {
  const caller = yield* CurrentCaller
  const lacking = caller.teams.filter((t) => t.scopes !== null && !t.scopes.includes(scope))
  return lacking.length === 0 ? caller : yield* lacksScope(needs, caller, lacking, scope, intent)
})

/**
 * For the subject "each granted team": returns the teams with the scope, and fails when no team has it. A person
 * without a team lacks no scope.
 */
const eachTeam = Effect.fnUntraced(function* (needs: Needs, scope: Scope, intent: Intent) {
  const caller = yield* CurrentCaller
  const teams = caller.teams.filter((t) => t.scopes === null || t.scopes.includes(scope))
  return teams.length > 0 || caller.teams.length === 0
    ? { caller, teams }
    : yield* lacksScope(needs, caller, caller.teams, scope, intent)
})

/** Limit of environments that one search covers. */
const maxSearched = 5_000

/**
 * Each environment where the caller may do this, in the order of projects. Environments where the caller may not are
 * left out, without a refusal or an entry. `within` limits the search to these projects.
 */
const eachEnvironment = Effect.fnUntraced(function* <A extends Scope>(
  needs: Needs,
  action: A,
  intent: Intent,
  within?: ReadonlyArray<ProjectId>
) {
  const { caller, teams } = yield* eachTeam(needs, action, intent)
  const macs = yield* needs.rowSeal.ready
  const rest = needs.sql`
    WHERE e.team_id = any(${teams.map(({ id }) => id)}::uuid[]) AND e.deleted_at IS NULL
      ${within === undefined ? needs.sql`` : needs.sql`AND e.project_id = any(${within}::uuid[])`}
    ORDER BY p.team_id, p.slug COLLATE "C", e.position, e.id LIMIT ${maxSearched}`
  const rows = yield* Effect.orDie(selectEnvironments(needs.sql, rest))
  return rows.flatMap((row) => {
    const target = environmentTarget(caller, VerifiedRows.namedEnvironment(row, macs))
    const team = target === undefined ? undefined : Policy.teamOf(caller, target.teamId)
    if (team === undefined || target === undefined) return []
    const request = { caller, team, target, action }
    const denial = Policy.decide(request) ?? Policy.needsStepUp(request)
    return denial === undefined ? [Permit.issue(action, caller, target, intent.audit)] : []
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
      environmentWithId: <A extends Action>(action: A, id: EnvironmentId, intent: Intent) =>
        environmentWithId(needs, action, id, intent),
      environmentOfSecret: <A extends Scope>(action: A, id: SecretId, intent: Intent) =>
        environmentOfSecret(needs, action, id, intent),
      project: <A extends Action>(action: A, id: ProjectId, intent: Intent) => project(needs, action, id, intent),
      team: <A extends Action>(action: A, id: TeamId, intent: Intent) => team(needs, action, id, intent)
    } as const
  })
}) {}
