/** Reading a team's trail (decisions 9 and 10). Entries are answered as they were hashed: the body is the record. */
import * as SqlClient from "@effect/sql/SqlClient"
import type { Fragment } from "@effect/sql/Statement"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { AuditEntry } from "#schema/Audit.ts"
import type { AuditPage, AuditQuery } from "#schema/AuditApi.ts"
import type { Restrictions } from "#schema/Caller.ts"
import { ValidationFailed } from "#schema/Errors.ts"
import { uuidPattern } from "#schema/Ids.ts"
import { Audit } from "./Audit.ts"
import type { TeamPermit } from "./Permit.ts"

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

const decode = Schema.decodeUnknown(Schema.parseJson(AuditEntry))

export class AuditTrail extends Effect.Service<AuditTrail>()("access/AuditTrail", {
  effect: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const audit = yield* Audit

    /** Newest first: ids are UUIDv7, so their order is the order of time. `since` is included, `until` is not. */
    const select = Effect.fnUntraced(function* (reach: ReadonlyArray<Fragment>, query: AuditQuery) {
      const after = query.cursor === undefined ? null : fromCursor(query.cursor)
      if (after === undefined) {
        return yield* new ValidationFailed({ field: "cursor", message: "must be the nextCursor of an earlier answer" })
      }
      const limit = query.limit ?? defaultLimit
      const conditions = [
        ...reach,
        ...(after === null ? [] : [sql`id < ${after}::uuid`]),
        ...(query.action === undefined ? [] : [sql`action = ${query.action}`]),
        ...(query.actor === undefined ? [] : [sql`actor_id = ${query.actor}`]),
        ...(query.projectId === undefined ? [] : [sql`project_id = ${query.projectId}::uuid`]),
        ...(query.environment === undefined ? [] : [sql`environment = ${query.environment}`]),
        ...(query.key === undefined ? [] : [sql`body::jsonb -> 'keys' @> to_jsonb(${query.key}::text)`]),
        ...(query.since === undefined ? [] : [sql`at >= ${query.since}::timestamptz`]),
        ...(query.until === undefined ? [] : [sql`at < ${query.until}::timestamptz`])
      ]
      const rows = yield* sql<{ readonly id: string; readonly body: string }>`
        SELECT id, body FROM audit_entries WHERE ${sql.and(conditions)} ORDER BY id DESC LIMIT ${limit + 1}`.pipe(
        Effect.orDie
      )
      const shown = rows.slice(0, limit)
      const last = shown.at(-1)
      const page: AuditPage = {
        items: yield* Effect.orDie(Effect.forEach(shown, (row) => decode(row.body))),
        nextCursor: rows.length > limit && last !== undefined ? toCursor(last.id) : null
      }
      return page
    })

    const list = Effect.fn("AuditTrail.list")(function* (permit: TeamPermit<"audit-trail:read">, query: AuditQuery) {
      return yield* select([sql`team_id = ${permit.target.teamId}`], query)
    })

    /** Of several teams, narrowed to what the caller reaches: a narrowed credential sees nothing of the rest of its team. */
    const across = Effect.fn("AuditTrail.across")(function* (
      permits: ReadonlyArray<TeamPermit<"audit:read">>,
      { environmentIds, projectIds }: Restrictions,
      query: AuditQuery
    ) {
      return yield* select(
        [
          sql`team_id = any(${permits.map((permit) => permit.target.teamId)}::uuid[])`,
          ...(projectIds === null ? [] : [sql`project_id = any(${projectIds}::uuid[])`]),
          ...(environmentIds === null ? [] : [sql`environment_id = any(${environmentIds}::uuid[])`])
        ],
        query
      )
    })

    /** The same entries as a stream, read page by page as they are taken. That it was asked for is on record first. */
    const everything = Effect.fn("AuditTrail.everything")(function* (
      permit: TeamPermit<"audit-trail:read">,
      query: Omit<AuditQuery, "cursor" | "limit">
    ) {
      yield* audit.record(permit.event())
      return Stream.paginateChunkEffect(undefined as string | undefined, (cursor) =>
        list(permit, { ...query, limit: exportPage, ...(cursor === undefined ? {} : { cursor }) }).pipe(
          Effect.orDie,
          Effect.map((page) => [Chunk.fromIterable(page.items), Option.fromNullable(page.nextCursor)] as const)
        )
      ).pipe(Stream.take(exportLimit))
    })

    return { list, across, everything } as const
  })
}) {}
