/** Retention: deletes old entries from the beginning of each stream, so that the rest of the trail still verifies. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { EnvironmentId, ProjectId, TeamId } from "#schema/Ids.ts"
import * as Rows from "#src/database/Rows.ts"
import * as Checkpoint from "#src/audit/Checkpoint.ts"
import type * as Values from "#src/audit/Values.ts"
import { Vault } from "#src/crypto/Vault.ts"
import { Audit } from "./Audit.ts"
import { Seal } from "./Seal.ts"
import { Bytes } from "./StreamRows.ts"
import { signNote } from "./CheckpointFile.ts"
import * as ExposureIndex from "./ExposureIndex.ts"
import { type Progress, TrailRefused, verify, type VerifyOptions } from "./TrailVerification.ts"

/** Entries per step. Each step leaves a signed cut that matches the rest. */
const cutStep = 10_000
/** Keys per entry. */
const baselineKeys = 500

const EnvironmentRow = Schema.Struct({ id: EnvironmentId, slug: Schema.String, projectId: ProjectId, teamId: TeamId })

const liveEnvironments = (sql: SqlClient.SqlClient) =>
  Rows.decodeAll(EnvironmentRow, sql`SELECT id, slug, project_id, team_id FROM environments WHERE deleted_at IS NULL`)

/** Repeats the last writes of the deleted entries, so that values can be verified afterwards. */
const repeatOldWrites = Effect.fnUntraced(function* (writes: Values.LastWrites, before: Date) {
  const sql = yield* SqlClient.SqlClient
  const audit = yield* Audit
  const old = Arr.groupBy(
    Arr.filter([...writes.live()], ({ at }) => at < before.getTime()),
    ({ environmentId }) => environmentId
  )
  const byEnvironment = new Map(Object.entries(old))
  for (const environment of yield* liveEnvironments(sql)) {
    const lastWrites = byEnvironment.get(environment.id) ?? []
    // One revision per group: otherwise a baseline would hide a write in between.
    for (const group of Object.values(Arr.groupBy(lastWrites, ({ revision }) => String(revision)))) {
      for (const some of Arr.chunksOf(group, baselineKeys)) {
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
            revision: some[0].revision
          })
        )
      }
    }
  }
})

const RangeRow = Schema.Struct({ stream: Schema.String, first: Schema.Int, last: Schema.Int })
/** The older entries of each stream, as far as a seal covers them. */
const rangesBefore = (sql: SqlClient.SqlClient, before: Date) =>
  Rows.decodeAll(
    RangeRow,
    sql`
      SELECT e.stream, min(e.seq) AS first,
        least(coalesce(min(e.seq) FILTER (WHERE e.at >= ${before}) - 1, max(e.seq)), max(s.seq)) AS last
      FROM audit_entries e JOIN audit_seals s ON s.stream = e.stream GROUP BY e.stream ORDER BY e.stream`
  )

const HashRow = Schema.Struct({ hash: Bytes })
const DeletedRow = Schema.Struct({ n: Schema.Int })

/** Deletes a stream up to `seq`, and stores a signed note of the new start. Returns the number of deleted entries. */
const cutTo = Effect.fnUntraced(function* (stream: string, seq: number, before: Date, now: Date) {
  const sql = yield* SqlClient.SqlClient
  const vault = yield* Vault
  const row = yield* Rows.decodeFirst(
    HashRow,
    sql`SELECT hash FROM audit_entries WHERE stream = ${stream} AND seq = ${seq}`
  )
  if (row === undefined) return yield* new TrailRefused({ message: "The trail changed while it was being cut." })
  const { hash } = row
  const note = yield* signNote(vault, Checkpoint.cutText({ stream, seq, hash, before: before.toISOString() }))
  const deletion = Rows.decodeSingle(
    DeletedRow,
    sql`
      WITH gone AS (DELETE FROM audit_entries WHERE stream = ${stream} AND seq <= ${seq} RETURNING 1)
      SELECT count(*)::int AS n FROM gone`
  )
  return yield* sql.withTransaction(
    Effect.zipRight(
      sql`
        INSERT INTO audit_cuts (stream, seq, hash, note, created_at) VALUES (${stream}, ${seq}, ${hash}, ${note}, ${now})
        ON CONFLICT (stream) DO UPDATE SET seq = excluded.seq, hash = excluded.hash, note = excluded.note,
          created_at = excluded.created_at`,
      Effect.map(deletion, ({ n }) => n)
    )
  )
})

/** Fails when the trail does not verify, since a cut must not hide a forgery. Returns the number of deleted entries. */
export const cut = Effect.fn("TrailCut.cut")(function* (
  before: Date,
  options: Omit<VerifyOptions, "vault" | "values"> & { readonly removed: Progress }
) {
  const sql = yield* SqlClient.SqlClient
  const vault = yield* Vault
  const audit = yield* Audit
  const seal = yield* Seal
  if (before.getTime() > options.now) {
    return yield* new TrailRefused({ message: "Nothing was cut: --before lies in the future." })
  }
  yield* seal.now
  const report = yield* verify({ ...options, vault, values: true })
  if (report.problemCount > 0 || report.writes === null) {
    return yield* new TrailRefused({
      message: "Nothing was cut: the audit trail does not verify. `ampoule audit verify --values` says where."
    })
  }
  yield* repeatOldWrites(report.writes, before)
  yield* sql.withTransaction(
    audit.append({
      actor: "system",
      action: "audit.cut",
      outcome: "allowed",
      teamId: null,
      target: { type: "audit", id: "", name: `before ${before.toISOString()}` }
    })
  )
  // The baselines must be sealed before the entries that they replace are deleted.
  yield* seal.now
  let removed = 0
  for (const { first, last, stream } of yield* rangesBefore(sql, before)) {
    for (let seq = first - 1; seq < last;) {
      seq = Math.min(seq + cutStep, last)
      removed += yield* cutTo(stream, seq, before, new Date(options.now))
      yield* options.removed(removed)
    }
  }
  // The index must agree with the trail.
  yield* ExposureIndex.rebuild(sql)
  return removed
})
