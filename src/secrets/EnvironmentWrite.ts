/**
 * Requests that write to one environment, for the use cases of this folder: each is committed by `Commit.ts`. An
 * environment whose changes wait for an approval answers `Proposed`.
 */
import * as Effect from "effect/Effect"
import type { ChangeRequest } from "#schema/ChangeRequestsApi.ts"
import {
  EnvironmentNotFound,
  type IdempotencyKeyReused,
  type IntegrityFailure,
  PlanLimitReached,
  type SecretAlreadyExists,
  SecretNotFound,
  type SecretVersionConflict
} from "#schema/Errors.ts"
import type { AuditEvent } from "#src/trail/Entry.ts"
import * as Commit from "./Commit.ts"
import type { Outcome, Refusal } from "./Commit.ts"
import * as Composition from "./Composition.ts"
import type * as CreationQueue from "./CreationQueue.ts"
import type { Idempotent } from "./Idempotency.ts"
import type { Naming, Needs, Transaction, WritePermit } from "./LockedEnvironment.ts"
import { Proposed } from "./ProposedChanges.ts"
import * as SecretBoxes from "./SecretBoxes.ts"
import type { Changes, FieldOf, KeyResult } from "./SecretChanges.ts"
import { refOf } from "./SecretMetadata.ts"

export type { Outcome }

export interface WriteOptions<A, E, R> extends Naming {
  /** The member of the request that a key's text came in. */
  readonly field?: FieldOf
  /** The entries that are committed with the write. By default: which keys were created, and which updated. */
  readonly entries?: (outcome: Outcome) => ReadonlyArray<AuditEvent>
  readonly answer: (outcome: Outcome) => Effect.Effect<A, E, R>
}

/** The result of a request to one environment, as idempotency keys store it. */
export type AnswerOrRequest<A> = { readonly answer: A } | { readonly waits: ChangeRequest }

export const answered = <A>(result: AnswerOrRequest<A>): Effect.Effect<A, Proposed> =>
  "waits" in result ? new Proposed({ request: result.waits }) : Effect.succeed(result.answer)

const asIs = (problem: Refusal) => problem

const requestOf = <A, E, R, E2, R2, E3>(
  permit: WritePermit,
  changes: (transaction: Transaction) => Effect.Effect<Changes, E2, R2>,
  { answer, entries = byOutcome(permit), field, ids, keys, sources, steered }: WriteOptions<A, E, R>,
  refusal: (problem: Refusal) => E3
): Commit.Write<AnswerOrRequest<A>, E | E2 | E3, R | R2> => ({
  parts: [{ permit, keys, ids, sources, steered, field, entries }],
  changes: ([transaction]) => Effect.map(changes(transaction), (one) => [one]),
  answer: ([outcome]) =>
    outcome.pending === undefined
      ? Effect.map(answer(outcome), (answer) => ({ answer }))
      : Effect.succeed({ waits: outcome.pending }),
  refusal
})

type RequestOf<A, E, R, E2, R2, E3> = Parameters<typeof requestOf<A, E, R, E2, R2, E3>>

const requested = <A, E, R, E2, R2, E3>(needs: Needs, ...of: RequestOf<A, E, R, E2, R2, E3>) =>
  Effect.flatMap(Commit.request(needs, requestOf(...of)), answered)

/** A repeated request gets the answer that was stored for it. */
const requestedOnce = <A, E, R, E2, R2, E3>(
  needs: Needs,
  idempotent: Idempotent,
  ...of: RequestOf<A, E, R, E2, R2, E3>
) => {
  const { idempotency } = needs
  const request = requestOf(...of)
  const [{ permit }] = request.parts
  const once: Commit.Once<AnswerOrRequest<A>, IdempotencyKeyReused | IntegrityFailure> = {
    find: idempotency.find(permit, idempotent),
    keep: (answer) => idempotency.keep(permit, idempotent, answer)
  }
  return Effect.flatMap(Commit.request(needs, request, once), answered)
}

export const write = <A, E, R, E2, R2>(
  needs: Needs,
  permit: WritePermit,
  changes: (transaction: Transaction) => Effect.Effect<Changes, E2, R2>,
  options: WriteOptions<A, E, R>
) => requested(needs, permit, changes, options, asIs)

/** `once`: undefined for a request without an idempotency key. */
export const writeOnce = <A, E, R, E2, R2>(
  needs: Needs,
  permit: WritePermit,
  once: Idempotent | undefined,
  changes: (transaction: Transaction) => Effect.Effect<Changes, E2, R2>,
  options: WriteOptions<A, E, R>
) =>
  once === undefined
    ? requested(needs, permit, changes, options, asIs)
    : requestedOnce(needs, once, permit, changes, options, asIs)

/** A creation, in one transaction with others that want the same environment. */
export const create = <A>(
  needs: Needs & { readonly creations: CreationQueue.CreationQueue<AnswerOrRequest<A>> },
  permit: WritePermit,
  changes: (transaction: Transaction) => Effect.Effect<Changes, SecretAlreadyExists | SecretVersionConflict>,
  options: WriteOptions<A, never, never>
) => {
  const creation = requestOf(permit, changes, options, asIs)
  const created = Commit.recorded(needs, needs.creations(creation), () => creation.parts[0])
  return Effect.flatMap(created, answered)
}

/** A deletion never breaks what was stored well: a problem here means that rows were damaged. */
const damaged = () => new SecretBoxes.BoxAltered({ keys: [] })

/** Removes secrets. Flattened texts are escaped: they can be longer than what they replace, and meet the limit. */
export const remove = <A, E, R, E2, R2>(
  needs: Needs,
  permit: WritePermit,
  changes: (transaction: Transaction) => Effect.Effect<Changes, E2, R2>,
  options: WriteOptions<A, E, R>
) =>
  requested(needs, permit, changes, options, (problem) => (problem instanceof PlanLimitReached ? problem : damaged()))

/** Removes secrets and rewrites none. */
export const removeOnce = <A, E, R, E2, R2>(
  needs: Needs,
  permit: WritePermit,
  once: Idempotent | undefined,
  changes: (transaction: Transaction) => Effect.Effect<Changes, E2, R2>,
  options: WriteOptions<A, E, R>
) =>
  once === undefined
    ? requested(needs, permit, changes, options, damaged)
    : requestedOnce(needs, once, permit, changes, options, damaged)

/** `Composition.flatten` of the stored secrets. */
export const flattened = (stored: Composition.State, key: string) =>
  Effect.mapError(Composition.flatten(stored, key), damaged)

// --- entries and answers ---

const keysWith = ({ results }: Outcome, outcome: KeyResult["outcome"]) =>
  [...results].filter(([, result]) => result.outcome === outcome).map(([key]) => key)

/** Entries that say which keys were created, and which updated. */
export const byOutcome =
  (permit: WritePermit) =>
  (outcome: Outcome): ReadonlyArray<AuditEvent> => {
    const [created, updated] = [keysWith(outcome, "created"), keysWith(outcome, "updated")]
    return [
      ...(created.length > 0 ? [permit.event({ audit: "secret.create", keys: created })] : []),
      ...(updated.length > 0 ? [permit.event({ audit: "secret.update", keys: updated })] : [])
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

/** Routes that name a secret say SECRET_NOT_FOUND also when its environment was deleted meanwhile. */
export const ofSecret = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.catchIf(
    self,
    (error): error is Extract<E, EnvironmentNotFound> => error instanceof EnvironmentNotFound,
    () => new SecretNotFound()
  )
