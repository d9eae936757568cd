/**
 * Current values that one person, token or login was handed, and those that it was not: out of the index of the trail,
 * and out of the trail itself what replaced them since.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { TeamId } from "#schema/Ids.ts"
import { type Exposed, replacing } from "#src/audit/Incident.ts"
import * as Rows from "#src/Rows.ts"
import * as TrailIndex from "./TrailIndex.ts"

export interface Subject {
  readonly type: "person" | "token" | "grant"
  readonly id: string
  readonly name: string
}

/** Live secrets of a team that one report looks at: an abuse limit. */
export const secretsAtMost = 50_000

const handedTo = (sql: SqlClient.SqlClient, { id, type }: Subject) => {
  switch (type) {
    case "person":
      return sql`((r.actor_type = 'user' AND r.actor_id = ${id}) OR (o.owner_type = 'user' AND o.owner_id = ${id}))`
    case "token":
      return sql`((r.actor_type = 'api_token' AND r.actor_id = ${id})
        OR (o.owner_type = 'machine_rule' AND o.owner_id = ${id}))`
    case "grant":
      return sql`(r.actor_type IN ('cli_grant', 'oauth_client') AND r.actor_id = ${id})`
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
  certain: Schema.NullOr(Schema.Boolean)
})
export type Current = typeof CurrentRow.Type

/**
 * Every live secret of the team: what was handed out first, of that protected ones, and those that were read most. A read
 * that names a revision had the current version when that version was written by then. A version that took an earlier
 * text over (rollback, restore, rename) counts as handed out when any earlier one was, under any key: the trail does not
 * say which text it was.
 */
export const currentOf = (
  sql: SqlClient.SqlClient,
  at: { readonly teamId: TeamId; readonly subject: Subject; readonly since: string | null }
) =>
  Rows.findAll(
    CurrentRow,
    sql`
      WITH RECURSIVE rows AS MATERIALIZED (
        SELECT r.environment_id, r.keys, r.key_list, r.versions, r.revision, r.first_at, r.last_at, r.count
        FROM exposure_reads r LEFT JOIN exposure_credentials o ON o.id = r.actor_id
        WHERE r.project_id IN (SELECT id FROM projects WHERE team_id = ${at.teamId}) AND r.way <> 'backup'
          AND (${at.since}::timestamptz IS NULL OR r.last_at >= ${at.since}::timestamptz)
          AND ${handedTo(sql, at.subject)}
      ),
      named AS (
        SELECT r.*, k.key, k.version FROM rows r, unnest(r.keys, r.versions) AS k (key, version)
        UNION ALL
        SELECT r.*, k.key, NULL FROM rows r JOIN audit_key_lists l ON l.hash = r.key_list, unnest(l.keys) AS k (key)
      ),
      current AS MATERIALIZED (
        SELECT s.id, s.environment_id, s.key, s.version, w.written, w.carried_from
        FROM secrets s JOIN environments e ON e.id = s.environment_id
        CROSS JOIN LATERAL (
          SELECT min(w.revision) AS written,
            CASE WHEN bool_and(w.carried_from IS NOT NULL) THEN min(w.carried_from) END AS carried_from
          FROM exposure_writes w
          WHERE w.environment_id = s.environment_id AND w.key = s.key AND w.version = s.version
        ) AS w
        WHERE e.team_id = ${at.teamId} AND s.deleted_at IS NULL
      ),
      earlier AS (
        SELECT c.id, c.environment_id, c.carried_from AS key, c.version FROM current c WHERE c.carried_from IS NOT NULL
        UNION
        SELECT f.id, f.environment_id, w.carried_from, f.version
        FROM earlier f JOIN exposure_writes w ON w.environment_id = f.environment_id AND w.key = f.key
          AND w.version < f.version AND w.carried_from IS NOT NULL
      ),
      had AS (
        SELECT c.id, n.first_at, n.last_at, n.count,
          n.version IS NOT NULL OR (n.revision IS NOT NULL AND c.written IS NOT NULL) AS certain
        FROM current c JOIN named n ON n.environment_id = c.environment_id AND n.key = c.key
        WHERE n.version = c.version
          OR (n.version IS NULL AND (n.revision IS NULL OR c.written IS NULL OR n.revision >= c.written))
        UNION ALL
        SELECT f.id, n.first_at, n.last_at, n.count, false
        FROM earlier f JOIN named n ON n.environment_id = f.environment_id AND n.key = f.key
        WHERE n.version IS NULL OR n.version < f.version
      ),
      handed AS (
        SELECT h.id, min(h.first_at) AS first_at, max(h.last_at) AS last_at, sum(h.count)::float8 AS count,
          bool_or(h.certain) AS certain
        FROM had h GROUP BY h.id
      )
      SELECT s.id AS secret_id, p.id AS project_id, p.name AS project, e.id AS environment_id, e.slug AS environment,
        e.protected, s.key, s.version, v.refs AS uses, h.count, h.first_at, h.last_at, h.certain
      FROM secrets s
      JOIN secret_versions v ON v.secret_id = s.id AND v.version = s.version
      JOIN environments e ON e.id = s.environment_id AND e.deleted_at IS NULL
      JOIN projects p ON p.id = e.project_id AND p.deleted_at IS NULL
      LEFT JOIN handed h ON h.id = s.id
      WHERE e.team_id = ${at.teamId} AND s.deleted_at IS NULL
      ORDER BY h.id IS NULL, e.protected DESC, h.count DESC, p.name, e.slug, s.key LIMIT ${secretsAtMost}`
  )

const ReplacedRow = Schema.Struct({
  environmentId: Schema.String,
  key: Schema.String,
  version: Schema.NullOr(Schema.Number),
  at: Rows.Iso,
  by: Schema.Struct({ type: Schema.String, id: Schema.String, name: Schema.String }),
  entry: Schema.String
})

/** An id is drawn just before the time of its entry. */
const idsBefore = 60_000

/** The first write after `openedAt` that gave each of these values another version, or deleted it. */
export const replacements = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  teamId: TeamId,
  openedAt: number,
  items: ReadonlyArray<Exposed>
) {
  const rows = yield* Rows.findAll(
    ReplacedRow,
    sql`
      WITH items AS (
        SELECT * FROM unnest(${items.map((one) => one.environmentId)}::uuid[], ${items.map((one) => one.key)}::text[],
          ${items.map((one) => one.version)}::int[]) AS i (environment_id, key, version)
      ),
      written AS MATERIALIZED (
        SELECT e.id, e.at, e.action, e.environment_id, e.body::jsonb AS b FROM audit_entries e
        WHERE e.team_id = ${teamId} AND e.id >= ${TrailIndex.lowestId(openedAt - idsBefore)}::uuid
          AND e.action = ANY(${replacing}::text[])
      )
      SELECT DISTINCT ON (w.environment_id, k.key) w.environment_id, k.key, w.at, w.id AS entry, w.b -> 'actor' AS by,
        CASE WHEN w.action = 'secret.delete' THEN NULL ELSE (w.b -> 'versions' ->> (k.i - 1)::int)::int END AS version
      FROM written w, jsonb_array_elements_text(w.b -> 'keys') WITH ORDINALITY AS k (key, i), items
      WHERE w.b ->> 'outcome' = 'allowed' AND items.environment_id = w.environment_id AND items.key = k.key
        AND (w.action = 'secret.delete' OR (w.b -> 'versions' ->> (k.i - 1)::int)::int > items.version)
      ORDER BY w.environment_id, k.key, w.at, w.id`
  )
  return new Map(rows.map(({ environmentId, key, ...replaced }) => [`${environmentId} ${key}`, replaced]))
})
