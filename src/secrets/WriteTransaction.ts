/**
 * The one way to write secrets: one transaction under the lock of the environment that counts guesses, checks, writes
 * the rows and commits the audit entry. For the use cases of `SecretWrites.ts` and `SourcedWrites.ts` alone.
 */
import type { SqlError } from "@effect/sql/SqlError"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Predicate from "effect/Predicate"
import type { ChangeRequest } from "#schema/ChangeRequestsApi.ts"
import {
  EnvironmentNotFound,
  PlanLimitReached,
  type RateLimited,
  SecretNotFound,
  type TemplateInvalid
} from "#schema/Errors.ts"
import { type SecretId, SecretIdOut } from "#schema/Ids.ts"
import type { AuditEvent } from "#src/access/Audit.ts"
import * as Envelope from "#src/crypto/Envelope.ts"
import * as Composition from "./Composition.ts"
import * as Guesses from "./Guesses.ts"
import type { Idempotent } from "./Idempotency.ts"
import { begin, type Naming, type Needs, opened, type Transaction, type WritePermit } from "./LockedEnvironment.ts"
import * as ProposedChanges from "./ProposedChanges.ts"
import * as SecretBoxes from "./SecretBoxes.ts"
import {
  type Changes,
  type FieldOf,
  isContinuation,
  isRestoration,
  type Continuation,
  type Results,
  type Written
} from "./SecretChanges.ts"
import { metadataOf, type SecretMetadata } from "./SecretMetadata.ts"
import * as SecretRowChanges from "./SecretRowChanges.ts"
import * as SecretRows from "./SecretRows.ts"
import type { Write } from "./ValueSource.ts"

/** What a commit refuses, besides a box that does not open. */
export type Refusal = Composition.Problem | TemplateInvalid | RateLimited

/**
 * Entries name the versions and the revision that a writer of the database would have to fit as well to roll back
 * unseen.
 */
const withVersions = ({ live, revision, versions }: Transaction, event: AuditEvent): AuditEvent =>
  event.keys === undefined
    ? event
    : { ...event, versions: event.keys.map((key) => versions.get(key) ?? live.get(key)?.version ?? 0), revision }

interface NewText extends Partial<Pick<Continuation, "continued">> {
  readonly key: string
  readonly write: Write
}

/** What the changes come to, compared with what is stored. An equal text of equal kind makes no version. */
const compare = Effect.fnUntraced(function* (transaction: Transaction, changes: Changes, fieldOf?: FieldOf) {
  const { live } = transaction
  const results = new Map<string, Written>()
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
    } else if (isRestoration(change)) {
      entries.set(key, yield* Composition.entry(change.write.kind, change.write.text))
      restored.push(metadataOf(change.restored))
    } else if (isContinuation(change)) {
      const { id, key: from } = change.continued
      if (live.get(from)?.id === id) entries.set(from, null)
      entries.set(key, yield* Composition.entry(change.write.kind, change.write.text))
      written.push({ key, ...change })
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

/** Checks the environment as it will be: number of secrets, templates, sizes. Returns its totals, and what was concerned. */
const check = Effect.fnUntraced(function* (transaction: Transaction, changes: Composition.Changes, fieldOf?: FieldOf) {
  const { facts, live } = transaction
  let { secrets } = facts
  for (const [key, change] of changes) secrets += (change === null ? 0 : 1) - (live.has(key) ? 1 : 0)
  if (secrets > SecretRows.maxSecrets) return yield* new PlanLimitReached()
  const before = new Map([...(yield* joining(transaction, changes)), ...(yield* transaction.stored)])
  const counted = Composition.totalsOf(before)
  const besides = { written: facts.written - counted.written, expanded: facts.expanded - counted.expanded }
  const totals = yield* Composition.checkAfter(before, changes, fieldOf, besides)
  return { totals: { ...totals, secrets }, after: Composition.apply(before, changes) }
})

/** New versions, of new secrets or of existing ones. */
const versionsOf = Effect.fnUntraced(function* (
  { at, crypto, lastVersions, live }: Transaction,
  writes: ReadonlyArray<NewText>,
  entries: Composition.Changes
) {
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
  // A salt of its own for each, asked for at once.
  const salts = yield* crypto.randomBytes(Envelope.saltLength * versions.length)
  const boxes = versions.map((version, i) => {
    const place = SecretBoxes.contextOf(permit.target, version, dataKey.id)
    const salt = salts.subarray(i * Envelope.saltLength, (i + 1) * Envelope.saltLength)
    return Envelope.sealValue(dataKey.key, place, version.text, salt, cipher)
  })
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
  const { deleted, entries, repinned, restored, results, written } = yield* compare(transaction, changes, fieldOf)
  if (entries.size === 0 && repinned.length === 0) return { results, rows: undefined, left: undefined }
  const { after, totals } =
    entries.size === 0
      ? { after: undefined, totals: facts }
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
    continued: written.flatMap(({ continued, key }) =>
      continued === undefined ? [] : [{ id: continued.id, from: continued.key, to: key }]
    ),
    restored: restored.map(({ id, key }) => ({ id, refs: referencesAfter(entries, key) })),
    repinned,
    referred: [...entries.keys()]
      .flatMap((key) => live.get(key) ?? [])
      .flatMap(({ id, refs }) => (refs.length > 0 ? [id] : [])),
    keepsOne: permit.target.plan === "developer"
  })
  const affected = new Set([...transaction.above, ...entries.keys()])
  const left: Left | undefined =
    after === undefined ? undefined : { before: facts.revision, revision: transaction.revision, after, affected }
  return { results: inOrder(results, changes), rows, left }
})

