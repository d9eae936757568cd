/** Lists of keys that entries name by their hash (`src/audit/KeyList.ts`). They are never altered or deleted. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Rows from "#src/database/Rows.ts"

/** Hashes, in hexadecimal, of lists that this process knows to be stored. */
export type Stored = Set<string>
const storedAtMost = 10_000

/** Before an entry may name them. Outside of a transaction: what is rolled back would be taken for stored. */
export const store = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  stored: Stored,
  lists: ReadonlyMap<string, ReadonlyArray<string>>
) {
  for (const [hash, keys] of lists) {
    if (stored.has(hash)) continue
    yield* sql`
      INSERT INTO audit_key_lists (hash, keys) VALUES (${Buffer.from(hash, "hex")}, ${keys}) ON CONFLICT DO NOTHING`
    if (stored.size >= storedAtMost) stored.clear()
    stored.add(hash)
  }
})

export const ListRow = Schema.Struct({ hash: Schema.String, keys: Schema.Array(Schema.String) })

/** By hash; one that is not stored is missing. */
export const find = (sql: SqlClient.SqlClient, hashes: ReadonlySet<string>) =>
  hashes.size === 0
    ? Effect.succeed(new Map<string, ReadonlyArray<string>>())
    : Effect.map(
        Rows.findAll(
          ListRow,
          sql`
            SELECT encode(hash, 'hex') AS hash, keys FROM audit_key_lists
            WHERE hash = ANY(${[...hashes].map((hash) => Buffer.from(hash, "hex"))}::bytea[])`
        ),
        (rows) => new Map(rows.map(({ hash, keys }) => [hash, keys]))
      )
