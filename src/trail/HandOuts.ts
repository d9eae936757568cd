/**
 * Hand-outs of values, from entries of the trail: the SQL of `ExposureIndex.ts` that says who received what, and by which
 * way. `src/audit/ExposureHistory.ts` says the same without a database.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import type { Fragment } from "@effect/sql/Statement"
import type { Way } from "#schema/ExposureWays.ts"
import * as Values from "#src/audit/Values.ts"

/** Actions that hand out values, and actions that name the owner of a credential or the author of a proposal. */
export const readActions = ["secret.inject", "secret.read", "secret.list_values", "sealed.open", "backup.create"]
export const ownerActions = ["grant.issue", "oauth.consent", "machine.exchange", "change.request"]
/**
 * The way a value was handed out: the first condition that holds. A value over MCP is in the context of a model. A
 * copied value went to the environment that the entry names. Only its creator knows the versions in a sealed file.
 */
const wayConditions: Readonly<Record<Way, string>> = {
  backup: "action = 'backup.create'",
  wrote: `action IN (${Values.textActions.map((action) => `'${action}'`).join(", ")})`,
  opened: "action = 'sealed.open'",
  sealed: "b #>> '{target,type}' = 'sealing_key'",
  copy: "b #>> '{target,type}' = 'environment'",
  model: "b ->> 'via' = 'mcp'",
  inject: "action = 'secret.inject'",
  read: "true"
}
const wayOf = (sql: SqlClient.SqlClient) =>
  sql.literal(
    `CASE ${Object.entries(wayConditions)
      .map(([way, holds]) => `WHEN ${holds} THEN '${way}'`)
      .join(" ")} END`
  )

/** Entries of hand-outs. An entry of an earlier release does not say whether its author typed the text. */
const isHandOut = (sql: SqlClient.SqlClient, actions: ReadonlyArray<string>, withWrites: Fragment) => sql`
  action = ANY(${actions}::text[]) AND b ? 'environmentId' AND b ? 'project'
    AND (NOT (${sql.literal(wayConditions.wrote)})
      OR (${withWrites} AND b ? 'versions' AND coalesce(b ->> 'typed', 'true') = 'true'))`

/** Reads of an earlier release: their entries name neither versions nor the secrets inside of composed values. */
const isBare = `((action IN ('secret.inject', 'secret.read', 'secret.list_values')
    AND NOT b ?| '{versions,revision,contains}'::text[] AND coalesce(b #>> '{target,type}', '') <> 'environment')
  OR (action = 'sealed.open' AND NOT b ? 'contains'))`

/**
 * References of secrets in the environments of bare reads, each since its first version that is kept. The trail does not
 * have them.
 */
const references = (sql: SqlClient.SqlClient) => sql`
  uses AS MATERIALIZED (
    SELECT s.environment_id, coalesce(v.key, s.key) AS key, u.used, min(v.created_at) AS since
    FROM secrets s JOIN secret_versions v ON v.secret_id = s.id, unnest(v.refs) AS u (used)
    WHERE s.environment_id IN (SELECT (b ->> 'environmentId')::uuid FROM entries WHERE ${sql.literal(isBare)})
    GROUP BY 1, 2, 3
  )`

export interface HandOutOptions {
  readonly actions: ReadonlyArray<string>
  /** A condition on counting authors, and what is inside of bare reads. */
  readonly withWrites: Fragment
  /** The reads of these entries are indexed already: they lack what `withWrites` is about. */
  readonly isAgain: boolean
}

/** Keys inside of the composed values of a bare read `r`, as the references were at the time. */
const insideBare = (sql: SqlClient.SqlClient, { withWrites }: HandOutOptions) => sql`
  WITH RECURSIVE own AS (
    SELECT key COLLATE "C" AS key FROM jsonb_array_elements_text(r.b -> 'keys') AS k (key)
    UNION SELECT unnest(l.keys) COLLATE "C" FROM audit_key_lists l WHERE l.hash = r.key_list
  ), needed (key) AS (
    SELECT key FROM own
    UNION SELECT u.used COLLATE "C" FROM needed n JOIN uses u
      ON u.environment_id = r.environment_id AND u.key = n.key AND u.since <= r.last_at
  )
  SELECT key FROM needed WHERE r.bare AND ${withWrites} AND key NOT IN (SELECT key FROM own)`

/**
 * Reads that differ only in time and origin form one row, grouped before anything else. Secrets inside composed values
 * form a row of their own. A typed value is handed to the author: of an approved change, that is the proposer.
 */
