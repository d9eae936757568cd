/**
 * The one way to write secrets: one transaction under the lock of the environment that counts guesses, checks, writes
 * the rows and commits the audit entry. For the use cases of `SecretWrites.ts` and `SourcedWrites.ts` alone.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import type { SqlError } from "@effect/sql/SqlError"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import {
  EnvironmentNotFound,
  PlanLimitReached,
  type RateLimited,
  SecretAlreadyExists,
  SecretNotFound,
  SecretVersionConflict,
  type TemplateInvalid
} from "#schema/Errors.ts"
import { type SecretId, SecretIdOut } from "#schema/Ids.ts"
import type { Audit, AuditEvent } from "#src/access/Audit.ts"
import type { EnvironmentPermit } from "#src/access/Permit.ts"
import type { Crypto } from "#src/crypto/Crypto.ts"
import type { DataKeys } from "#src/crypto/DataKeys.ts"
import * as Envelope from "#src/crypto/Envelope.ts"
import type { RateLimiter } from "#src/limits/RateLimiter.ts"
import * as Composition from "./Composition.ts"
import * as Guesses from "./Guesses.ts"
import type { Idempotency, Idempotent } from "./Idempotency.ts"
import * as SecretBoxes from "./SecretBoxes.ts"
import { metadataOf, type SecretMetadata } from "./SecretMetadata.ts"
import * as SecretRowChanges from "./SecretRowChanges.ts"
import * as SecretRows from "./SecretRows.ts"
import { type Changes, type FieldOf, isRestoration, type Results, type Written } from "./SecretChanges.ts"
import type { ValueSource, Write } from "./ValueSource.ts"

export interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly crypto: Crypto
  readonly dataKeys: DataKeys
  readonly cipher: Envelope.CipherName
  readonly audit: Audit
  readonly limiter: RateLimiter
  readonly idempotency: Idempotency
}
export type WritePermit = EnvironmentPermit<"secrets:write">

export interface Transaction extends Needs {
  readonly permit: WritePermit
  readonly live: ReadonlyMap<string, SecretRowChanges.LiveRow>
  readonly byId: ReadonlyMap<string, SecretRowChanges.LiveRow>
  readonly at: Date
  /** As it is now, in this transaction. */
  revision: number
  /** Versions that this transaction gave to keys, for the trail. */
  readonly versions: Map<string, number>
}

/** What a commit refuses, besides a box that does not open. */
export type Refusal = Composition.Problem | TemplateInvalid | RateLimited

/** Locks the environment until the transaction ends, and reads the names of what it holds. */
export const begin = Effect.fnUntraced(function* (needs: Needs, permit: WritePermit) {
  const environment = yield* SecretRowChanges.lockEnvironment(needs.sql, permit.target)
  if (environment === undefined) return yield* new EnvironmentNotFound()
  const rows = yield* SecretRowChanges.liveRows(needs.sql, permit.target)
  const transaction: Transaction = {
    ...needs,
    permit,
    live: new Map(rows.map((row) => [row.key, row])),
    byId: new Map(rows.map((row) => [row.id, row])),
    at: new Date(yield* Clock.currentTimeMillis),
    revision: environment.revision,
    versions: new Map()
  }
  return transaction
})

/** Texts as written of live secrets, by key. */
export const texts = Effect.fnUntraced(function* (
  { dataKeys, live, permit, sql }: Transaction,
  keys: Iterable<string>
) {
  const ids = [...keys].flatMap((key) => live.get(key)?.id ?? [])
  if (ids.length === 0) return new Map<string, string>()
  const opened = yield* SecretBoxes.open(dataKeys, permit.target, yield* SecretRowChanges.sealedRows(sql, ids))
  return new Map(opened.map((secret) => [secret.key, secret.text]))
})

