/**
 * Which parts of a team's trail are about a term, so that a search looks at those parts alone. A part is what the ids of
 * 2^24 milliseconds (4.7 hours) begin with: ids are UUIDv7. It is filled behind the entries, from what stands under a
 * seal: an index beside the entries would cost every read of a secret its time.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Rows from "#src/database/Rows.ts"

/** Hexadecimal digits of a part. */
const partDigits = 6
/** Entries that one statement reads. */
const atATime = 500
/** Any fixed number: the lock of the process that fills. */
const lock = 97_109_113

/** Ids of one stream stand in the order of time but for this (milliseconds): the longest that a transaction waits. */
const disorder = 600_000
/** Entries younger than this are looked at one by one: their stream may have no seal yet. */
const young = 3_600_000

/** The lowest UUIDv7 of a time, milliseconds since 1970. */
export const lowestId = (millis: number): string => {
  const hex = Math.max(0, Math.floor(millis)).toString(16).padStart(12, "0")
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7000-8000-000000000000`
}
const millisOf = (id: string): number => Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16)

export const partOf = (id: string): string => id.slice(0, partDigits)
/** The last part of which ids can be below this one. */
export const lastPartBelow = (id: string): string => {
  const millis = millisOf(id)
  return partOf(lowestId(id === lowestId(millis) ? millis - 1 : millis))
}
/** The lowest id of a part, or of one so many parts later. */
export const beginOf = (part: string, later = 0): string =>
  lowestId((Number.parseInt(part, 16) + later) * 2 ** (48 - 4 * partDigits))

export const term = {
  action: (action: string) => `action:${action}`,
  actor: (id: string) => `actor:${id}`,
  project: (id: string) => `project:${id}`,
  environment: (slug: string) => `environment:${slug}`,
  environmentId: (id: string) => `environmentId:${id}`,
  key: (key: string) => `key:${key}`,
  /** `hash`: of a list of keys, in hexadecimal. */
  keyList: (hash: string) => `keys:${hash}`
}

const LockRow = Schema.Struct({ locked: Schema.Boolean })
const BehindRow = Schema.Struct({ stream: Schema.String, first: Schema.Int, last: Schema.Int })

/** Takes on some entries of one stream. False: there are none, or another process is at it. */
const fillSome = (sql: SqlClient.SqlClient) =>
  sql.withTransaction(
    Effect.gen(function* () {
      const { locked } = yield* Rows.single(LockRow, sql`SELECT pg_try_advisory_xact_lock(${lock}::bigint) AS locked`)
      if (!locked) return false
      const behind = yield* Rows.findOne(
        BehindRow,
        sql`
          SELECT stream, searchable AS first, least(seq, searchable + ${atATime}) AS last
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

/** Catches up with the seals. */
export const fill = (sql: SqlClient.SqlClient) => Effect.repeat(fillSome(sql), { while: (more) => more })

const IdRow = Schema.Struct({ id: Schema.String })

/** Entries from this id on may be missing in the index. */
export const filledTo = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  const oldest = yield* Rows.findOne(
    IdRow,
    sql`
      SELECT e.id FROM audit_seals s, LATERAL (
        SELECT id FROM audit_entries WHERE stream = s.stream AND seq > s.searchable ORDER BY seq LIMIT 1
      ) AS e
      WHERE s.seq > s.searchable OR NOT s.final ORDER BY e.id LIMIT 1`
  )
  const settled = (yield* Clock.currentTimeMillis) - young
  return lowestId(oldest === undefined ? settled : Math.min(settled, millisOf(oldest.id) - disorder))
})