const readRows = (sql: SqlClient.SqlClient, options: HandOutOptions) => sql`
  SELECT sha256(convert_to((jsonb_build_array(r.environment_id, h.keys, r.key_list, h.versions, h.revision, r.way, r.via,
      r.actor ->> 'type', r.actor ->> 'id') || CASE WHEN h.certain THEN '[]' ELSE '[false]' END::jsonb)::text, 'UTF8')) AS id,
    r.project_id, r.environment_id, r.way, r.via, r.ip, r.first_at, r.last_at, r.count, h.certain, h.keys, h.versions,
    h.revision, CASE WHEN h.inside THEN NULL ELSE r.key_list END AS list,
    r.actor ->> 'type' AS actor_type, r.actor ->> 'id' AS actor_id, coalesce(r.actor ->> 'name', '') COLLATE "C" AS actor_name
  FROM (
    SELECT b, ip, first_at, last_at, count, (b ->> 'project')::uuid AS project_id,
      (b ->> 'environmentId')::uuid AS environment_id, decode(b ->> 'keyList', 'hex') AS key_list,
      ${wayOf(sql)} AS way, b ->> 'via' AS via, (b ? 'typed' OR NOT (${sql.literal(wayConditions.wrote)})) AS certain,
      ${sql.literal(isBare)} AS bare,
      -- A backup is handed to those who can open it.
      CASE WHEN action = 'backup.create'
        THEN jsonb_build_object('type', 'backup', 'id', b #>> '{target,id}', 'name', b #>> '{target,id}')
        WHEN ${sql.literal(wayConditions.wrote)} AND b #>> '{target,type}' = 'change_request' THEN b -> 'target'
        ELSE b -> 'actor' END AS actor
    FROM (
      SELECT action, b - '{at,id,ip,reason,requestId,seq,userAgent}'::text[] AS b, min(at) AS first_at, max(at) AS last_at,
        count(*) AS count, (array_agg(ip ORDER BY at DESC, ip DESC))[1] AS ip
      FROM (SELECT action, at, b, coalesce(b ->> 'ip', '') COLLATE "C" AS ip FROM entries) AS each
      WHERE ${isHandOut(sql, options.actions, options.withWrites)}
      GROUP BY 1, 2
    ) AS alike
  ) AS r, LATERAL (
    SELECT false AS inside, r.certain, ARRAY(SELECT jsonb_array_elements_text(r.b -> 'keys')) AS keys,
      CASE WHEN r.way <> 'opened' AND r.b ? 'versions'
        THEN ARRAY(SELECT jsonb_array_elements_text(r.b -> 'versions')::integer) END AS versions,
      CASE WHEN r.way <> 'opened' AND NOT r.b ? 'versions' THEN (r.b ->> 'revision')::bigint END AS revision
    WHERE r.way = 'wrote' OR NOT ${options.isAgain}::boolean
    UNION ALL
    SELECT true, true, array_agg(key ORDER BY key),
      CASE WHEN r.way <> 'opened' THEN array_agg(value::integer ORDER BY key) END, NULL
    FROM jsonb_each_text(r.b -> 'contains') HAVING count(*) > 0 AND NOT ${options.isAgain}::boolean
    UNION ALL
    SELECT true, false, array_agg(i.key ORDER BY i.key), NULL, NULL FROM (${insideBare(sql, options)}) AS i HAVING count(*) > 0
  ) AS h`

/** Parts of a WITH over `entries`: owners of credentials and proposals, and hand-outs by these actions. */
export const handOuts = (sql: SqlClient.SqlClient, options: HandOutOptions) => sql`
  ${references(sql)},
  credentials AS (
    INSERT INTO exposure_credentials (id, owner_type, owner_id, owner_name)
    SELECT CASE WHEN exchanged THEN actor ->> 'id' ELSE target ->> 'id' END,
      coalesce(CASE WHEN exchanged THEN target ELSE actor END ->> 'type', ''),
      coalesce(CASE WHEN exchanged THEN target ELSE actor END ->> 'id', ''),
      coalesce(CASE WHEN exchanged THEN target ELSE actor END ->> 'name', '')
    FROM (SELECT action = 'machine.exchange' AS exchanged, b -> 'actor' AS actor, b -> 'target' AS target
      FROM entries WHERE action = ANY(${ownerActions}::text[])) AS o
    ON CONFLICT DO NOTHING
  ),
  reads AS (
    INSERT INTO exposure_reads (id, project_id, environment_id, keys, key_list, versions, revision, way, via,
      actor_type, actor_id, actor_name, certain, ip, first_at, last_at, count)
    SELECT id, project_id, environment_id, keys, list, versions, revision, way, via, actor_type, actor_id,
      (array_agg(actor_name ORDER BY last_at DESC, actor_name DESC, ip DESC))[1], certain,
      (array_agg(ip ORDER BY last_at DESC, actor_name DESC, ip DESC))[1], min(first_at), max(last_at), sum(count)
    FROM (${readRows(sql, options)}) AS r
    GROUP BY id, project_id, environment_id, keys, list, versions, revision, way, via, actor_type, actor_id, certain
    ON CONFLICT (id) DO UPDATE SET
      (actor_name, ip) = (SELECT t.actor_name, t.ip FROM (VALUES
        (exposure_reads.last_at, exposure_reads.actor_name, exposure_reads.ip),
        (excluded.last_at, excluded.actor_name, excluded.ip)) AS t (last_at, actor_name, ip)
        ORDER BY t.last_at DESC, t.actor_name COLLATE "C" DESC, t.ip COLLATE "C" DESC LIMIT 1),
      first_at = least(exposure_reads.first_at, excluded.first_at),
      last_at = greatest(exposure_reads.last_at, excluded.last_at),
      count = exposure_reads.count + excluded.count
  )`
