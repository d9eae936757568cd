/** The last reads of an environment's secrets, from the index of the trail. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { LastRead } from "#schema/ExposureApi.ts"
import type { EnvironmentId, ProjectId } from "#schema/Ids.ts"
import { readWays } from "#schema/ExposureWays.ts"
import { days } from "#src/Days.ts"
import * as Rows from "#src/database/Rows.ts"
import { holderColumns } from "./ExposureRows.ts"

/** Most sets of keys, latest first. An environment whose keys change with each read has any number of sets. */
const maxKeySets = 1_000
export const unreadAfter = days(90)

const LastReadRow = Schema.Struct({ ...LastRead.fields, at: Rows.Iso, key: Schema.String })

/** Groups reads of the same keys before it looks at their keys. */
const ofKeys = (
  sql: SqlClient.SqlClient,
  at: { readonly projectId: ProjectId; readonly environmentId: EnvironmentId },
  keys: ReadonlyArray<string>
) =>
  Rows.findAll(
    LastReadRow,
    sql`
      WITH alike AS MATERIALIZED (
        SELECT keys, key_list, max(last_at) AS at, (array_agg(id ORDER BY last_at DESC, id))[1] AS id
        FROM exposure_reads
        WHERE project_id = ${at.projectId} AND environment_id = ${at.environmentId}
          AND way = ANY(${readWays}::text[])
        GROUP BY keys, key_list
      ),
      each AS (
        SELECT k.key, a.at, a.id FROM alike a, unnest(a.keys) AS k (key)
        UNION ALL
        SELECT k.key, a.at, a.id
        FROM (SELECT * FROM alike WHERE key_list IS NOT NULL ORDER BY at DESC LIMIT ${maxKeySets}) AS a
        JOIN audit_key_lists l ON l.hash = a.key_list, unnest(l.keys) AS k (key)
      ),
      latest AS (
        SELECT DISTINCT ON (key) key, at, id FROM each WHERE key = ANY(${keys}::text[]) ORDER BY key, at DESC, id
      )
      SELECT l.key, l.at, h.way, h.via, json_build_object('type', h.holder_type, 'id', h.holder_id,
        'name', h.holder_name, 'person', h.person) AS holder
      FROM latest l JOIN (SELECT r.id, r.way, r.via, ${sql.literal(holderColumns)}) AS h ON h.id = l.id`
  )

const SinceRow = Schema.Struct({ since: Schema.NullOr(Schema.DateFromSelf) })

/** The time from which the trail has all reads. Null: from the first one. */
const trailStart = (sql: SqlClient.SqlClient) =>
  Effect.map(
    Rows.single(
      SinceRow,
      sql`SELECT max(substring(note FROM 'before ([0-9TZ:.-]+)')::timestamptz) AS since FROM audit_cuts`
    ),
    ({ since }) => since?.getTime() ?? Number.NEGATIVE_INFINITY
  )

interface LastReads {
  readonly of: (secret: { readonly key: string; readonly createdAt: string }) => {
    readonly lastRead: LastRead | null
    readonly notReadFor90Days: boolean
  }
}

export const lastReads = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  at: Parameters<typeof ofKeys>[1],
  keys: ReadonlyArray<string>,
  now: number
) {
  const rows = yield* ofKeys(sql, at, keys)
  const start = yield* trailStart(sql)
  const byKey = new Map(rows.map(({ key, ...read }) => [key, read]))
  const limit = now - unreadAfter
  const result: LastReads = {
    of: ({ createdAt, key }) => {
      const lastRead = byKey.get(key) ?? null
      const notReadFor90Days =
        lastRead === null ? start <= limit && Date.parse(createdAt) <= limit : Date.parse(lastRead.at) <= limit
      return { lastRead, notReadFor90Days }
    }
  }
  return result
})
