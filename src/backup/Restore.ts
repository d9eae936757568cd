/** Bringing a backup back into an empty database: all of it, compared with what was written, or nothing. */
import * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"
import { createReadStream } from "node:fs"
import { pipeline } from "node:stream"
import { createGunzip } from "node:zlib"
import { VaultUnavailable } from "#schema/Vault.ts"
import * as Envelope from "#src/crypto/Envelope.ts"
import { Vault } from "#src/crypto/Vault.ts"
import * as Archive from "./Archive.ts"
import type { Progress } from "./Backup.ts"
import * as SealedFile from "./SealedFile.ts"
import { SealedFileRefused } from "./SealedFile.ts"

const refuse = (message: string) => new SealedFileRefused({ message })

const bytesOf = (file: string, kind: SealedFile.Kind, identity: Redacted.Redacted<Uint8Array>, compressed: boolean) => {
  const steps = compressed
    ? ([SealedFile.opening(kind, identity), createGunzip()] as const)
    : ([SealedFile.opening(kind, identity)] as const)
  const last = steps[steps.length - 1] ?? steps[0]
  pipeline([createReadStream(file), ...steps], () => {})
  return Stream.fromAsyncIterable<Uint8Array, SealedFileRefused>(last, (error) =>
    error instanceof SealedFileRefused ? error : refuse(`${file} cannot be read, or is damaged.`)
  )
}

/** The text of a root key file. */
export const openRootKey = (file: string, identity: Redacted.Redacted<Uint8Array>) =>
  Stream.runCollect(bytesOf(file, "ampoule-root-key v1", identity, false)).pipe(
    Effect.map((parts) => Redacted.make(Buffer.concat([...parts]).toString("utf8")))
  )

export interface Options<E, R> {
  readonly file: string
  readonly identity: Redacted.Redacted<Uint8Array>
  /** Brings an empty database to the state that a migration left, or to the newest. */
  readonly migrate: (upTo: number | null) => Effect.Effect<unknown, E, R>
  readonly known: ReadonlyArray<readonly [id: number, name: string]>
  readonly progress: Progress
}

/** Rows of one statement, at most; and about this much text. */
const batchRows = 500
const batchText = 2_000_000

const holdsSomething = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* sql<{ readonly n: number }>`
    SELECT count(*)::int AS n FROM pg_class
    WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f', 'S')`
  if ((found?.n ?? 0) === 0) return false
  const [ledger] = yield* sql<{ readonly there: boolean }>`SELECT to_regclass(${Archive.ledger}) IS NOT NULL AS there`
  if (ledger?.there !== true) return true
  // Migrated, and never used.
  for (const table of yield* Archive.tables) {
    const rows = yield* sql`SELECT 1 FROM ${sql(table.name)} LIMIT 1`
    if (rows.length > 0) return true
  }
  return false
})

/**
 * One transaction: a restore that is killed leaves the database empty, and can be run again. Every table is read back and
 * compared with the digest in the backup before anything is committed.
 */
export const restore = <E, R>(options: Options<E, R>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    return yield* sql.withTransaction(
      Effect.gen(function* () {
        if (yield* holdsSomething) {
          return yield* refuse(
            "The database is not empty. A backup is restored into an empty one, and replaces nothing."
          )
        }
        yield* Archive.fixedText
        let info: Archive.Info | undefined
        let targets = new Map<string, Archive.Table>()
        let current: { readonly table: Archive.Table; readonly columns: ReadonlyArray<string> } | undefined
        let digest = new Archive.Digest()
        let batch: Array<ReadonlyArray<string | null>> = []
        let length = 0
        let total = 0
        let done = false
        const ends = new Map<string, { readonly rows: number; readonly digest: string }>()

        const flush = Effect.suspend(() => {
          const [rows, at] = [batch, current]
          batch = []
          length = 0
          if (rows.length === 0 || at === undefined) return Effect.void
          total += rows.length
          return Effect.zipRight(Archive.insert(at.table, at.columns, rows), options.progress(at.table.name, total))
        })

        const start = Effect.fnUntraced(function* (found: Archive.Info) {
          const newest = Math.max(0, ...options.known.map(([id]) => id))
          const last = found.migrations.at(-1)?.[0] ?? 0
          if (last > newest) {
            return yield* refuse(`The backup was made by a newer Ampoule (${found.release}); restore it with that one.`)
          }
          const names = new Map(options.known)
          if (found.migrations.some(([id, name]) => names.get(id) !== name)) {
            return yield* refuse("The backup was made by another program or version: its tables are not known here.")
          }
          yield* options.migrate(last)
          yield* Archive.fixedText
          const ordered = yield* Archive.tables
          for (const table of ordered.toReversed()) yield* sql`DELETE FROM ${sql(table.name)}`
          targets = new Map(ordered.map((table) => [table.name, table]))
          info = found
        })

        const take = Effect.fnUntraced(function* (text: string) {
          const line = Archive.parse(text)
          if (line === undefined || done || (info === undefined) !== (line.type === "backup")) {
            return yield* refuse("The backup is damaged, or holds something that this version does not know.")
          }
          switch (line.type) {
            case "backup":
              return yield* start(line.info)
            case "table": {
              const table = targets.get(line.name)
              const known = new Set(table?.columns.map(({ name }) => name))
              if (
                table === undefined ||
                known.size !== line.columns.length ||
                !line.columns.every((c) => known.has(c))
              ) {
                return yield* refuse(`The backup holds a table that is not known here (${line.name}).`)
              }
              current = { table, columns: line.columns }
              digest = new Archive.Digest()
              return
            }
            case "row": {
              digest.add(text)
              batch.push(line.row)
              length += text.length
              if (batch.length >= batchRows || length >= batchText) yield* flush
              return
            }
            case "end": {
              yield* flush
              if (current?.table.name !== line.name || digest.rows !== line.rows || String(digest) !== line.digest) {
                return yield* refuse(`The backup contradicts itself about ${line.name}.`)
              }
              ends.set(line.name, line)
              return
            }
            case "done": {
              if (line.rows !== total || line.tables !== ends.size || ends.size !== targets.size) {
                return yield* refuse("The backup is not complete.")
              }
              done = true
            }
          }
        })

        yield* bytesOf(options.file, "ampoule-backup v1", options.identity, true).pipe(
          Stream.decodeText(),
          Stream.splitLines,
          Stream.runForEach(take)
        )
        if (!done || info === undefined) return yield* refuse("The backup is not complete.")
        let compared = 0
        for (const [name, expected] of ends) {
          const table = targets.get(name)
          if (table === undefined) continue
          const found = yield* Archive.digest(table)
          if (found.rows !== expected.rows || String(found) !== expected.digest) {
            return yield* refuse(`What was restored differs from the backup (${name}). Nothing was kept.`)
          }
          compared += found.rows
          yield* options.progress("comparing", compared)
        }
        yield* options.migrate(null)
        return { info, tables: ends.size, rows: total }
      })
    )
  })