const entriesOf = Effect.fnUntraced(function* (transaction: Transaction, keys: Iterable<string>) {
  const entries = new Map<string, Composition.Entry>()
  let sinceYield = 0
  for (const [key, text] of yield* texts(transaction, keys)) {
    entries.set(key, yield* Composition.entry(transaction.live.get(key)?.kind ?? "literal", text))
    sinceYield += text.length
    if (sinceYield > SecretBoxes.pieceBytes) {
      sinceYield = 0
      yield* Effect.yieldNow()
    }
  }
  return entries
})

/** The part of the environment that composition concerns: templates and what they use, and `keys`. */
const state = (transaction: Transaction, keys: Iterable<string>) => {
  const concerned = new Set<string>(keys)
  for (const { key, kind, refs } of transaction.live.values()) {
    if (kind !== "template") continue
    concerned.add(key)
    for (const used of refs) concerned.add(used)
  }
  return entriesOf(transaction, concerned)
}

/** Text, kind and pin of an earlier version of a live or deleted secret; undefined when it has no such version. */
export const earlierVersion = Effect.fnUntraced(function* (
  { dataKeys, permit, sql }: Transaction,
  at: { readonly id: SecretId; readonly key: string; readonly version: number }
) {
  const rows = yield* SecretRowChanges.sealedVersion(sql, permit.target, at)
  if (rows.length === 0) return undefined
  const [{ kind, text }] = yield* SecretBoxes.open(dataKeys, permit.target, rows)
  const write: Write = { kind, pinned: rows[0].pinned, text, from: "stored" }
  return write
})

export const deletedSecret = ({ at, permit, sql }: Transaction, id: SecretId) =>
  SecretRows.deletedSecret(sql, permit, id, at)

/**
 * Entries name the versions and the revision that a writer of the database would have to fit as well to roll back
 * unseen.
 */
export const record = ({ audit, live, revision, versions }: Transaction, events: ReadonlyArray<AuditEvent>) =>
  audit.append(
    ...events.map((event) =>
      event.keys === undefined
        ? event
        : {
            ...event,
            versions: event.keys.map((key) => versions.get(key) ?? live.get(key)?.version ?? 0),
            revision
          }
    )
  )

/** What the changes come to, compared with what is stored. An equal text of equal kind makes no version. */
const compare = Effect.fnUntraced(function* (transaction: Transaction, changes: Changes, fieldOf?: FieldOf) {
  const { live } = transaction
  const results = new Map<string, Written>()
  const entries = new Map<string, Composition.Entry | null>()
  const written: Array<{ readonly key: string; readonly write: Write }> = []
  const restored: Array<SecretMetadata> = []
  const deleted: Array<SecretId> = []
  const repinned: Array<SecretRowChanges.LiveRow> = []
  const stored = yield* texts(
    transaction,
    [...changes].flatMap(([key, change]) => (change === null ? [] : [key]))
  )
  for (const [key, change] of changes) {
    const row = live.get(key)
    if (change === null) {
      entries.set(key, null)
      if (row !== undefined) deleted.push(row.id)
    } else if (isRestoration(change)) {
      entries.set(key, yield* Composition.entry(change.write.kind, change.write.text))
      restored.push(metadataOf(change.restored))
    } else if (row !== undefined && row.kind === change.kind && stored.get(key) === change.text) {
      if (row.pinned !== change.pinned) repinned.push({ ...row, pinned: change.pinned })
      results.set(key, { secret: metadataOf(row), outcome: "unchanged" })
    } else {
      entries.set(key, yield* Composition.entry(change.kind, change.text, fieldOf?.(key)))
      written.push({ key, write: change })
    }
  }
  return { results, entries, written, restored, deleted, repinned }
})

