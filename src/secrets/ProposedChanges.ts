/**
 * A write that waits for an approval (docs/contract/access.md, "Changes that wait"). One box under the data key of the
 * environment keeps the changes; names and versions are beside it. `Commit.ts` keeps it where the policy says so;
 * `ChangeRequests.ts` shows and decides.
 */
import { isDeepStrictEqual } from "node:util"
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import type { ChangeRequest } from "#schema/ChangeRequestsApi.ts"
import type { Caller } from "#schema/Caller.ts"
import { PlanLimitReached } from "#schema/Errors.ts"
import { type ChangeRequestId, ChangeRequestIdOut, SecretIdOut, UserIdOut } from "#schema/Ids.ts"
import { optional } from "#schema/Strict.ts"
import { SecretKind } from "#schema/Values.ts"
import * as ApprovalRequests from "#src/access/ApprovalRequests.ts"
import * as Policy from "#src/access/Policy.ts"
import type { EnvironmentTarget } from "#src/access/Target.ts"
import type { DataKey, DataKeys } from "#src/crypto/DataKeys.ts"
import * as Envelope from "#src/crypto/Envelope.ts"
import { days } from "#src/Days.ts"
import * as Rows from "#src/database/Rows.ts"
import { danger, isDangerous } from "#src/formats/DangerousNames.ts"
import * as Composition from "./Composition.ts"
import * as Guesses from "./Guesses.ts"
import type { Transaction } from "./LockedEnvironment.ts"
import * as SecretBoxes from "./SecretBoxes.ts"
import type { Change, Changes, Continuation } from "./SecretChanges.ts"
import * as ValueSource from "./ValueSource.ts"

const life = days(7)
const requestsPerPerson = 20
/** Bytes of one change set. */
const maxBytes = 1_048_576

/** The write is kept, and waits for an approval. Each entrance answers it in its own format. */
export class Proposed extends Data.TaggedError("Proposed")<{ readonly request: ChangeRequest }> {}

// --- the box ---

const Text = Schema.Struct({
  kind: SecretKind,
  pinned: Schema.Boolean,
  text: Schema.String,
  /** `caller` for a copied text too: a server of the release before knows no other word for it. */
  from: Schema.Literal("caller", "stored", "server"),
  copied: Schema.optional(Schema.Boolean)
})
const Kind = Schema.Literal("create", "update", "delete", "restore")
/**
 * Repeats the columns of the row: a writer of the database can change neither the author nor what an approver reads.
 * `reason`, `kind`, `refs` and `above` are absent in the boxes of earlier releases.
 */
const Box = Schema.parseJson(
  Schema.Struct({
    author: UserIdOut,
    /** The author may read no value. */
    withoutValues: Schema.Boolean,
    reason: optional(Schema.NullOr(Schema.String)),
    changes: Schema.Array(
      Schema.Struct({
        key: Schema.String,
        change: Kind,
        /** The version of the live secret that the author saw; 0 without one. */
        version: Schema.Number,
        kind: optional(Schema.NullOr(SecretKind)),
        refs: optional(Schema.Array(Schema.String)),
        above: optional(Schema.Array(Schema.String)),
        written: Schema.NullOr(Schema.Union(Text, Schema.Struct({ restores: SecretIdOut })))
      })
    )
  })
)
type Box = typeof Box.Type
export type ProposedChange = Box["changes"][number]
const encodeBox = Schema.encode(Box)
const decodeBox = Schema.decode(Box)

const contextOf = (target: EnvironmentTarget, id: ChangeRequestId, dataKey: DataKey): Envelope.ValueContext => ({
  teamId: target.teamId,
  projectId: target.projectId,
  environmentId: target.environmentId,
  ...Envelope.requestPlace(id),
  dataKeyId: dataKey.id,
  instance: dataKey.instance
})

const stored = (change: Exclude<Change, Continuation>) => {
  if (change === null) return null
  if ("restored" in change) return { restores: change.restored.id }
  return change.from === "copied"
    ? { ...change, from: "caller" as const, copied: true }
    : { ...change, from: change.from }
}

