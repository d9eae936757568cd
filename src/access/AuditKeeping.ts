/** An operator's work on the whole trail: verifying, exporting, cutting, accepting a restored database. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Arr from "effect/Array"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { EnvironmentId, ProjectId, TeamId } from "#schema/Ids.ts"
import * as Chain from "#src/audit/Chain.ts"
import * as Checkpoint from "#src/audit/Checkpoint.ts"
import * as Export from "#src/audit/Export.ts"
import * as SignedNote from "#src/audit/SignedNote.ts"
import * as Values from "#src/audit/Values.ts"
import { type Columns, type Expected, type Problem, type Report, Verifier } from "#src/audit/Verify.ts"
import { inTime, Vault } from "#src/crypto/Vault.ts"
import { Audit } from "./Audit.ts"
import { AuditSeal, deadAfter, signed } from "./AuditSeal.ts"

/** The operator is told why nothing was done. */
export class KeepingRefused extends Data.TaggedError("KeepingRefused")<{ readonly message: string }> {}

export type Progress = (entries: number) => Effect.Effect<void>

interface EntryRow extends Columns {
  readonly body: string
}
interface Row {
  readonly stream: string
  readonly seq: number
  readonly hash: Buffer
}
interface SealRow extends Row {
  readonly final: boolean
  readonly rootKeyId: string
  readonly mac: Buffer
  readonly seenAt: Date
}

const fetched = 1_000
/** Streams whose process said that it lives are closed by it. */
const isOrphan = (seenAt: Date, { alone, now }: Pick<VerifyOptions, "alone" | "now">) =>
  alone || seenAt.getTime() < now - deadAfter

/**
 * One view of the database for all that `work` reads. Writers are not held up.
 */
export const snapshot = <A, E, R>(work: Effect.Effect<A, E, R>) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    sql.withTransaction(Effect.zipRight(sql`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ`, work))
  )

/** Reads checkpoint files, in the order given. */
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
      Effect.mapError(() => new KeepingRefused({ message: `The checkpoints in ${file} cannot be read.` }))
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

export interface VerifyOptions {
  /** Who checks the seals. Null: nobody can, since no root key is at hand. */
  readonly vault: Vault["Type"] | null
  /** Besides the vault's. */
  readonly keys: ReadonlyArray<SignedNote.NoteKey>
  readonly checkpoints: ReadonlyArray<string>
  /** Compare the secrets with their last writes. */
  readonly values: boolean
  /** No other process uses the database: what it does not hold open nobody does. */
  readonly alone: boolean
  readonly now: number
  readonly progress: Progress
}

export interface DatabaseReport extends Report {
  readonly cuts: ReadonlyArray<Checkpoint.Cut>
  /** Seals that the vault vouched for. */
  readonly seals: number
  readonly checkpoints: { readonly count: number; readonly lastAt: number | undefined; readonly fragments: number }
  readonly writes: Values.LastWrites | null
}

/** Everything that can be checked where the database is. Problems of checkpoints and values come with the others. */
export const verify = Effect.fn("AuditKeeping.verify")(function* (options: VerifyOptions) {
  const { vault } = options
  const keys = [...options.keys, ...(vault === null ? [] : yield* vaultKeys(vault))]
  // Before the view of the database is taken: what is signed by then must be in it.
  const reader = yield* readCheckpoints(options.checkpoints, keys)
  return yield* snapshot(inspect(options, keys, reader))
})

