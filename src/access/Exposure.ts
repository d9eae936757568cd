/** Who was handed which version of a secret (docs/contract/audit.md, "Exposure"): names and numbers out of the index. */
import * as SqlClient from "@effect/sql/SqlClient"
import type { Fragment } from "@effect/sql/Statement"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as SynchronizedRef from "effect/SynchronizedRef"
import { IntegrityFailure, SecretNotFound } from "#schema/Errors.ts"
import {
  Exposed,
  ExposedVersion,
  type ExposurePage,
  type ExposureQuery,
  type SecretExposure
} from "#schema/ExposureApi.ts"
import type { ProjectId, SecretId, TeamId } from "#schema/Ids.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/Rows.ts"
import { Access, type Location } from "./Access.ts"
import * as ExposureIndex from "./ExposureIndex.ts"
import { holderColumns } from "./ExposureRows.ts"
import { lastReads as lastReadsOf, unreadAfter } from "./LastReads.ts"
import type { EnvironmentPermit } from "./Permit.ts"

interface Verified {
  readonly at: number
  readonly altered: boolean
}
const services = Effect.all({
  access: Access,
  sql: SqlClient.SqlClient,
  /** The last pass of this process over the whole trail. */
  passes: SynchronizedRef.make<Verified>({ at: Number.NEGATIVE_INFINITY, altered: false })
})
type Needs = Effect.Effect.Success<typeof services>

/** Versions of a secret that are counted. */
const versionsAtMost = 100

/** What a report is about. `key`: of one secret alone. */
interface Asked extends ExposureQuery {
  readonly rows: Fragment
  readonly key?: string
}

/**
 * Rows of the index with their holders: a CLI grant is its person, a token that a CI job was given is its rule. Who a
 * connected agent acts for is told beside it.
 */
const rowsOf = (sql: SqlClient.SqlClient, { by, key, rows, since, token }: Asked) => {
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
  return sql`SELECT r.*, ${sql.literal(holderColumns)} WHERE ${sql.and(conditions)}`
}

/** Pairs of a row and a key that a report of a whole project looks at: the latest. */
const pairsAtMost = 100_000
/** What a backup counts as: it holds every key. */
const pairsOfBackup = 5_000

/** The latest rows, and whether they and all later ones are within the bound: each has a pair, so no more are counted. */
const countedRows = (sql: SqlClient.SqlClient, asked: Asked) => sql`
  SELECT c.*, sum(c.pairs) OVER (ORDER BY c.last_at DESC, c.id) <= ${pairsAtMost} AS within FROM (
    SELECT r.*, CASE WHEN r.way = 'backup' THEN ${pairsOfBackup}::int
      ELSE greatest(1, cardinality(r.keys), coalesce(cardinality(l.keys), 0)) END AS pairs
    FROM (
      SELECT f.* FROM (${rowsOf(sql, asked)}) AS f ORDER BY f.last_at DESC, f.id LIMIT ${pairsAtMost + 1}
    ) AS r LEFT JOIN audit_key_lists l ON l.hash = r.key_list
  ) AS c`

/** All rows of one secret; of a busy project the latest, so that no report takes longer than its bound. */
const boundedRows = (sql: SqlClient.SqlClient, asked: Asked) =>
  asked.key === undefined
    ? sql`
      counted AS MATERIALIZED (${countedRows(sql, asked)}),
      rows AS MATERIALIZED (SELECT * FROM counted WHERE within)`
    : sql`rows AS MATERIALIZED (${rowsOf(sql, asked)})`

const LeftOutRow = Schema.Struct({ leftOutBefore: Schema.NullOr(Rows.Iso) })

/** When the latest row was read last that a report does not look at; null: it looks at all. */
const leftOut = ({ sql }: Needs, asked: Asked) =>
  asked.key === undefined
    ? Rows.single(
        LeftOutRow,
        sql`SELECT max(b.last_at) AS left_out_before FROM (${countedRows(sql, asked)}) AS b WHERE NOT b.within`
      )
    : Effect.succeed({ leftOutBefore: null })

/**
 * Each key of each row with its version: as the entry names it, or as it was at the revision. A backup holds every version
 * that was written up to it. Null: not known.
 */
