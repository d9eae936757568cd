/**
 * Current values that one person, token or login received or typed, and those that it did not, from the index of the
 * trail.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Schema from "effect/Schema"
import { currentWays } from "#schema/ExposureWays.ts"
import type { TeamId } from "#schema/Ids.ts"
import * as Rows from "#src/database/Rows.ts"
import { rowsWithActors } from "./ExposureRows.ts"

export interface Subject {
  readonly type: "person" | "token" | "grant"
  readonly id: string
  readonly name: string
}

/** Limit of live secrets in one report, against abuse. */
const maxSecrets = 50_000

/** Of `rowsWithActors`. A proposer whom a cut trail names by address alone is the person who has it. */
const isHolder = (sql: SqlClient.SqlClient, { id, name, type }: Subject) => {
  switch (type) {
    case "person":
      return sql`((a.type = 'user' AND a.id = ${id}) OR (o.owner_type = 'user' AND o.owner_id = ${id})
        OR (r.actor_type = 'change_request' AND q.id IS NULL AND lower(a.name) = lower(${name})))`
    case "token":
      return sql`((a.type = 'api_token' AND a.id = ${id})
        OR (o.owner_type = 'machine_rule' AND o.owner_id = ${id}))`
    case "grant":
      return sql`(a.type IN ('cli_grant', 'oauth_client') AND a.id = ${id})`
  }
}

const CurrentRow = Schema.Struct({
  secretId: Schema.String,
  projectId: Schema.String,
  project: Schema.String,
  environmentId: Schema.String,
  environment: Schema.String,
  protected: Schema.Boolean,
  key: Schema.String,
  version: Schema.Number,
  uses: Schema.Array(Schema.String),
  /** Null: it was not handed out. */
  count: Schema.NullOr(Schema.Number),
  firstAt: Schema.NullOr(Rows.Iso),
  lastAt: Schema.NullOr(Rows.Iso),
  certain: Schema.NullOr(Schema.Boolean),
  ways: Schema.NullOr(Schema.Array(Schema.String)),
  inferred: Schema.NullOr(Schema.Boolean)
})

/**
 * Every live secret of the team: exposed ones first, protected ones before others, most read first. A read with a
 * revision had the current version if that version was written by then. Some versions carry over an earlier text: by
 * rollback, restore, rename, or a template that follows a rename. They count as exposed if any earlier version was,
 * under any key, because the trail does not record which text it was. `inferred`: it was inside of a composed value that
 * was handed out before the trail named such secrets, and nothing else says that it was handed out.
 */
