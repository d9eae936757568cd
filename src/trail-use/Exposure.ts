/** Receivers of each version of a secret (docs/contract/audit.md, "Exposure"), from the index of the trail. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { SecretNotFound } from "#schema/Errors.ts"
import {
  Exposed,
  ExposedVersion,
  type ExposurePage,
  type ExposureQuery,
  type SecretExposure
} from "#schema/ExposureApi.ts"
import type { ProjectId, SecretId, TeamId } from "#schema/Ids.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"
import { Access, type Location } from "#src/access/Access.ts"
import { type ReportScope, countedRows, countsOf, exposedRows, kindOf, rowsOf } from "#src/trail/ExposureRows.ts"
import * as Holders from "#src/trail/Holders.ts"
import { lastReads as lastReadsOf, unreadAfter } from "#src/trail/LastReads.ts"
import type { EnvironmentPermit } from "#src/access/Permit.ts"
import * as TrailPass from "#src/trail/TrailPass.ts"

const services = Effect.all({
  access: Access,
  sql: SqlClient.SqlClient,
  /** This process's passes over the whole trail. */
  passes: TrailPass.make
})
type Needs = Effect.Effect.Success<typeof services>

/** Limit of versions in a report. */
const maxVersions = 100

const LeftOutRow = Schema.Struct({ leftOutBefore: Schema.NullOr(Rows.Iso) })

/** The last read of the latest row that a report leaves out. Null: it leaves out none. */
const latestLeftOut = ({ sql }: Needs, scope: ReportScope) =>
  scope.key === undefined
    ? Rows.single(
        LeftOutRow,
        sql`SELECT max(b.last_at) AS left_out_before FROM (${countedRows(sql, scope)}) AS b WHERE NOT b.within`
      )
    : Effect.succeed({ leftOutBefore: null })

const ItemRow = Schema.Struct({
  ...Exposed.fields,
  firstAt: Rows.Iso,
  lastAt: Rows.Iso,
  total: Schema.Number,
  leftOutBefore: Schema.NullOr(Rows.Iso)
})

/** Columns that identify an item of a report; the others are aggregated. */
const itemColumns = ["environment_id", "key", "version", "way", "via", "holder_type", "holder_id"]

/** Selects a page before it looks up names and addresses, so that a busy project's report reads fewer columns. */
const itemsOf = ({ sql }: Needs, scope: ReportScope, page: number, pageSize: number) => {
  const last = (column: string) =>
    sql.literal(`(array_agg(x.${column} ORDER BY x.last_at DESC, x.${column} COLLATE "C" DESC))[1]`)
  const columns = (of: string) => sql.literal(itemColumns.map((column) => `${of}.${column}`).join(", "))
  const same = itemColumns.filter((column) => column !== "version").map((column) => `x.${column} = p.${column}`)
  const order = "last_at DESC, p.key, p.version DESC NULLS LAST, p.way, p.via, p.holder_id, p.environment_id"
  return Rows.findAll(
    ItemRow,
    sql`
      WITH ${exposedRows(sql, scope)},
      grouped AS MATERIALIZED (
        SELECT ${columns("x")}, min(x.first_at) AS first_at, max(x.last_at) AS last_at, sum(x.count)::float8 AS count
        FROM exposed x GROUP BY ${columns("x")}
      ),
      page AS MATERIALIZED (
        SELECT p.*, (SELECT count(*) FROM grouped)::float8 AS total FROM grouped p
        ORDER BY ${sql.literal(`p.${order}`)} LIMIT ${pageSize} OFFSET ${(page - 1) * pageSize}
      )
      SELECT p.environment_id, e.slug AS environment, p.key, p.version, p.way, p.via, l.last_ip, p.first_at, p.last_at,
        json_build_object('type', p.holder_type, 'id', p.holder_id, 'name', l.holder_name, 'person', l.person) AS holder,
        p.count, p.total,
        ${scope.key === undefined ? sql`(SELECT max(c.last_at) FROM counted c WHERE NOT c.within)` : sql`NULL::timestamptz`}
          AS left_out_before
      FROM page p JOIN environments e ON e.id = p.environment_id JOIN (
        SELECT ${columns("p")}, ${last("ip")} AS last_ip, ${last("holder_name")} AS holder_name, ${last("person")} AS person
        FROM page p JOIN exposed x ON ${sql.literal(same.join(" AND "))} AND coalesce(x.version, -1) = coalesce(p.version, -1)
        GROUP BY ${columns("p")}
      ) AS l ON ${sql.literal(itemColumns.map((column) => `l.${column} IS NOT DISTINCT FROM p.${column}`).join(" AND "))}
      ORDER BY ${sql.literal(`p.${order}`)}`
  )
}

