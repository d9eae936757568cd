/** Projects group environments and belong to a team (interface 2, decisions 9). */
import * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type { Caller, CallerTeam } from "#schema/Caller.ts"
import { NameTaken, PlanLimitReached, ProjectNotFound } from "#schema/Errors.ts"
import { type EnvironmentId, EnvironmentIdOut, type ProjectId, ProjectIdOut, type TeamId } from "#schema/Ids.ts"
import type { CreateProject, UpdateProject } from "#schema/ManageProjectsApi.ts"
import type { Project } from "#schema/ProjectsApi.ts"
import { Audit } from "#src/access/Audit.ts"
import { change } from "#src/access/Change.ts"
import type { ProjectPermit, TeamPermit } from "#src/access/Permit.ts"
import * as Policy from "#src/access/Policy.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Plans from "#src/limits/Plans.ts"

interface ProjectRow {
  readonly id: ProjectId
  readonly teamId: TeamId
  readonly name: string
  readonly slug: string
  readonly createdAt: Date
  readonly updatedAt: Date
}

/** Decisions 9: what a project starts with when its environments are not named. */
const defaultEnvironments = [
  { slug: "development", name: "Development", protected: false },
  { slug: "staging", name: "Staging", protected: false },
  { slug: "production", name: "Production", protected: true }
] as const

const maxSlug = 50

/** A slug that says what the name says; undefined when the name has no letter or digit that a slug can hold. */
export const slugOf = (name: string): string | undefined => {
  const slug = name
    .normalize("NFKD")
    .replace(/\p{M}+/gu, "")
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-+/, "")
    .slice(0, maxSlug)
    .replace(/-+$/, "")
  return slug === "" ? undefined : slug
}

const recordOf = (row: ProjectRow): Project => ({
  id: row.id,
  teamId: row.teamId,
  name: row.name,
  slug: row.slug,
  createdAt: row.createdAt.toISOString(),
  updatedAt: row.updatedAt.toISOString()
})

