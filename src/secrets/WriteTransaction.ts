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
import type { SecretKind } from "#schema/Values.ts"
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
import * as ValueSource from "./ValueSource.ts"
import type { Write } from "./ValueSource.ts"

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
  /** Live secrets that the write concerns: those that it names, what builds on them, and all that either builds on. */
  readonly live: ReadonlyMap<string, SecretRowChanges.LiveRow>
  readonly byId: ReadonlyMap<string, SecretRowChanges.LiveRow>
  /** The last version that each of these keys ever had; deleted ones too. */
  readonly lastVersions: ReadonlyMap<string, number>
  /** `live` with its texts, opened when it is first asked for. */
  readonly stored: Effect.Effect<Composition.State, SecretBoxes.BoxAltered>
  readonly facts: SecretRowChanges.Facts
  readonly at: Date
  /** As it is now, in this transaction. */
  revision: number
  /** Versions that this transaction gave to keys, for the trail. */
  readonly versions: Map<string, number>
}

/** What a commit refuses, besides a box that does not open. */
export type Refusal = Composition.Problem | TemplateInvalid | RateLimited

/** What a write names. `sources`: what their texts refer to is read with it. */
export interface Naming {
  /** Also the keys that a refusal names in the trail. */
  readonly keys?: ReadonlyArray<string>
  readonly ids?: ReadonlyArray<SecretId>
  readonly sources?: Iterable<ValueSource.ValueSource>
}

const entryOf = (kind: SecretKind, key: string, text: string) =>
  Effect.mapError(Composition.entry(kind, text), () => new SecretBoxes.BoxAltered({ keys: [key] }))

const opened = Effect.fnUntraced(function* (
  { dataKeys }: Needs,
  permit: WritePermit,
  rows: ReadonlyArray<SecretRows.SealedRow>
) {
  const state = new Map<string, Composition.Entry>()
  for (const { key, kind, text } of yield* SecretBoxes.open(dataKeys, permit.target, rows)) {
    state.set(key, yield* entryOf(kind, key, text))
  }
  return state
})

/**
 * A process of an earlier release wrote to the environment, or this one is the first of this release: what is kept with
 * the environment is counted anew.
 */
const recount = Effect.fnUntraced(function* (needs: Needs, permit: WritePermit) {
  const rows = (yield* SecretRows.live(needs.sql, permit)).filter(({ live }) => live)
  const templates = yield* opened(
    needs,
    permit,
    rows.filter(({ kind }) => kind === "template")
  )
  const used = new Set([...templates.values()].flatMap(Composition.referencesOf))
  const bases = yield* opened(
    needs,
    permit,
    rows.filter(({ key, kind }) => kind === "literal" && used.has(key))
  )
  let besides = 0
  for (const { key, sealed } of rows) {
    if (!templates.has(key) && !bases.has(key)) besides += sealed.length - Envelope.overhead
  }
  const totals = Composition.totalsOf(new Map([...templates, ...bases]), { written: besides, expanded: besides })
  yield* SecretRowChanges.listReferences(needs.sql, permit.target)
  yield* SecretRowChanges.setTotals(needs.sql, permit.target, { ...totals, secrets: rows.length })
})

/** Locks the environment until the transaction ends, and reads what the write concerns. */
const begin = Effect.fnUntraced(function* (needs: Needs, permit: WritePermit, naming: Naming) {
  const { audit, sql } = needs
  const { ids = [], keys = [], sources = [] } = naming
  const named = { ids, keys, mentions: ValueSource.mentions(sources) }
  const read = Effect.flatMap(
    Effect.suspend(() => SecretRowChanges.lock(sql, permit.target, named, audit.freeHead())),
    (found) => (found === undefined ? new EnvironmentNotFound() : Effect.succeed(found))
  )
  let found = yield* read
  if (!found.facts.current) found = yield* read
  if (!found.facts.counted) {
    yield* recount(needs, permit)
    found = yield* read
  }
  const { facts, rows } = found
  const live = rows.filter((row) => row.live)
  const transaction: Transaction = {
    ...needs,
    permit,
    live: new Map(live.map((row) => [row.key, row])),
    byId: new Map(live.map((row) => [row.id, row])),
    lastVersions: new Map(rows.map(({ key, lastVersion }) => [key, lastVersion ?? 0])),
    stored: yield* Effect.cached(opened(needs, permit, live)),
    facts,
    at: new Date(yield* Clock.currentTimeMillis),
    revision: facts.revision,
    versions: new Map()
  }
  return transaction
})

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
const withVersions = ({ live, revision, versions }: Transaction, event: AuditEvent): AuditEvent =>
  event.keys === undefined
    ? event
    : { ...event, versions: event.keys.map((key) => versions.get(key) ?? live.get(key)?.version ?? 0), revision }

/** What the changes come to, compared with what is stored. An equal text of equal kind makes no version. */
const compare = Effect.fnUntraced(function* (transaction: Transaction, changes: Changes, fieldOf?: FieldOf) {
  const { live } = transaction
  const results = new Map<string, Written>()
  const entries = new Map<string, Composition.Entry | null>()
  const written: Array<{ readonly key: string; readonly write: Write }> = []
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
    } else if (isRestoration(change)) {
      entries.set(key, yield* Composition.entry(change.write.kind, change.write.text))
      restored.push(metadataOf(change.restored))
    } else if (row !== undefined && before?.kind === change.kind && Composition.sourceOf(before) === change.text) {
      if (row.pinned !== change.pinned) repinned.push({ ...row, pinned: change.pinned })
      results.set(key, { secret: metadataOf(row), outcome: "unchanged" })
    } else {
      entries.set(key, yield* Composition.entry(change.kind, change.text, fieldOf?.(key)))
      written.push({ key, write: change })
    }
  }
  return { results, entries, written, restored, deleted, repinned }
})

