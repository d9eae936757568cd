/**
 * A request to write secrets, as `Commit.ts` takes it: what it does in each environment, its audit entries and its
 * answer. The functions in it run under the locks.
 */
import * as Effect from "effect/Effect"
import type { ChangeRequest } from "#schema/ChangeRequestsApi.ts"
import type { RequestOrigin } from "#src/database/RequestInfo.ts"
import type { AuditEvent } from "#src/trail/Entry.ts"
import type { Naming, Transaction, WritePermit } from "./LockedEnvironment.ts"
import type { Changes, Fields, KeyResult, Results } from "./SecretChanges.ts"
import { Proposed } from "./ProposedChanges.ts"
import { refOf } from "./SecretMetadata.ts"
import type { Refusal } from "./WriteDecision.ts"
import { originOf } from "./ValueSource.ts"

/** The outcome of a request in one environment. */
export interface Outcome {
  readonly transaction: Transaction
  readonly changes: Changes
  readonly results: Results
  /** Set when the changes wait for an approval instead. */
  readonly pending: ChangeRequest | undefined
}

/** The part of a request that concerns one environment. */
export interface Part extends Naming {
  readonly permit: WritePermit
  /** The member of the request that a key's text came in. */
  readonly field?: Fields | undefined
  /** The entries that are committed with the part. */
  readonly entries: (outcome: Outcome) => ReadonlyArray<AuditEvent>
  /** For the approvers of changes that wait. */
  readonly reason?: string | undefined
}

/** The caller that waits for one request of a batch. */
export interface Waiter {
  readonly origin: RequestOrigin
  /** The caller left: a request that is not decided yet is dropped. */
  gone: boolean
}

/** The stored answer of a request that carries an idempotency key. */
export interface Once<A, E> {
  readonly find: Effect.Effect<{ readonly answer: A } | undefined, E>
  readonly keep: (answer: A) => Effect.Effect<void, E>
}

/** A request: all of its parts are written, or none. */
export interface WriteRequest<A, E, R> {
  readonly parts: ReadonlyArray<Part>
  /** The changes of each part, decided under the locks. */
  readonly changes: (transactions: ReadonlyArray<Transaction>) => Effect.Effect<ReadonlyArray<Changes>, E, R>
  /** Comes before the last statement: it may fail, or write to the database. */
  readonly answer: (outcomes: ReadonlyArray<Outcome>) => Effect.Effect<A, E, R>
  readonly refusal: (problem: Refusal) => E
  readonly waiter?: Waiter | undefined
}

// --- requests to one environment ---

/** Decides the changes of a locked environment. */
export type Decider<E = never, R = never> = (transaction: Transaction) => Effect.Effect<Changes, E, R>

export interface WriteOptions<A, E, R> extends Naming {
  readonly field?: Fields
  /** The entries that are committed with the write. By default: which keys were created, and which updated. */
  readonly entries?: (outcome: Outcome) => ReadonlyArray<AuditEvent>
  readonly answer: (outcome: Outcome) => Effect.Effect<A, E, R>
}

/** The result of a request to one environment, as idempotency keys store it. */
export type AnswerOrRequest<A> = { readonly answer: A } | { readonly waits: ChangeRequest }

export const ofOne = <A, E, R, E2, R2, E3>(
  permit: WritePermit,
  changes: Decider<E2, R2>,
  { answer, entries = byOutcome(permit), field, ids, keys, sources, withoutValues }: WriteOptions<A, E, R>,
  refusal: (problem: Refusal) => E3
): WriteRequest<AnswerOrRequest<A>, E | E2 | E3, R | R2> => ({
  parts: [{ permit, keys, ids, sources, withoutValues, field, entries }],
  changes: ([transaction]) => Effect.map(changes(transaction), (one) => [one]),
  answer: ([outcome]) =>
    outcome.pending === undefined
      ? Effect.map(answer(outcome), (answer) => ({ answer }))
      : Effect.succeed({ waits: outcome.pending }),
  refusal
})

/** The answer, or `Proposed` where the changes wait. */
export const answered = <A>(result: AnswerOrRequest<A>): Effect.Effect<A, Proposed> =>
  "waits" in result ? new Proposed({ request: result.waits }) : Effect.succeed(result.answer)

// --- entries and answers ---

const keysWith = ({ results }: Outcome, outcome: KeyResult["outcome"]) =>
  [...results].filter(([, result]) => result.outcome === outcome).map(([key]) => key)

/**
 * Entries that say which keys were created, and which updated. A sent text that the secret has already makes no version;
 * its entry says that the author holds it.
 */
export const byOutcome =
  (permit: WritePermit) =>
  (outcome: Outcome): ReadonlyArray<AuditEvent> => {
    const [created, updated] = [keysWith(outcome, "created"), keysWith(outcome, "updated")]
    const again = keysWith(outcome, "unchanged").filter((key) => originOf(outcome.changes.get(key)) === "caller")
    return [
      ...(created.length > 0 ? [permit.event({ audit: "secret.create", keys: created })] : []),
      ...(updated.length > 0 ? [permit.event({ audit: "secret.update", keys: updated })] : []),
      ...(again.length > 0 ? [permit.event({ audit: "secret.unchanged", keys: again })] : [])
    ]
  }

/** One entry that names the keys under the action of the permit, whatever their outcome. */
export const byAction =
  (permit: WritePermit) =>
  ({ results }: Outcome): ReadonlyArray<AuditEvent> => [permit.event({ keys: [...results.keys()] })]

/** The secret of a write of one key. */
export const onlySecret = ({ results }: Outcome) =>
  Effect.orDie(Effect.map(Effect.fromNullable([...results.values()][0]), ({ secret }) => secret))

/** For a write of one key: an entry under the action of the permit, and the secret's reference as the answer. */
export const asReference = (permit: WritePermit) => ({
  entries: byAction(permit),
  answer: (outcome: Outcome) => Effect.map(onlySecret(outcome), (secret) => refOf(permit.target, secret))
})
