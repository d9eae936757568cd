/**
 * Decides which rows a write changes, while the environment is locked: compares the changes with the stored secrets,
 * checks and seals them. For `Commit.ts` alone.
 */
import * as Effect from "effect/Effect"
import { PlanLimitReached, type RateLimited, type TemplateInvalid, ValidationFailed } from "#schema/Errors.ts"
import { type SecretId, SecretIdOut } from "#schema/Ids.ts"
import * as Policy from "#src/access/Policy.ts"
import * as Envelope from "#src/crypto/Envelope.ts"
import * as AllowedKeys from "#src/formats/AllowedKeys.ts"
import * as Composition from "./Composition.ts"
import * as Guesses from "./Guesses.ts"
import { opened, type Transaction } from "./LockedEnvironment.ts"
import * as SecretBoxes from "./SecretBoxes.ts"
import { type Changes, type Continuation, type Fields, type Results, type KeyResult } from "./SecretChanges.ts"
import { metadataOf, type SecretMetadata } from "./SecretMetadata.ts"
import type * as SecretRowChanges from "./SecretRowChanges.ts"
import * as SecretRows from "./SecretRows.ts"
import type { Write } from "./ValueSource.ts"

/** Errors of a decision, besides a box that does not open. */
export type Refusal = Composition.Problem | TemplateInvalid | RateLimited | ValidationFailed

interface NewText extends Partial<Pick<Continuation, "continued">> {
  readonly key: string
  readonly write: Write
}

const fieldOf = (fields: Fields | undefined, key: string): string | undefined =>
  typeof fields === "object" ? fields.get(key) : fields

/** Every key that gets a text is one that the team allows: new, changed, renamed, restored, copied or approved. */
const checkKeys = (allowed: ReadonlyArray<string>, changes: Changes, fields: Fields | undefined) => {
  for (const [key, change] of changes) {
    if (change === null || AllowedKeys.allows(allowed, key)) continue
    const field = (fieldOf(fields, key) ?? "").replace(/^(\w+\.\d+\.)?.*$/, "$1key")
    return new ValidationFailed({ field, message: AllowedKeys.refusalOf(key) })
  }
  return Effect.void
}

const entryOf = ({ kind, scan, text }: Write, field?: string) => Composition.entry(kind, text, field, scan)

/** The changes, compared with what is stored. An equal text of equal kind makes no version. */
const compare = Effect.fnUntraced(function* (transaction: Transaction, changes: Changes, fields?: Fields) {
  const { live } = transaction
  const results = new Map<string, KeyResult>()
  const entries = new Map<string, Composition.Entry | null>()
  const written: Array<NewText> = []
  const restored: Array<SecretMetadata> = []
  const deleted: Array<SecretId> = []
  const repinned: Array<SecretRowChanges.LiveRow> = []
  const stored = yield* transaction.stored
  for (const [key, change] of changes) {
    const row = live.get(key)
    const before = stored.get(key)
    if (change === null) {
      entries.set(key, null)
      if (row !== undefined) deleted.push(row.id)
    } else if ("restored" in change) {
      entries.set(key, yield* entryOf(change.write))
      restored.push(metadataOf(change.restored))
    } else if ("continued" in change) {
      const { id, key: from } = change.continued
      if (live.get(from)?.id === id) entries.set(from, null)
      entries.set(key, yield* entryOf(change.write))
      written.push({ key, ...change })
    } else if (row !== undefined && before?.kind === change.kind && Composition.sourceOf(before) === change.text) {
      if (row.pinned !== change.pinned) repinned.push({ ...row, pinned: change.pinned })
      results.set(key, { secret: metadataOf(row), outcome: "unchanged" })
    } else {
      entries.set(key, yield* entryOf(change, fieldOf(fields, key)))
      written.push({ key, write: change })
    }
  }
  return { results, entries, written, restored, deleted, repinned }
})

/** Secrets that new texts use and the lock did not read, and all that those build on. */
const joining = Effect.fnUntraced(function* (transaction: Transaction, changes: Composition.Changes) {
  const { lastVersions, permit, sql } = transaction
  const joined = new Set<string>()
  for (const change of changes.values()) {
    for (const key of change === null ? [] : Composition.referencesOf(change)) {
      if (!lastVersions.has(key) && !changes.has(key)) joined.add(key)
    }
  }
  return joined.size === 0
    ? new Map<string, Composition.Entry>()
    : yield* opened(transaction, permit, yield* SecretRows.closure(sql, permit, [...joined], true))
})

/**
 * Checks the environment as it will be: number of secrets, templates, sizes. Returns its totals, and the state that the
 * write concerns.
 */
const check = Effect.fnUntraced(function* (transaction: Transaction, changes: Composition.Changes, fields?: Fields) {
  const { facts, live } = transaction
  let { secrets } = facts
  for (const [key, change] of changes) secrets += (change === null ? 0 : 1) - (live.has(key) ? 1 : 0)
  if (secrets > SecretRows.maxSecrets) return yield* new PlanLimitReached()
  const before = new Map([...(yield* joining(transaction, changes)), ...(yield* transaction.stored)])
  const counted = Composition.totalsOf(before)
  const besides = { written: facts.written - counted.written, expanded: facts.expanded - counted.expanded }
  const totals = yield* Composition.checkAfter(before, changes, (key) => fieldOf(fields, key), besides)
  const { expanded, written } = totals
  return { totals: { written, expanded, secrets }, after: Composition.apply(before, changes) }
})

