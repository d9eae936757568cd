/** Rows of `audit_seals`: the last sealed head of each stream, under a MAC of the vault. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Rows from "#src/database/Rows.ts"
import * as Chain from "#src/audit/Chain.ts"
import { inTime, type Vault } from "#src/crypto/Vault.ts"
import { Bytes } from "./StreamRows.ts"

export const SealRow = Schema.Struct({
  stream: Schema.String,
  seq: Schema.Int,
  hash: Bytes,
  final: Schema.Boolean,
  rootKeyId: Schema.String,
  mac: Bytes,
  sealedAt: Schema.DateFromSelf,
  seenAt: Schema.DateFromSelf
})
export type SealRow = typeof SealRow.Type

export const columns = (sql: SqlClient.SqlClient) =>
  sql.literal("stream, seq, hash, final, root_key_id, mac, sealed_at, seen_at")

export const all = (sql: SqlClient.SqlClient) =>
  Rows.decodeAll(SealRow, sql`SELECT ${columns(sql)} FROM audit_seals ORDER BY stream`)

/** Seals made since then, of streams with entries. */
export const sealedSince = (sql: SqlClient.SqlClient) => (since: Date) =>
  Rows.decodeAll(
    SealRow,
    sql`
      SELECT ${columns(sql)} FROM audit_seals WHERE seq > 0 AND sealed_at >= ${since} ORDER BY stream`
  )

export const ofStreams = (sql: SqlClient.SqlClient) => (streams: ReadonlyArray<string>) =>
  Rows.decodeAll(SealRow, sql`SELECT ${columns(sql)} FROM audit_seals WHERE stream = ANY(${streams}::uuid[])`)

/** Whether the vault made the seal. False also if it lacks the root key. */
export const isGenuine = (vault: Vault["Type"], { final, hash, mac, rootKeyId, seq, stream }: SealRow) =>
  inTime(vault.auditHeadMatches(Chain.sealText({ stream, seq, hash }, final), { mac, rootKeyId }))

/** False: the stream is closed, or has a later seal. */
export const put = Effect.fnUntraced(function* (
  { sql, vault }: { readonly sql: SqlClient.SqlClient; readonly vault: Vault["Type"] },
  head: Chain.Head,
  final: boolean,
  at: number
) {
  const { mac, rootKeyId } = yield* inTime(vault.macAuditHead(Chain.sealText(head, final)))
  const now = new Date(at)
  const rows = yield* sql`
    INSERT INTO audit_seals (stream, seq, hash, final, root_key_id, mac, sealed_at, seen_at)
    VALUES (${head.stream}, ${head.seq}, ${head.hash}, ${final}, ${rootKeyId}, ${mac}, ${now}, ${now})
    ON CONFLICT (stream) DO UPDATE SET seq = excluded.seq, hash = excluded.hash, final = excluded.final,
      root_key_id = excluded.root_key_id, mac = excluded.mac, sealed_at = excluded.sealed_at, seen_at = excluded.seen_at
    WHERE NOT audit_seals.final AND audit_seals.seq <= excluded.seq
    RETURNING stream`
  return rows.length === 1
})

/** Replaces another process's final seal with the end that the stream's own process knows. */
export const overrule = Effect.fnUntraced(function* (
  { sql, vault }: { readonly sql: SqlClient.SqlClient; readonly vault: Vault["Type"] },
  { hash, seq }: SealRow,
  head: Chain.Head,
  at: number
) {
  const { mac, rootKeyId } = yield* inTime(vault.macAuditHead(Chain.sealText(head, true)))
  const now = new Date(at)
  yield* sql`
    UPDATE audit_seals SET seq = ${head.seq}, hash = ${head.hash}, root_key_id = ${rootKeyId}, mac = ${mac},
      sealed_at = ${now}, seen_at = ${now}
    WHERE stream = ${head.stream} AND final AND seq = ${seq} AND hash = ${hash}`
})

/** Removes the seal of a stream without entries, which then needs no closing. */
export const discard = (sql: SqlClient.SqlClient, stream: string) =>
  sql`DELETE FROM audit_seals WHERE stream = ${stream} AND seq = 0`

const HashRow = Schema.Struct({ hash: Schema.NullOr(Bytes) })

/** Whether a sealed entry is intact, or a recorded cut of the trail removed it. */
export const isIntact = (sql: SqlClient.SqlClient, { hash, seq, stream }: Chain.Head) =>
  seq === 0
    ? Effect.succeed(true)
    : Effect.map(
        Rows.decodeAll(
          HashRow,
          sql`
            SELECT hash FROM audit_entries WHERE stream = ${stream} AND seq = ${seq}
            UNION ALL SELECT NULL FROM audit_cuts WHERE stream = ${stream} AND seq >= ${seq}`
        ),
        (rows) => rows.some((row) => row.hash === null || Chain.sameBytes(row.hash, hash))
      )