/** The proposed text of a box, with its origin. */
export const proposedSource = ({ copied, ...text }: typeof Text.Type): ValueSource.ValueSource =>
  ValueSource.decided(copied === true ? { ...text, from: "copied" } : text)

/** Opens the box of a request. Fails when its row has another author or other changes than the box. */
export const open = Effect.fnUntraced(function* (
  dataKeys: DataKeys,
  target: EnvironmentTarget,
  row: RequestRow,
  { dataKeyId, sealed }: { readonly dataKeyId: string; readonly sealed: Uint8Array }
) {
  const altered = () => new SecretBoxes.BoxAltered({ keys: [] })
  const key = yield* SecretBoxes.activeKey(dataKeys, target, dataKeyId)
  const text = Envelope.openValue(key.key, contextOf(target, row.id, key), sealed)
  const box = yield* Effect.mapError(decodeBox(Either.getOrElse(text, () => "")), altered)
  const rowChanges = new Map(row.changes.map((one) => [one.key, one]))
  const isInRow = ({ above, change, key, kind, refs, version }: ProposedChange) => {
    const columns = rowChanges.get(key)
    return (
      columns?.change === change &&
      columns.version === version &&
      columns.kind === (kind ?? null) &&
      isDeepStrictEqual([columns.refs, columns.above], [refs ?? null, above ?? null])
    )
  }
  const isIntact =
    box.author === row.user.id &&
    (box.reason ?? null) === row.reason &&
    rowChanges.size === box.changes.length &&
    box.changes.every(isInRow)
  return isIntact ? { ...box, dataKey: key.key } : yield* altered()
})

// --- the row ---

/** `refs`: keys that the proposed text refers to. `above`: dangerous names whose templates build on the key. */
const ChangeRow = Schema.Struct({
  key: Schema.String,
  change: Kind,
  version: Schema.Number,
  kind: Schema.NullOr(SecretKind),
  refs: Schema.NullOr(Schema.Array(Schema.String)),
  above: Schema.NullOr(Schema.Array(Schema.String)),
  conflict: Schema.Boolean
})
export const RequestRow = Schema.Struct({
  id: ChangeRequestIdOut,
  ...ApprovalRequests.fields,
  reason: Schema.NullOr(Schema.String),
  changes: Schema.Array(ChangeRow)
})
export type RequestRow = typeof RequestRow.Type

/** A change conflicts when its secret has another version by now. */
export const columns = (sql: SqlClient.SqlClient) =>
  ApprovalRequests.columns(
    sql,
    "change_requests",
    `r.reason, (SELECT json_agg(json_build_object('key', c.key, 'change', c.change, 'version', c.version,
        'kind', c.kind, 'refs', c.refs, 'above', c.above, 'conflict', coalesce(s.version, 0) <> c.version) ORDER BY c.key)
      FROM jsonb_to_recordset(r.changes) AS c (key text, change text, version integer, kind text, refs jsonb, above jsonb)
      LEFT JOIN secrets s ON s.environment_id = r.environment_id AND s.key = c.key AND s.deleted_at IS NULL) AS changes`
  )

/** Dangerous names that the change sets, itself or through templates. A deletion sets none. */
const warningsOf = ({ above, change, key }: (typeof ChangeRow)["Type"]) =>
  [...(change === "delete" ? [] : [key]), ...(above ?? [])].flatMap((name) => {
    const reason = danger(name)
    return reason === undefined ? [] : [name === key ? `${name} ${reason}` : `${name} builds on ${key}: it ${reason}`]
  })

/** The request without the columns that only the policy reads. */
export const recordOf = (caller: Caller, row: RequestRow): ChangeRequest => {
  const { approvers, changes, status: _status, visibility: _visibility, ...shared } = row
  const role = Policy.teamOf(caller, row.teamId)?.role ?? null
  const userId = caller.user?.id
  return {
    ...shared,
    changes: changes.map((one) => ({
      key: one.key,
      change: one.change,
      kind: one.kind,
      references: one.refs ?? [],
      warnings: warningsOf(one),
      conflict: one.conflict
    })),
    mayDecide:
      userId !== undefined && role !== null && userId !== row.user.id && Policy.decidesRequests(role, userId, approvers)
  }
}