/** Checks the environment as it will be: number of secrets, templates, sizes. */
const check = Effect.fnUntraced(function* (transaction: Transaction, changes: Composition.Changes, fieldOf?: FieldOf) {
  const { live } = transaction
  let secrets = live.size
  for (const [key, change] of changes) secrets += (change === null ? 0 : 1) - (live.has(key) ? 1 : 0)
  if (secrets > SecretRows.maxSecrets) return yield* new PlanLimitReached()
  const before = yield* state(transaction, [])
  const textBytes = (key: string) => (live.get(key)?.bytes ?? 0) - Envelope.overhead
  let besides = 0
  for (const key of live.keys()) if (!before.has(key) && !changes.has(key)) besides += textBytes(key)
  // A literal that a new template starts to use must take part in the check with its text.
  const joined = new Set<string>()
  for (const change of changes.values()) {
    if (change === null) continue
    for (const key of Composition.referencesOf(change)) if (!before.has(key) && !changes.has(key)) joined.add(key)
  }
  const concerned = new Map<string, Composition.Entry>(before)
  for (const [key, entry] of yield* entriesOf(transaction, joined)) {
    concerned.set(key, entry)
    besides -= textBytes(key)
  }
  yield* Composition.checkAfter(concerned, changes, fieldOf, besides)
})

/** One box for each version, in their order, all under the active data key of the environment. */
const seal = Effect.fnUntraced(function* (
  { cipher, crypto, dataKeys, permit }: Transaction,
  versions: ReadonlyArray<SecretRowChanges.NewVersion>
) {
  const dataKey = yield* SecretBoxes.activeKey(dataKeys, permit.target)
  const boxes: Array<Buffer> = []
  for (const version of versions) {
    const salt = yield* crypto.randomBytes(Envelope.saltLength)
    const place = SecretBoxes.contextOf(permit.target, version, dataKey.id)
    boxes.push(Envelope.sealValue(dataKey.key, place, version.text, salt, cipher))
  }
  return { dataKeyId: dataKey.id, boxes }
})

/** Seals the texts as new versions, of new secrets or of existing ones. */
const insert = Effect.fnUntraced(function* (
  transaction: Transaction,
  writes: ReadonlyArray<{ readonly key: string; readonly write: Write }>,
  entries: Composition.Changes
) {
  const { at, crypto, live, permit, sql } = transaction
  const versionOf = yield* SecretRowChanges.nextVersions(
    sql,
    permit.target,
    writes.map(({ key }) => key)
  )
  const ids = yield* crypto.uuids(writes.length)
  const versions = writes.map(({ key, write }, i): SecretRowChanges.NewVersion => {
    const before = live.get(key)
    const entry = entries.get(key)
    return {
      id: before?.id ?? SecretIdOut.make(ids[i]),
      key,
      kind: write.kind,
      version: versionOf.get(key) ?? 1,
      createdAt: before?.createdAt ?? at,
      updatedAt: at,
      text: write.text,
      pinned: write.pinned,
      refs: entry === undefined || entry === null ? [] : Composition.referencesOf(entry)
    }
  })
  yield* SecretRowChanges.upsertSecrets(sql, permit.target, versions, at)
  const author = JSON.stringify(Guesses.authorOf(transaction))
  const sealed = yield* seal(transaction, versions)
  yield* SecretRowChanges.insertVersions(sql, versions, { ...sealed, at, author })
  if (permit.target.plan === "developer") yield* SecretRowChanges.dropEarlierVersions(sql, versions)
  return versions.map(metadataOf)
})

/** In the order of the request: any other would tell which values were equal. */
const inOrder = (results: Results, changes: Changes): Results => {
  const ordered = new Map<string, Written>()
  for (const key of changes.keys()) {
    const written = results.get(key)
    if (written !== undefined) ordered.set(key, written)
  }
  return ordered
}

