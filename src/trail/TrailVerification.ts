/** Verifies the whole trail in the database: links, columns, seals, cuts, checkpoints, and secrets. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Rows from "#src/database/Rows.ts"
import * as Chain from "#src/audit/Chain.ts"
import * as Checkpoint from "#src/audit/Checkpoint.ts"
import { Problems } from "#src/audit/Problems.ts"
import * as SignedNote from "#src/audit/SignedNote.ts"
import * as Values from "#src/audit/Values.ts"
import { type Columns, type ExpectedHead, type Report, Verifier } from "#src/audit/Verify.ts"
import { inTime, type Vault } from "#src/crypto/Vault.ts"
import * as TrailKey from "./TrailKey.ts"
import { ListRow } from "./KeyLists.ts"
import * as SealRows from "./SealRows.ts"
import { Bytes } from "./StreamRows.ts"
import * as RowVerification from "#src/rows/RowVerification.ts"

/** The reason why nothing was done. */
export class TrailRefused extends Data.TaggedError("TrailRefused")<{ readonly message: string }> {}

export type Progress = (entries: number) => Effect.Effect<void>

/** Rows per fetch. */
export const rowsPerFetch = 1_000
const listsPerFetch = 100

/** Runs `work` on one snapshot of the database, without blocking writers. */
export const snapshot = <A, E, R>(work: Effect.Effect<A, E, R>) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    sql.withTransaction(Effect.zipRight(sql`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ`, work))
  )

/** Reads checkpoint files in order. */
export const readCheckpoints = Effect.fnUntraced(function* (
  files: ReadonlyArray<string>,
  keys: ReadonlyArray<SignedNote.NoteKey>,
  until?: number
) {
  const fs = yield* FileSystem.FileSystem
  const reader = new Checkpoint.Reader(keys, until)
  for (const file of files) {
    yield* fs.stream(file).pipe(
      Stream.decodeText(),
      Stream.splitLines,
      Stream.runForEach((line) => Effect.sync(() => reader.line(line))),
      Effect.mapError(() => new TrailRefused({ message: `The checkpoints in ${file} cannot be read.` }))
    )
    reader.end()
  }
  return reader
})

/** Public keys of the vault's checkpoint signatures. */
export const vaultKeys = (vault: Vault["Type"]) =>
  Effect.map(inTime(vault.checkpointKeys), (keys) =>
    keys.map(({ publicKey, rootKeyId }) => SignedNote.noteKey(Checkpoint.keyName(rootKeyId), publicKey))
  )

export interface VerifyOptions {
  /** Verifies the seals. Null: no root key is available. */
  readonly vault: Vault["Type"] | null
  /** Further keys, beside the vault's. */
  readonly keys: ReadonlyArray<SignedNote.NoteKey>
  readonly checkpoints: ReadonlyArray<string>
  /** Whether to compare the secrets with their last writes. */
  readonly values: boolean
  /** Whether no other process uses the database, so that all other streams are of dead processes. */
  readonly alone: boolean
  readonly now: number
  readonly progress: Progress
}

export interface DatabaseReport extends Report {
  readonly cuts: ReadonlyArray<Checkpoint.Cut>
  /** Number of seals that the vault verified. */
  readonly seals: number
  readonly checkpoints: { readonly count: number; readonly lastAt: number | undefined; readonly fragments: number }
  readonly writes: Values.LastWrites | null
}

/** Checks everything that the database allows. Its problems include those of checkpoints and values. */
export const verify = Effect.fn("TrailVerification.verify")(function* (options: VerifyOptions) {
  const { vault } = options
  const keys = [...options.keys, ...(vault === null ? [] : yield* vaultKeys(vault))]
  // Read before the snapshot, which must then include everything signed.
  const reader = yield* readCheckpoints(options.checkpoints, keys)
  return yield* snapshot(inspect(options, keys, reader))
})

type InspectOptions = Omit<VerifyOptions, "keys" | "checkpoints">

const CutRow = Schema.Struct({ stream: Schema.String, seq: Schema.Int, hash: Bytes, note: Schema.String })

/** The starts of streams after a cut. */
const readCuts = Effect.fnUntraced(function* (
  { vault }: InspectOptions,
  keys: ReadonlyArray<SignedNote.NoteKey>,
  problems: Problems
) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* Rows.decodeAll(CutRow, sql`SELECT stream, seq, hash, note FROM audit_cuts ORDER BY stream`)
  const cuts: Array<Checkpoint.Cut> = []
  for (const { hash, note, seq, stream } of rows) {
    const cut = Checkpoint.openCut(note, keys)
    if (Either.isLeft(cut)) {
      if (vault === null) cuts.push({ stream, seq, hash, before: "" })
      else problems.add({ stream, seq, what: `begins after a cut that ${cut.left}` })
    } else if (cut.right.stream !== stream || cut.right.seq !== seq || !Chain.sameBytes(cut.right.hash, hash)) {
      problems.add({ stream, seq, what: "begins after a cut that was signed for another place" })
    } else cuts.push(cut.right)
  }
  return cuts
})

/** The heads that must exist, from seals and checkpoints. */
const readExpected = Effect.fnUntraced(function* (
  { vault }: InspectOptions,
  reader: Checkpoint.Reader,
  problems: Problems
) {
  const sql = yield* SqlClient.SqlClient
  const expected: Array<ExpectedHead> = []
  let seals = 0
  for (const row of yield* SealRows.all(sql)) {
    const { final, hash, seq, stream } = row
    if (vault !== null && !(yield* SealRows.isGenuine(vault, row))) {
      problems.add({ stream, seq, what: "has a seal that the vault did not make" })
      continue
    }
    const times = { sealedAt: row.sealedAt.getTime(), seenAt: row.seenAt.getTime() }
    expected.push({ stream, seq, hash, final, times, source: "its seal" })
    if (vault !== null) seals++
  }
  for (const { at, hash, seq, stream } of reader.pins.values()) {
    expected.push({ stream, seq, hash, source: `the checkpoint of ${new Date(at).toISOString()}` })
  }
  return { expected, seals }
})

