/** Counts who has the current versions of an environment's secrets, for a list. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { ExposedVersion, type ExposureCounts } from "#schema/ExposureApi.ts"
import { currentWays } from "#schema/ExposureWays.ts"
import type { EnvironmentId, ProjectId } from "#schema/Ids.ts"
import * as Rows from "#src/database/Rows.ts"
import { countedRows, countsOf, kindOf } from "./ExposureRows.ts"

/** Most pairs of a read and a key that a list examines, latest first. Beyond it, counts are lower bounds. */
const maxPairs = 20_000

const HoldersRow = Schema.Struct({ key: Schema.String, counts: ExposedVersion.fields.handedTo, all: Schema.Boolean })

export interface Holders {
  readonly counts: ExposureCounts
  /** False: earlier reads, not examined, may add to the counts. */
  readonly all: boolean
}

/** A read with a revision had the current version if that version was written by then. */
export const ofCurrent = (
  sql: SqlClient.SqlClient,
  at: { readonly projectId: ProjectId; readonly environmentId: EnvironmentId },
  secrets: ReadonlyArray<{ readonly key: string; readonly version: number }>
): Effect.Effect<ReadonlyMap<string, Holders>> =>
  Effect.map(
    Rows.findAll(
      HoldersRow,
      sql`
        WITH current AS MATERIALIZED (
          SELECT s.key, s.version, (SELECT min(w.revision) FROM exposure_writes w
            WHERE w.environment_id = ${at.environmentId} AND w.key = s.key AND w.version = s.version) AS written
          FROM unnest(${secrets.map(({ key }) => key)}::text[], ${secrets.map(({ version }) => version)}::integer[]) AS s (key, version)
        ),
        counted AS MATERIALIZED (${countedRows(
          sql,
          {
            rows: sql`r.project_id = ${at.projectId} AND r.environment_id = ${at.environmentId}
              AND r.way = ANY(${currentWays}::text[])`
          },
          maxPairs
        )}),
        named AS (
          SELECT r.*, k.key, k.version FROM counted r, unnest(r.keys, r.versions) AS k (key, version) WHERE r.within
          UNION ALL
          SELECT r.*, k.key, NULL FROM counted r JOIN audit_key_lists l ON l.hash = r.key_list, unnest(l.keys) AS k (key)
          WHERE r.within
        ),
        had AS (
          SELECT DISTINCT c.key, n.holder_id, ${sql.literal(kindOf)} AS kind
          FROM current c LEFT JOIN named n ON n.key = c.key COLLATE "C"
            AND (n.version = c.version OR (n.version IS NULL AND n.revision >= c.written))
        )
        SELECT key, ${sql.literal(countsOf("true"))} AS counts, (SELECT bool_and(within) FROM counted) IS NOT FALSE AS all
        FROM had GROUP BY key`
    ),
    (rows) => new Map(rows.map(({ all, counts, key }) => [key, { all, counts }]))
  )