/** Checks the environment as it will be and writes the changes, all or none. */
export const commit = Effect.fnUntraced(function* (transaction: Transaction, changes: Changes, fieldOf?: FieldOf) {
  const { at, live, permit, sql, versions } = transaction
  yield* Guesses.count(transaction, changes)
  const { deleted, entries, repinned, restored, results, written } = yield* compare(transaction, changes, fieldOf)
  if (repinned.length > 0) yield* SecretRowChanges.repin(sql, repinned)
  if (entries.size === 0) return results
  yield* check(transaction, entries, fieldOf).pipe(
    Effect.mapError((error) =>
      error instanceof SecretBoxes.BoxAltered || error._tag === "TEMPLATE_INVALID"
        ? error
        : Guesses.withoutNames(transaction, changes)(error)
    )
  )
  if (deleted.length > 0) yield* SecretRowChanges.markDeleted(sql, deleted, at)
  if (restored.length > 0) {
    yield* SecretRowChanges.unmarkDeleted(
      sql,
      restored.map(({ id }) => id)
    )
    for (const secret of restored) results.set(secret.key, { secret, outcome: "restored" })
  }
  if (written.length > 0) {
    for (const secret of yield* insert(transaction, written, entries)) {
      results.set(secret.key, { secret, outcome: live.has(secret.key) ? "updated" : "created" })
    }
  }
  for (const [key, { outcome, secret }] of results) if (outcome !== "unchanged") versions.set(key, secret.version)
  yield* SecretRowChanges.bumpRevision(sql, permit.target)
  transaction.revision++
  return inOrder(results, changes)
})

export interface Outcome {
  readonly transaction: Transaction
  readonly changes: Changes
  readonly results: Results
}

export interface WriteOptions<A, E, R> {
  /** The keys that a refusal names in the trail. */
  readonly keys?: ReadonlyArray<string>
  /** The member of the request that a key's text came in. */
  readonly field?: FieldOf
  /** The entries that are committed with the write. By default: which keys were created, and which updated. */
  readonly entries?: (outcome: Outcome) => ReadonlyArray<AuditEvent>
  readonly answer: (outcome: Outcome) => Effect.Effect<A, E, R>
}

/** `changes` are decided under the lock. `refusal`: what it means to the caller that the commit is refused. */
const transact = <A, E, R, E2, R2, E3>(
  needs: Needs,
  permit: WritePermit,
  changes: (transaction: Transaction) => Effect.Effect<Changes, E2, R2>,
  { answer, entries = byOutcome(permit), field }: WriteOptions<A, E, R>,
  refusal: (problem: Refusal) => E3
) =>
  Effect.gen(function* () {
    const transaction = yield* begin(needs, permit)
    const decided = yield* changes(transaction)
    const results = yield* Effect.mapError(commit(transaction, decided, field), (error) =>
      error instanceof SecretBoxes.BoxAltered ? error : refusal(error)
    )
    const outcome: Outcome = { transaction, changes: decided, results }
    yield* record(transaction, entries(outcome))
    return yield* answer(outcome)
  }).pipe(needs.sql.withTransaction, dieOfSql)

const recorded = <A, E, R>(
  { audit }: Needs,
  permit: WritePermit,
  { keys }: { readonly keys?: ReadonlyArray<string> },
  work: Effect.Effect<A, E, R>
) => SecretBoxes.recordingRefusals(audit, permit.event(keys === undefined ? {} : { keys }), work)

const asIs = (problem: Refusal) => problem

export const write = <A, E, R, E2, R2>(
  needs: Needs,
  permit: WritePermit,
  changes: (transaction: Transaction) => Effect.Effect<Changes, E2, R2>,
  options: WriteOptions<A, E, R>
) => recorded(needs, permit, options, transact(needs, permit, changes, options, asIs))

/** The same; a repeated request gets the answer that was stored for it. */
export const writeOnce = <A, E, R, E2, R2>(
  needs: Needs,
  permit: WritePermit,
  once: Idempotent,
  changes: (transaction: Transaction) => Effect.Effect<Changes, E2, R2>,
  options: WriteOptions<A, E, R>
) => {
  const work = transact(needs, permit, changes, options, asIs)
  return recorded(needs, permit, options, needs.idempotency.once(permit, once, work))
}

/** A deletion never breaks what was stored well: a problem here means that rows were damaged. */
const damaged = () => new SecretBoxes.BoxAltered({ keys: [] })

/** Removes secrets. Flattened texts are escaped: they can be longer than what they replace, and meet the limit. */
export const remove = <A, E, R, E2, R2>(
  needs: Needs,
  permit: WritePermit,
  changes: (transaction: Transaction) => Effect.Effect<Changes, E2, R2>,
  options: WriteOptions<A, E, R>
) => {
  const refusal = (problem: Refusal) => (problem instanceof PlanLimitReached ? problem : damaged())
  return recorded(needs, permit, options, transact(needs, permit, changes, options, refusal))
}