/** What a write leaves for the reads that come after it. */
export interface Left {
  readonly before: number
  readonly revision: number
  readonly after: Composition.State
  /** Keys whose values may be others than before. */
  readonly affected: ReadonlySet<string>
}

/** Once it is committed. A read that finds nothing here asks the database what changed. */
export const leave = Effect.fnUntraced(function* (
  { snapshots }: Needs,
  { target: { environmentId } }: WritePermit,
  { affected, after, before, revision }: Left
) {
  for (const representation of ["materialized", "source"] as const) {
    if (!snapshots.holds(environmentId, before, representation)) continue
    const live = [...affected].filter((key) => after.has(key))
    const texts =
      representation === "source"
        ? Either.right(new Map([...after].map(([key, entry]) => [key, Composition.sourceOf(entry)])))
        : Composition.resolve(after, live)
    if (Either.isLeft(texts)) continue
    const values = new Map([...affected].map((key) => [key, texts.right.get(key) ?? null]))
    yield* snapshots.follow(environmentId, representation, before, { revision, values })
  }
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

export type Deciding<E, R> = (transaction: Transaction) => Effect.Effect<Changes, E, R>

/** What a write comes to: its answer, or a request that waits for an approval. */
type Committed<A> = { readonly answer: A } | { readonly waits: ChangeRequest }

/** What became of what was decided: it was written, or it waits. */
type Settled = { readonly outcome: Outcome; readonly left: Left | undefined } | { readonly waits: ChangeRequest }

/**
 * Under the lock: what was decided is checked, and written with its entries, or kept for an approval. `head`: what the
 * lock took of the trail, unless another part of the transaction wrote to it since.
 */
export const settle = <E>(
  transaction: Transaction,
  changes: Changes,
  {
    entries,
    field,
    head,
    reason
  }: {
    readonly entries: (outcome: Outcome) => ReadonlyArray<AuditEvent>
    readonly field?: FieldOf | undefined
    readonly head: SecretRowChanges.Facts["head"]
    readonly reason?: string | undefined
  },
  refusal: (problem: Refusal) => E
) =>
  Effect.gen(function* () {
    const { left, results, rows } = yield* Effect.mapError(decide(transaction, changes, field), (error) =>
      error instanceof SecretBoxes.BoxAltered ? error : refusal(error)
    )
    if (transaction.permit.proposes && changes.size > 0) {
      const waiting: Settled = { waits: yield* ProposedChanges.keep(transaction, changes, reason) }
      return waiting
    }
    const outcome: Outcome = { transaction, changes, results }
    const events = entries(outcome).map((event) => withVersions(transaction, event))
    yield* transaction.audit.appendWith({ changes: rows, head: head ?? undefined }, events)
    const written: Settled = { outcome, left }
    return written
  })

/** The transaction. `leaves` is told what the write leaves, which counts when everything is committed. */
const transact = <A, E, R, E2, R2, E3>(
  needs: Needs,
  permit: WritePermit,
  changes: Deciding<E2, R2>,
  { answer, entries = byOutcome(permit), field, ...naming }: WriteOptions<A, E, R>,
  refusal: (problem: Refusal) => E3,
  leaves: (left: Left | undefined) => void
) =>
  Effect.gen(function* () {
    const transaction = yield* begin(needs, permit, naming)
    const decided = yield* changes(transaction)
    yield* Effect.mapError(Guesses.count([{ writing: transaction, changes: decided }]), refusal)
    const settled = yield* settle(transaction, decided, { entries, field, head: transaction.facts.head }, refusal)
    if ("waits" in settled) return settled
    leaves(settled.left)
    return { answer: yield* answer(settled.outcome) }
  }).pipe(needs.sql.withTransaction, dieOfSql)

/** Around the outermost transaction: refusals are recorded, and reads find what was committed. */
const committed = <A, E, R>(
  needs: Needs,
  permit: WritePermit,
  { keys }: Naming,
  work: (leaves: (left: Left | undefined) => void) => Effect.Effect<Committed<A>, E, R>
) =>
  Effect.gen(function* () {
    let left: Left | undefined
    const event = permit.event(keys === undefined ? {} : { keys })
    const done = yield* SecretBoxes.recordingRefusals(
      needs.audit,
      event,
      work((made) => void (left = made))
    )
    if (left !== undefined) yield* leave(needs, permit, left)
    return "waits" in done ? yield* new ProposedChanges.Proposed({ request: done.waits }) : done.answer
  })

const asIs = (problem: Refusal) => problem

export const write = <A, E, R, E2, R2>(
  needs: Needs,
  permit: WritePermit,
  changes: Deciding<E2, R2>,
  options: WriteOptions<A, E, R>
) => committed(needs, permit, options, (leaves) => transact(needs, permit, changes, options, asIs, leaves))

/** The same; a repeated request gets the answer that was stored for it. */
export const writeOnce = <A, E, R, E2, R2>(
  needs: Needs,
  permit: WritePermit,
  once: Idempotent,
  changes: Deciding<E2, R2>,
  options: WriteOptions<A, E, R>
) =>
  committed(needs, permit, options, (leaves) =>
    needs.idempotency.once(permit, once, transact(needs, permit, changes, options, asIs, leaves))
  )

/** A deletion never breaks what was stored well: a problem here means that rows were damaged. */
const damaged = () => new SecretBoxes.BoxAltered({ keys: [] })

/** Removes secrets. Flattened texts are escaped: they can be longer than what they replace, and meet the limit. */
export const remove = <A, E, R, E2, R2>(
  needs: Needs,
  permit: WritePermit,
  changes: Deciding<E2, R2>,
  options: WriteOptions<A, E, R>
) => {
  const refusal = (problem: Refusal) => (problem instanceof PlanLimitReached ? problem : damaged())
  return committed(needs, permit, options, (leaves) => transact(needs, permit, changes, options, refusal, leaves))
}

/** Removes secrets and rewrites none; a repeated request gets the answer that was stored for it. */
export const removeOnce = <A, E, R, E2, R2>(
  needs: Needs,
  permit: WritePermit,
  once: Idempotent,
  changes: Deciding<E2, R2>,
  options: WriteOptions<A, E, R>
) =>
  committed(needs, permit, options, (leaves) =>
    needs.idempotency.once(permit, once, transact(needs, permit, changes, options, damaged, leaves))
  )

/** `Composition.flatten` of what is stored. */
export const flattened = (stored: Composition.State, key: string) =>
  Effect.mapError(Composition.flatten(stored, key), damaged)

export const dieOfSql = <A, E, R>(self: Effect.Effect<A, E, R>) =>
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

/** Routes that name a secret say SECRET_NOT_FOUND also when its environment was deleted meanwhile. */
export const ofSecret = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.catchIf(
    self,
    (error): error is Extract<E, EnvironmentNotFound> => error instanceof EnvironmentNotFound,
    () => new SecretNotFound()
  )