const versionsOf = ({ sql }: Needs, scope: ReportScope) => {
  const counts = (where: string) => sql.literal(countsOf(where))
  return Rows.findAll(
    ExposedVersion,
    sql`
      WITH ${exposedRows(sql, scope)},
      holders AS (
        SELECT DISTINCT version, holder_id,
          ${sql.literal(kindOf)} AS kind
        FROM exposed
      ),
      held AS (SELECT *, max(version) OVER (PARTITION BY kind, holder_id) IS NOT DISTINCT FROM version AS latest FROM holders)
      SELECT version, ${counts("true")} AS handed_to, ${counts("latest")} AS held_by
      FROM held GROUP BY version ORDER BY version DESC NULLS LAST LIMIT ${maxVersions}`
  )
}

const StateRow = Schema.Struct({ upTo: Rows.Iso, unknownBefore: Schema.NullOr(Rows.Iso) })

/** Progress of the index, and the start of version tracking. A cut names its time. */
const stateOf = Effect.fnUntraced(function* ({ sql }: Needs, scope: ReportScope) {
  const now = new Date(yield* Clock.currentTimeMillis)
  return yield* Rows.single(
    StateRow,
    sql`
      WITH rows AS (${rowsOf(sql, scope)})
      SELECT least(${now}::timestamptz, min(next.at)) AS up_to, greatest(
        max(substring(c.note FROM 'before ([0-9TZ:.-]+)')::timestamptz),
        (SELECT max(last_at) FROM rows WHERE versions IS NULL AND revision IS NULL AND way <> 'opened')
      ) AS unknown_before
      FROM audit_seals s LEFT JOIN exposure_streams x ON x.stream = s.stream
      LEFT JOIN audit_cuts c ON c.stream = s.stream LEFT JOIN LATERAL (
        SELECT e.at FROM audit_entries e WHERE e.stream = s.stream AND e.seq > greatest(least(x.seq, x.written_seq), c.seq, 0)
          AND (e.seq <= s.seq OR NOT s.final)
        ORDER BY e.seq LIMIT 1
      ) AS next ON true`
  )
})

/** Maximum age of a pass over the trail (ms) for parts of pages. A report runs its own. */
const passMillis = 600_000

const report = Effect.fnUntraced(function* (needs: Needs, scope: ReportScope) {
  const checkedAt = yield* TrailPass.check(needs.passes)
  const { page = 1, pageSize = 100 } = scope
  const rows = yield* itemsOf(needs, scope, page, pageSize)
  const total = rows[0]?.total ?? 0
  const result: ExposurePage = {
    ...(yield* stateOf(needs, scope)),
    checkedAt,
    // An empty page has no row with this column.
    ...(rows[0] === undefined ? yield* latestLeftOut(needs, scope) : { leftOutBefore: rows[0].leftOutBefore }),
    items: rows.map((row): Exposed => {
      const { leftOutBefore: _leftOut, total: _total, ...item } = row
      return item
    }),
    page,
    pageSize,
    total,
    hasMore: page * pageSize < total
  }
  return result
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
  const scope: ReportScope = { ...query, key, rows }
  const page = yield* report(needs, scope)
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
  const result: SecretExposure = { key, formerly, renamedTo, versions: yield* versionsOf(needs, scope), ...page }
  return result
})

/** All versions that the secret's key ever had. INTEGRITY_FAILURE: the trail was altered. */
const ofSecret = Effect.fn("Exposure.ofSecret")(function* (needs: Needs, id: SecretId, query: ExposureQuery) {
  const permit = yield* needs.access.environmentOfSecret("audit:read", id, intent)
  const { key } = yield* Rows.single(KeyRow, needs.sql`SELECT key FROM secrets WHERE id = ${id}`)
  return yield* ofKeyAt(needs, permit, key, query)
})

/** The same for a secret by its environment and key. */
const ofKey = Effect.fn("Exposure.ofKey")(function* (
  needs: Needs,
  { key, ...at }: Location & { readonly key: string },
  query: ExposureQuery
) {
  const permit = yield* needs.access.environment("audit:read", at, { ...intent, keys: [key] })
  const exists = yield* Rows.exists(needs.sql`
    SELECT 1 FROM secrets s WHERE s.environment_id = ${permit.target.environmentId} AND (s.key = ${key}
      OR EXISTS (SELECT 1 FROM secret_versions v WHERE v.secret_id = s.id AND v.key = ${key}))`)
  return exists ? yield* ofKeyAt(needs, permit, key, query) : yield* new SecretNotFound()
})

