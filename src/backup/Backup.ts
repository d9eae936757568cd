/** A backup of the whole database, without the root key, at one moment. Servers continue meanwhile. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as fs from "node:fs"
import { dirname } from "node:path"
import { pipeline } from "node:stream/promises"
import { createGzip } from "node:zlib"
import { EnvironmentId, ProjectId, TeamId } from "#schema/Ids.ts"
import { Audit } from "#src/trail/Audit.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Rows from "#src/database/Rows.ts"
import { printRecipient } from "#src/sealed/RecipientKey.ts"
import * as Archive from "./Archive.ts"
import * as SealedFile from "./SealedFile.ts"
import { SealedFileRefused } from "./SealedFile.ts"

export type Progress = (table: string, rows: number) => Effect.Effect<void>

const reasonOf = (error: unknown) =>
  error instanceof Error && "code" in error && typeof error.code === "string" ? ` (${error.code})` : ""

const writeError = (file: string) => (error: unknown) =>
  error instanceof SealedFileRefused
    ? error
    : new SealedFileRefused({ message: `${file} cannot be written${reasonOf(error)}.` })

/**
 * Creates a sealed file, which gets its name only when complete and on disk. It never replaces a file. `use` receives a
 * function that writes plaintext and waits until it is accepted.
 */
export const sealedFile = <A, E, R>(
  options: {
    readonly kind: SealedFile.Kind
    readonly file: string
    readonly recipients: ReadonlyArray<Uint8Array>
    readonly compress: boolean
  },
  use: (write: (text: string) => Effect.Effect<void, SealedFileRefused>) => Effect.Effect<A, E, R>
) =>
  Effect.gen(function* () {
    const crypto = yield* Crypto
    const { file, kind, recipients } = options
    if (fs.existsSync(file)) {
      return yield* new SealedFileRefused({ message: `${file} already exists; name another file.` })
    }
    const { header, key } = yield* SealedFile.begin(
      kind,
      recipients,
      yield* crypto.randomBytes(SealedFile.keyLength),
      yield* crypto.randomBytes(32)
    )
    const unfinished = `${file}.unfinished`
    return yield* Effect.acquireUseRelease(
      Effect.try({
        try: () => {
          fs.rmSync(unfinished, { force: true })
          const out = fs.createWriteStream(unfinished, { flags: "wx", mode: 0o600 })
          out.write(header)
          const sealing = new SealedFile.Sealing(key)
          const first = options.compress ? createGzip({ level: 6 }) : sealing
          // A failure of one stream ends all of them, with the same error.
          const completion = first === sealing ? pipeline(sealing, out) : pipeline(first, sealing, out)
          completion.catch(() => {})
          return { first, out, ended: completion }
        },
        catch: writeError(file)
      }),
      ({ ended, first }) =>
        Effect.gen(function* () {
          const failure = Effect.zipRight(
            Effect.tryPromise({ try: () => ended, catch: writeError(file) }),
            writeError(file)(undefined)
          )
          const result = yield* use((text) =>
            Effect.async<void, SealedFileRefused>((resume) => {
              // On a full disk a write may never call back; the stream's end then counts as a failure.
              const onClose = () => resume(failure)
              first.once("close", onClose)
              first.write(text, (error) => {
                first.off("close", onClose)
                resume(error == null ? Effect.void : failure)
              })
            })
          )
          const bytes = yield* Effect.tryPromise({
            try: async () => {
              first.end()
              await ended
              const handle = await fs.promises.open(unfinished, "r")
              await handle.sync()
              const { size } = await handle.stat()
              await handle.close()
              // In contrast to a rename, a link does not replace a new file of that name. Some file systems lack links.
              await fs.promises.link(unfinished, file).catch((error: NodeJS.ErrnoException) => {
                if (error.code === "EEXIST") throw error
                return fs.promises.rename(unfinished, file)
              })
              // Syncs the folder too, and so the file's name.
              const folder = await fs.promises.open(dirname(file), "r")
              await folder.sync().finally(() => folder.close())
              return size
            },
            catch: writeError(file)
          })
          return { result, bytes }
        }),
      ({ first, out }) =>
        Effect.sync(() => {
          first.destroy()
          out.destroy()
          fs.rmSync(unfinished, { force: true })
        })
    )
  })

