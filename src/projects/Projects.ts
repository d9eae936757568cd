/** Projects group environments and belong to a team (docs/contract/secrets.md, docs/contract/session-routes.md). */
import * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { CurrentCaller } from "#schema/Caller.ts"
import { NameTaken, PlanLimitReached, ProjectNotFound, ValidationFailed } from "#schema/Errors.ts"
import { EnvironmentIdOut, type ProjectId, ProjectIdOut, type TeamId, TeamIdOut } from "#schema/Ids.ts"
import type { CreateProject, UpdateProject } from "#schema/ManageProjectsApi.ts"
import type { Project } from "#schema/ProjectsApi.ts"
import { Visibility } from "#schema/Scopes.ts"
import { Access } from "#src/access/Access.ts"
import { Audit } from "#src/trail/Audit.ts"
import { change } from "#src/access/Change.ts"
import type { TeamPermit } from "#src/access/Permit.ts"
import * as Policy from "#src/access/Policy.ts"
import { orWaits, SecondPerson } from "#src/access/SecondPerson.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Plans from "#src/limits/Plans.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"
import { newEnvironment } from "./Environments.ts"

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
  id: ProjectIdOut,
  teamId: TeamIdOut,
  name: Schema.String,
  slug: Schema.String,
  visibility: Visibility,
  createdAt: Rows.Iso,
  updatedAt: Rows.Iso
}
const ProjectRow = Schema.Struct(columns)
const ReachableProjectRow = Schema.Struct({ ...columns, environmentIds: Schema.Array(EnvironmentIdOut) })
const SlugRow = Schema.Struct({
  id: ProjectIdOut,
  teamId: TeamIdOut,
  visibility: Visibility,
  environmentIds: Schema.Array(EnvironmentIdOut)
})
const ProjectNameRow = Schema.Struct({ name: Schema.String })
const ContentsRow = Schema.Struct({
  id: EnvironmentIdOut,
  slug: Schema.String,
  secrets: Schema.Number,
  tokens: Schema.Number
})
const EnvironmentSlugRow = Schema.Struct({ id: EnvironmentIdOut, slug: Schema.String })

/** Environments of a new project that names none (docs/contract/session-routes.md). */
const defaultEnvironments = [
  { slug: "development", name: "Development", protected: false },
  { slug: "staging", name: "Staging", protected: false },
  { slug: "production", name: "Production", protected: true }
] as const

const maxSlug = 50

/** A slug from the name; undefined when no letter or digit of the name fits a slug. */
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

/**
 * Visible projects of the teams where the caller has the scope, within its restrictions (docs/contract/endpoints.md).
 */
const list = Effect.fn("Projects.list")(function* ({ access, sql }: Needs) {
  const { caller, teams } = yield* access.eachTeam("projects:read", { audit: "project.list" })
  // Environments matter only to a credential restricted to some.
  const isRestricted = caller.restrictions.environmentIds !== null
  const rows = yield* Rows.findAll(
    ReachableProjectRow,
    sql`
      SELECT p.id, p.team_id, p.name, p.slug, p.visibility, p.created_at, p.updated_at,
        CASE WHEN ${isRestricted}::boolean THEN array(
          SELECT e.id FROM environments e WHERE e.project_id = p.id AND e.deleted_at IS NULL
        ) ELSE '{}'::uuid[] END AS environment_ids
      FROM projects p
      WHERE p.team_id = any(${teams.map((team) => team.id)}::uuid[]) AND p.deleted_at IS NULL
      ORDER BY p.team_id, p.slug COLLATE "C"`
  )
  return rows.flatMap(({ environmentIds, ...project }): ReadonlyArray<Project> =>
    Policy.projectVisible(caller, { ...project, projectId: project.id, environmentIds }) ? [project] : []
  )
})

