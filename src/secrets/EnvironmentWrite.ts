/**
 * The ways in to `Commit.ts` for use cases that write to one environment. An environment whose changes wait for an
 * approval answers `Proposed`.
 */
import * as Effect from "effect/Effect"
import {
  EnvironmentNotFound,
  type IdempotencyKeyReused,
  type IntegrityFailure,
  PlanLimitReached,
  SecretNotFound
} from "#schema/Errors.ts"
import * as Commit from "./Commit.ts"
import * as Composition from "./Composition.ts"
import type { Idempotent } from "./Idempotency.ts"
import type { Needs, WritePermit } from "./LockedEnvironment.ts"
import * as SecretBoxes from "./SecretBoxes.ts"
import type { Refusal } from "./WriteDecision.ts"
import { answered, type AnswerOrRequest, type Decider, type Once, ofOne, type WriteOptions } from "./WriteRequest.ts"

const asIs = (problem: Refusal) => problem

type RequestOf<A, E, R, E2, R2, E3> = Parameters<typeof ofOne<A, E, R, E2, R2, E3>>

const requested = <A, E, R, E2, R2, E3>(needs: Needs, ...of: RequestOf<A, E, R, E2, R2, E3>) =>
  Effect.flatMap(Commit.request(needs, ofOne(...of)), answered)

/** A repeated request gets the answer that was stored for it. `idempotent`: undefined for a request without a key. */
const requestedOnce = <A, E, R, E2, R2, E3>(
  needs: Needs,
  idempotent: Idempotent | undefined,
  ...of: RequestOf<A, E, R, E2, R2, E3>
) => {
  if (idempotent === undefined) return requested(needs, ...of)
  const { idempotency } = needs
  const write = ofOne(...of)
  const [{ permit }] = write.parts
  const once: Once<AnswerOrRequest<A>, IdempotencyKeyReused | IntegrityFailure> = {
    find: idempotency.find(permit, idempotent),
    keep: (answer) => idempotency.keep(permit, idempotent, answer)
  }
  return Effect.flatMap(Commit.request(needs, write, once), answered)
}

export const write = <A, E, R, E2, R2>(
  needs: Needs,
  permit: WritePermit,
  changes: Decider<E2, R2>,
  options: WriteOptions<A, E, R>
) => requested(needs, permit, changes, options, asIs)

export const writeOnce = <A, E, R, E2, R2>(
  needs: Needs,
  permit: WritePermit,
  once: Idempotent | undefined,
  changes: Decider<E2, R2>,
  options: WriteOptions<A, E, R>
) => requestedOnce(needs, once, permit, changes, options, asIs)

/** A deletion never breaks a checked environment: a problem here means damaged rows. */
const damaged = () => new SecretBoxes.BoxAltered({ keys: [] })

/** Removes secrets. Flattened texts are escaped, may be longer than the references in them, and may meet the limit. */
export const remove = <A, E, R, E2, R2>(
  needs: Needs,
  permit: WritePermit,
  changes: Decider<E2, R2>,
  options: WriteOptions<A, E, R>
) =>
  requested(needs, permit, changes, options, (problem) => (problem instanceof PlanLimitReached ? problem : damaged()))

/** Removes secrets and rewrites none. */
export const removeOnce = <A, E, R, E2, R2>(
  needs: Needs,
  permit: WritePermit,
  once: Idempotent | undefined,
  changes: Decider<E2, R2>,
  options: WriteOptions<A, E, R>
) => requestedOnce(needs, once, permit, changes, options, damaged)

/** `Composition.flatten` of the stored secrets. */
export const flattened = (stored: Composition.State, key: string) =>
  Effect.mapError(Composition.flatten(stored, key), damaged)

/** Routes that name a secret say SECRET_NOT_FOUND also when its environment was deleted meanwhile. */
export const ofSecret = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.catchIf(
    self,
    (error): error is Extract<E, EnvironmentNotFound> => error instanceof EnvironmentNotFound,
    () => new SecretNotFound()
  )