export class Projects extends Effect.Service<Projects>()("projects/Projects", {
  effect: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const crypto = yield* Crypto
    const audit = yield* Audit
    const services = { sql, audit }

    /** Of the teams where the caller holds the scope, what its restrictions leave (interface 5 rules 7 and 8). */
    const list = Effect.fn("Projects.list")(function* (reach: {
      readonly caller: Caller
      readonly teams: ReadonlyArray<CallerTeam>
    }) {
      const { caller, teams } = reach
      // Environments matter only to a credential that is narrowed to some.
      const narrowed = caller.restrictions.environmentIds !== null
      const rows = yield* sql<ProjectRow & { readonly environmentIds: ReadonlyArray<EnvironmentId> }>`
        SELECT p.id, p.team_id, p.name, p.slug, p.created_at, p.updated_at,
          CASE WHEN ${narrowed}::boolean THEN array(
            SELECT e.id FROM environments e WHERE e.project_id = p.id AND e.deleted_at IS NULL
          ) ELSE '{}'::uuid[] END AS environment_ids
        FROM projects p
        WHERE p.team_id = any(${teams.map((team) => team.id)}::uuid[]) AND p.deleted_at IS NULL
        ORDER BY p.team_id, p.slug COLLATE "C"`
      return rows
        .filter(({ environmentIds, id, teamId }) =>
          Policy.projectVisible(caller, { teamId, projectId: id, environmentIds })
        )
        .map(recordOf)
    }, Effect.orDie)

    /** The record of one project. */
    const get = Effect.fn("Projects.get")(function* (permit: ProjectPermit<"projects:read">) {
      const rows = yield* Effect.orDie(sql<ProjectRow>`
        SELECT id, team_id, name, slug, created_at, updated_at FROM projects
        WHERE id = ${permit.target.projectId} AND deleted_at IS NULL`)
      const row: ProjectRow | undefined = rows[0]
      return row === undefined ? yield* new ProjectNotFound() : recordOf(row)
    })

    const create = Effect.fn("Projects.create")(function* (
      permit: TeamPermit<"projects:manage">,
      input: CreateProject
    ) {
      const { teamId } = permit.target
      const id = ProjectIdOut.make(yield* crypto.uuid)
      const slug = input.slug ?? slugOf(input.name) ?? `project-${id.slice(-6)}`
      const environments: NonNullable<CreateProject["environments"]> | typeof defaultEnvironments =
        input.environments ?? defaultEnvironments
      const environmentIds = yield* crypto.uuids(environments.length)
      return yield* change(
        services,
        permit.event({ target: { type: "project", id, name: input.name } }),
        Effect.gen(function* () {
          const now = yield* DateTime.nowAsDate
          yield* sql`SELECT id FROM teams WHERE id = ${teamId} FOR NO KEY UPDATE`
          const [{ n }] = yield* sql<{ readonly n: number }>`
            SELECT count(*)::int AS n FROM projects WHERE team_id = ${teamId} AND deleted_at IS NULL`
          if (n >= Plans.projectsPerTeam) return yield* new PlanLimitReached()
          const rows = yield* sql<ProjectRow>`
            INSERT INTO projects (id, team_id, name, slug, created_at, updated_at)
            VALUES (${id}, ${teamId}, ${input.name}, ${slug}, ${now}, ${now})
            ON CONFLICT (team_id, slug) WHERE deleted_at IS NULL DO NOTHING
            RETURNING id, team_id, name, slug, created_at, updated_at`
          if (rows.length === 0) return yield* new NameTaken({ field: input.slug === undefined ? "name" : "slug" })
          yield* sql`
            INSERT INTO environments (id, team_id, project_id, slug, name, protected, created_at, updated_at)
            SELECT e.id, ${teamId}::uuid, ${id}::uuid, e.slug, e.name, e.protected, ${now}::timestamptz, ${now}::timestamptz
            FROM unnest(
              ${environmentIds}::uuid[],
              ${environments.map((e) => e.slug)}::text[],
              ${environments.map((e) => e.name ?? e.slug)}::text[],
              ${environments.map((e) => e.protected ?? false)}::boolean[]
            ) AS e (id, slug, name, protected)`
          yield* audit.append(
            { ...permit.event({ target: { type: "project", id, name: input.name } }), projectId: id },
            ...environments.map(({ slug: environment }, i) => ({
              ...permit.event({ audit: "environment.create" }),
              projectId: id,
              environmentId: EnvironmentIdOut.make(environmentIds[i]),
              environment
            }))
          )
          return recordOf(rows[0])
        })
      )
    })

    const update = Effect.fn("Projects.update")(function* (
      permit: ProjectPermit<"projects:manage">,
      input: UpdateProject
    ) {
      const { projectId, teamId } = permit.target
      return yield* change(
        services,
        permit.event(),
        Effect.gen(function* () {
          const now = yield* DateTime.nowAsDate
          // Under the team's lock no other project can take the slug between the look and the change.
          yield* sql`SELECT id FROM teams WHERE id = ${teamId} FOR NO KEY UPDATE`
          const { slug } = input
          if (slug !== undefined) {
            const taken = yield* sql`
              SELECT 1 FROM projects
              WHERE team_id = ${teamId} AND slug = ${slug} AND id <> ${projectId} AND deleted_at IS NULL`
            if (taken.length > 0) return yield* new NameTaken({ field: "slug" })
          }
          const rows = yield* sql<ProjectRow>`
            UPDATE projects
            SET name = coalesce(${input.name ?? null}, name), slug = coalesce(${slug ?? null}, slug), updated_at = ${now}
            WHERE id = ${projectId} AND deleted_at IS NULL
            RETURNING id, team_id, name, slug, created_at, updated_at`
          if (rows.length === 0) return yield* new ProjectNotFound()
          yield* audit.append(permit.event({ target: { type: "project", id: projectId, name: rows[0].name } }))
          return recordOf(rows[0])
        })
      )
    })

    /** With everything in it: nothing below a deleted project is reached any more. */
    const remove = Effect.fn("Projects.remove")(function* (permit: ProjectPermit<"projects:manage">) {
      const { projectId } = permit.target
      yield* change(
        services,
        permit.event(),
        Effect.gen(function* () {
          const now = yield* DateTime.nowAsDate
          const rows = yield* sql<{ readonly name: string }>`
            UPDATE projects SET deleted_at = ${now}, updated_at = ${now}
            WHERE id = ${projectId} AND deleted_at IS NULL RETURNING name`
          if (rows.length === 0) return yield* new ProjectNotFound()
          const gone = yield* sql<{ readonly id: EnvironmentId; readonly slug: string }>`
            UPDATE environments SET deleted_at = ${now}, updated_at = ${now}
            WHERE project_id = ${projectId} AND deleted_at IS NULL RETURNING id, slug`
          yield* audit.append(
            permit.event({ target: { type: "project", id: projectId, name: rows[0].name } }),
            ...gone.map(({ id, slug }) => ({
              ...permit.event({ audit: "environment.delete" }),
              environmentId: id,
              environment: slug
            }))
          )
        })
      )
    })

    return { list, get, create, update, remove } as const
  })
}) {}