/** Id of the project that the caller sees under this slug. */
const idOfSlug = Effect.fn("Projects.idOfSlug")(function* ({ sql }: Needs, slug: string) {
  const caller = yield* CurrentCaller
  const rows = yield* Rows.findAll(
    SlugRow,
    sql`
      SELECT p.id, p.team_id, p.visibility,
        array(SELECT e.id FROM environments e WHERE e.project_id = p.id AND e.deleted_at IS NULL) AS environment_ids
      FROM projects p
      WHERE p.team_id = any(${caller.teams.map(({ id }) => id)}::uuid[]) AND p.slug = ${slug} AND p.deleted_at IS NULL`
  )
  const [project, ...others] = rows.filter((row) => Policy.projectVisible(caller, { ...row, projectId: row.id }))
  if (project === undefined) return yield* new ProjectNotFound()
  if (others.length === 0) return project.id
  return yield* new ValidationFailed({
    field: "projectId",
    message: "Several of your teams have a project with this slug."
  })
})

const get = Effect.fn("Projects.get")(function* ({ access, sql }: Needs, projectId: ProjectId) {
  yield* access.project("projects:read", projectId, { audit: "project.list" })
  const row = yield* Rows.findOne(
    ProjectRow,
    sql`
      SELECT id, team_id, name, slug, visibility, created_at, updated_at FROM projects
      WHERE id = ${projectId} AND deleted_at IS NULL`
  )
  return row ?? (yield* new ProjectNotFound())
})

const lockTeam = ({ sql }: Needs, teamId: TeamId) =>
  Rows.run(sql`SELECT id FROM teams WHERE id = ${teamId} FOR NO KEY UPDATE`)

const insertEnvironments = Effect.fnUntraced(function* (
  needs: Needs,
  project: Project,
  ids: ReadonlyArray<string>,
  environments: NonNullable<CreateProject["environments"]> | typeof defaultEnvironments
) {
  const { id: projectId, teamId } = project
  const now = new Date(project.createdAt)
  for (const [i, input] of environments.entries()) {
    const values = yield* newEnvironment(needs, { id: ids[i], teamId, projectId, now }, input)
    yield* Rows.run(needs.sql`INSERT INTO environments ${values}`)
  }
})

const insertProject = Effect.fnUntraced(function* (
  needs: Needs,
  permit: TeamPermit<"projects:manage">,
  id: ProjectId,
  input: CreateProject
) {
  const { rowSeal, sql } = needs
  const { teamId } = permit.target
  const slug = input.slug ?? slugOf(input.name) ?? `project-${id.slice(-6)}`
  const now = yield* DateTime.nowAsDate
  yield* lockTeam(needs, teamId)
  const n = yield* Rows.count(sql`SELECT count(*) AS n FROM projects WHERE team_id = ${teamId} AND deleted_at IS NULL`)
  if (n >= Plans.projectsPerTeam) return yield* new PlanLimitReached()
  const values = yield* rowSeal.values(
    "projects",
    { id, teamId, slug, visibility: input.visibility ?? "team" },
    { name: input.name, created_at: now, updated_at: now }
  )
  const row = yield* Rows.findOne(
    ProjectRow,
    sql`
      INSERT INTO projects ${values}
      ON CONFLICT (team_id, slug) WHERE deleted_at IS NULL DO NOTHING
      RETURNING id, team_id, name, slug, visibility, created_at, updated_at`
  )
  return row ?? (yield* new NameTaken({ field: input.slug === undefined ? "name" : "slug" }))
})

const create = Effect.fn("Projects.create")(function* (needs: Needs, teamId: TeamId, input: CreateProject) {
  const { access, audit, crypto } = needs
  const permit = yield* access.team("projects:manage", teamId, { audit: "project.create" })
  const id = ProjectIdOut.make(yield* crypto.uuid)
  const environments = input.environments ?? defaultEnvironments
  const environmentIds = yield* crypto.uuids(environments.length)
  const event = permit.event({ target: { type: "project", id, name: input.name } })
  return yield* change(needs, event, function* () {
    const project = yield* insertProject(needs, permit, id, input)
    yield* insertEnvironments(needs, project, environmentIds, environments)
    yield* audit.append(
      { ...event, projectId: id },
      ...environments.map(({ slug: environment }, i) => ({
        ...permit.event({ audit: "environment.create" }),
        projectId: id,
        environmentId: EnvironmentIdOut.make(environmentIds[i]),
        environment
      }))
    )
    return project
  })
})