/** In a transaction of the caller's, which sees one state of the database. */
export const inspect = Effect.fnUntraced(function* (
  options: Omit<VerifyOptions, "keys" | "checkpoints">,
  keys: ReadonlyArray<SignedNote.NoteKey>,
  reader: Checkpoint.Reader
) {
  const sql = yield* SqlClient.SqlClient
  const { vault } = options
  const problems: Array<Problem> = reader.problems.map((what) => ({ stream: "", seq: null, what }))
  const cuts: Array<Checkpoint.Cut> = []
  for (const { hash, note, seq, stream } of yield* sql<Row & { readonly note: string }>`
        SELECT stream, seq::float8 AS seq, hash, note FROM audit_cuts ORDER BY stream`) {
    const cut = Checkpoint.openCut(note, keys)
    if (vault === null && Either.isLeft(cut)) cuts.push({ stream, seq, hash, before: "" })
    else if (Either.isLeft(cut)) problems.push({ stream, seq, what: `begins after a cut that ${cut.left}` })
    else if (cut.right.stream !== stream || cut.right.seq !== seq || !Chain.sameBytes(cut.right.hash, hash)) {
      problems.push({ stream, seq, what: "begins after a cut that was signed for another place" })
    } else cuts.push(cut.right)
  }
  const expected: Array<Expected> = []
  let seals = 0
  for (const row of yield* sql<SealRow>`
        SELECT stream, seq::float8 AS seq, hash, final, root_key_id, mac, seen_at FROM audit_seals ORDER BY stream`) {
    const genuine =
      vault === null ||
      (yield* inTime(
        vault.auditHeadMatches(Chain.sealText(row, row.final), { mac: row.mac, rootKeyId: row.rootKeyId })
      ))
    if (genuine) {
      const { final, hash, seq, stream } = row
      expected.push({ stream, seq, hash, final, orphan: isOrphan(row.seenAt, options), source: "its seal" })
    } else problems.push({ stream: row.stream, seq: row.seq, what: "has a seal that the vault did not make" })
    if (genuine && vault !== null) seals++
  }
  for (const pin of reader.pins.values()) {
    const source = `the checkpoint of ${new Date(pin.at).toISOString()}`
    expected.push({ stream: pin.stream, seq: pin.seq, hash: pin.hash, source })
  }
  const verifier = new Verifier({
    expected,
    cuts,
    ...(vault === null ? {} : { sealed: { now: options.now, grace: Chain.graceMillis } })
  })
  const writes = new Values.LastWrites()
  yield* sql`DECLARE audit_walk NO SCROLL CURSOR FOR
        SELECT stream, seq::float8 AS seq, hash, body, id, at, team_id, project_id, environment_id, environment, actor_id, action
        FROM audit_entries ORDER BY stream, seq`
  for (let done = 0; ;) {
    const rows = yield* sql<
      Row & EntryRow & { readonly at: Date }
    >`FETCH ${sql.literal(String(fetched))} FROM audit_walk`
    for (const { at, body, hash, seq, stream, ...columns } of rows) {
      verifier.add({ stream, seq, hash, body, columns: { ...columns, at: at.toISOString() } })
      if (options.values && valueActions.has(columns["action"] ?? "")) {
        const write = decodeWrite(body)
        if (write._tag === "Some") writes.add({ ...write.value, at: at.getTime() })
      }
    }
    done += rows.length
    yield* options.progress(done)
    if (rows.length < fetched) break
  }
  yield* sql`CLOSE audit_walk`
  const report = verifier.finish()
  const all = [...problems, ...report.problems]
  // What was written last is known only from a trail that is whole.
  if (options.values && all.length === 0) all.push(...(yield* compareValues(writes)))
  const result: DatabaseReport = {
    ...report,
    problems: all,
    problemCount: report.problemCount + all.length - report.problems.length,
    cuts,
    seals,
    checkpoints: { count: reader.count, lastAt: reader.lastAt, fragments: reader.fragments },
    writes: options.values ? writes : null
  }
  return result
})

const compareValues = Effect.fnUntraced(function* (writes: Values.LastWrites) {
  const sql = yield* SqlClient.SqlClient
  const environments = yield* sql<{ readonly id: string; readonly slug: string }>`
    SELECT id, slug FROM environments WHERE deleted_at IS NULL ORDER BY id`
  const problems: Array<Problem> = []
  for (const { id, slug } of environments) {
    const rows = yield* sql<{ readonly key: string; readonly version: number }>`
      SELECT s.key, s.version FROM secrets s WHERE s.environment_id = ${id} AND s.deleted_at IS NULL ORDER BY s.key`
    for (const { key, version, what } of writes.compare(id, rows)) {
      problems.push({ stream: "", seq: null, what: `${key} version ${version} in ${slug} (${id}) ${what}.` })
    }
  }
  return problems
})

// --- export ---

export interface ExportOptions {
  readonly since: Date | null
  readonly until: Date | null
  readonly format: "jsonl" | "csv"
  readonly now: number
  readonly write: (text: string) => Effect.Effect<void>
  readonly progress: Progress
}

