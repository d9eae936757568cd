/** What a credential without a right to values could learn by writing, and how it is kept from it. */
import * as Effect from "effect/Effect"
import { RateLimited, TemplateCycle, TemplateReferenceMissing } from "#schema/Errors.ts"
import type { EnvironmentPermit } from "#src/access/Permit.ts"
import * as Policy from "#src/access/Policy.ts"
import { diffPolicy, type RateLimiter } from "#src/limits/RateLimiter.ts"
import type * as Composition from "./Composition.ts"
import { type Changes, isRestoration, type Written } from "./SecretChanges.ts"

interface Writing {
  readonly permit: EnvironmentPermit<"secrets:write">
  readonly live: ReadonlyMap<string, unknown>
  readonly limiter: RateLimiter
}

const readsValues = ({ permit }: Pick<Writing, "permit">) => Policy.mayHaveValues(permit.caller, permit.target)

/** What the caller is told: that a value was equal is told only to callers who may have it. */
export const toldOutcome = (writing: Pick<Writing, "permit">, { outcome }: Written): Written["outcome"] =>
  outcome === "unchanged" && !readsValues(writing) ? "updated" : outcome

/**
 * Whether a new text equals the old one shows: by the outcome, and by a version that does not change. Without a right to
 * values that is a guess tested, so each such key takes one unit of the limit that comparisons have. A request with more
 * keys than the limit is refused whole; the message says to send fewer.
 */
export const count = (writing: Writing, changes: Changes) => {
  const guesses = [...changes].filter(
    ([key, change]) => change !== null && !isRestoration(change) && change.from !== "server" && writing.live.has(key)
  ).length
  if (guesses === 0 || readsValues(writing)) return Effect.void
  const taken = writing.limiter.take(`diff:${writing.permit.caller.credentialId}`, diffPolicy, guesses)
  return Effect.catchTag(
    taken,
    "RATE_LIMITED",
    ({ retryAfterSeconds }) =>
      new RateLimited({
        retryAfterSeconds,
        message:
          "A credential that may not read values can write at most 30 existing keys per minute. Send fewer keys, or try again after the interval named."
      })
  )
}

/** Keys that a text names are part of it: they are told only to callers who sent it or may read it. */
export const withoutNames = (writing: Writing, changes: Changes) => {
  const ofStoredText = [...changes.values()].some(
    (change) => change !== null && (isRestoration(change) ? change.write : change).from === "stored"
  )
  if (!ofStoredText || readsValues(writing)) return (problem: Composition.Problem) => problem
  return (problem: Composition.Problem): Composition.Problem => {
    const field = problem.field === undefined ? {} : { field: problem.field }
    if (problem instanceof TemplateReferenceMissing) return new TemplateReferenceMissing({ ...field, references: [] })
    return problem instanceof TemplateCycle ? new TemplateCycle({ ...field, cycle: [] }) : problem
  }
}
