/** Reading a team's trail. Entries are returned as they were hashed: the body is the record. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as SqlSchema from "@effect/sql/SqlSchema"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { type AuditAction, AuditEntry } from "#schema/Audit.ts"
import { type AuditPage, AuditQuery } from "#schema/AuditApi.ts"
import { type CallerTeam, CurrentCaller } from "#schema/Caller.ts"
import { ProjectNotFound, ValidationFailed } from "#schema/Errors.ts"
import { EnvironmentId, ProjectId, TeamId, uuidPattern } from "#schema/Ids.ts"
import { methods } from "#src/Methods.ts"
import { Access } from "./Access.ts"
import { Audit } from "./Audit.ts"
import * as Policy from "./Policy.ts"

const defaultLimit = 50
const exportPage = 200
/** Entries in one exported file; what is older is exported with `until`. */
export const exportLimit = 100_000

/** A cursor is the id of the last entry shown, which no later entry changes; opaque, so that it may become another. */
const toCursor = (id: string): string => Buffer.from(id.replaceAll("-", ""), "hex").toString("base64url")
const fromCursor = (cursor: string): string | undefined => {
  const hex = Buffer.from(cursor, "base64url").toString("hex")
  const id = hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5")
  return uuidPattern.test(id) && toCursor(id) === cursor ? id : undefined
}

/** Whose entries: null = not narrowed. */
const Reach = Schema.Struct({
  teamIds: Schema.Array(TeamId),
  projectIds: Schema.NullOr(Schema.Array(ProjectId)),
  environmentIds: Schema.NullOr(Schema.Array(EnvironmentId))
})

const EntrySearch = Schema.Struct({
  ...Reach.fields,
  query: Schema.typeSchema(AuditQuery),
  /** Entries older than the one with this id. */
  before: Schema.NullOr(Schema.String),
  limit: Schema.Int
})

const EntryRow = Schema.Struct({ id: Schema.String, body: Schema.parseJson(AuditEntry) })

interface Needs {
  readonly access: Access
  readonly audit: Audit
  readonly sql: SqlClient.SqlClient
}

/** Newest first: ids are UUIDv7, so their order is the order of time. `since` is included, `until` is not. */
const searchEntries = (sql: SqlClient.SqlClient) =>
  SqlSchema.findAll({
    Request: EntrySearch,
    Result: EntryRow,
    execute: ({ before, environmentIds, limit, projectIds, query, teamIds }) => {
      const [teamId] = teamIds
      const conditions = [
        teamIds.length === 1 ? sql`team_id = ${teamId}::uuid` : sql`team_id = any(${teamIds}::uuid[])`,
        ...(projectIds === null ? [] : [sql`project_id = any(${projectIds}::uuid[])`]),
        ...(environmentIds === null ? [] : [sql`environment_id = any(${environmentIds}::uuid[])`]),
        ...(before === null ? [] : [sql`id < ${before}::uuid`]),
        ...(query.action === undefined ? [] : [sql`action = ${query.action}`]),
        ...(query.actor === undefined ? [] : [sql`actor_id = ${query.actor}`]),
        ...(query.projectId === undefined ? [] : [sql`project_id = ${query.projectId}::uuid`]),
        ...(query.environment === undefined ? [] : [sql`environment = ${query.environment}`]),
        ...(query.key === undefined ? [] : [sql`body::jsonb -> 'keys' @> to_jsonb(${query.key}::text)`]),
        ...(query.since === undefined ? [] : [sql`at >= ${query.since}::timestamptz`]),
        ...(query.until === undefined ? [] : [sql`at < ${query.until}::timestamptz`])
      ]
      return sql`SELECT id, body FROM audit_entries WHERE ${sql.and(conditions)} ORDER BY id DESC LIMIT ${limit}`
    }
  })

const page = Effect.fnUntraced(function* ({ sql }: Needs, reach: typeof Reach.Type, query: AuditQuery) {
  const before = query.cursor === undefined ? null : fromCursor(query.cursor)
  if (before === undefined) {
    return yield* new ValidationFailed({ field: "cursor", message: "must be the nextCursor of an earlier answer" })
  }
  const limit = query.limit ?? defaultLimit
  const rows = yield* Effect.orDie(searchEntries(sql)({ ...reach, query, before, limit: limit + 1 }))
  const items = rows.slice(0, limit)
  const last = items.at(-1)
  const found: AuditPage = {
    items: items.map(({ body }) => body),
    nextCursor: rows.length > limit && last !== undefined ? toCursor(last.id) : null
  }
  return found
})

const wholeTeam = (teamId: TeamId): typeof Reach.Type => ({
  teamIds: [teamId],
  projectIds: null,
  environmentIds: null
})

/** For owners and admins of the team. */
const list = Effect.fn("AuditTrail.list")(function* (needs: Needs, teamId: TeamId, query: AuditQuery) {
  const { target } = yield* needs.access.team("audit-trail:read", teamId, { audit: "audit.read" })
  return yield* page(needs, wholeTeam(target.teamId), query)
})

/**
 * Teams of the caller whose role may read the trail; all of them when there is none, so that each refusal is recorded.
 */
const readableTeams = (teams: ReadonlyArray<CallerTeam>) => {
  const readable = teams.filter(({ role }) => role === null || Policy.roleAllows(role, "audit:read"))
  return (readable.length > 0 ? readable : teams).map(({ id }) => id)
}

/**
 * Of every team that the caller's scope `audit:read` reaches, or of the team of one project. A narrowed credential sees
 * nothing of the rest of its team.
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
 * The entries of a team as a stream, newest first, read page by page as they are taken; at most `exportLimit`. For
 * owners and admins; that the trail was exported is on record before the first entry leaves.
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

export class AuditTrail extends Effect.Service<AuditTrail>()("access/AuditTrail", {
  effect: Effect.gen(function* () {
    const needs: Needs = { access: yield* Access, audit: yield* Audit, sql: yield* SqlClient.SqlClient }
    return methods(needs, { list, listReachable, exportEntries })
  })
}) {}