/** Hashes of intact lists; the lists themselves are dropped. */
const readLists = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const intact = new Set<string>()
  yield* sql`DECLARE list_walk NO SCROLL CURSOR FOR SELECT encode(hash, 'hex') AS hash, keys FROM audit_key_lists`
  for (;;) {
    const rows = yield* Rows.decodeAll(ListRow, sql`FETCH ${sql.literal(String(listsPerFetch))} FROM list_walk`)
    for (const { hash, keys } of rows) if (Chain.isList(keys, hash)) intact.add(hash)
    if (rows.length < listsPerFetch) break
  }
  yield* sql`CLOSE list_walk`
  return intact
})

const WriteBody = Schema.parseJson(
  Schema.Struct({
    action: Schema.String,
    at: Schema.String,
    outcome: Schema.String,
    environmentId: Schema.optional(Schema.String),
    keys: Schema.Array(Schema.String),
    versions: Schema.optional(Schema.Array(Schema.Number)),
    revision: Schema.optional(Schema.Number)
  })
)
const decodeWrite = Schema.decodeUnknownOption(WriteBody)
const valueActions = new Set(Values.actions)

/**
 * Typed at the statement: decoding would double the time of a walk over millions of entries, each of which is checked
 * anyway.
 */
type WalkRow = Columns & {
  readonly stream: string
  readonly seq: number
  readonly hash: Buffer
  readonly body: string
  readonly at: Date
  readonly mac: Buffer | null
}

/** Feeds every entry to the verifier, with `rowsPerFetch` rows in memory. */
const walk = Effect.fnUntraced(function* (
  options: InspectOptions,
  verifier: Verifier,
  writes: Values.LastWrites,
  changes: RowVerification.LastChanges
) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`DECLARE audit_walk NO SCROLL CURSOR FOR
    SELECT stream, seq, hash, body, mac, id, at, team_id, project_id, environment_id, environment, actor_id, action,
      encode(key_list, 'hex') AS key_list
    FROM audit_entries ORDER BY stream, seq`
  for (let done = 0; ;) {
    const rows = yield* sql<WalkRow>`FETCH ${sql.literal(String(rowsPerFetch))} FROM audit_walk`
    for (const { at, body, hash, mac, seq, stream, ...columns } of rows) {
      changes.add(columns["action"], body)
      verifier.add({ stream, seq, hash, body, mac, columns: { ...columns, at: at.toISOString() } })
      if (options.values && valueActions.has(columns["action"] ?? "")) {
        const write = decodeWrite(body)
        if (write._tag === "Some") writes.add({ ...write.value, at: at.getTime() })
      }
    }
    done += rows.length
    yield* options.progress(done)
    if (rows.length < rowsPerFetch) break
  }
  yield* sql`CLOSE audit_walk`
})

const EnvironmentRow = Schema.Struct({ id: Schema.String, slug: Schema.String })
const LiveSecretRow = Schema.Struct({ key: Schema.String, version: Schema.Int })

const compareValues = Effect.fnUntraced(function* (writes: Values.LastWrites, problems: Problems) {
  const sql = yield* SqlClient.SqlClient
  const environments = yield* Rows.decodeAll(
    EnvironmentRow,
    sql`SELECT id, slug FROM environments WHERE deleted_at IS NULL ORDER BY id`
  )
  const secretsOf = (id: string) =>
    Rows.decodeAll(
      LiveSecretRow,
      sql`
      SELECT s.key, s.version FROM secrets s WHERE s.environment_id = ${id} AND s.deleted_at IS NULL ORDER BY s.key`
    )
  for (const { id, slug } of environments) {
    for (const { key, version, what } of writes.compare(id, yield* secretsOf(id))) {
      problems.say(`${key} version ${version} in ${slug} (${id}) ${what}.`)
    }
  }
})

/** Runs in the caller's transaction, on one snapshot of the database. */
export const inspect = Effect.fnUntraced(function* (
  options: InspectOptions,
  keys: ReadonlyArray<SignedNote.NoteKey>,
  reader: Checkpoint.Reader
) {
  const problems = new Problems()
  problems.addReport(reader)
  const cuts = yield* readCuts(options, keys, problems)
  const { expected, seals } = yield* readExpected(options, reader, problems)
  const { alone, now, values, vault } = options
  const sql = yield* SqlClient.SqlClient
  const vaultChecks =
    vault === null
      ? {}
      : {
          sealed: { now, grace: Chain.graceMillis, alone },
          proves: yield* TrailKey.proves({ sql, vault })
        }
  const verifier = new Verifier({ expected, cuts, lists: yield* readLists, ...vaultChecks })
  const writes = new Values.LastWrites()
  const changes = new RowVerification.LastChanges(
    vault === null ? undefined : yield* RowVerification.read(vault, problems),
    cuts.reduce((last, { before }) => Math.max(last, Date.parse(before) || 0), 0)
  )
  yield* walk(options, verifier, writes, changes)
  const report = verifier.finish()
  problems.addReport(report)
  changes.report(problems)
  // The last writes are known only if the trail is intact.
  if (values && problems.count === 0) yield* compareValues(writes, problems)
  const result: DatabaseReport = {
    ...report,
    problems: problems.listed,
    problemCount: problems.count,
    cuts,
    seals,
    checkpoints: { count: reader.count, lastAt: reader.lastAt, fragments: reader.fragments },
    writes: values ? writes : null
  }
  return result
})
