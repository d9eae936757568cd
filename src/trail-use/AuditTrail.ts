/** Reads a team's trail. Entries are returned as they were hashed: the body is the record. */
import * as SqlClient from "@effect/sql/SqlClient"
import type { Fragment } from "@effect/sql/Statement"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { AuditEntry, AuditAction } from "#schema/Audit.ts"
import type { AuditPage, AuditQuery } from "#schema/AuditApi.ts"
import { type CallerTeam, CurrentCaller } from "#schema/Caller.ts"
import { ProjectNotFound, ValidationFailed } from "#schema/Errors.ts"
import { type EnvironmentId, type ProjectId, type TeamId, uuidPattern } from "#schema/Ids.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"
import { Access } from "#src/access/Access.ts"
import { Audit } from "#src/trail/Audit.ts"
import * as AuditViews from "./AuditViews.ts"
import * as Actions from "#src/access/Actions.ts"
import * as TrailEntry from "./TrailEntry.ts"
import * as TrailIndex from "#src/trail/TrailIndex.ts"
import * as TrailSearch from "#src/trail/TrailSearch.ts"

const defaultLimit = 50
const exportPage = 200
/** Entries in one exported file. A further file with `until` continues it. */
export const exportLimit = 100_000

/**
 * A cursor is the id below which the next page starts. Later entries do not change it. It is opaque, so that its
 * content may change.
 */
const toCursor = (id: string): string => Buffer.from(id.replaceAll("-", ""), "hex").toString("base64url")
const fromCursor = (cursor: string): string | undefined => {
  const hex = Buffer.from(cursor, "base64url").toString("hex")
  const id = hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5")
  return uuidPattern.test(id) && toCursor(id) === cursor ? id : undefined
}

/** The reach of a credential. Null: unrestricted. */
interface Reach {
  readonly teamIds: ReadonlyArray<TeamId>
  readonly projectIds: ReadonlyArray<ProjectId> | null
  readonly environmentIds: ReadonlyArray<EnvironmentId> | null
}

interface Needs {
  readonly access: Access
  readonly audit: Audit
  readonly crypto: Crypto
  readonly sql: SqlClient.SqlClient
}

/** An id is generated just before the time of its entry, or after it when the clock was set back (milliseconds). */
const idLagMillis = 60_000
const idLeadMillis = 3_600_000
const lowestOfAll = TrailIndex.lowestId(0)
const aboveAll = "ffffffff-ffff-7fff-bfff-ffffffffffff"

/** `actions` matches any of several. */
type Query = AuditQuery & { readonly actions?: ReadonlyArray<AuditAction> }

/** From `since` (included) to `until` (excluded). */
const boundsOf = ({ since, until }: AuditQuery, before: string | null) => {
  const end = until === undefined ? aboveAll : TrailIndex.lowestId(Date.parse(until) + idLeadMillis)
  return {
    from: since === undefined ? lowestOfAll : TrailIndex.lowestId(Date.parse(since) - idLagMillis),
    to: before !== null && before < end ? before : end
  }
}

/**
 * Filters of a search: a condition on each entry, and terms, one of which a part of the trail must have. The rarest
 * come first, because the first one finds the parts.
 */
const filtersOf = (sql: SqlClient.SqlClient, { environmentIds, projectIds }: Reach, query: Query) => {
  const { term } = TrailIndex
  const { action, actions, actor, environment, key, projectId } = query
  const filter = (condition: Fragment, terms: ReadonlyArray<string>) => ({
    condition,
    terms: sql`${terms}::text[]`
  })
  const lists = sql`SELECT hash FROM audit_key_lists WHERE keys @> ARRAY[${key ?? ""}]::text[]`
  return [
    ...(key === undefined
      ? []
      : [
          {
            // The text test is cheap, and false for nearly all entries.
            condition: sql`(key_list IN (${lists})
              OR (strpos(body, ${`"${key}"`}) > 0 AND body::jsonb -> 'keys' @> to_jsonb(${key}::text)))`,
            terms: sql`ARRAY(
              SELECT ${term.key(key)} UNION ALL SELECT ${term.keyList("")} || encode(hash, 'hex') FROM (${lists}) AS l
            )`
          }
        ]),
    ...(actor === undefined ? [] : [filter(sql`actor_id = ${actor}`, [term.actor(actor)])]),
    ...(projectIds === null
      ? []
      : [filter(sql`project_id = any(${projectIds}::uuid[])`, projectIds.map(term.project))]),
    ...(environmentIds === null
      ? []
      : [filter(sql`environment_id = any(${environmentIds}::uuid[])`, environmentIds.map(term.environmentId))]),
    ...(projectId === undefined ? [] : [filter(sql`project_id = ${projectId}::uuid`, [term.project(projectId)])]),
    ...(environment === undefined ? [] : [filter(sql`environment = ${environment}`, [term.environment(environment)])]),
    ...(action === undefined ? [] : [filter(sql`action = ${action}`, [term.action(action)])]),
    ...(actions === undefined ? [] : [filter(sql`action = any(${actions}::text[])`, actions.map(term.action))])
  ]
}