export interface Options {
  readonly file: string
  /** 32 raw bytes each. */
  readonly recipients: ReadonlyArray<Uint8Array>
  readonly release: string
  readonly progress: Progress
}

const MigrationRow = Schema.Struct({ id: Schema.Number, name: Schema.String })
const EnvironmentRow = Schema.Struct({
  teamId: TeamId,
  projectId: ProjectId,
  environmentId: EnvironmentId,
  environment: Schema.String,
  revision: Schema.Number
})

/** Includes deleted ones, whose rows are in the file too. */
const allEnvironments = (sql: SqlClient.SqlClient) =>
  Rows.findAll(
    EnvironmentRow,
    sql`
      SELECT team_id, project_id, id AS environment_id, slug AS environment, revision FROM environments ORDER BY id`
  )

export const backup = Effect.fn("Backup.backup")(function* (options: Options) {
  const sql = yield* SqlClient.SqlClient
  const audit = yield* Audit
  const createdAt = new Date(yield* Clock.currentTimeMillis).toISOString()
  const { bytes, result } = yield* sealedFile(
    { kind: "ampoule-backup v1", file: options.file, recipients: options.recipients, compress: true },
    (write) =>
      sql.withTransaction(
        Effect.gen(function* () {
          yield* sql`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY`
          yield* Archive.fixedText
          const migrations = yield* Rows.decodeAll(
            MigrationRow,
            sql`
            SELECT migration_id AS id, name FROM ${sql(Archive.ledger)} ORDER BY migration_id`
          )
          const info: Archive.Info = {
            version: 1,
            createdAt,
            release: options.release,
            migrations: migrations.map(({ id, name }) => [id, name] as const)
          }
          yield* write(`${JSON.stringify({ backup: info })}\n`)
          const tables = yield* Archive.tables
          let total = 0
          for (const table of tables) {
            yield* write(`${JSON.stringify({ table: table.name, columns: table.columns.map(({ name }) => name) })}\n`)
            const digest = new Archive.Digest()
            yield* Archive.read(
              table,
              Effect.fnUntraced(function* (rows) {
                for (const text of rows) digest.add(text)
                yield* write(rows.map((text) => `${text}\n`).join(""))
                total += rows.length
                yield* options.progress(table.name, total)
              })
            )
            yield* write(`${JSON.stringify({ end: table.name, rows: digest.rows, digest: String(digest) })}\n`)
          }
          yield* write(`${JSON.stringify({ done: { tables: tables.length, rows: total } })}\n`)
          return {
            tables: tables.length,
            rows: total,
            rootKeyIds: yield* Archive.rootKeyIds,
            environments: yield* allEnvironments(sql)
          }
        })
      )
  )
  const { environments, ...summary } = result
  const event = {
    actor: "system",
    action: "backup.create",
    outcome: "allowed",
    target: { type: "backup", id: options.recipients.map(printRecipient).join(" "), name: createdAt }
  } as const
  // Each team's trail records the values that the recipients got.
  yield* sql.withTransaction(
    audit.append({ ...event, teamId: null }, ...environments.map((environment) => ({ ...event, ...environment })))
  )
  return { ...summary, bytes }
})

/** Writes the root key's text to a separate file. */
export const backupRootKey = Effect.fn("Backup.backupRootKey")(function* (
  text: Redacted.Redacted<string>,
  options: { readonly file: string; readonly recipients: ReadonlyArray<Uint8Array> }
) {
  yield* sealedFile({ kind: "ampoule-root-key v1", ...options, compress: false }, (write) =>
    write(Redacted.value(text))
  )
})