/** Removes secrets and rewrites none; a repeated request gets the answer that was stored for it. */
export const removeOnce = <A, E, R, E2, R2>(
  needs: Needs,
  permit: WritePermit,
  once: Idempotent,
  changes: (transaction: Transaction) => Effect.Effect<Changes, E2, R2>,
  options: WriteOptions<A, E, R>
) => {
  const work = transact(needs, permit, changes, options, damaged)
  return recorded(needs, permit, options, needs.idempotency.once(permit, once, work))
}

/** `state`, of what a removal finds stored. */
export const storedState = (transaction: Transaction, keys: Iterable<string>) =>
  Effect.mapError(state(transaction, keys), (error) => (error instanceof SecretBoxes.BoxAltered ? error : damaged()))

/** `Composition.flatten` of what is stored. */
export const flattened = (stored: Composition.State, key: string) =>
  Effect.mapError(Composition.flatten(stored, key), damaged)

const dieOfSql = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.catchIf(
    self,
    (error): error is Extract<E, SqlError> => Predicate.isTagged(error, "SqlError"),
    (error) => Effect.die(error)
  )

const keysWith = (results: Results, outcome: Written["outcome"]) =>
  [...results].filter(([, written]) => written.outcome === outcome).map(([key]) => key)

/** Entries that say which keys were created, and which updated. */
export const byOutcome =
  (permit: WritePermit) =>
  ({ results }: Outcome): ReadonlyArray<AuditEvent> => {
    const [created, updated] = [keysWith(results, "created"), keysWith(results, "updated")]
    return [
      ...(created.length > 0 ? [permit.event({ audit: "secret.create", keys: created })] : []),
      ...(updated.length > 0 ? [permit.event({ audit: "secret.update", keys: updated })] : [])
    ]
  }

/** An entry that names the keys under the action of the permit, whatever became of them. */
export const byAction =
  (permit: WritePermit) =>
  ({ results }: Outcome): ReadonlyArray<AuditEvent> => [permit.event({ keys: [...results.keys()] })]

/** The secret that a write of one key wrote. */
export const onlySecret = ({ results }: Outcome) =>
  Effect.orDie(Effect.map(Effect.fromNullable([...results.values()][0]), ({ secret }) => secret))

// --- what changes begin with ---

/** The key must not be live, and its last version must be the expected one, if one is expected. */
export const newSecret = Effect.fnUntraced(function* (
  transaction: Transaction,
  key: string,
  source: ValueSource,
  expectedVersion = 0
) {
  if (transaction.live.has(key)) return yield* new SecretAlreadyExists({ field: "key" })
  if (expectedVersion > 0) {
    const currentVersion = yield* SecretRowChanges.lastVersion(transaction.sql, transaction.permit.target, key)
    if (currentVersion !== expectedVersion) {
      return yield* new SecretVersionConflict({ currentVersion, field: "expectedVersion" })
    }
  }
  return new Map([[key, source(undefined)]])
})

export const liveSecret = ({ byId }: Transaction, id: SecretId) =>
  Effect.mapError(Effect.fromNullable(byId.get(id)), () => new SecretNotFound())

/** A live secret by id, at the version that the caller expects. */
export const expectedSecret = Effect.fnUntraced(function* (
  transaction: Transaction,
  id: SecretId,
  expectedVersion: number | undefined
) {
  const secret = yield* liveSecret(transaction, id)
  if (expectedVersion === undefined || expectedVersion === secret.version) return secret
  return yield* new SecretVersionConflict({ currentVersion: secret.version, field: "expectedVersion" })
})

/** Routes that name a secret say SECRET_NOT_FOUND also when its environment was deleted meanwhile. */
export const ofSecret = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.catchIf(
    self,
    (error): error is Extract<E, EnvironmentNotFound> => error instanceof EnvironmentNotFound,
    () => new SecretNotFound()
  )
