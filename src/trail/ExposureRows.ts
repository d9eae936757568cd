/** Rows of the index of who was handed what, as several questions read them. */
import type * as SqlClient from "@effect/sql/SqlClient"
import type { Fragment } from "@effect/sql/Statement"
import type { ExposureQuery } from "#schema/ExposureApi.ts"

/** Of `exposure_reads r`: who was handed it. */
export const holderColumns = `CASE WHEN held.own THEN o.owner_type ELSE r.actor_type END AS holder_type,
  CASE WHEN held.own THEN o.owner_id ELSE r.actor_id END AS holder_id,
  CASE WHEN held.own THEN o.owner_name ELSE r.actor_name END AS holder_name,
  CASE WHEN r.actor_type = 'oauth_client' THEN o.owner_name END AS person
  FROM exposure_reads r LEFT JOIN exposure_credentials o ON o.id = r.actor_id,
    LATERAL (SELECT o.id IS NOT NULL AND r.actor_type IN ('cli_grant', 'api_token') AS own) AS held`

/** What a report is about. `key`: of one secret alone. */
export interface Asked extends ExposureQuery {
  readonly rows: Fragment
  readonly key?: string
}

/**
 * Rows of the index with their holders: a CLI grant is its person, a token that a CI job was given is its rule. Who a
 * connected agent acts for is told beside it.
 */
export const rowsOf = (sql: SqlClient.SqlClient, { by, key, rows, since, token }: Asked) => {
  const conditions = [
    rows,
    ...(key === undefined
      ? []
      : [
          sql`(r.way = 'backup' OR r.keys @> ARRAY[${key}]::text[] OR r.key_list IN (
            SELECT hash FROM audit_key_lists WHERE keys @> ARRAY[${key}]::text[]))`
        ]),
    ...(since === undefined ? [] : [sql`r.last_at >= ${since}::timestamptz`]),
    ...(token === undefined
      ? []
      : [
          sql`((r.actor_type = 'api_token' AND (r.actor_id = ${token} OR r.actor_name = ${token}))
            OR (o.owner_type = 'machine_rule' AND (o.owner_id = ${token} OR o.owner_name = ${token})))`
        ]),
    ...(by === undefined
      ? []
      : [
          sql`((r.actor_type IN ('user', 'cli_grant') AND (r.actor_id = ${by} OR lower(r.actor_name) = lower(${by})))
            OR (o.owner_type = 'user' AND (o.owner_id = ${by} OR lower(o.owner_name) = lower(${by}))))`
        ])
  ]
  return sql`
    SELECT r.id, r.environment_id, r.keys, r.key_list, r.versions, r.revision, r.way, r.via, r.ip, r.first_at, r.last_at,
      r.count, ${sql.literal(holderColumns)} WHERE ${sql.and(conditions)}`
}

/** Pairs of a row and a key that a report of a whole project looks at: the latest. */
const pairsAtMost = 100_000
/** What a backup counts as: it holds every key. */
const pairsOfBackup = 5_000

/** The latest rows, and whether they and all later ones are within the bound: each has a pair, so no more are counted. */
export const countedRows = (sql: SqlClient.SqlClient, asked: Asked, atMost = pairsAtMost) => sql`
  SELECT c.*, sum(c.pairs) OVER (ORDER BY c.last_at DESC, c.id) <= ${atMost} AS within FROM (
    SELECT r.*, CASE WHEN r.way = 'backup' THEN ${pairsOfBackup}::int
      ELSE greatest(1, cardinality(r.keys), coalesce(cardinality(l.keys), 0)) END AS pairs
    FROM (
      SELECT f.* FROM (${rowsOf(sql, asked)}) AS f ORDER BY f.last_at DESC, f.id LIMIT ${atMost + 1}
    ) AS r LEFT JOIN audit_key_lists l ON l.hash = r.key_list
  ) AS c`

/** All rows of one secret; of a busy project the latest, so that no report takes longer than its bound. */
const boundedRows = (sql: SqlClient.SqlClient, asked: Asked) =>
  asked.key === undefined
    ? sql`
      counted AS MATERIALIZED (${countedRows(sql, asked)}),
      rows AS NOT MATERIALIZED (SELECT * FROM counted WHERE within)`
    : sql`rows AS MATERIALIZED (${rowsOf(sql, asked)})`

/**
 * Each key of each row with its version: as the entry names it, or as it was at the revision. A backup holds every version
 * that was written up to it. Null: not known.
 */
export const handedOut = (sql: SqlClient.SqlClient, asked: Asked) => {
  const only = (column: string) => (asked.key === undefined ? sql`true` : sql`${sql(column)} = ${asked.key}`)
  return sql`
    ${boundedRows(sql, asked)},
    lists AS MATERIALIZED (
      SELECT l.hash, k.key FROM audit_key_lists l, unnest(l.keys) AS k (key)
      WHERE l.hash IN (SELECT key_list FROM rows) AND ${only("k.key")}
    ),
    named AS (
      SELECT r.*, k.key, k.version FROM rows r, unnest(r.keys, r.versions) AS k (key, version) WHERE ${only("k.key")}
      UNION ALL SELECT r.*, l.key, NULL FROM rows r JOIN lists l ON l.hash = r.key_list
    ),
    exposed AS MATERIALIZED (
      SELECT n.environment_id, n.way, n.via, n.holder_type, n.holder_id, n.holder_name, n.person, n.ip, n.first_at,
        n.last_at, n.count, n.key, nullif(coalesce(n.version, w.version), 0) AS version
      FROM named n LEFT JOIN LATERAL (
        SELECT w.version FROM exposure_writes w
        WHERE w.environment_id = n.environment_id AND w.key = n.key AND w.revision <= n.revision AND n.version IS NULL
        ORDER BY w.revision DESC LIMIT 1
      ) AS w ON true
      UNION ALL
      SELECT DISTINCT ON (r.id, w.key, w.version) r.environment_id, r.way, r.via, r.holder_type, r.holder_id, r.holder_name,
        r.person, r.ip, r.first_at, r.last_at, r.count, w.key, w.version
      FROM rows r JOIN exposure_writes w
        ON w.environment_id = r.environment_id AND w.revision <= r.revision AND w.version > 0 AND ${only("w.key")}
      WHERE r.way = 'backup'
    )`
}

/** What a holder counts as: a value that was shown to a model is an agent's. */
export const kindOf = "CASE WHEN holder_type = 'oauth_client' OR way = 'model' THEN 'agent' ELSE holder_type END"

/** How many of each kind, of those where a condition holds. */
export const countsOf = (where: string): string =>
  `json_build_object(${[
    ["people", "kind IN ('user', 'cli_grant')"],
    ["tokens", "kind = 'api_token'"],
    ["agents", "kind = 'agent'"],
    ["rules", "kind = 'machine_rule'"],
    ["backups", "kind = 'backup'"]
  ]
    .map(([name, is]) => `'${name}', count(*) FILTER (WHERE ${is} AND ${where})`)
    .join(", ")})`
