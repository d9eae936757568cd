/** Restores a backup into an empty database: all of it, verified against the backup, or nothing. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { createReadStream } from "node:fs"
import { pipeline } from "node:stream"
import { createGunzip } from "node:zlib"
import { VaultUnavailable } from "#schema/Vault.ts"
import * as Rows from "#src/database/Rows.ts"
import { contextOf } from "#src/crypto/DataKeys.ts"
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

interface Options<E, R> {
  readonly file: string
  readonly identity: Redacted.Redacted<Uint8Array>
  /** Migrates an empty database to this migration, or to the newest. */
  readonly migrate: (upTo: number | null) => Effect.Effect<unknown, E, R>
  readonly known: ReadonlyArray<readonly [id: number, name: string]>
  readonly progress: Progress
  /** Runs in the transaction of the restore, at its end. */
  readonly finish: Effect.Effect<unknown, E, R>
}

/** Limits of one statement: rows, and characters of text. */
const batchRows = 500
const batchText = 2_000_000

const LedgerRow = Schema.Struct({ exists: Schema.Boolean })

const isNotEmpty = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const relations = yield* Rows.decodeSingle(
    Rows.CountRow,
    sql`
      SELECT count(*)::int AS n FROM pg_class
      WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f', 'S')`
  )
  if (relations.n === 0) return false
  const ledger = yield* Rows.decodeSingle(LedgerRow, sql`SELECT to_regclass(${Archive.ledger}) IS NOT NULL AS exists`)
  if (!ledger.exists) return true
  // Migrated, but never used.
  for (const table of yield* Archive.tables) {
    const rows = yield* sql`SELECT 1 FROM ${sql(table.name)} LIMIT 1`
    if (rows.length > 0) return true
  }
  return false
})

/** The state of a restore while it reads the lines of a backup. */
interface Restoring {
  /** Undefined until the first line is read. */
  info: Archive.Info | undefined
  /** Tables of this database, by name. */
  targets: ReadonlyMap<string, Archive.Table>
  current: { readonly table: Archive.Table; readonly columns: ReadonlyArray<string> } | undefined
  digest: Archive.Digest
  /** Rows that are not inserted yet, and the length of their text. */
  batch: Array<ReadonlyArray<string | null>>
  length: number
  total: number
  done: boolean
  /** Row count and digest of each table, from the backup. */
  readonly ends: Map<string, { readonly rows: number; readonly digest: string }>
}

const flush = (restoring: Restoring, progress: Progress) =>
  Effect.suspend(() => {
    const { batch, current } = restoring
    restoring.batch = []
    restoring.length = 0
    if (batch.length === 0 || current === undefined) return Effect.void
    restoring.total += batch.length
    const { columns, table } = current
    return Effect.zipRight(Archive.insert(table, columns, batch), progress(table.name, restoring.total))
  })

/** Migrates the empty database to the backup's migration. */
const start = Effect.fnUntraced(function* <E, R>(restoring: Restoring, options: Options<E, R>, info: Archive.Info) {
  const sql = yield* SqlClient.SqlClient
  const newest = options.known.reduce((last, [id]) => Math.max(last, id), 0)
  const last = info.migrations.at(-1)?.[0] ?? 0
  if (last > newest) {
    return yield* refuse(`The backup was made by a newer Ampoule (${info.release}); restore it with that one.`)
  }
  const names = new Map(options.known)
  if (info.migrations.some(([id, name]) => names.get(id) !== name)) {
    return yield* refuse("The backup was made by another program or version: its tables are not known here.")
  }
  yield* options.migrate(last)
  yield* Archive.fixedText
  const tables = yield* Archive.tables
  for (const table of tables.toReversed()) yield* sql`DELETE FROM ${sql(table.name)}`
  restoring.targets = new Map(tables.map((table) => [table.name, table]))
  restoring.info = info
})

const beginTable = Effect.fnUntraced(function* (restoring: Restoring, name: string, columns: ReadonlyArray<string>) {
  const table = restoring.targets.get(name)
  const columnNames = new Set(table?.columns.map(({ name }) => name))
  if (
    table === undefined ||
    columnNames.size !== columns.length ||
    !columns.every((column) => columnNames.has(column))
  ) {
    return yield* refuse(`The backup holds a table that is not known here (${name}).`)
  }
  restoring.current = { table, columns }
  restoring.digest = new Archive.Digest()
})

const takeLine = Effect.fnUntraced(function* <E, R>(restoring: Restoring, options: Options<E, R>, text: string) {
  const line = Archive.parse(text)
  if (line === undefined || restoring.done || (restoring.info === undefined) !== (line.type === "backup")) {
    return yield* refuse("The backup is damaged, or holds something that this version does not know.")
  }
  switch (line.type) {
    case "backup":
      return yield* start(restoring, options, line.info)
    case "table":
      return yield* beginTable(restoring, line.name, line.columns)
    case "row": {
      restoring.digest.add(text)
      restoring.batch.push(line.row)
      restoring.length += text.length
      const full = restoring.batch.length >= batchRows || restoring.length >= batchText
      if (full) yield* flush(restoring, options.progress)
      return
    }
    case "end": {
      yield* flush(restoring, options.progress)
      const { current, digest } = restoring
      if (current?.table.name !== line.name || digest.rows !== line.rows || String(digest) !== line.digest) {
        return yield* refuse(`The backup contradicts itself about ${line.name}.`)
      }
      restoring.ends.set(line.name, line)
      return
    }
    case "done": {
      const { ends, targets, total } = restoring
      if (line.rows !== total || line.tables !== ends.size || ends.size !== targets.size) {
        return yield* refuse("The backup is not complete.")
      }
      restoring.done = true
    }
  }
})