const update = Effect.fn("Projects.update")(function* (needs: Needs, projectId: ProjectId, input: UpdateProject) {
  const { access, audit, rowSeal, sql } = needs
  const permit = yield* access.project("projects:manage", projectId, { audit: "project.update" })
  const { teamId } = permit.target
  const work = change(needs, permit.event(), function* () {
    // The team's lock keeps other projects from taking the slug meanwhile.
    yield* lockTeam(needs, teamId)
    const { name = null, slug = null, visibility = null } = input
    const isOpened =
      visibility === "team" &&
      (yield* Rows.exists(sql`SELECT 1 FROM projects WHERE id = ${projectId} AND visibility = 'granted'`))
    if (isOpened) {
      const refusal = permit.refusalOf("projects:open")
      if (refusal !== undefined) return yield* refusal
      const about = "visibility for the whole team"
      const waits = yield* needs.secondPerson.check(permit, { kind: "project", projectId, input }, about)
      if (waits !== undefined) return waits
    }
    const isTaken = yield* Rows.exists(sql`
        SELECT 1 FROM projects
        WHERE team_id = ${teamId} AND slug = ${slug} AND id <> ${projectId} AND deleted_at IS NULL`)
    if (isTaken) return yield* new NameTaken({ field: "slug" })
    const changes = { ...(slug === null ? {} : { slug }), ...(visibility === null ? {} : { visibility }) }
    const changed = yield* rowSeal.update("projects", sql`id = ${projectId} AND deleted_at IS NULL`, () => changes, {
      ...(name === null ? {} : { name }),
      updated_at: yield* DateTime.nowAsDate
    })
    if (changed === 0) return yield* new ProjectNotFound()
    const row = yield* Rows.single(
      ProjectRow,
      sql`SELECT id, team_id, name, slug, visibility, created_at, updated_at FROM projects WHERE id = ${projectId}`
    )
    yield* audit.append(permit.event({ target: { type: "project", id: projectId, name: row.name } }))
    return row
  })
  return yield* orWaits(work)
})

/** Contents that end with a project: its environments, each with its live secrets and the API tokens that name it. */
const contents = Effect.fn("Projects.contents")(function* ({ access, sql }: Needs, projectId: ProjectId) {
  yield* access.project("projects:delete", projectId, { audit: "project.delete" })
  return yield* Rows.findAll(
    ContentsRow,
    sql`
      SELECT e.id, e.slug,
        (SELECT count(*) FROM secrets s WHERE s.environment_id = e.id AND s.deleted_at IS NULL) AS secrets,
        (SELECT count(*) FROM api_tokens t
          WHERE t.team_id = e.team_id AND t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > ${yield* DateTime.nowAsDate})
            AND e.id = ANY (t.environment_ids)) AS tokens
      FROM environments e WHERE e.project_id = ${projectId} AND e.deleted_at IS NULL ORDER BY e.position, e.id`
  )
})

/** Deletes the project with everything in it. */
const remove = Effect.fn("Projects.remove")(function* (needs: Needs, projectId: ProjectId) {
  const { access, audit, sql } = needs
  const permit = yield* access.project("projects:delete", projectId, { audit: "project.delete" })
  yield* change(needs, permit.event(), function* () {
    const now = yield* DateTime.nowAsDate
    const project = yield* Rows.findOne(
      ProjectNameRow,
      RowJournal.noteEnds(sql, "projects")`
          UPDATE projects SET deleted_at = ${now}, updated_at = ${now}, mac = ''
          WHERE id = ${projectId} AND deleted_at IS NULL RETURNING id, name`
    )
    if (project === undefined) return yield* new ProjectNotFound()
    yield* RowJournal.remove(sql, "access_grants", sql`project_id = ${projectId}`)
    const environments = yield* Rows.findAll(
      EnvironmentSlugRow,
      RowJournal.noteEnds(sql, "environments")`
          UPDATE environments SET deleted_at = ${now}, updated_at = ${now}, mac = ''
          WHERE project_id = ${projectId} AND deleted_at IS NULL RETURNING id, slug`
    )
    yield* audit.append(
      permit.event({ target: { type: "project", id: projectId, name: project.name } }),
      ...environments.map(({ id, slug }) => ({
        ...permit.event({ audit: "environment.delete" }),
        environmentId: id,
        environment: slug
      }))
    )
  })
})

export class Projects extends Effect.Service<Projects>()("projects/Projects", {
  effect: Effect.map(services, (needs) => methods(needs, { list, idOfSlug, get, contents, create, update, remove }))
}) {}