/**
 * The entry as the reach shows it: without the places beyond it that the entry names. A comparison of the release before
 * names them in its target.
 */
const withinReach = ({ environmentIds, projectIds }: Reach, { compared, target, ...entry }: AuditEntry): AuditEntry => {
  const reaches = (ids: ReadonlyArray<string> | null, id: string) => ids === null || ids.includes(id)
  const isNarrow = environmentIds !== null || projectIds !== null
  const hidesTarget =
    target === undefined ||
    (isNarrow && entry.action === "secret.diff") ||
    (target.type === "environment" && !reaches(environmentIds, target.id)) ||
    (target.type === "project" && !reaches(projectIds, target.id))
  const seen = compared?.filter(({ environmentId }) => reaches(environmentIds, environmentId))
  return { ...entry, ...(hidesTarget ? {} : { target }), ...(seen === undefined ? {} : { compared: seen }) }
}

const page = Effect.fnUntraced(function* ({ sql }: Needs, reach: Reach, query: Query) {
  const before = query.cursor === undefined ? null : fromCursor(query.cursor)
  if (before === undefined) {
    return yield* new ValidationFailed({ field: "cursor", message: "must be the nextCursor of an earlier answer" })
  }
  const limit = query.limit ?? defaultLimit
  const filters = filtersOf(sql, reach, query)
  const { entries, next } = yield* TrailSearch.search(sql, {
    ...boundsOf(query, before),
    teamIds: reach.teamIds,
    conditions: [
      ...filters.map(({ condition }) => condition),
      ...(query.since === undefined ? [] : [sql`at >= ${query.since}::timestamptz`]),
      ...(query.until === undefined ? [] : [sql`at < ${query.until}::timestamptz`])
    ],
    terms: filters.map(({ terms }) => terms),
    limit: limit + 1
  })
  const items = entries.slice(0, limit).map((entry) => withinReach(reach, entry))
  const last = entries.length > limit ? items.at(-1)?.id : next
  const result: AuditPage = { items, nextCursor: last === undefined ? null : toCursor(last) }
  return result
})

const wholeTeam = (teamId: TeamId): Reach => ({
  teamIds: [teamId],
  projectIds: null,
  environmentIds: null
})

/** For owners and admins of the team. */
const list = Effect.fn("AuditTrail.list")(function* (needs: Needs, teamId: TeamId, query: AuditQuery) {
  const { target } = yield* needs.access.team("audit-trail:read", teamId, { audit: "audit.read" })
  return yield* page(needs, wholeTeam(target.teamId), query)
})

/** Actions that read values, and actions that change them. */
const readActions = [
  "secret.read",
  "secret.list_values",
  "secret.inject",
  "sealed.open"
] as const satisfies ReadonlyArray<AuditAction>
const changeActions = [
  "secret.create",
  "secret.update",
  "secret.delete",
  "secret.rollback",
  "secret.restore",
  "secret.rename",
  "environment.restore"
] as const satisfies ReadonlyArray<AuditAction>
/** Most entries to count, latest first. */
const maxCounted = 50_000
const DayRow = Schema.Struct({ day: Schema.String, reads: Schema.Number, changes: Schema.Number })

/** Changes of a project's secrets, newest first. For owners and admins of its team. */
const changes = Effect.fn("AuditTrail.changes")(function* (
  needs: Needs,
  projectId: ProjectId,
  query: Pick<AuditQuery, "cursor" | "limit">
) {
  const { target } = yield* needs.access.project("audit:read", projectId, { audit: "audit.read" })
  yield* needs.access.team("audit-trail:read", target.teamId, { audit: "audit.read" })
  return yield* page(needs, wholeTeam(target.teamId), { ...query, projectId, actions: changeActions })
})

/**
 * Daily counts of reads and changes of values, in UTC, since a time (milliseconds). For owners and admins of the team.
 */
const days = Effect.fn("AuditTrail.days")(function* ({ access, sql }: Needs, teamId: TeamId, since: number) {
  const { target } = yield* access.team("audit-trail:read", teamId, { audit: "audit.read" })
  return yield* Rows.findAll(
    DayRow,
    sql`
      SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day,
        count(*) FILTER (WHERE action = any(${readActions}::text[]))::int AS reads,
        count(*) FILTER (WHERE action = any(${changeActions}::text[]))::int AS changes
      FROM (
        SELECT at, action FROM audit_entries
        WHERE team_id = ${target.teamId} AND id >= ${TrailIndex.lowestId(since - idLagMillis)}::uuid
        ORDER BY id DESC LIMIT ${maxCounted}) AS latest
      WHERE at >= ${new Date(since)} GROUP BY 1 ORDER BY 1`
  )
})