/** Bounded in memory by the number of streams. Answers how many entries were written. */
export const exportTrail = Effect.fn("AuditKeeping.exportTrail")(function* (options: ExportOptions) {
  const sql = yield* SqlClient.SqlClient
  const { format, since, until, write } = options
  return yield* snapshot(
    Effect.gen(function* () {
      const line = (line: Export.Line) => (format === "csv" ? Effect.void : write(Export.print(line)))
      const ranges = yield* sql<{
        readonly stream: string
        readonly first: number | null
        readonly last: number | null
      }>`
        SELECT stream, (min(seq) FILTER (WHERE at >= ${since ?? new Date(0)}))::float8 AS first,
          (max(seq) FILTER (WHERE at < ${until ?? new Date(8.64e14)}))::float8 AS last
        FROM audit_entries GROUP BY stream`
      const wanted = ranges.flatMap(({ first, last, stream }) =>
        first !== null && last !== null && first <= last ? [{ stream, first, last }] : []
      )
      const range = new Map(wanted.map((one) => [one.stream, one]))
      const [streams, firsts, lasts] = [
        wanted.map((r) => r.stream),
        wanted.map((r) => r.first),
        wanted.map((r) => r.last)
      ]
      if (format === "csv") yield* write(Export.csvHeader)
      yield* line({
        type: "export",
        info: {
          at: new Date(options.now).toISOString(),
          since: since?.toISOString() ?? null,
          until: until?.toISOString() ?? null
        }
      })
      for (const { note } of yield* sql<{ readonly note: string }>`SELECT note FROM audit_cuts ORDER BY stream`) {
        yield* line({ type: "cut", note })
      }
      for (const row of yield* sql<SealRow>`
        SELECT stream, seq::float8 AS seq, hash, final FROM audit_seals WHERE seq > 0 ORDER BY stream`) {
        const { first = 1, last = row.seq } = range.get(row.stream) ?? {}
        const within =
          row.seq >= first && row.seq <= last && (range.has(row.stream) || (since === null && until === null))
        if (within) yield* line({ type: "seal", head: row, final: row.final })
      }
      for (const head of yield* sql<Row>`
        SELECT e.stream, e.seq::float8 AS seq, e.hash FROM audit_entries e
        JOIN unnest(${streams}::uuid[], ${firsts}::bigint[]) AS r (stream, first) ON e.stream = r.stream AND e.seq = r.first - 1`) {
        yield* line({ type: "start", head })
      }
      yield* sql`DECLARE audit_walk NO SCROLL CURSOR FOR
        SELECT e.body, e.hash FROM audit_entries e
        JOIN unnest(${streams}::uuid[], ${firsts}::bigint[], ${lasts}::bigint[]) AS r (stream, first, last)
          ON e.stream = r.stream AND e.seq BETWEEN r.first AND r.last
        ORDER BY e.stream, e.seq`
      let entries = 0
      for (;;) {
        const rows = yield* sql<{ readonly body: string; readonly hash: Buffer }>`
          FETCH ${sql.literal(String(fetched))} FROM audit_walk`
        if (rows.length > 0) {
          const text = rows.map(({ body, hash }) =>
            format === "csv" ? Export.csvRow(body, hash) : Export.print({ type: "entry", hash, body })
          )
          yield* write(text.join(""))
        }
        entries += rows.length
        yield* options.progress(entries)
        if (rows.length < fetched) break
      }
      yield* sql`CLOSE audit_walk`
      yield* line({ type: "end", entries })
      return entries
    })
  )
})

// --- retention ---

/** Entries of one step: each step leaves a signed cut that fits what is left. */
const cutStep = 10_000
/** Keys of one entry. */
const baselineKeys = 500

interface EnvironmentRow {
  readonly id: EnvironmentId
  readonly slug: string
  readonly projectId: ProjectId
  readonly teamId: TeamId
}

/**
 * Deletes what is older than `before`, stream by stream from its beginning, leaving a signed note of where each stream
 * goes on. Refused when the trail is not whole: a cut must not bury a forgery. Answers how many entries went.
 */