const handedOut = (sql: SqlClient.SqlClient, asked: Asked) => {
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

const ItemRow = Schema.Struct({
  ...Exposed.fields,
  firstAt: Rows.Iso,
  lastAt: Rows.Iso,
  total: Schema.Number,
  leftOutBefore: Schema.NullOr(Rows.Iso)
})

const itemsOf = ({ sql }: Needs, asked: Asked, page: number, pageSize: number) => {
  const last = (column: string) =>
    sql.literal(`(array_agg(x.${column} ORDER BY x.last_at DESC, x.${column} COLLATE "C" DESC))[1]`)
  return Rows.findAll(
    ItemRow,
    sql`
      WITH ${handedOut(sql, asked)}
      SELECT x.environment_id, e.slug AS environment, x.key, x.version, x.way, x.via, ${last("ip")} AS last_ip,
        json_build_object('type', x.holder_type, 'id', x.holder_id, 'name', ${last("holder_name")},
          'person', ${last("person")}) AS holder,
        min(x.first_at) AS first_at, max(x.last_at) AS last_at, sum(x.count)::float8 AS count,
        count(*) OVER ()::float8 AS total,
        ${asked.key === undefined ? sql`(SELECT max(c.last_at) FROM counted c WHERE NOT c.within)` : sql`NULL::timestamptz`}
          AS left_out_before
      FROM exposed x JOIN environments e ON e.id = x.environment_id
      GROUP BY x.environment_id, e.slug, x.key, x.version, x.way, x.via, x.holder_type, x.holder_id
      ORDER BY max(x.last_at) DESC, x.key, x.version DESC NULLS LAST, x.way, x.via, x.holder_id, x.environment_id
      LIMIT ${pageSize} OFFSET ${(page - 1) * pageSize}`
  )
}

const versionsOf = ({ sql }: Needs, asked: Asked) => {
  const counts = (where: string) =>
    sql.literal(
      `json_build_object(${[
        ["people", "kind IN ('user', 'cli_grant')"],
        ["tokens", "kind = 'api_token'"],
        ["agents", "kind = 'agent'"],
        ["rules", "kind = 'machine_rule'"],
        ["backups", "kind = 'backup'"]
      ]
        .map(([name, is]) => `'${name}', count(*) FILTER (WHERE ${is} AND ${where})`)
        .join(", ")})`
    )
  return Rows.findAll(
    ExposedVersion,
    sql`
      WITH ${handedOut(sql, asked)},
      holders AS (
        SELECT DISTINCT version, holder_id,
          CASE WHEN holder_type = 'oauth_client' OR way = 'model' THEN 'agent' ELSE holder_type END AS kind
        FROM exposed
      ),
      held AS (SELECT *, max(version) OVER (PARTITION BY kind, holder_id) IS NOT DISTINCT FROM version AS latest FROM holders)
      SELECT version, ${counts("true")} AS handed_to, ${counts("latest")} AS held_by
      FROM held GROUP BY version ORDER BY version DESC NULLS LAST LIMIT ${versionsAtMost}`
  )
}

const StateRow = Schema.Struct({ upTo: Rows.Iso, unknownBefore: Schema.NullOr(Rows.Iso) })

/** How far the index is, and since when the trail says which versions were read: a cut names the time it was made at. */
const stateOf = Effect.fnUntraced(function* ({ sql }: Needs, asked: Asked) {
  const now = new Date(yield* Clock.currentTimeMillis)
  return yield* Rows.single(
    StateRow,
    sql`
      WITH rows AS (${rowsOf(sql, asked)})
      SELECT least(${now}::timestamptz, min(next.at)) AS up_to, greatest(
        max(substring(c.note FROM 'before ([0-9TZ:.-]+)')::timestamptz),
        (SELECT max(last_at) FROM rows WHERE versions IS NULL AND revision IS NULL AND way <> 'opened')
      ) AS unknown_before
      FROM audit_seals s LEFT JOIN exposure_streams x ON x.stream = s.stream
      LEFT JOIN audit_cuts c ON c.stream = s.stream LEFT JOIN LATERAL (
        SELECT e.at FROM audit_entries e WHERE e.stream = s.stream AND e.seq > greatest(x.seq, c.seq, 0)
          AND (e.seq <= s.seq OR NOT s.final)
        ORDER BY e.seq LIMIT 1
      ) AS next ON true`
  )
})

const altered = new IntegrityFailure({
  message:
    "The audit trail is not what was written: there is no report. `ampoule audit verify` says where it was altered."
})

/** How old a pass over the trail may be for what pages show beside other things, in milliseconds. A report makes its own. */
const passMillis = 600_000

/** Those that ask while a pass is under way share the next one. */
const passed = ({ passes, sql }: Needs, within: number) =>
  Effect.flatMap(Clock.currentTimeMillis, (asked) =>
    SynchronizedRef.modifyEffect(passes, (last) =>
      Effect.gen(function* () {
        if (last.at > asked - within) return [last.altered, last] as const
        const at = yield* Clock.currentTimeMillis
        const found = { at, altered: yield* ExposureIndex.isAltered(sql) }
        return [found.altered, found] as const
      })
    )
  )
const refuseAltered = (needs: Needs, within = 0) =>
  Effect.filterOrFail(
    passed(needs, within),
    (isAltered) => !isAltered,
    () => altered
  )

const report = Effect.fnUntraced(function* (needs: Needs, asked: Asked) {
  yield* refuseAltered(needs)
  const { page = 1, pageSize = 100 } = asked
  const rows = yield* itemsOf(needs, asked, page, pageSize)
  const total = rows[0]?.total ?? 0
  const answer: ExposurePage = {
    ...(yield* stateOf(needs, asked)),
    // Of a page that is empty nothing said it.
    ...(rows[0] === undefined ? yield* leftOut(needs, asked) : { leftOutBefore: rows[0].leftOutBefore }),
    items: rows.map((row): Exposed => {
      const { leftOutBefore: _leftOut, total: _total, ...item } = row
      return item
    }),
    page,
    pageSize,
    total,
    hasMore: page * pageSize < total
  }
  return answer
})

const intent = { audit: "audit.read" } as const
const KeyRow = Schema.Struct({ key: Schema.String })

const ofKeyAt = Effect.fnUntraced(function* (
  needs: Needs,
  { target }: EnvironmentPermit<"audit:read">,
  key: string,
  query: ExposureQuery
) {
  const rows = needs.sql`r.project_id = ${target.projectId} AND r.environment_id = ${target.environmentId}`
  const asked: Asked = { ...query, key, rows }
  const found = yield* report(needs, asked)
  const former = yield* Rows.findAll(
    KeyRow,
    needs.sql`
      SELECT DISTINCT v.key FROM secrets s JOIN secret_versions v ON v.secret_id = s.id AND v.key IS NOT NULL
      WHERE s.environment_id = ${target.environmentId} AND s.key = ${key} AND v.key <> s.key ORDER BY v.key LIMIT 100`
  )
  const later = yield* Rows.findAll(
    KeyRow,
    needs.sql`
      SELECT DISTINCT s.key FROM secrets s JOIN secret_versions v ON v.secret_id = s.id AND v.key = ${key}
      WHERE s.environment_id = ${target.environmentId} AND s.key <> ${key} AND s.deleted_at IS NULL
      ORDER BY s.key LIMIT 100`
  )
  const formerly = former.map((row) => row.key)
  const renamedTo = later.map((row) => row.key)
  const answer: SecretExposure = { key, formerly, renamedTo, versions: yield* versionsOf(needs, asked), ...found }
  return answer
})

/** Of every version that the secret's key ever had. INTEGRITY_FAILURE: the trail was altered. */
const ofSecret = Effect.fn("Exposure.ofSecret")(function* (needs: Needs, id: SecretId, query: ExposureQuery) {
  const permit = yield* needs.access.environmentOfSecret("audit:read", id, intent)
  const { key } = yield* Rows.single(KeyRow, needs.sql`SELECT key FROM secrets WHERE id = ${id}`)
  return yield* ofKeyAt(needs, permit, key, query)
})

/** The same, of a secret that is named by its environment and key. */
const ofKey = Effect.fn("Exposure.ofKey")(function* (
  needs: Needs,
  { key, ...at }: Location & { readonly key: string },
  query: ExposureQuery
) {
  const permit = yield* needs.access.environment("audit:read", at, { ...intent, keys: [key] })
  const known = yield* Rows.exists(needs.sql`
    SELECT 1 FROM secrets s WHERE s.environment_id = ${permit.target.environmentId} AND (s.key = ${key}
      OR EXISTS (SELECT 1 FROM secret_versions v WHERE v.secret_id = s.id AND v.key = ${key}))`)
  return known ? yield* ofKeyAt(needs, permit, key, query) : yield* new SecretNotFound()
})

/** How far the index is, of a trail that was verified just now; for use cases that have their own permit. */
const verified = Effect.fnUntraced(function* (needs: Needs) {
  yield* refuseAltered(needs)
  return yield* stateOf(needs, { rows: needs.sql`false` })
})

const SecretRow = Schema.Struct({ key: Schema.String, createdAt: Rows.Iso })

/** For the page of a secret: its versions, and when it was read last. The trail is as it was verified lately. */
const summary = Effect.fn("Exposure.summary")(function* (needs: Needs, id: SecretId) {
  const { sql } = needs
  const { target } = yield* needs.access.environmentOfSecret("audit:read", id, intent)
  yield* refuseAltered(needs, passMillis)
  const secret = yield* Rows.single(SecretRow, sql`SELECT key, created_at FROM secrets WHERE id = ${id}`)
  const rows = sql`r.project_id = ${target.projectId} AND r.environment_id = ${target.environmentId}`
  const reads = yield* lastReadsOf(sql, target, [secret.key], yield* Clock.currentTimeMillis)
  return { versions: yield* versionsOf(needs, { key: secret.key, rows }), ...reads.of(secret) }
})

/** When these secrets of an environment were handed out last, and to whom. The trail is as it was verified lately. */
const lastReads = Effect.fn("Exposure.lastReads")(function* (needs: Needs, at: Location, keys: ReadonlyArray<string>) {
  const { target } = yield* needs.access.environment("audit:read", at, intent)
  yield* refuseAltered(needs, passMillis)
  return yield* lastReadsOf(needs.sql, target, keys, yield* Clock.currentTimeMillis)
})

/** Environments that are looked through for values that nobody reads, and secrets of each. */
const unreadEnvironments = 10
const unreadSecrets = 1_000

/** Secrets of the team's protected environments that nobody was handed for 90 days, by environment. */
const unread = Effect.fn("Exposure.unread")(function* (needs: Needs, teamId: TeamId) {
  const { access, sql } = needs
  const now = yield* Clock.currentTimeMillis
  const permits = (yield* access.eachEnvironment("audit:read", intent))
    .filter(({ target }) => target.teamId === teamId && target.protected)
    .slice(0, unreadEnvironments)
  const found = yield* Effect.forEach(permits, ({ target }) =>
    Effect.gen(function* () {
      const old = yield* Rows.findAll(
        SecretRow,
        sql`
          SELECT key, created_at FROM secrets
          WHERE environment_id = ${target.environmentId} AND deleted_at IS NULL
            AND created_at <= ${new Date(now - unreadAfter)}
          ORDER BY key COLLATE "C" LIMIT ${unreadSecrets}`
      )
      if (old.length === 0) return []
      yield* refuseAltered(needs, passMillis)
      const keys = old.map(({ key }) => key)
      const reads = yield* lastReadsOf(sql, target, keys, now)
      const left = old.filter((secret) => reads.of(secret).notReadFor90Days).map(({ key }) => key)
      const { projectId, slug } = target
      return left.length === 0 ? [] : [{ projectId, environment: slug, keys: left }]
    })
  )
  return found.flat()
})

/** Of all secrets of a project, as far as the credential reaches. INTEGRITY_FAILURE: the trail was altered. */
const ofProject = Effect.fn("Exposure.ofProject")(function* (needs: Needs, id: ProjectId, query: ExposureQuery) {
  const { access, sql } = needs
  const { caller } = yield* access.project("audit:read", id, intent)
  const { environmentIds } = caller.restrictions
  const within = environmentIds === null ? sql`true` : sql`r.environment_id = ANY(${environmentIds}::uuid[])`
  return yield* report(needs, { ...query, rows: sql`r.project_id = ${id} AND ${within}` })
})

export class Exposure extends Effect.Service<Exposure>()("access/Exposure", {
  effect: Effect.map(services, (needs) =>
    methods(needs, { ofSecret, ofKey, ofProject, summary, lastReads, unread, verified })
  )
}) {}