/** Names of the root keys that the database was sealed with. */
export const rootKeyIds = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly rootKeyId: string }>`
    SELECT root_key_id FROM data_keys UNION SELECT root_key_id FROM sealing_keys
    UNION SELECT root_key_id FROM service_keys UNION SELECT root_key_id FROM webhook_secrets
            UNION SELECT root_key_id FROM vault_canary ORDER BY 1`
  return rows.map(({ rootKeyId }) => rootKeyId)
})

interface KeyRow {
  readonly id: string
  readonly rootKeyId: string
  readonly wrapped: Buffer
  readonly teamId: string
  readonly projectId: string
  readonly environmentId: string
  readonly secretId: string | null
  readonly key: string
  readonly kind: string
  readonly version: number
  readonly sealed: Buffer
}

const fetched = 200

/**
 * Opens every data key, and one value that it sealed. Values are opened and dropped. Answers what was opened, and the
 * ids of data keys that the root key at hand does not open.
 */
export const openCanaries = Effect.fn("Restore.openCanaries")(function* (progress: Progress) {
  const sql = yield* SqlClient.SqlClient
  const vault = yield* Vault
  return yield* sql.withTransaction(
    Effect.gen(function* () {
      yield* sql`DECLARE key_walk NO SCROLL CURSOR FOR
        SELECT k.id, k.root_key_id, k.wrapped, e.team_id, e.project_id, k.environment_id,
          v.secret_id, v.key, v.kind, v.version, v.sealed
        FROM data_keys k JOIN environments e ON e.id = k.environment_id
        LEFT JOIN LATERAL (
          SELECT v.secret_id, s.key, v.kind, v.version, v.sealed FROM secret_versions v
          JOIN secrets s ON s.id = v.secret_id WHERE v.data_key_id = k.id ORDER BY v.created_at DESC LIMIT 1
        ) v ON true ORDER BY k.id`
      let dataKeys = 0
      let values = 0
      const refused: Array<string> = []
      for (;;) {
        const rows = yield* sql<KeyRow>`FETCH ${sql.literal(String(fetched))} FROM key_walk`
        for (const row of rows) {
          const { environmentId, projectId, teamId } = row
          const context = { purpose: "data-key" as const, teamId, projectId, environmentId, keyId: row.id }
          const key = yield* Effect.either(vault.unwrap(context, row.wrapped, row.rootKeyId))
          if (Either.isLeft(key)) {
            if (key.left instanceof VaultUnavailable) return yield* key.left
            refused.push(row.id)
            continue
          }
          dataKeys++
          if (row.secretId === null) continue
          const { kind, secretId, version } = row
          const place = { teamId, projectId, environmentId, secretId, key: row.key, kind, version, dataKeyId: row.id }
          if (Either.isRight(Envelope.openValue(key.right, place, row.sealed))) values++
          else refused.push(row.id)
        }
        yield* progress("opening", dataKeys)
        if (rows.length < fetched) break
      }
      yield* sql`CLOSE key_walk`
      return { dataKeys, values, refused }
    })
  )
})

export type RestoreError = SealedFileRefused | SqlError
