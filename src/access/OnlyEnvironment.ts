/** The one environment that a credential reaches, for clients that name none (docs/contract/endpoints.md). */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import type { Caller } from "#schema/Caller.ts"
import type { EnvironmentId, ProjectId } from "#schema/Ids.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { selectEnvironments } from "./Access.ts"
import * as Policy from "./Policy.ts"
import * as VerifiedRows from "./VerifiedRows.ts"

interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly rowSeal: RowSeal
}

interface OnlyEnvironment {
  readonly projectId: ProjectId
  /** Slug. */
  readonly project: string
  readonly environmentId: EnvironmentId
  /** Slug. */
  readonly environment: string
}

/** Two would do, if every row had a valid MAC. A row without one does not exist. */
const mostRows = 8

/** Within SQL only as far as the visible rows among many need it; `Policy` decides. */
const withinReach = ({ sql }: Needs, { grants, restrictions, teams }: Caller) => {
  const { environmentIds, projectIds } = restrictions
  const open = teams.filter(Policy.seesGrantedProjects).map(({ id }) => id)
  const projects = grants.flatMap(({ environmentId, projectId }) => (environmentId === null ? [projectId] : []))
  const environments = grants.flatMap(({ environmentId }) => (environmentId === null ? [] : [environmentId]))
  return sql.and([
    ...(projectIds === null ? [] : [sql`e.project_id = any(${projectIds}::uuid[])`]),
    ...(environmentIds === null ? [] : [sql`e.id = any(${environmentIds}::uuid[])`]),
    sql`(p.visibility <> 'granted' OR e.team_id = any(${open}::uuid[])
      OR e.project_id = any(${projects}::uuid[]) OR e.id = any(${environments}::uuid[]))`
  ])
}

/** Null: none, or several. A credential whose scopes act on no environment of a team does not learn of one there. */
export const onlyEnvironment = Effect.fnUntraced(function* (needs: Needs, caller: Caller) {
  const { rowSeal, sql } = needs
  const teams = caller.teams.filter(({ scopes }) => scopes === null || scopes.some((one) => one !== "identity:read"))
  if (teams.length === 0) return null
  const macs = yield* rowSeal.ready
  // The inner LIMIT gives the planner the number of teams, so that it goes by their index (`CredentialRows.ts`).
  const rest = sql`
    JOIN (SELECT unnest(${teams.map(({ id }) => id)}::uuid[]) AS team_id LIMIT ${teams.length}) t ON t.team_id = e.team_id
    WHERE e.deleted_at IS NULL
      AND ${withinReach(needs, caller)}
    LIMIT ${mostRows}`
  const rows = yield* Effect.orDie(selectEnvironments(sql, rest))
  const visible = rows.filter((row) => {
    const environment = VerifiedRows.namedEnvironment(row, macs)
    return environment !== null && Policy.environmentVisible(caller, environment)
  })
  const [only, ...others] = visible
  if (only === undefined || others.length > 0 || rows.length === mostRows) return null
  const { eId, eProjectId, eSlug, pSlug } = only
  const result: OnlyEnvironment = { projectId: eProjectId, project: pSlug, environmentId: eId, environment: eSlug }
  return result
})