/** New versions, of new secrets or of existing ones. */
const versionsOf = Effect.fnUntraced(function* (
  transaction: Transaction,
  writes: ReadonlyArray<NewText>,
  entries: Composition.Changes
) {
  const { at, crypto, lastVersions, live, revision } = transaction
  const author = JSON.stringify(Guesses.authorOf(transaction))
  const ids = yield* crypto.uuids(writes.length)
  return writes.map(({ continued, key, write }, i): SecretRowChanges.NewVersion => {
    const before = continued ?? live.get(key)
    const last = Math.max(lastVersions.get(key) ?? 0, lastVersions.get(continued?.key ?? key) ?? 0)
    return {
      id: before?.id ?? SecretIdOut.make(ids[i]),
      key,
      kind: write.kind,
      version: last + 1,
      createdAt: before?.createdAt ?? at,
      updatedAt: at,
      text: write.text,
      pinned: write.pinned,
      refs: referencesAfter(entries, key),
      revision,
      author
    }
  })
})

/** One box for each version, in their order, all under the active data key of the environment. */
const seal = Effect.fnUntraced(function* (
  { cipher, crypto, dataKeys, facts, permit }: Transaction,
  versions: ReadonlyArray<SecretRowChanges.NewVersion>
) {
  if (versions.length === 0) return { dataKeyId: "", boxes: [] }
  const dataKey = yield* SecretBoxes.activeKey(dataKeys, permit.target, facts.dataKeyId)
  // One salt for each box, from one call.
  const salts = yield* crypto.randomBytes(Envelope.saltLength * versions.length)
  const boxes = versions.map((version, i) => {
    const place = SecretBoxes.contextOf(permit.target, version, dataKey)
    const salt = salts.subarray(i * Envelope.saltLength, (i + 1) * Envelope.saltLength)
    return Envelope.sealValue(dataKey.key, place, version.text, salt, cipher)
  })
  return { dataKeyId: dataKey.id, boxes }
})

/** In the order of the request: another order would reveal which values were equal. */
const inOrder = (results: Results, changes: Changes): Results => {
  const ordered = new Map<string, KeyResult>()
  for (const key of changes.keys()) {
    const written = results.get(key)
    if (written !== undefined) ordered.set(key, written)
  }
  return ordered
}

const referencesAfter = (entries: Composition.Changes, key: string) => {
  const entry = entries.get(key)
  return entry === undefined || entry === null ? [] : Composition.referencesOf(entry)
}

/** The state after a write, for cached snapshots. */
export interface SnapshotChange {
  readonly revision: number
  readonly after: Composition.State
  /** Keys whose values may have changed. */
  readonly affected: ReadonlySet<string>
}

/** The outcome of a write. Without rows nothing changes; without a snapshot no value does. */
interface Decision {
  readonly results: Results
  readonly rows: SecretRowChanges.RowChanges | undefined
  readonly snapshot: SnapshotChange | undefined
}

/** Checks the environment as it will be, and decides which rows change. */
export const decide = Effect.fnUntraced(function* (transaction: Transaction, changes: Changes, fields?: Fields) {
  const { at, facts, live, permit, versions } = transaction
  const allowed = Policy.teamOf(permit.caller, permit.target.teamId)?.allowedKeys ?? null
  if (allowed !== null) yield* checkKeys(allowed, changes, fields)
  const { deleted, entries, repinned, restored, results, written } = yield* compare(transaction, changes, fields)
  if (entries.size === 0 && repinned.length === 0) {
    const nothing: Decision = { results, rows: undefined, snapshot: undefined }
    return nothing
  }
  const { after, totals } =
    entries.size === 0
      ? { after: undefined, totals: facts }
      : yield* check(transaction, entries, fields).pipe(
          Effect.mapError((error) =>
            error instanceof SecretBoxes.BoxAltered ? error : Guesses.withoutNames(transaction, changes)(error)
          )
        )
  if (entries.size > 0) transaction.revision++
  const newVersions = yield* versionsOf(transaction, written, entries)
  for (const secret of restored) results.set(secret.key, { secret, outcome: "restored" })
  for (const version of newVersions) {
    results.set(version.key, { secret: metadataOf(version), outcome: live.has(version.key) ? "updated" : "created" })
  }
  for (const [key, { outcome, secret }] of results) if (outcome !== "unchanged") versions.set(key, secret.version)
  const { boxes, dataKeyId } = yield* seal(transaction, newVersions)
  const rows: SecretRowChanges.RowChanges = {
    boxes,
    dataKeyId,
    at,
    revision: transaction.revision,
    totals,
    written: newVersions,
    deleted,
    continued: written.flatMap(({ continued, key }) =>
      continued === undefined ? [] : [{ id: continued.id, from: continued.key, to: key }]
    ),
    restored: restored.map(({ id, key }) => ({ id, refs: referencesAfter(entries, key) })),
    repinned,
    referred: [...entries.keys()]
      .flatMap((key) => live.get(key) ?? [])
      .flatMap(({ id, refs }) => (refs.length > 0 ? [id] : [])),
    keepsOne: permit.target.plan === "developer"
  }
  const affected = new Set([...transaction.above, ...entries.keys()])
  const snapshot: SnapshotChange | undefined =
    after === undefined ? undefined : { revision: transaction.revision, after, affected }
  const decision: Decision = { results: inOrder(results, changes), rows, snapshot }
  return decision
})
