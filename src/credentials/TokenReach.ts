/** What an API token, or a trust rule that issues tokens, is narrowed to: ids in the row, names in what people see. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { ProjectNotFound, ValidationFailed } from "#schema/Errors.ts"
import { type EnvironmentId, EnvironmentIdOut, type ProjectId, ProjectIdOut, type TeamId } from "#schema/Ids.ts"
import * as Rows from "#src/Rows.ts"

interface Needs {
  readonly sql: SqlClient.SqlClient
}

/** Null = not narrowed. */
interface Narrowed {
  readonly projectIds: ReadonlyArray<ProjectId> | null
  readonly environmentIds: ReadonlyArray<EnvironmentId> | null
}

const ProjectRow = Schema.Struct({ id: ProjectIdOut, name: Schema.String })
const EnvironmentRow = Schema.Struct({ id: EnvironmentIdOut, slug: Schema.String, projectId: ProjectIdOut })

export const unique = <A>(items: ReadonlyArray<A>): ReadonlyArray<A> => [...new Set(items)]

const named = <K, V>(ids: ReadonlyArray<K> | null, by: ReadonlyMap<K, V>): ReadonlyArray<V> | null =>
  ids === null ? null : ids.flatMap((id) => by.get(id) ?? [])

/** What each row reaches, by name; what was deleted since is not reached and not shown. */
export const reachOf = Effect.fnUntraced(function* ({ sql }: Needs, rows: ReadonlyArray<Narrowed>) {
  const projectIds = unique(rows.flatMap((row) => row.projectIds ?? []))
  const environmentIds = unique(rows.flatMap((row) => row.environmentIds ?? []))
  const projects =
    projectIds.length === 0
      ? []
      : yield* Rows.findAll(
          ProjectRow,
          sql`SELECT id, name FROM projects WHERE id = any(${projectIds}::uuid[]) AND deleted_at IS NULL`
        )
  const environments =
    environmentIds.length === 0
      ? []
      : yield* Rows.findAll(
          EnvironmentRow,
          sql`
            SELECT e.id, e.slug, e.project_id
            FROM environments e JOIN projects p ON p.id = e.project_id AND p.deleted_at IS NULL
            WHERE e.id = any(${environmentIds}::uuid[]) AND e.deleted_at IS NULL`
        )
  const projectBy = new Map(projects.map((project) => [project.id, project]))
  const environmentBy = new Map(environments.map((environment) => [environment.id, environment]))
  return rows.map((row) => ({
    projects: named(row.projectIds, projectBy),
    environments: named(row.environmentIds, environmentBy)
  }))
})

/** Null when no projects are requested: all of the team, also later ones. */
export const projectsOf = Effect.fnUntraced(function* (
  { sql }: Needs,
  teamId: TeamId,
  requested: ReadonlyArray<ProjectId> | undefined
) {
  if (requested === undefined) return null
  const ids = unique(requested)
  const rows = yield* Rows.findAll(
    ProjectRow,
    sql`SELECT id, name FROM projects WHERE team_id = ${teamId} AND id = any(${ids}::uuid[]) AND deleted_at IS NULL`
  )
  const existing = new Set(rows.map((row) => row.id))
  const missing = requested.findIndex((id) => !existing.has(id))
  if (missing >= 0) return yield* new ProjectNotFound({ field: `projects.${missing}` })
  return ids
})

/** The environments that have the requested slugs now; later ones of the same slug are not reached. */
export const environmentsOf = Effect.fnUntraced(function* (
  { sql }: Needs,
  teamId: TeamId,
  projectIds: ReadonlyArray<ProjectId> | null,
  requested: ReadonlyArray<string> | undefined
) {
  if (requested === undefined) return null
  const rows = yield* Rows.findAll(
    EnvironmentRow,
    sql`
      SELECT e.id, e.slug, e.project_id
      FROM environments e JOIN projects p ON p.id = e.project_id AND p.deleted_at IS NULL
      WHERE e.team_id = ${teamId} AND e.slug = any(${unique(requested)}::text[]) AND e.deleted_at IS NULL
        AND (${projectIds}::uuid[] IS NULL OR e.project_id = any(${projectIds}::uuid[]))
      ORDER BY e.project_id, e.id`
  )
  const existing = new Set(rows.map((row) => row.slug))
  const missing = requested.findIndex((slug) => !existing.has(slug))
  if (missing >= 0) {
    return yield* new ValidationFailed({
      field: `environments.${missing}`,
      message: "No project of the token has an environment with this slug."
    })
  }
  return rows.map((row) => row.id)
})