export const cut = Effect.fn("AuditKeeping.cut")(function* (
  before: Date,
  options: Omit<VerifyOptions, "vault" | "values"> & { readonly removed: Progress }
) {
  const sql = yield* SqlClient.SqlClient
  const vault = yield* Vault
  const audit = yield* Audit
  const seal = yield* AuditSeal
  if (before.getTime() > options.now) {
    return yield* new KeepingRefused({ message: "Nothing was cut: --before lies in the future." })
  }
  yield* seal.now
  const report = yield* verify({ ...options, vault, values: true })
  if (report.problemCount > 0 || report.writes === null) {
    return yield* new KeepingRefused({
      message: "Nothing was cut: the audit trail does not verify. `ampoule audit verify --values` says where."
    })
  }
  // What the deleted entries said of the secrets is said again, so that values can be verified afterwards.
  const environments = new Map(
    (yield* sql<EnvironmentRow>`
      SELECT id, slug, project_id, team_id FROM environments WHERE deleted_at IS NULL`).map((row) => [
      String(row.id),
      row
    ])
  )
  const old = new Map<string, Array<Values.Standing & { readonly revision: number }>>()
  for (const standing of report.writes.live()) {
    if (standing.at >= before.getTime() || !environments.has(standing.environmentId)) continue
    const all = old.get(standing.environmentId)
    if (all === undefined) old.set(standing.environmentId, [standing])
    else all.push(standing)
  }
  for (const [environmentId, standings] of old) {
    const environment = environments.get(environmentId)
    if (environment === undefined) continue
    // Of one revision each, or a baseline would hide a write that came between.
    for (const group of Object.values(Arr.groupBy(standings, ({ revision }) => String(revision)))) {
      for (let at = 0; at < group.length; at += baselineKeys) {
        const some = group.slice(at, at + baselineKeys)
        yield* sql.withTransaction(
          audit.append({
            actor: "system",
            action: "audit.baseline",
            outcome: "allowed",
            teamId: environment.teamId,
            projectId: environment.projectId,
            environmentId: environment.id,
            environment: environment.slug,
            keys: some.map(({ key }) => key),
            versions: some.map(({ version }) => version),
            revision: group[0]?.revision ?? 0
          })
        )
      }
    }
  }
  yield* sql.withTransaction(
    audit.append({
      actor: "system",
      action: "audit.cut",
      outcome: "allowed",
      teamId: null,
      target: { type: "audit", id: "", name: `before ${before.toISOString()}` }
    })
  )
  // The baselines must be vouched for before what they replace goes.
  yield* seal.now
  const streams = yield* sql<{ readonly stream: string; readonly first: number; readonly last: number }>`
    SELECT e.stream, min(e.seq)::float8 AS first,
      least(coalesce(min(e.seq) FILTER (WHERE e.at >= ${before}) - 1, max(e.seq)), max(s.seq))::float8 AS last
    FROM audit_entries e JOIN audit_seals s ON s.stream = e.stream GROUP BY e.stream ORDER BY e.stream`
  let removed = 0
  for (const { first, last, stream } of streams) {
    for (let seq = first - 1; seq < last;) {
      seq = Math.min(seq + cutStep, last)
      const [row] = yield* sql<Row>`
        SELECT stream, seq::float8 AS seq, hash FROM audit_entries WHERE stream = ${stream} AND seq = ${seq}`
      if (row === undefined) return yield* new KeepingRefused({ message: "The trail changed while it was being cut." })
      const note = yield* signed(vault, Checkpoint.cutText({ ...row, before: before.toISOString() }))
      const now = new Date(options.now)
      removed += yield* sql.withTransaction(
        Effect.gen(function* () {
          yield* sql`
            INSERT INTO audit_cuts (stream, seq, hash, note, created_at)
            VALUES (${stream}, ${seq}, ${row.hash}, ${note}, ${now})
            ON CONFLICT (stream) DO UPDATE SET seq = excluded.seq, hash = excluded.hash, note = excluded.note,
              created_at = excluded.created_at`
          const [gone] = yield* sql<{ readonly n: number }>`
            WITH gone AS (DELETE FROM audit_entries WHERE stream = ${stream} AND seq <= ${seq} RETURNING 1)
            SELECT count(*)::int AS n FROM gone`
          return gone?.n ?? 0
        })
      )
      yield* options.removed(removed)
    }
  }
  return removed
})

