/**
 * Accepts a database that was restored on purpose. It is behind the signed checkpoints, or ends without seals, and is
 * valid all the same.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Rows from "#src/database/Rows.ts"
import * as Chain from "#src/audit/Chain.ts"
import type * as Checkpoint from "#src/audit/Checkpoint.ts"
import { Vault } from "#src/crypto/Vault.ts"
import { Audit } from "./Audit.ts"
import type { AuditEvent } from "./Entry.ts"
import { Seal } from "./Seal.ts"
import { Bytes } from "./StreamRows.ts"
import * as ExposureIndex from "./ExposureIndex.ts"
import { readCheckpoints, TrailRefused, vaultKeys, verify, type VerifyOptions } from "./TrailVerification.ts"

export interface Acceptance {
  /** Streams with more signed entries than the database has. */
  readonly accepted: ReadonlyArray<Checkpoint.AcceptedHead>
  /** Streams whose last entries have no seal, or that lack entries of their seal. */
  readonly closed: ReadonlyArray<Chain.Head>
}

type AcceptOptions = Omit<VerifyOptions, "vault" | "values">

/** Most streams with an entry each. One more entry counts all of them. */
const maxRecorded = 500

const StreamEndRow = Schema.Struct({
  stream: Schema.String,
  seq: Schema.Int,
  hash: Bytes,
  sealedSeq: Schema.NullOr(Schema.Int),
  final: Schema.NullOr(Schema.Boolean),
  seenAt: Schema.NullOr(Schema.DateFromSelf)
})

/** The last entry or cut of every stream, with its seal. */
const streamEnds = (sql: SqlClient.SqlClient) =>
  Rows.decodeAll(
    StreamEndRow,
    sql`
      SELECT h.stream, h.seq, h.hash, s.seq AS sealed_seq, s.final, s.seen_at FROM (
        SELECT DISTINCT ON (stream) stream, seq, hash FROM (
          SELECT stream, seq, hash FROM audit_entries UNION ALL SELECT stream, seq, hash FROM audit_cuts
        ) AS either ORDER BY stream, seq DESC
      ) AS h LEFT JOIN audit_seals s ON s.stream = h.stream`
  )

/** The streams to accept. Fails when entries contradict each other, which a restore cannot cause. */
const findAcceptance = Effect.fnUntraced(function* (options: AcceptOptions) {
  const sql = yield* SqlClient.SqlClient
  const audit = yield* Audit
  const plain = yield* verify({ ...options, vault: null, values: false, checkpoints: [] })
  const contradiction = plain.problems.find(({ what }) => !what.startsWith("is missing, with all up to"))
  if (contradiction !== undefined) {
    const { seq, stream, what } = contradiction
    return yield* new TrailRefused({
      message: `Entry ${seq ?? 0} of stream ${stream} ${what}: this is no restored database but an altered one.`
    })
  }
  const keys = [...options.keys, ...(yield* vaultKeys(yield* Vault))]
  const reader = yield* readCheckpoints(options.checkpoints, keys)
  const [signedProblem] = reader.problems
  if (signedProblem !== undefined) return yield* new TrailRefused({ message: signedProblem.what })
  const ends = yield* streamEnds(sql)
  const heads = new Map(ends.map((row) => [row.stream, row]))
  const accepted: Array<Checkpoint.AcceptedHead> = []
  for (const pin of reader.pins.values()) {
    const { hash, seq, stream } = heads.get(pin.stream) ?? { ...pin, seq: 0, hash: Chain.genesis(pin.stream) }
    if (seq < pin.seq) accepted.push({ present: { stream, seq, hash }, signed: pin })
  }
  const own = yield* audit.seals.streams
  // Signed or sealed entries are missing. The writer of such a stream, if it still runs, cannot continue it.
  const behind = new Set(accepted.map(({ present: held }) => held.stream))
  const hasLost = ({ sealedSeq, seq, stream }: typeof StreamEndRow.Type) => behind.has(stream) || (sealedSeq ?? 0) > seq
  const hasEnded = ({ seenAt }: typeof StreamEndRow.Type) =>
    seenAt === null || options.alone || seenAt.getTime() < options.now - Chain.deadAfterMillis
  const closed = ends
    .filter(({ stream }) => !own.includes(stream))
    .filter((row) => row.sealedSeq !== row.seq || row.final !== true)
    // A process that runs beside this one closes its other streams itself.
    .filter((row) => hasLost(row) || hasEnded(row))
  return { accepted, closed } satisfies Acceptance
})

const restoreEvent = (target: NonNullable<AuditEvent["target"]>): AuditEvent => ({
  actor: "system",
  action: "audit.accept_restore",
  outcome: "allowed",
  teamId: null,
  target
})

/**
 * Accepts this database on the operator's request, although it is behind the signed checkpoints or ends without seals.
 * Both heads of each stream are recorded, signed, with the checkpoints. `decide` confirms the list. False: nothing was
 * accepted.
 */
export const acceptRestore = Effect.fn("TrailRestore.acceptRestore")(function* (
  options: AcceptOptions,
  decide: (acceptance: Acceptance) => Effect.Effect<boolean>
) {
  const sql = yield* SqlClient.SqlClient
  const audit = yield* Audit
  const seal = yield* Seal
  const acceptance = yield* findAcceptance(options)
  const { accepted, closed } = acceptance
  if (accepted.length === 0 && closed.length === 0) return false
  if (!(yield* decide(acceptance))) return false
  for (const head of closed) {
    yield* sql`DELETE FROM audit_seals WHERE stream = ${head.stream} AND NOT (final AND seq = ${head.seq})`
    yield* seal.close(head)
  }
  yield* seal.accept(accepted)
  const each = accepted
    .slice(0, maxRecorded)
    .map(({ present: held, signed }) =>
      restoreEvent({ type: "audit_stream", id: held.stream, name: `${held.seq} of ${signed.seq}` })
    )
  const name = `${accepted.length} streams behind, ${closed.length} closed`
  yield* sql.withTransaction(audit.append(...each, restoreEvent({ type: "audit", id: "", name })))
  yield* seal.now
  yield* ExposureIndex.rebuild(sql)
  return true
})
