/**
 * Finds the parts of a team's trail that mention a term, so that a search reads only those. A part is a prefix of ids,
 * which are UUIDv7, and spans 2^24 milliseconds (4.7 hours). The index is filled later from sealed entries, because an
 * index on the entries would slow down every read of a secret.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Rows from "#src/database/Rows.ts"

/** Hexadecimal digits of a part. */
const partDigits = 6
/** Entries that one statement reads. */
const batchSize = 500
/** Any fixed number: the advisory lock of the filling process. */
const lock = 97_109_113

/** Maximum disorder of ids against time in one stream (ms): the longest wait of a transaction. */
const maxDisorderMillis = 600_000
/** Entries younger than this (ms) are searched directly: their stream may not be sealed yet. */
const unsealedMillis = 3_600_000

/** The lowest UUIDv7 of a time in milliseconds since 1970. */
export const lowestId = (millis: number): string => {
  const hex = Math.max(0, Math.floor(millis)).toString(16).padStart(12, "0")
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7000-8000-000000000000`
}
const millisOf = (id: string): number => Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16)

export const partOf = (id: string): string => id.slice(0, partDigits)
/** The last part with ids below this one. */
export const lastPartBelow = (id: string): string => {
  const millis = millisOf(id)
  return partOf(lowestId(id === lowestId(millis) ? millis - 1 : millis))
}
/** The lowest id of a part, or of a later part. */
export const beginOf = (part: string, later = 0): string =>
  lowestId((Number.parseInt(part, 16) + later) * 2 ** (48 - 4 * partDigits))

export const term = {
  action: (action: string) => `action:${action}`,
  actor: (id: string) => `actor:${id}`,
  project: (id: string) => `project:${id}`,
  environment: (slug: string) => `environment:${slug}`,
  environmentId: (id: string) => `environmentId:${id}`,
  key: (key: string) => `key:${key}`,
  /** `hash` is the hexadecimal hash of a key list. */
  keyList: (hash: string) => `keys:${hash}`
}

const LockRow = Schema.Struct({ locked: Schema.Boolean })
const BehindRow = Schema.Struct({ stream: Schema.String, first: Schema.Int, last: Schema.Int })

/** Indexes some entries of one stream. False: there are none, or another process does it. */
const fillSome = (sql: SqlClient.SqlClient) =>
  sql.withTransaction(
    Effect.gen(function* () {
      const { locked } = yield* Rows.single(LockRow, sql`SELECT pg_try_advisory_xact_lock(${lock}::bigint) AS locked`)
      if (!locked) return false
      const behind = yield* Rows.findOne(
        BehindRow,
        sql`
          SELECT stream, searchable AS first, least(seq, searchable + ${batchSize}) AS last
          FROM audit_seals WHERE seq > searchable LIMIT 1`
      )
      if (behind === undefined) return false
      const { first, last, stream } = behind
      yield* sql`
        INSERT INTO audit_terms (team_id, part, term)
        WITH entries AS (
          SELECT team_id, left(id::text, ${partDigits}) AS part, action, actor_id, project_id, environment_id,
            environment, key_list, body::jsonb -> 'keys' AS keys
          FROM audit_entries
          WHERE stream = ${stream} AND seq > ${first} AND seq <= ${last} AND team_id IS NOT NULL
        )
        SELECT team_id, part, t.term FROM entries, LATERAL (VALUES
          ('action:' || action), ('actor:' || actor_id), ('project:' || project_id),
          ('environment:' || environment), ('environmentId:' || environment_id),
          ('keys:' || encode(key_list, 'hex'))
        ) AS t (term) WHERE t.term IS NOT NULL
        UNION
        SELECT team_id, part, 'key:' || key
        FROM (SELECT DISTINCT team_id, part, keys FROM entries) AS lists, jsonb_array_elements_text(keys) AS key
        ON CONFLICT DO NOTHING`
      yield* sql`UPDATE audit_seals SET searchable = ${last} WHERE stream = ${stream}`
      return true
    })
  )

/** Indexes entries up to the seals. */
export const fill = (sql: SqlClient.SqlClient) => Effect.repeat(fillSome(sql), { while: (more) => more })

const IdRow = Schema.Struct({ id: Schema.String })

/** The id from which entries may be missing in the index. */
export const filledTo = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  const oldest = yield* Rows.findOne(
    IdRow,
    sql`
      SELECT e.id FROM audit_seals s, LATERAL (
        SELECT id FROM audit_entries WHERE stream = s.stream AND seq > s.searchable ORDER BY seq LIMIT 1
      ) AS e
      WHERE s.seq > s.searchable OR NOT s.final ORDER BY e.id LIMIT 1`
  )
  const sealedBefore = (yield* Clock.currentTimeMillis) - unsealedMillis
  return lowestId(oldest === undefined ? sealedBefore : Math.min(sealedBefore, millisOf(oldest.id) - maxDisorderMillis))
})