/** Reads every table back and compares it with the digest in the backup. */
const compare = Effect.fnUntraced(function* ({ ends, targets }: Restoring, progress: Progress) {
  let compared = 0
  for (const [name, expected] of ends) {
    const table = targets.get(name)
    if (table === undefined) continue
    const stored = yield* Archive.digest(table)
    if (stored.rows !== expected.rows || String(stored) !== expected.digest) {
      return yield* refuse(`What was restored differs from the backup (${name}). Nothing was kept.`)
    }
    compared += stored.rows
    yield* progress("comparing", compared)
  }
})

const restoreInTransaction = Effect.fnUntraced(function* <E, R>(options: Options<E, R>) {
  if (yield* isNotEmpty) {
    return yield* refuse("The database is not empty. A backup is restored into an empty one, and replaces nothing.")
  }
  yield* Archive.fixedText
  const restoring: Restoring = {
    info: undefined,
    targets: new Map(),
    current: undefined,
    digest: new Archive.Digest(),
    batch: [],
    length: 0,
    total: 0,
    done: false,
    ends: new Map()
  }
  yield* bytesOf(options.file, "ampoule-backup v1", options.identity, true).pipe(
    Stream.decodeText(),
    Stream.splitLines,
    Stream.runForEach((text) => takeLine(restoring, options, text))
  )
  const { done, ends, info, total } = restoring
  if (!done || info === undefined) return yield* refuse("The backup is not complete.")
  yield* compare(restoring, options.progress)
  yield* options.migrate(null)
  yield* options.finish
  return { info, tables: ends.size, rows: total }
})

/**
 * Runs in one transaction: an interrupted restore leaves the database empty, and can be run again. Every table is
 * compared with the backup's digest before the commit.
 */
export const restore = <E, R>(options: Options<E, R>) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => sql.withTransaction(restoreInTransaction(options)))

/** Typed at the statement: opening a row checks its contents. */
interface KeyRow {
  readonly id: string
  readonly bound: boolean
  readonly instance: string | null
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

const rowsPerFetch = 200

const keyWalk = (sql: SqlClient.SqlClient) => sql`
  DECLARE key_walk NO SCROLL CURSOR FOR
  SELECT k.id, k.bound, i.instance_id AS instance, k.root_key_id, k.wrapped, e.team_id, e.project_id, k.environment_id,
    v.secret_id, v.key, v.kind, v.version, v.sealed
  FROM data_keys k JOIN environments e ON e.id = k.environment_id LEFT JOIN instance i ON i.id = 1
  LEFT JOIN LATERAL (
    SELECT v.secret_id, coalesce(v.key, s.key) AS key, v.kind, v.version, v.sealed FROM secret_versions v
    JOIN secrets s ON s.id = v.secret_id WHERE v.data_key_id = k.id ORDER BY v.created_at DESC LIMIT 1
  ) v ON true ORDER BY k.id`

/** Tries to open a data key, and a value under it. "none": the key has no value. */
const openKey = Effect.fnUntraced(function* (row: KeyRow) {
  const vault = yield* Vault
  const { environmentId, id, kind, projectId, secretId, teamId, version } = row
  const instance = row.bound ? (row.instance ?? "") : undefined
  const context = contextOf({ teamId, projectId, environmentId }, id, instance)
  const key = yield* Effect.either(vault.unwrap(context, row.wrapped, row.rootKeyId))
  if (Either.isLeft(key)) {
    if (key.left instanceof VaultUnavailable) return yield* key.left
    return { key: false, value: "none" } as const
  }
  if (secretId === null) return { key: true, value: "none" } as const
  const place = { teamId, projectId, environmentId, secretId, key: row.key, kind, version, dataKeyId: id, instance }
  const opened = Either.isRight(Envelope.openValue(key.right, place, row.sealed))
  return { key: true, value: opened ? "opened" : "refused" } as const
})

const openEach = Effect.fnUntraced(function* (progress: Progress) {
  const sql = yield* SqlClient.SqlClient
  yield* keyWalk(sql)
  let dataKeys = 0
  let values = 0
  const unopenedIds: Array<string> = []
  for (;;) {
    const rows = yield* sql<KeyRow>`FETCH ${sql.literal(String(rowsPerFetch))} FROM key_walk`
    for (const row of rows) {
      const result = yield* openKey(row)
      if (result.key) dataKeys++
      if (result.value === "opened") values++
      if (!result.key || result.value === "refused") unopenedIds.push(row.id)
    }
    yield* progress("opening", dataKeys)
    if (rows.length < rowsPerFetch) break
  }
  yield* sql`CLOSE key_walk`
  return { dataKeys, values, refused: unopenedIds }
})

/**
 * Opens every data key, and one value under each. Values are dropped at once. Returns the counts, and the ids of data
 * keys that the current root key does not open.
 */
export const openCanaries = Effect.fn("Restore.openCanaries")(function* (progress: Progress) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql.withTransaction(openEach(progress))
})
