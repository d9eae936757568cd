/** Environments of a project; only owners and admins change protected ones (docs/contract/credentials.md). */
import * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Caller } from "#schema/Caller.ts"
import { EnvironmentNotFound, NameTaken, PlanLimitReached, ProjectNotFound, ValidationFailed } from "#schema/Errors.ts"
import {
  type EnvironmentId,
  EnvironmentIdOut,
  type ProjectId,
  ProjectIdOut,
  type TeamId,
  TeamIdOut,
  type UserId,
  UserIdOut
} from "#schema/Ids.ts"
import type { CreateEnvironment, UpdateEnvironment } from "#schema/ManageProjectsApi.ts"
import type { ProjectEnvironment, ProjectEnvironmentList } from "#schema/ProjectsApi.ts"
import { Approvals, Changes, Readers, Visibility } from "#schema/Scopes.ts"
import { Access } from "#src/access/Access.ts"
import { Audit } from "#src/trail/Audit.ts"
import { change } from "#src/access/Change.ts"
import * as Protection from "#src/access/Protection.ts"
import * as Policy from "#src/access/Policy.ts"
import { orWaits, SecondPerson } from "#src/access/SecondPerson.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Plans from "#src/limits/Plans.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"

const services = Effect.all({
  access: Access,
  sql: SqlClient.SqlClient,
  crypto: Crypto,
  audit: Audit,
  rowSeal: RowSeal,
  secondPerson: SecondPerson
})
type Needs = Effect.Effect.Success<typeof services>

const columns = {
  id: EnvironmentIdOut,
  slug: Schema.String,
  name: Schema.String,
  protected: Schema.Boolean,
  readers: Readers,
  approvers: Schema.Array(UserIdOut),
  approvals: Approvals,
  changes: Changes,
  createdAt: Rows.Iso
}
const columnNames = (sql: SqlClient.SqlClient) =>
  sql.literal("e.id, e.slug, e.name, e.protected, e.readers, e.approvers, e.approvals, e.changes, e.created_at")
const EnvironmentRow = Schema.Struct(columns)
const ProjectEnvironmentRow = Schema.Struct({
  ...columns,
  teamId: TeamIdOut,
  projectId: ProjectIdOut,
  visibility: Visibility
})

const IdRow = Schema.Struct({ id: EnvironmentIdOut })
const { approvals, approvers, changes, protected: isProtected, readers } = columns
const ProtectionRow = Schema.Struct({ approvals, approvers, changes, protected: isProtected, readers })
const MemberRow = Schema.Struct({ userId: UserIdOut })
const OverviewRow = Schema.Struct({
  id: EnvironmentIdOut,
  slug: Schema.String,
  teamId: TeamIdOut,
  projectId: ProjectIdOut,
  projectName: Schema.String,
  projectSlug: Schema.String,
  visibility: Visibility
})

/** A protected environment starts closed, unless its creator chooses other readers (docs/contract/access.md). */
const readersOf = (input: Pick<CreateEnvironment, "protected" | "readers">): Readers =>
  input.readers ?? (input.protected === true ? "granted" : "team")

/** Values for a new row of `environments`. */
export const newEnvironment = (
  { rowSeal }: Pick<Needs, "rowSeal">,
  at: { readonly id: string; readonly teamId: TeamId; readonly projectId: ProjectId; readonly now: Date },
  input: Pick<CreateEnvironment, "changes" | "name" | "protected" | "readers"> & { readonly slug: string }
) => {
  const { id, now, projectId, teamId } = at
  const { changes = "direct", name = input.slug, protected: isProtected = false, slug } = input
  const readers = readersOf(input)
  return rowSeal.values(
    "environments",
    { id, teamId, projectId, slug, protected: isProtected, readers, changes, approvers: [], approvals: 1 },
    { name, created_at: now, updated_at: now }
  )
}

/** Rows of an overview; more than a page shows. */
const overviewLimit = 5_000

/** The record for the caller; only people see the approvers. */
const recordFor = ({ user }: Caller, { approvers, ...environment }: typeof EnvironmentRow.Type): ProjectEnvironment =>
  user === null ? environment : { ...environment, approvers }

/** Environments that the caller reaches, in the order of the project: by position, then by creation. */
const list = Effect.fn("Environments.list")(function* ({ access, sql }: Needs, projectId: ProjectId) {
  const permit = yield* access.project("projects:read", projectId, { audit: "environment.list" })
  const { teamId, visibility } = permit.target
  const rows = yield* Rows.findAll(
    EnvironmentRow,
    sql`
      SELECT ${columnNames(sql)} FROM environments e
      WHERE e.project_id = ${projectId} AND e.deleted_at IS NULL ORDER BY e.position, e.id`
  )
  const response: ProjectEnvironmentList = {
    projectId,
    items: rows
      .filter(({ id }) =>
        Policy.environmentVisible(permit.caller, { teamId, projectId, environmentId: id, visibility })
      )
      .map((row) => recordFor(permit.caller, row))
  }
  return response
})