/** The keys that new texts use and that were not read with the lock, and all that those build on. */
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

/** Checks the environment as it will be: number of secrets, templates, sizes; and returns its totals. */
const check = Effect.fnUntraced(function* (transaction: Transaction, changes: Composition.Changes, fieldOf?: FieldOf) {
  const { facts, live } = transaction
  let { secrets } = facts
  for (const [key, change] of changes) secrets += (change === null ? 0 : 1) - (live.has(key) ? 1 : 0)
  if (secrets > SecretRows.maxSecrets) return yield* new PlanLimitReached()
  const before = new Map([...(yield* joining(transaction, changes)), ...(yield* transaction.stored)])
  const counted = Composition.totalsOf(before)
  const besides = { written: facts.written - counted.written, expanded: facts.expanded - counted.expanded }
  const totals = yield* Composition.checkAfter(before, changes, fieldOf, besides)
  return { ...totals, secrets }
})

/** New versions, of new secrets or of existing ones. */
const versionsOf = Effect.fnUntraced(function* (
  { at, crypto, lastVersions, live }: Transaction,
  writes: ReadonlyArray<{ readonly key: string; readonly write: Write }>,
  entries: Composition.Changes
) {
  const ids = yield* crypto.uuids(writes.length)
  return writes.map(({ key, write }, i): SecretRowChanges.NewVersion => {
    const before = live.get(key)
    return {
      id: before?.id ?? SecretIdOut.make(ids[i]),
      key,
      kind: write.kind,
      version: (lastVersions.get(key) ?? 0) + 1,
      createdAt: before?.createdAt ?? at,
      updatedAt: at,
      text: write.text,
      pinned: write.pinned,
      refs: referencesAfter(entries, key)
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
  const boxes: Array<Buffer> = []
  for (const version of versions) {
    const salt = yield* crypto.randomBytes(Envelope.saltLength)
    const place = SecretBoxes.contextOf(permit.target, version, dataKey.id)
    boxes.push(Envelope.sealValue(dataKey.key, place, version.text, salt, cipher))
  }
  return { dataKeyId: dataKey.id, boxes }
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

/** Checks the environment as it will be and decides what becomes of its rows; undefined: nothing. */
const decide = Effect.fnUntraced(function* (transaction: Transaction, changes: Changes, fieldOf?: FieldOf) {
  const { at, facts, live, permit, sql, versions } = transaction
  yield* Guesses.count(transaction, changes)
  const { deleted, entries, repinned, restored, results, written } = yield* compare(transaction, changes, fieldOf)
  if (entries.size === 0 && repinned.length === 0) return { results, rows: undefined }
  const totals =
    entries.size === 0
      ? facts
      : yield* check(transaction, entries, fieldOf).pipe(
          Effect.mapError((error) =>
            error instanceof SecretBoxes.BoxAltered ? error : Guesses.withoutNames(transaction, changes)(error)
          )
        )
  const made = yield* versionsOf(transaction, written, entries)
  for (const secret of restored) results.set(secret.key, { secret, outcome: "restored" })
  for (const version of made) {
    results.set(version.key, { secret: metadataOf(version), outcome: live.has(version.key) ? "updated" : "created" })
  }
  for (const [key, { outcome, secret }] of results) if (outcome !== "unchanged") versions.set(key, secret.version)
  if (entries.size > 0) transaction.revision++
  const rows = SecretRowChanges.changing(sql, permit.target, {
    ...(yield* seal(transaction, made)),
    at,
    author: JSON.stringify(Guesses.authorOf(transaction)),
    revision: transaction.revision,
    totals,
    written: made,
    deleted,
    restored: restored.map(({ id, key }) => ({ id, refs: referencesAfter(entries, key) })),
    repinned,
    referred: [...entries.keys()]
      .flatMap((key) => live.get(key) ?? [])
      .flatMap(({ id, refs }) => (refs.length > 0 ? [id] : [])),
    keepsOne: permit.target.plan === "developer"
  })
  return { results: inOrder(results, changes), rows }
})

const referencesAfter = (entries: Composition.Changes, key: string) => {
  const entry = entries.get(key)
  return entry === undefined || entry === null ? [] : Composition.referencesOf(entry)
}

export interface Outcome {
  readonly transaction: Transaction
  readonly changes: Changes
  readonly results: Results
}

export interface WriteOptions<A, E, R> extends Naming {
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
  { answer, entries = byOutcome(permit), field, ...naming }: WriteOptions<A, E, R>,
  refusal: (problem: Refusal) => E3
) =>
  Effect.gen(function* () {
    const transaction = yield* begin(needs, permit, naming)
    const decided = yield* changes(transaction)
    const { results, rows } = yield* Effect.mapError(decide(transaction, decided, field), (error) =>
      error instanceof SecretBoxes.BoxAltered ? error : refusal(error)
    )
    const outcome: Outcome = { transaction, changes: decided, results }
    const events = entries(outcome).map((event) => withVersions(transaction, event))
    yield* needs.audit.appendWith({ changes: rows, head: transaction.facts.head ?? undefined }, events)
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
  source: ValueSource.ValueSource,
  expectedVersion = 0
) {
  if (transaction.live.has(key)) return yield* new SecretAlreadyExists({ field: "key" })
  const currentVersion = transaction.lastVersions.get(key) ?? 0
  if (expectedVersion > 0 && currentVersion !== expectedVersion) {
    return yield* new SecretVersionConflict({ currentVersion, field: "expectedVersion" })
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
