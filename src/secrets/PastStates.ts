/** Past states of an environment from the rows that are kept: names and versions. No box is opened here. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { type EnvironmentId, EnvironmentIdOut, type ProjectId, type SecretId, SecretIdOut } from "#schema/Ids.ts"
import type { EnvironmentTarget } from "#src/access/Target.ts"
import * as Rows from "#src/database/Rows.ts"
import type { SealedRow } from "./SecretRows.ts"

/** A secret then and now. `version`: null when the plan of the team did not keep the version of then. */
const PastRow = Schema.Struct({
  id: SecretIdOut,
  key: Schema.String,
  version: Schema.NullOr(Schema.Number),
  currentKey: Schema.String,
  currentVersion: Schema.Number,
  isLive: Schema.Boolean
})
export type Past = typeof PastRow.Type

/** A version of a secret. */
export interface At {
  readonly id: SecretId
  readonly version: number
}

const NowRow = Schema.Struct({
  revision: Schema.Number,
  live: Schema.Array(Schema.Struct({ id: SecretIdOut, key: Schema.String, version: Schema.Number })),
  /** Purged keys: only their names are kept. */
  purged: Schema.Array(Schema.String)
})

/** The current environment: all that a moment is compared with, at one revision. */
export const current = (sql: SqlClient.SqlClient, { environmentId }: EnvironmentTarget) =>
  Rows.single(
    NowRow,
    sql`
      SELECT e.revision,
        coalesce((SELECT json_agg(json_build_object('id', s.id, 'key', s.key, 'version', s.version) ORDER BY s.key)
          FROM secrets s WHERE s.environment_id = e.id AND s.deleted_at IS NULL), '[]') AS live,
        ARRAY(SELECT c.key FROM secret_counters c WHERE c.environment_id = e.id
          AND NOT EXISTS (SELECT 1 FROM secrets s WHERE s.environment_id = e.id AND s.key = c.key)
          AND NOT EXISTS (SELECT 1 FROM secrets s JOIN secret_versions v ON v.secret_id = s.id AND v.key = c.key
            WHERE s.environment_id = e.id)
          ORDER BY c.key LIMIT 1000) AS purged
      FROM environments e WHERE e.id = ${environmentId}`
  )

/** Secrets that existed at `at`, by their key then. */
export const statesAt = (sql: SqlClient.SqlClient, { environmentId }: EnvironmentTarget, at: Date) =>
  Effect.map(
    Rows.findAll(
      PastRow,
      sql`
        SELECT s.id, coalesce(v.key, s.key) AS key, v.version, s.key AS current_key, s.version AS current_version,
          s.deleted_at IS NULL AS is_live
        FROM secrets s LEFT JOIN LATERAL (
          SELECT v.version, v.key FROM secret_versions v WHERE v.secret_id = s.id AND v.created_at <= ${at}
          ORDER BY v.version DESC LIMIT 1
        ) AS v ON true
        WHERE s.environment_id = ${environmentId} AND s.created_at <= ${at}
          AND (s.deleted_at IS NULL OR s.deleted_at > ${at})
          AND NOT EXISTS (SELECT 1 FROM secret_absences a
            WHERE a.secret_id = s.id AND a.from_at <= ${at} AND a.to_at > ${at})
        ORDER BY s.created_at`
    ),
    (rows) => new Map(rows.map((row) => [row.key, row]))
  )

/** The boxes of these versions, each under the key that it was sealed under. */
export const boxes = (sql: SqlClient.SqlClient, { environmentId }: EnvironmentTarget, wanted: ReadonlyArray<At>) =>
  Effect.orDie(sql<SealedRow & { readonly pinned: boolean }>`
    SELECT s.id, coalesce(v.key, s.key) AS key, v.kind, v.version, s.created_at, s.updated_at, v.data_key_id, v.sealed,
      v.pinned
    FROM unnest(${wanted.map(({ id }) => id)}::uuid[], ${wanted.map(({ version }) => version)}::int[]) AS w (id, version)
    JOIN secrets s ON s.id = w.id AND s.environment_id = ${environmentId}
    JOIN secret_versions v ON v.secret_id = s.id AND v.version = w.version`)