/**
 * Environments that the caller reaches, by project, in one team or all of the caller's; for an overview. `within`: only
 * these projects.
 */
const byProject = Effect.fn("Environments.byProject")(function* (
  { access, sql }: Needs,
  teamId: TeamId | "all",
  within?: ReadonlyArray<ProjectId>
) {
  const { caller, teams } = yield* access.eachTeam("projects:read", { audit: "environment.list" })
  const teamIds = teams.map((team) => team.id).filter((id) => teamId === "all" || id === teamId)
  const rows = yield* Rows.findAll(
    ProjectEnvironmentRow,
    sql`
      SELECT ${columnNames(sql)}, e.team_id, e.project_id, p.visibility
      FROM environments e JOIN projects p ON p.id = e.project_id AND p.deleted_at IS NULL
      WHERE e.team_id = any(${teamIds}::uuid[]) AND e.deleted_at IS NULL
        ${within === undefined ? sql`` : sql`AND e.project_id = any(${within}::uuid[])`}
      ORDER BY e.project_id, e.position, e.id LIMIT ${overviewLimit}`
  )
  const environments = new Map<ProjectId, Array<ProjectEnvironment>>()
  for (const { projectId, teamId, visibility, ...environment } of rows) {
    if (!Policy.environmentVisible(caller, { teamId, projectId, environmentId: environment.id, visibility })) continue
    const siblings = environments.get(projectId)
    if (siblings === undefined) environments.set(projectId, [environment])
    else siblings.push(environment)
  }
  return environments
})

/** At most `limit` environments that the caller reaches, in all of the caller's teams, by project. */
const reachable = Effect.fn("Environments.reachable")(function* ({ access, sql }: Needs, limit: number) {
  const { caller, teams } = yield* access.eachTeam("projects:read", { audit: "environment.list" })
  const rows = yield* Rows.findAll(
    OverviewRow,
    sql`
      SELECT e.id, e.slug, e.team_id, e.project_id, p.name AS project_name, p.slug AS project_slug, p.visibility
      FROM environments e JOIN projects p ON p.id = e.project_id AND p.deleted_at IS NULL
      WHERE e.team_id = any(${teams.map(({ id }) => id)}::uuid[]) AND e.deleted_at IS NULL
      ORDER BY e.project_id, e.position, e.id LIMIT ${overviewLimit}`
  )
  return rows.filter((row) => Policy.environmentVisible(caller, { ...row, environmentId: row.id })).slice(0, limit)
})

const create = Effect.fn("Environments.create")(function* (
  needs: Needs,
  projectId: ProjectId,
  input: CreateEnvironment
) {
  const { access, audit, crypto, sql } = needs
  const permit = yield* access.project("environments:manage", projectId, { audit: "environment.create" })
  const id = EnvironmentIdOut.make(yield* crypto.uuid)
  return yield* change(needs, permit.event(), function* () {
    const now = yield* DateTime.nowAsDate
    const project = yield* Rows.exists(sql`
        SELECT id FROM projects WHERE id = ${projectId} AND deleted_at IS NULL FOR NO KEY UPDATE`)
    if (!project) return yield* new ProjectNotFound()
    const n = yield* Rows.count(
      sql`SELECT count(*) AS n FROM environments WHERE project_id = ${projectId} AND deleted_at IS NULL`
    )
    if (n >= Plans.environmentsPerProject) return yield* new PlanLimitReached()
    const { teamId } = permit.target
    const values = yield* newEnvironment(needs, { id, teamId, projectId, now }, input)
    const row = yield* Rows.findOne(
      EnvironmentRow,
      sql`
          INSERT INTO environments AS e ${values}
          ON CONFLICT (project_id, slug) WHERE deleted_at IS NULL DO NOTHING
          RETURNING ${columnNames(sql)}`
    )
    if (row === undefined) return yield* new NameTaken({ field: "slug" })
    yield* audit.append({ ...permit.event(), environmentId: id, environment: input.slug })
    return row
  })
})

/** Checks that approvers are active members, and locks their memberships to the end of the transaction. */
const checkMembers = Effect.fnUntraced(function* ({ sql }: Needs, teamId: TeamId, userIds: ReadonlyArray<UserId>) {
  const members = yield* Rows.findAll(
    MemberRow,
    sql`
      SELECT user_id FROM memberships WHERE team_id = ${teamId} AND user_id = any(${userIds}::uuid[]) AND active
      ORDER BY user_id FOR SHARE`
  )
  if (members.length < userIds.length) {
    return yield* new ValidationFailed({ field: "approvers", message: "must be active members of the team" })
  }
})

/**
 * Sets the environment's place among those of its project, from 1; the others keep their order. Part of the caller's
 * transaction: locks the project, then rows in the order of all writers. No check depends on a place, so its MAC omits
 * it.
 */