/** Most entries of a team to search for addresses, latest first. */
const maxAddressEntries = 20_000
const maxAddresses = 5
const AddressRow = Schema.Struct({
  actorId: Schema.String,
  name: Schema.String,
  ip: Schema.String,
  at: Rows.Iso,
  lookedFrom: Rows.Iso
})

/**
 * Actors that read values since a time (milliseconds) from an address that their earlier reads did not use. It goes
 * back to `lookedFrom`, the oldest of the latest entries. Actors without earlier reads are left out. For owners and
 * admins of the team.
 */
const newAddresses = Effect.fn("AuditTrail.newAddresses")(function* (
  { access, sql }: Needs,
  teamId: TeamId,
  since: number
) {
  const { target } = yield* access.team("audit-trail:read", teamId, { audit: "audit.read" })
  return yield* Rows.findAll(
    AddressRow,
    sql`
      WITH latest AS (
        SELECT id, at, action, actor_id, body FROM audit_entries WHERE team_id = ${target.teamId}
        ORDER BY id DESC LIMIT ${maxAddressEntries}
      ), reads AS (
        -- Quotes inside of a text are escaped: what the pattern finds is the member.
        SELECT id, at, actor_id, substring(body FROM '"ip":"([^"]+)"') AS ip FROM latest
        WHERE action = any(${readActions}::text[]) AND strpos(body, '"outcome":"allowed"') > 0
      ), addresses AS (
        SELECT actor_id, ip, min(at) AS at, min(id::text)::uuid AS id FROM reads WHERE ip IS NOT NULL GROUP BY 1, 2
      )
      SELECT a.actor_id, coalesce(l.body::jsonb #>> '{actor,name}', '') AS name, a.ip, a.at,
        (SELECT min(at) FROM latest) AS looked_from
      FROM addresses a JOIN latest l ON l.id = a.id
      WHERE a.at >= ${new Date(since)}
        AND EXISTS (SELECT 1 FROM addresses b WHERE b.actor_id = a.actor_id AND b.ip <> a.ip AND b.at < a.at)
      ORDER BY a.at DESC LIMIT ${maxAddresses}`
  )
})

/** The caller's teams whose role may read the trail. If there are none, all teams, so that each denial is recorded. */
const readableTeams = (teams: ReadonlyArray<CallerTeam>) => {
  const readable = teams.filter(({ role }) => role === null || Actions.byRole[role].has("audit:read"))
  return (readable.length > 0 ? readable : teams).map(({ id }) => id)
}

/**
 * Entries of every team that the caller's scope `audit:read` reaches, or of one project's team. A restricted credential
 * sees only its part of the team.
 */
const listReachable = Effect.fn("AuditTrail.listReachable")(function* (needs: Needs, query: AuditQuery) {
  const { access } = needs
  const { restrictions, teams } = yield* CurrentCaller
  const intent = { audit: "audit.read" } as const
  const teamIds =
    query.projectId === undefined
      ? readableTeams(teams)
      : [(yield* access.project("audit:read", query.projectId, intent)).target.teamId]
  const permits = yield* Effect.forEach(teamIds, (id) => access.team("audit:read", id, intent)).pipe(
    Effect.catchTag("TEAM_NOT_FOUND", () => new ProjectNotFound())
  )
  return yield* page(needs, { ...restrictions, teamIds: permits.map(({ target }) => target.teamId) }, query)
})

/**
 * Streams a team's entries, newest first, page by page, up to `exportLimit`. For owners and admins. The export is
 * recorded before the first entry leaves.
 */
const exportEntries = Effect.fn("AuditTrail.exportEntries")(function* (
  needs: Needs,
  teamId: TeamId,
  query: Omit<AuditQuery, "cursor" | "limit">
) {
  const audit: AuditAction = "audit.export"
  const permit = yield* needs.access.team("audit-trail:read", teamId, { audit })
  yield* needs.audit.record(permit.event())
  return Stream.paginateChunkEffect(Option.none<string>(), (cursor) =>
    page(needs, wholeTeam(permit.target.teamId), {
      ...query,
      limit: exportPage,
      ...(Option.isNone(cursor) ? {} : { cursor: cursor.value })
    }).pipe(
      Effect.orDie,
      Effect.map(({ items, nextCursor }) => [
        Chunk.fromIterable(items),
        nextCursor === null ? Option.none() : Option.some(Option.some(nextCursor))
      ])
    )
  ).pipe(Stream.take(exportLimit))
})

export class AuditTrail extends Effect.Service<AuditTrail>()("trail-use/AuditTrail", {
  effect: Effect.gen(function* () {
    const needs: Needs = {
      access: yield* Access,
      audit: yield* Audit,
      crypto: yield* Crypto,
      sql: yield* SqlClient.SqlClient
    }
    const { deleteView, saveView, views } = AuditViews
    return methods(needs, {
      list,
      changes,
      days,
      newAddresses,
      listReachable,
      exportEntries,
      entry: TrailEntry.entry,
      views,
      saveView,
      deleteView
    })
  })
}) {}