// --- one write, and before it ---

/** A write of one environment, as its audit entry has it: keys, and their versions after it. */
export interface WriteEntry {
  readonly id: string
  readonly action: string
  readonly environmentId: EnvironmentId
  readonly keys: ReadonlyArray<string>
  readonly versions: ReadonlyArray<number>
}

const EnvironmentRow = Schema.Struct({ id: EnvironmentIdOut })
export const environmentsOf = (sql: SqlClient.SqlClient, projectId: ProjectId) =>
  Effect.map(
    Rows.findAll(
      EnvironmentRow,
      sql`SELECT id FROM environments WHERE project_id = ${projectId} AND deleted_at IS NULL LIMIT 1000`
    ),
    (rows) => new Set(rows.map(({ id }) => id))
  )

const StandingRow = Schema.Struct({ id: Schema.String, at: Schema.DateFromSelf })

/** The state after each of these writes; a deletion leaves none, and can be restored. */
const kinds: ReadonlyMap<string, "written" | "restored" | "deleted"> = new Map([
  ["secret.create", "written"],
  ["secret.update", "written"],
  ["secret.rollback", "written"],
  ["secret.restore", "restored"],
  ["secret.delete", "deleted"]
])
/** Keys of one entry at most. A larger write is taken back by a moment. */
const maxKeys = 500

const isWrite = ({ action, keys, versions }: Pick<WriteEntry, "action" | "keys" | "versions">): boolean =>
  kinds.has(action) && keys.length > 0 && keys.length <= maxKeys && keys.length === versions.length

/** The writes whose keys have not changed since, with their times. */
export const unchangedSince = (sql: SqlClient.SqlClient, entries: ReadonlyArray<WriteEntry>) => {
  const parts = entries
    .filter(isWrite)
    .flatMap(({ action, environmentId, id, keys, versions }) =>
      keys.map((key, i) => ({ id, kind: kinds.get(action) ?? "", environmentId, key, version: versions[i] }))
    )
  return Effect.map(
    Rows.findAll(
      StandingRow,
      sql`
        WITH parts AS (
          SELECT * FROM unnest(${parts.map(({ id }) => id)}::uuid[], ${parts.map(({ kind }) => kind)}::text[],
            ${parts.map(({ environmentId }) => environmentId)}::uuid[], ${parts.map(({ key }) => key)}::text[],
            ${parts.map(({ version }) => version)}::int[]) AS p (id, kind, environment_id, key, version)
        ), found AS (
          SELECT p.id, p.key, CASE p.kind
            WHEN 'deleted' THEN (
              SELECT max(s.deleted_at) FROM secrets s
              WHERE s.environment_id = p.environment_id AND s.key = p.key AND s.version = p.version
                AND s.deleted_at IS NOT NULL AND NOT EXISTS (
                  SELECT 1 FROM secrets l
                  WHERE l.environment_id = p.environment_id AND l.key = p.key AND l.deleted_at IS NULL))
            WHEN 'restored' THEN (
              SELECT max(a.to_at) FROM secrets s JOIN secret_absences a ON a.secret_id = s.id
              WHERE s.environment_id = p.environment_id AND s.key = p.key AND s.version = p.version
                AND s.deleted_at IS NULL)
            ELSE (
              SELECT v.created_at FROM secrets s JOIN secret_versions v ON v.secret_id = s.id AND v.version = s.version
              WHERE s.environment_id = p.environment_id AND s.key = p.key AND s.version = p.version
                AND s.deleted_at IS NULL
                -- Two writes of one millisecond: no moment lies between them.
                AND NOT EXISTS (SELECT 1 FROM secret_versions w
                  WHERE w.secret_id = s.id AND w.version < v.version AND w.created_at >= v.created_at))
            END AS at
          FROM parts p
        )
        SELECT id, min(at) AS at FROM found GROUP BY id HAVING count(at) = count(*) AND min(at) = max(at)`
    ),
    (rows) => new Map(rows.map(({ at, id }) => [id, at]))
  )
}