const place = Effect.fnUntraced(function* (
  { sql }: Needs,
  { environmentId, projectId }: { readonly environmentId: EnvironmentId; readonly projectId: ProjectId },
  position: number
) {
  yield* Rows.run(sql`SELECT id FROM projects WHERE id = ${projectId} FOR NO KEY UPDATE`)
  yield* Rows.run(sql`
    SELECT id FROM environments WHERE project_id = ${projectId} AND deleted_at IS NULL ORDER BY id FOR UPDATE`)
  const rows = yield* Rows.findAll(
    IdRow,
    sql`SELECT e.id FROM environments e WHERE e.project_id = ${projectId} AND e.deleted_at IS NULL ORDER BY e.position, e.id`
  )
  const others = rows.map(({ id }) => id).filter((id) => id !== environmentId)
  yield* Rows.run(sql`
    UPDATE environments e SET position = o.place
    FROM unnest(${others.toSpliced(position - 1, 0, environmentId)}::uuid[]) WITH ORDINALITY AS o (id, place)
    WHERE e.id = o.id AND e.position <> o.place`)
})

/** The protection of a live environment, locked to the end of the transaction. */
const lockedProtection = ({ sql }: Needs, environmentId: EnvironmentId) =>
  Effect.filterOrFail(
    Rows.findOne(
      ProtectionRow,
      sql`
        SELECT protected, readers, approvers, approvals, changes FROM environments
        WHERE id = ${environmentId} AND deleted_at IS NULL FOR NO KEY UPDATE`
    ),
    (row) => row !== undefined,
    () => new EnvironmentNotFound()
  )

const update = Effect.fn("Environments.update")(function* (
  needs: Needs,
  environmentId: EnvironmentId,
  input: UpdateEnvironment
) {
  const { access, audit, rowSeal, sql } = needs
  const intent = { audit: "environment.update" } as const
  const permit = yield* access.environmentWithId("environments:manage", environmentId, intent)
  const work = change(needs, permit.event(), function* () {
    const {
      approvals = null,
      approvers,
      changes = null,
      name = null,
      position,
      protected: isProtected = null,
      readers = null
    } = input
    if (position !== undefined) {
      yield* place(needs, { environmentId, projectId: permit.target.projectId }, position)
    }
    if (approvers !== undefined) yield* checkMembers(needs, permit.target.teamId, approvers)
    const before = yield* lockedProtection(needs, environmentId)
    if (Protection.isLowered(before, input)) {
      const refusal = permit.refusalOf("environments:open")
      if (refusal !== undefined) return yield* refusal
      const about = "a lower protection"
      const waits = yield* needs.secondPerson.check(permit, { kind: "environment", environmentId, input }, about)
      if (waits !== undefined) return waits
    }
    const sealedChanges = {
      ...(isProtected === null ? {} : { protected: isProtected }),
      ...(readers === null ? {} : { readers }),
      ...(changes === null ? {} : { changes }),
      ...(approvals === null ? {} : { approvals }),
      ...(approvers === undefined ? {} : { approvers })
    }
    const where = sql`id = ${environmentId} AND deleted_at IS NULL`
    const changed = yield* rowSeal.update("environments", where, () => sealedChanges, {
      ...(name === null ? {} : { name }),
      updated_at: yield* DateTime.nowAsDate
    })
    if (changed === 0) return yield* new EnvironmentNotFound()
    const row = yield* Rows.single(EnvironmentRow, sql`SELECT ${columnNames(sql)} FROM environments e WHERE ${where}`)
    yield* audit.append(permit.event())
    return row
  })
  return yield* orWaits(work)
})

/** Deletes the environment with its secrets. A later environment with the same slug is a different one. */
const remove = Effect.fn("Environments.remove")(function* (needs: Needs, environmentId: EnvironmentId) {
  const { access, audit, sql } = needs
  const intent = { audit: "environment.delete" } as const
  const permit = yield* access.environmentWithId("environments:delete", environmentId, intent)
  yield* change(needs, permit.event(), function* () {
    const now = yield* DateTime.nowAsDate
    const isDeleted = yield* Rows.exists(
      RowJournal.noteEnds(sql, "environments")`
        UPDATE environments SET deleted_at = ${now}, updated_at = ${now}, mac = ''
        WHERE id = ${environmentId} AND deleted_at IS NULL RETURNING id`
    )
    if (!isDeleted) return yield* new EnvironmentNotFound()
    yield* RowJournal.remove(sql, "access_grants", sql`environment_id = ${environmentId}`)
    yield* audit.append(permit.event())
  })
})

export class Environments extends Effect.Service<Environments>()("projects/Environments", {
  effect: Effect.map(services, (needs) => methods(needs, { list, byProject, reachable, create, update, remove }))
}) {}
