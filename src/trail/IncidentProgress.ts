/** Replacements and renames of values since an incident was opened, from the trail. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { TeamId } from "#schema/Ids.ts"
import { carryingActions, type ExposedLine, removingActions, replacingActions } from "#src/audit/Incident.ts"
import * as Rows from "#src/database/Rows.ts"
import * as TrailIndex from "./TrailIndex.ts"

/** A value at the time when its incident was opened. */
export interface IncidentItem extends Pick<ExposedLine, "environmentId" | "key" | "version"> {
  /** Milliseconds. */
  readonly openedAt: number
}

const ProgressRow = Schema.Struct({
  n: Schema.Number,
  renames: Schema.Array(Schema.Struct({ key: Schema.String, at: Schema.String, entry: Schema.String })),
  version: Schema.NullOr(Schema.Number),
  at: Schema.NullOr(Rows.Iso),
  by: Schema.NullOr(Schema.Struct({ type: Schema.String, id: Schema.String, name: Schema.String })),
  entry: Schema.NullOr(Schema.String)
})

/** Milliseconds: an id is generated just before the time of its entry. */
const idLeewayMillis = 60_000

/** Most renames of one secret to follow. */
const maxRenames = 100

const followedActions = [...replacingActions, ...carryingActions, "secret.rename"]

/**
 * For each value, the write that replaced or deleted it after its incident was opened. Later writes that brought an
 * earlier text back cancel it. It follows renames of the secret. One statement handles all incidents.
 */
export const progress = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  teamId: TeamId,
  items: ReadonlyArray<IncidentItem>
) {
  if (items.length === 0) return () => ({ renames: [], replaced: null })
  const first = items.reduce((least, { openedAt }) => Math.min(least, openedAt), Number.POSITIVE_INFINITY)
  const rows = yield* Rows.findAll(
    ProgressRow,
    sql`
      WITH RECURSIVE items AS MATERIALIZED (
        SELECT i.* FROM unnest(${items.map((one) => one.environmentId)}::uuid[], ${items.map((one) => one.key)}::text[],
          ${items.map((one) => one.version)}::int[],
          ${items.map((one) => new Date(one.openedAt - idLeewayMillis).toISOString())}::timestamptz[])
          WITH ORDINALITY AS i (environment_id, key, version, since, n)
      ),
      written AS MATERIALIZED (
        SELECT e.id, e.at, e.action, e.environment_id, e.body::jsonb AS b FROM audit_entries e
        WHERE e.team_id = ${teamId} AND e.id >= ${TrailIndex.lowestId(first - idLeewayMillis)}::uuid
          AND e.action = ANY(${followedActions}::text[])
      ),
      changed AS MATERIALIZED (
        SELECT w.id, w.at, w.action, w.environment_id, w.b -> 'actor' AS by, (w.b ->> 'revision')::bigint AS revision,
          k.key, k.i, (w.b -> 'versions' ->> (k.i - 1)::int)::int AS version, w.b -> 'keys' ->> 1 AS next_key,
          w.action = ANY(${carryingActions}::text[]) OR coalesce(w.b ->> 'earlier', '') = 'true' AS carries
        FROM written w, jsonb_array_elements_text(w.b -> 'keys') WITH ORDINALITY AS k (key, i)
        WHERE w.b ->> 'outcome' = 'allowed'
      ),
      renamed AS MATERIALIZED (SELECT * FROM changed WHERE action = 'secret.rename' AND i = 1),
      names AS (
        SELECT i.n, i.environment_id, i.key, i.version, i.since, 0 AS step, NULL::bigint AS revision, NULL::uuid AS entry,
          NULL::timestamptz AS at
        FROM items i
        UNION ALL
        SELECT s.n, s.environment_id, r.next_key, s.version, s.since, s.step + 1, r.revision, r.id, r.at
        FROM names s CROSS JOIN LATERAL (
          SELECT r.next_key, r.revision, r.id, r.at FROM renamed r
          WHERE r.environment_id = s.environment_id AND r.key = s.key AND s.step < ${maxRenames}::int
            AND CASE WHEN s.step = 0 THEN r.version >= s.version AND r.at >= s.since ELSE r.revision > s.revision END
          ORDER BY r.revision LIMIT 1
        ) AS r
      ),
      spans AS (SELECT *, lead(revision) OVER (PARTITION BY n ORDER BY step) AS until FROM names),
      happened AS (
        SELECT s.n, c.* FROM spans s JOIN changed c ON c.environment_id = s.environment_id AND c.key = s.key
        LEFT JOIN renamed same ON same.environment_id = c.environment_id AND same.revision = c.revision
        WHERE same.revision IS NULL AND c.action <> 'secret.rename' AND c.at >= s.since
          AND (s.revision IS NULL OR c.revision > s.revision) AND (s.until IS NULL OR c.revision < s.until)
          AND (s.step > 0 OR c.version > s.version OR (c.version = s.version AND c.action = ANY(${removingActions}::text[])))
      ),
      brought_back AS (
        SELECT n, max(revision) AS revision FROM happened WHERE carries GROUP BY n
      ),
      replaced AS (
        SELECT DISTINCT ON (h.n) h.n, h.at, h.by, h.id AS entry,
          CASE WHEN h.action = 'secret.delete' THEN NULL ELSE h.version END AS version
        FROM happened h LEFT JOIN brought_back b ON b.n = h.n
        WHERE h.action = ANY(${replacingActions}::text[]) AND NOT h.carries AND (b.revision IS NULL OR h.revision > b.revision)
        ORDER BY h.n, h.revision, h.id
      )
      SELECT i.n::float8 AS n, r.version, r.at, r.by, r.entry, coalesce(k.renames, '[]'::json) AS renames
      FROM items i LEFT JOIN replaced r ON r.n = i.n LEFT JOIN (
        SELECT n, json_agg(json_build_object('key', key, 'entry', entry,
          'at', to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')) ORDER BY step) AS renames
        FROM names WHERE step > 0 GROUP BY n
      ) AS k ON k.n = i.n
      WHERE r.n IS NOT NULL OR k.n IS NOT NULL`
  )
  const byItem = new Map(
    rows.map(({ at, by, entry, n, renames, version }) => {
      const replaced = at === null || by === null || entry === null ? null : { version, at, by, entry }
      return [n - 1, { renames, replaced }] as const
    })
  )
  /** Takes the index of the item in `items`. */
  return (i: number): Pick<ExposedLine, "replaced"> & { readonly renames: NonNullable<ExposedLine["renames"]> } =>
    byItem.get(i) ?? { renames: [], replaced: null }
})