/** Progress of the index, after a verification of the trail. For use cases with their own permit. */
const verifiedState = Effect.fnUntraced(function* (needs: Needs) {
  yield* TrailPass.check(needs.passes)
  return yield* stateOf(needs, { rows: needs.sql`false` })
})

const SecretRow = Schema.Struct({ key: Schema.String, createdAt: Rows.Iso })

/** Versions and the last read, for a secret's page. A recent verification of the trail suffices. */
const summary = Effect.fn("Exposure.summary")(function* (needs: Needs, id: SecretId) {
  const { sql } = needs
  const { target } = yield* needs.access.environmentOfSecret("audit:read", id, intent)
  yield* TrailPass.check(needs.passes, passMillis)
  const secret = yield* Rows.single(SecretRow, sql`SELECT key, created_at FROM secrets WHERE id = ${id}`)
  const rows = sql`r.project_id = ${target.projectId} AND r.environment_id = ${target.environmentId}`
  const reads = yield* lastReadsOf(sql, target, [secret.key], yield* Clock.currentTimeMillis)
  return { versions: yield* versionsOf(needs, { key: secret.key, rows }), ...reads.of(secret) }
})

/** The last reads of these secrets. A recent verification of the trail suffices. */
const lastReads = Effect.fn("Exposure.lastReads")(function* (needs: Needs, at: Location, keys: ReadonlyArray<string>) {
  const { target } = yield* needs.access.environment("audit:read", at, intent)
  yield* TrailPass.check(needs.passes, passMillis)
  return yield* lastReadsOf(needs.sql, target, keys, yield* Clock.currentTimeMillis)
})

/** Counts the holders of the current versions of these secrets. A recent verification of the trail suffices. */
const holders = Effect.fn("Exposure.holders")(function* (
  needs: Needs,
  at: Location,
  secrets: ReadonlyArray<{ readonly key: string; readonly version: number }>
) {
  const { target } = yield* needs.access.environment("audit:read", at, intent)
  yield* TrailPass.check(needs.passes, passMillis)
  return yield* Holders.ofCurrent(needs.sql, target, secrets)
})

/** Limits of environments, and of secrets in each, in a search for unread values. */
const unreadEnvironments = 10
const unreadSecrets = 1_000

/**
 * Secrets of the team's protected environments without a read for 90 days, by environment. `within` limits the search
 * to these projects.
 */
const unread = Effect.fn("Exposure.unread")(function* (
  needs: Needs,
  teamId: TeamId,
  within?: ReadonlyArray<ProjectId>
) {
  const { access, sql } = needs
  const now = yield* Clock.currentTimeMillis
  const permits = (yield* access.eachEnvironment("audit:read", intent, within))
    .filter(({ target }) => target.teamId === teamId && target.protected)
    .slice(0, unreadEnvironments)
  const byEnvironment = yield* Effect.forEach(permits, ({ target }) =>
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
      yield* TrailPass.check(needs.passes, passMillis)
      const keys = old.map(({ key }) => key)
      const reads = yield* lastReadsOf(sql, target, keys, now)
      const unreadKeys = old.filter((secret) => reads.of(secret).notReadFor90Days).map(({ key }) => key)
      const { projectId, slug } = target
      return unreadKeys.length === 0 ? [] : [{ projectId, environment: slug, keys: unreadKeys }]
    })
  )
  return byEnvironment.flat()
})

/** All secrets of a project within the credential's reach. INTEGRITY_FAILURE: the trail was altered. */
const ofProject = Effect.fn("Exposure.ofProject")(function* (needs: Needs, id: ProjectId, query: ExposureQuery) {
  const { access, sql } = needs
  const { caller } = yield* access.project("audit:read", id, intent)
  const { environmentIds } = caller.restrictions
  const within = environmentIds === null ? sql`true` : sql`r.environment_id = ANY(${environmentIds}::uuid[])`
  return yield* report(needs, { ...query, rows: sql`r.project_id = ${id} AND ${within}` })
})

export class Exposure extends Effect.Service<Exposure>()("trail-use/Exposure", {
  scoped: Effect.map(services, (needs) =>
    methods(needs, { ofSecret, ofKey, ofProject, summary, lastReads, holders, unread, verifiedState })
  )
}) {}