const kindOf = (change: Exclude<Change, Continuation>, isLive: boolean): typeof Kind.Type => {
  if (change === null) return "delete"
  return "restored" in change ? "restore" : isLive ? "update" : "create"
}

const writeOf = (change: Exclude<Change, Continuation>): ValueSource.Write | null =>
  change !== null && "restored" in change ? change.write : change

const referencesOf = ({ kind, scan, text }: ValueSource.Write) =>
  Either.match(Composition.entry(kind, text, undefined, scan), {
    onLeft: () => [],
    onRight: Composition.referencesOf
  })

/** For each key, the dangerous names whose templates build on it. `live` holds every template above the keys. */
const dangersAbove = ({ live }: Transaction) => {
  const users = new Map<string, Array<string>>()
  for (const [name, { refs }] of live) {
    for (const key of refs) {
      const names = users.get(key)
      if (names === undefined) users.set(key, [name])
      else names.push(name)
    }
  }
  return (key: string) => {
    const reached = new Set(users.get(key))
    for (const name of reached) for (const next of users.get(name) ?? []) reached.add(next)
    return [...reached].filter(isDangerous).sort()
  }
}

/** Keeps a checked write instead of its rows, with its entry, in the same transaction. */
export const keep = Effect.fnUntraced(function* (transaction: Transaction, changes: Changes, reason?: string) {
  const { at, audit, cipher, crypto, dataKeys, facts, live, permit, sql } = transaction
  const { caller, target } = permit
  const user = caller.user
  if (user === null) return yield* Effect.dieMessage("only a person proposes")
  const where = { environmentId: target.environmentId, userId: user.id, now: at }
  yield* ApprovalRequests.checkLimits(sql, "change_requests", where, requestsPerPerson)
  const all: Array<ProposedChange> = []
  const aboveOf = dangersAbove(transaction)
  for (const [key, change] of changes) {
    if (change !== null && "continued" in change)
      return yield* Effect.dieMessage("a secret that goes on under another key waits for no approval")
    const version = live.get(key)?.version ?? 0
    const write = writeOf(change)
    all.push({
      key,
      change: kindOf(change, live.has(key)),
      version,
      kind: write?.kind ?? null,
      refs: write === null ? [] : referencesOf(write),
      above: aboveOf(key),
      written: stored(change)
    })
  }
  const author = UserIdOut.make(user.id)
  const box: Box = { author, withoutValues: !Guesses.readsValues({ permit }), reason: reason ?? null, changes: all }
  const text = yield* Effect.orDie(encodeBox(box))
  if (Buffer.byteLength(text) > maxBytes) {
    return yield* new PlanLimitReached({ message: "A change that waits for an approval has at most 1 MiB." })
  }
  const id = ChangeRequestIdOut.make(yield* crypto.uuid)
  const dataKey = yield* SecretBoxes.activeKey(dataKeys, target, facts.dataKeyId)
  const salt = yield* crypto.randomBytes(Envelope.saltLength)
  yield* Rows.run(
    sql`INSERT INTO change_requests ${sql.insert({
      id,
      team_id: target.teamId,
      user_id: user.id,
      environment_id: target.environmentId,
      reason: reason ?? null,
      changes: JSON.stringify(all.map(({ written: _written, ...names }) => names)),
      data_key_id: dataKey.id,
      sealed: Envelope.sealValue(dataKey.key, contextOf(target, id, dataKey), text, salt, cipher),
      created_at: at,
      expires_at: new Date(at.getTime() + life)
    })}`
  )
  const event = permit.event({
    audit: "change.request",
    keys: [...changes.keys()],
    target: { type: "change_request", id, name: user.email }
  })
  yield* audit.append(reason === undefined ? event : { ...event, reason })
  return recordOf(caller, yield* Rows.single(RequestRow, sql`SELECT ${columns(sql)} WHERE r.id = ${id}`))
})
