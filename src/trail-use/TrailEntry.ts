/**
 * One entry of a trail and its proof: the hashed text, the link before it, and the sealed head of its stream. A stream
 * contains entries of several teams. Of other teams' entries, it reveals only that their links are intact.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { AuditEntry } from "#schema/Audit.ts"
import { RouteNotFound } from "#schema/Errors.ts"
import type { TeamId } from "#schema/Ids.ts"
import * as Chain from "#src/audit/Chain.ts"
import * as Export from "#src/audit/Export.ts"
import * as Rows from "#src/database/Rows.ts"
import type { Access } from "#src/access/Access.ts"
import * as KeyLists from "#src/trail/KeyLists.ts"

interface Needs {
  readonly access: Access
  readonly sql: SqlClient.SqlClient
}

const SealColumns = Schema.Struct({
  seq: Schema.Number,
  hash: Schema.String,
  final: Schema.Boolean,
  at: Schema.String
})
const EntryRow = Schema.Struct({
  stream: Schema.String,
  seq: Schema.Number,
  body: Schema.String,
  hash: Schema.String,
  previous: Schema.NullOr(Schema.String),
  seal: Schema.NullOr(SealColumns)
})
type EntryRow = typeof EntryRow.Type

/** Columns of the following entries, typed at the statement, as there may be a thousand. */
interface LinkRow {
  readonly seq: number
  readonly body: string
  readonly hash: Buffer
  readonly own: boolean
  readonly keyList: string | null
}

/** Most entries to check between an entry and the head above it: as many as arrive between two seals. */
const maxLinks = 1_000

/** In place of a missing previous hash: no entry matches it. */
const noLink = "00".repeat(32)

/**
 * `sealed`: each link up to the sealed head is intact. `waits`: no seal covers the entry yet. `far`: the seal is over a
 * thousand entries later, so only `ampoule audit verify` checks it. `broken`: a link is broken.
 */
export type Proof = "sealed" | "waits" | "far" | "broken"

export interface ProvedEntry {
  readonly entry: AuditEntry
  /** The hashed text, byte for byte. */
  readonly body: string
  readonly stream: string
  readonly seq: number
  /** Hexadecimal, as all hashes here. */
  readonly hash: string
  readonly previous: string
  readonly seal: typeof SealColumns.Type | null
  readonly proof: Proof
  /** An export (`src/audit/Export.ts`), up to the sealed head if no entry of another team is in between. */
  readonly file: string
}

const StoredEntry = Schema.parseJson(Schema.Struct({ ...AuditEntry.fields, keyList: Schema.optional(Schema.String) }))
const decodeBody = Schema.decodeUnknown(StoredEntry)

const rowOf = (sql: SqlClient.SqlClient, teamId: TeamId, id: string) =>
  Rows.findOne(
    EntryRow,
    sql`
      SELECT e.stream, e.seq::int AS seq, e.body, encode(e.hash, 'hex') AS hash, encode(coalesce(p.hash, c.hash), 'hex') AS previous,
        CASE WHEN s.seq > 0 THEN json_build_object('seq', s.seq, 'hash', encode(s.hash, 'hex'), 'final', s.final,
          'at', to_char(s.sealed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')) END AS seal
      FROM audit_entries e
      LEFT JOIN audit_entries p ON p.stream = e.stream AND p.seq = e.seq - 1
      LEFT JOIN audit_cuts c ON c.stream = e.stream AND c.seq = e.seq - 1
      LEFT JOIN audit_seals s ON s.stream = e.stream
      WHERE e.team_id = ${teamId} AND e.id = ${id}::uuid LIMIT 1`
  )

/** The entry and those after it, up to the sealed head. */
const linksOf = (sql: SqlClient.SqlClient, teamId: TeamId, { seal, seq, stream }: EntryRow) =>
  Effect.orDie(sql<LinkRow>`
    SELECT seq::int AS seq, body, hash, coalesce(team_id = ${teamId}, false) AS own, encode(key_list, 'hex') AS key_list
    FROM audit_entries
    WHERE stream = ${stream} AND seq >= ${seq} AND seq <= ${Math.max(seq, Math.min(seal?.seq ?? seq, seq + maxLinks))}
    ORDER BY seq`)

const proofOf = (row: EntryRow, previous: Uint8Array, links: ReadonlyArray<LinkRow>): Proof => {
  let head = previous
  for (const [i, { body, hash, seq }] of links.entries()) {
    const computed = Chain.chain(head, body)
    if (seq !== row.seq + i || !Chain.sameBytes(computed, hash)) return "broken"
    head = computed
  }
  if (row.seal === null || row.seal.seq < row.seq) return "waits"
  if (row.seal.seq > row.seq + maxLinks) return "far"
  return Chain.sameBytes(head, Buffer.from(row.seal.hash, "hex")) ? "sealed" : "broken"
}

/** The file that a person keeps, and that `ampoule audit verify FILE` reads. */
const fileOf = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { seal, seq, stream }: EntryRow,
  previous: Uint8Array,
  links: ReadonlyArray<LinkRow>,
  at: string,
  proof: Proof
) {
  const reachesSeal = proof === "sealed" && links.every(({ own }) => own)
  const exported = reachesSeal ? links : links.slice(0, 1)
  const lists = yield* KeyLists.find(sql, new Set(exported.flatMap(({ keyList }) => keyList ?? [])))
  const now = new Date(yield* Clock.currentTimeMillis).toISOString()
  const lines: ReadonlyArray<Export.Line> = [
    { type: "export", info: { at: now, since: at, until: reachesSeal ? null : at } },
    ...(reachesSeal && seal !== null
      ? [
          {
            type: "seal",
            head: { stream, seq: seal.seq, hash: Buffer.from(seal.hash, "hex") },
            final: seal.final
          } as const
        ]
      : []),
    { type: "start", head: { stream, seq: seq - 1, hash: previous } },
    ...[...lists].map(([hash, keys]) => ({ type: "keys", hash, keys }) as const),
    ...exported.map(({ body, hash }) => ({ type: "entry", body, hash }) as const),
    { type: "end", entries: exported.length }
  ]
  return lines.map(Export.print).join("")
})

/** For owners and admins of the team. Another team's entry does not exist here. */
export const entry = Effect.fn("AuditTrail.entry")(function* ({ access, sql }: Needs, teamId: TeamId, id: string) {
  const { target } = yield* access.team("audit-trail:read", teamId, { audit: "audit.read" })
  const row = yield* rowOf(sql, target.teamId, id)
  if (row === undefined) return yield* new RouteNotFound()
  const links = yield* linksOf(sql, target.teamId, row)
  const { keyList, ...stored } = yield* Effect.orDie(decodeBody(row.body))
  const lists = yield* KeyLists.find(sql, new Set(keyList === undefined ? [] : [keyList]))
  const previous = row.seq === 1 ? Chain.genesis(row.stream) : Buffer.from(row.previous ?? noLink, "hex")
  const proof = proofOf(row, previous, links)
  const result: ProvedEntry = {
    entry: keyList === undefined ? stored : { ...stored, keys: lists.get(keyList) ?? stored.keys },
    body: row.body,
    stream: row.stream,
    seq: row.seq,
    hash: row.hash,
    previous: Buffer.from(previous).toString("hex"),
    seal: row.seal !== null && row.seal.seq >= row.seq ? row.seal : null,
    proof,
    file: yield* fileOf(sql, row, previous, links, stored.at, proof)
  }
  return result
})
