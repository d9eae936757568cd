/** Key lists that entries name by hash (`src/audit/Chain.ts`). They are never altered or deleted. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Rows from "#src/database/Rows.ts"

/** Hexadecimal hashes of lists known to be stored. */
export type StoredHashes = Set<string>
const maxStored = 10_000

/**
 * Stores lists before an entry names them. Never in a transaction: a rollback would remove a list remembered as stored.
 */
export const store = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  stored: StoredHashes,
  lists: ReadonlyMap<string, ReadonlyArray<string>>
) {
  for (const [hash, keys] of lists) {
    if (stored.has(hash)) continue
    yield* sql`
      INSERT INTO audit_key_lists (hash, keys) VALUES (${Buffer.from(hash, "hex")}, ${keys}) ON CONFLICT DO NOTHING`
    if (stored.size >= maxStored) stored.clear()
    stored.add(hash)
  }
})

export const ListRow = Schema.Struct({ hash: Schema.String, keys: Schema.Array(Schema.String) })

/** Returns lists by hash, without those that do not exist. */
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
