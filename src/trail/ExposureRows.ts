/** Rows of the exposure index, shared by several reports. */
import type * as SqlClient from "@effect/sql/SqlClient"
import type { Fragment } from "@effect/sql/Statement"
import type { ExposureQuery } from "#schema/ExposureApi.ts"

/**
 * Rows of `exposure_reads r` with their actor `a` and, for a credential, its owner `o`. The actor of a value that an
 * approver let pass is its proposer `q`. A cut trail may name the proposer by address alone.
 */
export const rowsWithActors = `exposure_reads r
  LEFT JOIN exposure_credentials q ON q.id = r.actor_id AND r.actor_type = 'change_request',
  LATERAL (SELECT coalesce(q.owner_type, CASE r.actor_type WHEN 'change_request' THEN 'user' ELSE r.actor_type END) AS type,
    coalesce(q.owner_id, r.actor_id) AS id, coalesce(q.owner_name, r.actor_name) AS name) AS a
  LEFT JOIN exposure_credentials o ON o.id = a.id`

/** The holder of a row. */
export const holderColumns = `CASE WHEN held.own THEN o.owner_type ELSE a.type END AS holder_type,
  CASE WHEN held.own THEN o.owner_id ELSE a.id END AS holder_id,
  CASE WHEN held.own THEN o.owner_name ELSE a.name END AS holder_name,
  CASE WHEN a.type = 'oauth_client' THEN o.owner_name END AS person
  FROM ${rowsWithActors}, LATERAL (SELECT o.id IS NOT NULL AND a.type IN ('cli_grant', 'api_token') AS own) AS held`

/** The scope of a report. `key` limits it to one secret. */
export interface ReportScope extends ExposureQuery {
  readonly rows: Fragment
  readonly key?: string
}

/** A person's name in the trail is the address, or "address (by Team)": an address finds both. */
const isNamed = (sql: SqlClient.SqlClient, column: "a.name" | "o.owner_name", by: string) =>
  by.includes("@")
    ? sql`lower(${by}) IN (lower(${sql.literal(column)}), split_part(lower(${sql.literal(column)}), ' ', 1))`
    : sql`lower(${sql.literal(column)}) = lower(${by})`

/**
 * Rows of the index with their holders. A CLI grant counts as its person, a CI job's token as its rule. For a connected
 * agent, the row also names its person.
 */
export const rowsOf = (sql: SqlClient.SqlClient, { by, key, rows, since, token }: ReportScope) => {
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
          sql`((a.type = 'api_token' AND (a.id = ${token} OR a.name = ${token}))
            OR (o.owner_type = 'machine_rule' AND (o.owner_id = ${token} OR o.owner_name = ${token})))`
        ]),
    ...(by === undefined
      ? []
      : [
          sql`((a.type IN ('user', 'cli_grant') AND (a.id = ${by} OR ${isNamed(sql, "a.name", by)}))
            OR (o.owner_type = 'user' AND (o.owner_id = ${by} OR ${isNamed(sql, "o.owner_name", by)})))`
        ])
  ]
  return sql`
    SELECT r.id, r.environment_id, r.keys, r.key_list, r.versions, r.revision, r.way, r.via, r.ip, r.first_at, r.last_at,
      r.count, ${sql.literal(holderColumns)} WHERE ${sql.and(conditions)}`
}

/** Most pairs of a row and a key in a report of a whole project, latest first. */
const maxPairs = 100_000
/** Pairs that a backup counts as, since it contains every key. */
const pairsOfBackup = 5_000

/** The latest rows, and whether each is within the bound. Every row has at least one pair, so the LIMIT suffices. */
export const countedRows = (sql: SqlClient.SqlClient, scope: ReportScope, limit = maxPairs) => sql`
  SELECT c.*, sum(c.pairs) OVER (ORDER BY c.last_at DESC, c.id) <= ${limit} AS within FROM (
    SELECT r.*, CASE WHEN r.way = 'backup' THEN ${pairsOfBackup}::int
      ELSE greatest(1, cardinality(r.keys), coalesce(cardinality(l.keys), 0)) END AS pairs
    FROM (
      SELECT f.* FROM (${rowsOf(sql, scope)}) AS f ORDER BY f.last_at DESC, f.id LIMIT ${limit + 1}
    ) AS r LEFT JOIN audit_key_lists l ON l.hash = r.key_list
  ) AS c`

/** All rows of one secret, or the latest ones of a project, which bounds the time of a report. */
const boundedRows = (sql: SqlClient.SqlClient, scope: ReportScope) =>
  scope.key === undefined
    ? sql`
      counted AS MATERIALIZED (${countedRows(sql, scope)}),
      rows AS NOT MATERIALIZED (SELECT * FROM counted WHERE within)`
    : sql`rows AS MATERIALIZED (${rowsOf(sql, scope)})`

/**
 * Each key of each row with its version, from the entry or from the revision. A backup contains every version written
 * before it. Null: unknown.
 */
export const exposedRows = (sql: SqlClient.SqlClient, scope: ReportScope) => {
  const only = (column: string) => (scope.key === undefined ? sql`true` : sql`${sql(column)} = ${scope.key}`)
  return sql`
    ${boundedRows(sql, scope)},
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

/** The kind of a holder. A value that a model saw or wrote counts as an agent's. */
export const kindOf =
  "CASE WHEN holder_type = 'oauth_client' OR way = 'model' OR (way = 'wrote' AND via = 'mcp') THEN 'agent' ELSE holder_type END"

/** Counts holders of each kind that meet a condition. */
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
