/**
 * Keys that protected environments of a team lack although other environments of the project have them. Names alone.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { EnvironmentIdOut, type ProjectId, type TeamId } from "#schema/Ids.ts"
import { Access } from "#src/access/Access.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"

const services = Effect.all({ access: Access, sql: SqlClient.SqlClient })
type Needs = Effect.Effect.Success<typeof services>

const maxFound = 10
const maxNamed = 3

const GapRow = Schema.Struct({
  environmentId: EnvironmentIdOut,
  total: Schema.Number,
  keys: Schema.Array(Schema.String)
})

/**
 * The environments with the most missing keys first: the number, and the first keys. A protected environment without
 * any key is not in use yet. `within`: only these projects.
 */
const missing = Effect.fn("Gaps.missing")(function* (
  { access, sql }: Needs,
  teamId: TeamId,
  within?: ReadonlyArray<ProjectId>
) {
  const permits = (yield* access.eachEnvironment("secrets:read", { audit: "secret.list" }, within)).filter(
    ({ target }) => target.teamId === teamId
  )
  const places = new Map(permits.map(({ target }) => [target.environmentId, target]))
  const rows = yield* Rows.findAll(
    GapRow,
    sql`
      WITH reached AS (
        SELECT * FROM unnest(
          ${permits.map(({ target }) => target.environmentId)}::uuid[],
          ${permits.map(({ target }) => target.projectId)}::uuid[],
          ${permits.map(({ target }) => target.protected)}::boolean[]
        ) AS r (id, project_id, guarded)
      )
      SELECT g.id AS environment_id, count(*)::int AS total,
        (array_agg(k.key ORDER BY k.key COLLATE "C"))[1:${sql.literal(String(maxNamed))}] AS keys
      FROM reached g CROSS JOIN LATERAL (
        SELECT s.key FROM reached o JOIN secrets s ON s.environment_id = o.id AND s.deleted_at IS NULL
        WHERE o.project_id = g.project_id AND NOT o.guarded
        EXCEPT SELECT s.key FROM secrets s WHERE s.environment_id = g.id AND s.deleted_at IS NULL) AS k
      WHERE g.guarded
        AND EXISTS (SELECT FROM secrets s WHERE s.environment_id = g.id AND s.deleted_at IS NULL)
      GROUP BY g.id ORDER BY total DESC, g.id LIMIT ${maxFound}`
  )
  return rows.flatMap(({ environmentId, keys, total }) => {
    const target = places.get(environmentId)
    return target === undefined ? [] : [{ projectId: target.projectId, environment: target.slug, keys, total }]
  })
})

export class Gaps extends Effect.Service<Gaps>()("secrets/Gaps", {
  effect: Effect.map(services, (needs) => methods(needs, { missing }))
}) {}