export const currentOf = (
  sql: SqlClient.SqlClient,
  at: { readonly teamId: TeamId; readonly subject: Subject; readonly since: string | null }
) => {
  const places = sql`SELECT id FROM environments WHERE team_id = ${at.teamId} AND deleted_at IS NULL`
  return Rows.findAll(
    CurrentRow,
    sql`
      WITH RECURSIVE rows AS MATERIALIZED (
        SELECT r.id, r.environment_id, r.keys, r.key_list, r.versions, r.revision, r.way, r.certain, r.first_at,
          r.last_at, r.count, NOT r.certain AND r.way <> 'wrote' AS inferred
        FROM ${sql.literal(rowsWithActors)}
        WHERE r.project_id IN (SELECT id FROM projects WHERE team_id = ${at.teamId})
          AND r.way = ANY(${currentWays}::text[])
          AND (${at.since}::timestamptz IS NULL OR r.last_at >= ${at.since}::timestamptz)
          AND ${isHolder(sql, at.subject)}
      ),
      named AS (
        SELECT r.*, k.key, k.version FROM rows r, unnest(r.keys, r.versions) AS k (key, version)
        UNION ALL
        SELECT r.*, k.key, NULL FROM rows r JOIN audit_key_lists l ON l.hash = r.key_list, unnest(l.keys) AS k (key)
      ),
      carried AS MATERIALIZED (
        SELECT w.environment_id, w.key, w.revision, w.version,
          coalesce(w.carried_from, CASE WHEN r.revision IS NOT NULL AND w.version > 0 THEN w.key END) AS carried_from
        FROM exposure_writes w
        LEFT JOIN (SELECT DISTINCT environment_id, revision FROM exposure_writes
          WHERE version = 0 AND carried_from IS NOT NULL AND environment_id IN (${places})) AS r USING (environment_id, revision)
        WHERE w.environment_id IN (${places})
          AND (w.carried_from IS NOT NULL OR r.revision IS NOT NULL)
      ),
      current AS MATERIALIZED (
        SELECT s.id, s.environment_id, s.key, s.version, w.written, w.carried_from
        FROM secrets s JOIN environments e ON e.id = s.environment_id
        CROSS JOIN LATERAL (
          SELECT min(w.revision) AS written,
            CASE WHEN bool_and(c.carried_from IS NOT NULL) THEN min(c.carried_from) END AS carried_from
          FROM exposure_writes w LEFT JOIN carried c USING (environment_id, key, revision)
          WHERE w.environment_id = s.environment_id AND w.key = s.key AND w.version = s.version
        ) AS w
        WHERE e.team_id = ${at.teamId} AND e.deleted_at IS NULL AND s.deleted_at IS NULL
      ),
      earlier AS (
        SELECT c.id, c.environment_id, c.carried_from AS key, c.version FROM current c WHERE c.carried_from IS NOT NULL
        UNION
        SELECT f.id, f.environment_id, w.carried_from, f.version
        FROM earlier f JOIN carried w ON w.environment_id = f.environment_id AND w.key = f.key
          AND w.version < f.version AND w.version > 0
      ),
      had AS (
        SELECT c.id, n.id AS read, n.way, n.first_at, n.last_at, n.count, n.inferred,
          n.certain AND (n.version IS NOT NULL OR (n.revision IS NOT NULL AND c.written IS NOT NULL)) AS certain
        FROM current c JOIN named n ON n.environment_id = c.environment_id AND n.key = c.key
        WHERE n.version = c.version
          OR (n.version IS NULL AND (n.revision IS NULL OR c.written IS NULL OR n.revision >= c.written))
        UNION ALL
        SELECT f.id, n.id, n.way, n.first_at, n.last_at, n.count, n.inferred, false
        FROM earlier f JOIN named n ON n.environment_id = f.environment_id AND n.key = f.key
        WHERE n.version IS NULL OR n.version < f.version
      ),
      each AS (
        SELECT id, read, way, first_at, last_at, count, inferred, bool_or(certain) AS certain FROM had
        GROUP BY id, read, way, first_at, last_at, count, inferred
      ),
      handed AS (
        SELECT h.id, min(h.first_at) AS first_at, max(h.last_at) AS last_at, sum(h.count)::float8 AS count,
          bool_or(h.certain) AS certain, array_agg(DISTINCT h.way ORDER BY h.way) AS ways, bool_and(h.inferred) AS inferred
        FROM each h WHERE NOT h.inferred OR h.id NOT IN (SELECT e.id FROM each e WHERE NOT e.inferred) GROUP BY h.id
      )
      SELECT s.id AS secret_id, p.id AS project_id, p.name AS project, e.id AS environment_id, e.slug AS environment,
        e.protected, s.key, s.version, v.refs AS uses, h.count, h.first_at, h.last_at, h.certain, h.ways, h.inferred
      FROM secrets s
      JOIN secret_versions v ON v.secret_id = s.id AND v.version = s.version
      JOIN environments e ON e.id = s.environment_id AND e.deleted_at IS NULL
      JOIN projects p ON p.id = e.project_id AND p.deleted_at IS NULL
      LEFT JOIN handed h ON h.id = s.id
      WHERE e.team_id = ${at.teamId} AND s.deleted_at IS NULL
      ORDER BY h.id IS NULL, e.protected DESC, h.count DESC, p.name, e.slug, s.key LIMIT ${maxSecrets}`
  )
}
