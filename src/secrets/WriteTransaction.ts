/**
 * The one way to write secrets: one transaction under the lock of the environment that counts guesses, checks, writes
 * the rows and commits the audit entry. For the use cases of `SecretWrites.ts` and `SourcedWrites.ts` alone.
 */
import type { SqlError } from "@effect/sql/SqlError"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Predicate from "effect/Predicate"
import type { ChangeRequest } from "#schema/ChangeRequestsApi.ts"
import { EnvironmentNotFound, PlanLimitReached, SecretNotFound } from "#schema/Errors.ts"
import type { AuditEvent } from "#src/trail/Entry.ts"
import * as Composition from "./Composition.ts"
import * as Guesses from "./Guesses.ts"
import type { Idempotent } from "./Idempotency.ts"
import { begin, type Naming, type Needs, type Transaction, type WritePermit } from "./LockedEnvironment.ts"
import * as ProposedChanges from "./ProposedChanges.ts"
import * as SecretBoxes from "./SecretBoxes.ts"
import type { Changes, FieldOf, Results, Written } from "./SecretChanges.ts"
import * as SecretRowChanges from "./SecretRowChanges.ts"
import * as WriteDecision from "./WriteDecision.ts"
import type { Left, Refusal } from "./WriteDecision.ts"

export type { Left, Refusal }

/**
 * Entries name the versions and the revision that a writer of the database would have to fit as well to roll back
 * unseen.
 */
export const withVersions = ({ live, revision, versions }: Transaction, event: AuditEvent): AuditEvent =>
  event.keys === undefined
    ? event
    : { ...event, versions: event.keys.map((key) => versions.get(key) ?? live.get(key)?.version ?? 0), revision }

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
type Settled<A> = { readonly answer: A; readonly left: Left | undefined } | { readonly waits: ChangeRequest }

/**
 * Under the lock: what was decided is checked, and written with its entries, or kept for an approval. `head`: what the
 * lock took of the trail, unless another part of the transaction wrote to it since. `ends`: the transaction has no other
 * part after this one. What may fail comes before the last statement, the answer too.
 */
export const settle = Effect.fnUntraced(function* <A, E, R, E2>(
  transaction: Transaction,
  changes: Changes,
  {
    answer,
    ends,
    entries,
    field,
    head,
    reason
  }: {
    readonly answer: (outcome: Outcome) => Effect.Effect<A, E, R>
    readonly ends: boolean
    readonly entries: (outcome: Outcome) => ReadonlyArray<AuditEvent>
    readonly field?: FieldOf | undefined
    readonly head: SecretRowChanges.Facts["head"]
    readonly reason?: string | undefined
  },
  refusal: (problem: Refusal) => E2
) {
  const { left, results, rows } = yield* Effect.mapError(WriteDecision.decide(transaction, changes, field), (error) =>
    error instanceof SecretBoxes.BoxAltered ? error : refusal(error)
  )
  if (transaction.permit.proposes && changes.size > 0) {
    const waiting: Settled<A> = { waits: yield* ProposedChanges.keep(transaction, changes, reason) }
    return waiting
  }
  const outcome: Outcome = { transaction, changes, results }
  const events = entries(outcome).map((event) => withVersions(transaction, event))
  const { audit, permit, sql } = transaction
  const written = rows === undefined ? undefined : SecretRowChanges.changing(sql, permit.target, rows)
  const settled: Settled<A> = { answer: yield* answer(outcome), left }
  yield* audit.appendWith({ changes: written, head: head ?? undefined, ends }, events)
  return settled
})

/** The transaction. `leaves` is told what the write leaves, which counts when everything is committed. */
const transact = <A, E, R, E2, R2, E3>(...of: Parameters<typeof inTransaction<A, E, R, E2, R2, E3>>) =>
  inTransaction(...of).pipe(of[0].sql.withTransaction, dieOfSql)

const inTransaction = Effect.fnUntraced(function* <A, E, R, E2, R2, E3>(
  needs: Needs,
  permit: WritePermit,
  changes: Deciding<E2, R2>,
  { answer, entries = byOutcome(permit), field, ...naming }: WriteOptions<A, E, R>,
  refusal: (problem: Refusal) => E3,
  leaves: (left: Left | undefined) => void
) {
  const transaction = yield* begin(needs, permit, naming)
  const decided = yield* changes(transaction)
  yield* Effect.mapError(Guesses.count([{ writing: transaction, changes: decided }]), refusal)
  const { head } = transaction.facts
  const settled = yield* settle(transaction, decided, { answer, ends: true, entries, field, head }, refusal)
  if (!("waits" in settled)) leaves(settled.left)
  return settled
})

/** Around the outermost transaction: refusals are recorded, and reads find what was committed. */
export const committed = Effect.fnUntraced(function* <A, E, R>(
  needs: Needs,
  permit: WritePermit,
  { keys }: Naming,
  work: (leaves: (left: Left | undefined) => void) => Effect.Effect<Committed<A>, E, R>
) {
  let left: Left | undefined
  const done = yield* SecretBoxes.recordingRefusals(
    needs.audit,
    permit.event({ keys }),
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