// --- a restored database ---

export interface Acceptance {
  /** Streams of which more had been signed than the database holds. */
  readonly accepted: ReadonlyArray<Checkpoint.Accepted>
  /** Streams that ended without a seal over their last entries. */
  readonly closed: ReadonlyArray<Chain.Head>
}

/**
 * The operator says that this database counts, although it is behind what was signed, or ends unsealed. Both heads of
 * each stream are recorded, signed, beside the checkpoints. Refused when entries contradict each other: that is no
 * restore. `decide` sees what would be accepted and says whether to go on.
 */
export const acceptRestore = Effect.fn("AuditKeeping.acceptRestore")(function* (
  options: Omit<VerifyOptions, "vault" | "values">,
  decide: (acceptance: Acceptance) => Effect.Effect<boolean>
) {
  const sql = yield* SqlClient.SqlClient
  const vault = yield* Vault
  const audit = yield* Audit
  const seal = yield* AuditSeal
  const plain = yield* verify({ ...options, vault: null, values: false, checkpoints: [] })
  const contradiction = plain.problems.find(({ what }) => !what.startsWith("is missing, with all up to"))
  if (contradiction !== undefined) {
    return yield* new KeepingRefused({
      message: `Entry ${contradiction.seq ?? 0} of stream ${contradiction.stream} ${contradiction.what}: this is no restored database but an altered one.`
    })
  }
  const keys = [...options.keys, ...(yield* vaultKeys(vault))]
  const reader = yield* readCheckpoints(options.checkpoints, keys)
  const [signedProblem] = reader.problems
  if (signedProblem !== undefined) return yield* new KeepingRefused({ message: signedProblem })
  const rows = yield* sql<
    Row & { readonly sealedSeq: number | null; readonly final: boolean | null; readonly seenAt: Date | null }
  >`
    SELECT h.stream, h.seq::float8 AS seq, h.hash, s.seq::float8 AS sealed_seq, s.final, s.seen_at FROM (
      SELECT DISTINCT ON (stream) stream, seq, hash FROM (
        SELECT stream, seq, hash FROM audit_entries UNION ALL SELECT stream, seq, hash FROM audit_cuts
      ) AS either ORDER BY stream, seq DESC
    ) AS h LEFT JOIN audit_seals s ON s.stream = h.stream`
  const heads = new Map(rows.map((row) => [row.stream, row]))
  const accepted: Array<Checkpoint.Accepted> = []
  for (const pin of reader.pins.values()) {
    const held = heads.get(pin.stream) ?? { stream: pin.stream, seq: 0, hash: Chain.genesis(pin.stream) }
    if (held.seq < pin.seq) {
      const { hash, seq, stream } = held
      accepted.push({ held: { stream, seq, hash }, signed: pin })
    }
  }
  const own = yield* audit.seals.streams
  const closed = rows
    .filter(({ stream }) => !own.includes(stream))
    .filter((row) => row.sealedSeq !== row.seq || row.final !== true)
    // A process that runs beside this one closes its streams itself.
    .filter((row) => row.seenAt === null || isOrphan(row.seenAt, options))
  if (accepted.length === 0 && closed.length === 0) return false
  if (!(yield* decide({ accepted, closed }))) return false
  for (const head of closed) {
    yield* sql`DELETE FROM audit_seals WHERE stream = ${head.stream} AND NOT (final AND seq = ${head.seq})`
    yield* seal.close(head)
  }
  yield* seal.accept(accepted)
  yield* sql.withTransaction(
    audit.append(
      ...accepted.slice(0, 500).map(({ held, signed }) => ({
        actor: "system" as const,
        action: "audit.accept_restore" as const,
        outcome: "allowed" as const,
        teamId: null,
        target: { type: "audit_stream", id: held.stream, name: `${held.seq} of ${signed.seq}` }
      })),
      {
        actor: "system",
        action: "audit.accept_restore",
        outcome: "allowed",
        teamId: null,
        target: { type: "audit", id: "", name: `${accepted.length} streams behind, ${closed.length} closed` }
      }
    )
  )
  yield* seal.now
  return true
})
