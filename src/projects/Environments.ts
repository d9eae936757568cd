/** Environments of a project; protected ones are changed by owners and admins only (interface 5). */
import * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type { Caller, CallerTeam } from "#schema/Caller.ts"
import { EnvironmentNotFound, NameTaken, PlanLimitReached, ProjectNotFound } from "#schema/Errors.ts"
import { type EnvironmentId, EnvironmentIdOut, type ProjectId, type TeamId } from "#schema/Ids.ts"
import type { CreateEnvironment, UpdateEnvironment } from "#schema/ManageProjectsApi.ts"
import type { ProjectEnvironment, ProjectEnvironmentList } from "#schema/ProjectsApi.ts"
import { Audit } from "#src/access/Audit.ts"
import { change } from "#src/access/Change.ts"
import type { EnvironmentPermit, ProjectPermit } from "#src/access/Permit.ts"
import * as Policy from "#src/access/Policy.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Plans from "#src/limits/Plans.ts"

interface EnvironmentRow {
  readonly id: EnvironmentId
  readonly slug: string
  readonly name: string
  readonly protected: boolean
  readonly createdAt: Date
}

/** More than a page shows; a list of all is one project's alone. */
const overviewLimit = 5_000

const recordOf = (row: EnvironmentRow): ProjectEnvironment => ({
  id: row.id,
  slug: row.slug,
  name: row.name,
  protected: row.protected,
  createdAt: row.createdAt.toISOString()
})

export class Environments extends Effect.Service<Environments>()("projects/Environments", {
  effect: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const crypto = yield* Crypto
    const audit = yield* Audit
    const services = { sql, audit }

    /** Those that the caller reaches, in the order of their making. */
    const list = Effect.fn("Environments.list")(function* (permit: ProjectPermit<"projects:read">) {
      const { projectId, teamId } = permit.target
      const rows = yield* sql<EnvironmentRow>`
        SELECT id, slug, name, protected, created_at FROM environments
        WHERE project_id = ${projectId} AND deleted_at IS NULL ORDER BY id`
      const answer: ProjectEnvironmentList = {
        projectId,
        items: rows
          .filter(({ id }) => Policy.environmentVisible(permit.caller, { teamId, projectId, environmentId: id }))
          .map(recordOf)
      }
      return answer
    }, Effect.orDie)

    /** Those of all projects of these teams that the caller reaches, by project: for an overview. */
    const ofTeams = Effect.fn("Environments.ofTeams")(function* (reach: {
      readonly caller: Caller
      readonly teams: ReadonlyArray<CallerTeam>
    }) {
      const rows = yield* sql<EnvironmentRow & { readonly teamId: TeamId; readonly projectId: ProjectId }>`
        SELECT e.id, e.slug, e.name, e.protected, e.created_at, e.team_id, e.project_id
        FROM environments e JOIN projects p ON p.id = e.project_id AND p.deleted_at IS NULL
        WHERE e.team_id = any(${reach.teams.map((team) => team.id)}::uuid[]) AND e.deleted_at IS NULL
        ORDER BY e.id LIMIT ${overviewLimit}`
      const found = new Map<ProjectId, Array<ProjectEnvironment>>()
      for (const row of rows) {
        if (!Policy.environmentVisible(reach.caller, { ...row, environmentId: row.id })) continue
        found.set(row.projectId, [...(found.get(row.projectId) ?? []), recordOf(row)])
      }
      return found
    }, Effect.orDie)

    const create = Effect.fn("Environments.create")(function* (
      permit: ProjectPermit<"environments:manage">,
      input: CreateEnvironment
    ) {
      const { projectId, teamId } = permit.target
      const id = EnvironmentIdOut.make(yield* crypto.uuid)
      const event = { ...permit.event(), environmentId: id, environment: input.slug }
      return yield* change(
        services,
        permit.event(),
        Effect.gen(function* () {
          const now = yield* DateTime.nowAsDate
          const project = yield* sql`
            SELECT id FROM projects WHERE id = ${projectId} AND deleted_at IS NULL FOR NO KEY UPDATE`
          if (project.length === 0) return yield* new ProjectNotFound()
          const [{ n }] = yield* sql<{ readonly n: number }>`
            SELECT count(*)::int AS n FROM environments WHERE project_id = ${projectId} AND deleted_at IS NULL`
          if (n >= Plans.environmentsPerProject) return yield* new PlanLimitReached()
          const rows = yield* sql<EnvironmentRow>`
            INSERT INTO environments (id, team_id, project_id, slug, name, protected, created_at, updated_at)
            VALUES (${id}, ${teamId}, ${projectId}, ${input.slug}, ${input.name ?? input.slug},
              ${input.protected ?? false}, ${now}, ${now})
            ON CONFLICT (project_id, slug) WHERE deleted_at IS NULL DO NOTHING
            RETURNING id, slug, name, protected, created_at`
          if (rows.length === 0) return yield* new NameTaken({ field: "slug" })
          yield* audit.append(event)
          return recordOf(rows[0])
        })
      )
    })

    const update = Effect.fn("Environments.update")(function* (
      permit: EnvironmentPermit<"environments:manage">,
      input: UpdateEnvironment
    ) {
      return yield* change(
        services,
        permit.event(),
        Effect.gen(function* () {
          const now = yield* DateTime.nowAsDate
          const rows = yield* sql<EnvironmentRow>`
            UPDATE environments
            SET name = coalesce(${input.name ?? null}, name), protected = coalesce(${input.protected ?? null}, protected),
              updated_at = ${now}
            WHERE id = ${permit.target.environmentId} AND deleted_at IS NULL
            RETURNING id, slug, name, protected, created_at`
          if (rows.length === 0) return yield* new EnvironmentNotFound()
          yield* audit.append(permit.event())
          return recordOf(rows[0])
        })
      )
    })

    /** With its secrets, which nobody reaches any more; a later environment of the same slug is another one. */
    const remove = Effect.fn("Environments.remove")(function* (permit: EnvironmentPermit<"environments:manage">) {
      yield* change(
        services,
        permit.event(),
        Effect.gen(function* () {
          const now = yield* DateTime.nowAsDate
          const rows = yield* sql`
            UPDATE environments SET deleted_at = ${now}, updated_at = ${now}
            WHERE id = ${permit.target.environmentId} AND deleted_at IS NULL RETURNING id`
          if (rows.length === 0) return yield* new EnvironmentNotFound()
          yield* audit.append(permit.event())
        })
      )
    })

    return { list, ofTeams, create, update, remove } as const
  })
}) {}
