/** Limits on guessing: a credential without a right to values must not learn one by writing and comparing. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import { RateLimited, TemplateCycle, TemplateReferenceMissing } from "#schema/Errors.ts"
import { actorOf } from "#src/trail/Entry.ts"
import type { EnvironmentPermit } from "#src/access/Permit.ts"
import * as Policy from "#src/access/Policy.ts"
import { diffPolicy, type RateLimiter } from "#src/limits/RateLimiter.ts"
import type * as Composition from "./Composition.ts"
import { withDependents } from "./KeyGraph.ts"
import type { Change, Changes, KeyResult } from "./SecretChanges.ts"
import type { Write } from "./ValueSource.ts"
import * as SecretRows from "./SecretRows.ts"

interface Writing {
  readonly permit: EnvironmentPermit<"secrets:write">
  readonly live: ReadonlyMap<string, unknown>
  readonly limiter: RateLimiter
}

/** The text that a key has afterwards. */
const writeOf = (change: Exclude<Change, null>): Write => ("write" in change ? change.write : change)

export type ComparePermit = EnvironmentPermit<"secrets:read">

export const readsValues = ({ permit }: { readonly permit: ComparePermit | Writing["permit"] }) =>
  Policy.mayHaveValues(permit.caller, permit.target)

/**
 * The author of a version. `withoutValues` marks an author without a right to values: comparing such a version is a
 * guess.
 */
export const authorOf = (writing: Pick<Writing, "permit"> & { readonly withoutValues: boolean }) => ({
  ...actorOf(writing.permit.caller),
  ...(readsValues(writing) && !writing.withoutValues ? {} : { withoutValues: true })
})

/** The outcome that the caller may see. "Unchanged" reveals an equal value, so it needs a right to values. */
export const visibleOutcome = (writing: Pick<Writing, "permit">, { outcome }: KeyResult): KeyResult["outcome"] =>
  outcome === "unchanged" && !readsValues(writing) ? "updated" : outcome

/**
 * A caller without a right to values learns from the version whether a new text equals the old one. Such a write tests
 * a guess, so each existing key takes one unit of the limit of comparisons. A request with more keys than the limit is
 * refused whole.
 */
const guessesOf = (writing: Writing, changes: Changes) =>
  readsValues(writing)
    ? 0
    : [...changes].filter(
        ([key, change]) =>
          change !== null && !("restored" in change) && writeOf(change).from !== "server" && writing.live.has(key)
      ).length

/** A person's guesses count together, over all connections. A token acts for itself. */
export const bucketOf = ({ caller }: Pick<ComparePermit | Writing["permit"], "caller">) =>
  `diff:${caller.user?.id ?? caller.credentialId}`

/** All parts of one request together; `changes` are in the order of `writings`. */
export const count = (
  writings: ReadonlyArray<Writing>,
  changes: ReadonlyArray<Changes>
): Effect.Effect<void, RateLimited> => {
  let guesses = 0
  for (const [i, writing] of writings.entries()) guesses += guessesOf(writing, changes[i])
  if (guesses === 0) return Effect.void
  const { limiter, permit } = writings[0]
  const counted = limiter.take(bucketOf(permit), diffPolicy, guesses)
  return Effect.catchTag(
    counted,
    "RATE_LIMITED",
    ({ retryAfterSeconds }) =>
      new RateLimited({
        retryAfterSeconds,
        message:
          "A credential that may not read values can write at most 30 existing keys per minute. Send fewer keys, or try again after the time in retryAfterSeconds."
      })
  )
}

/**
 * Counts a comparison. It is one unit for callers who may have the values of both environments. For others it takes one
 * unit for each key that may carry a guess: a version of it, or of a key that it builds on, was written by this caller
 * or by any author without a right to values (two of them could share the work). All other keys together are one unit.
 * Returns the revisions that were counted.
 */
export const countCompared = Effect.fnUntraced(function* (
  { limiter, sql }: { readonly limiter: RateLimiter; readonly sql: SqlClient.SqlClient },
  source: ComparePermit,
  target: ComparePermit
) {
  const bucket = bucketOf(source)
  if (readsValues({ permit: source }) && readsValues({ permit: target })) {
    yield* limiter.take(bucket, diffPolicy)
    return undefined
  }
  const before = yield* originsOf(sql, source)
  const after = yield* originsOf(sql, target)
  const guesses = [...before.keys].filter(
    (key) => after.keys.has(key) && (before.withoutValues.has(key) || after.withoutValues.has(key))
  ).length
  yield* Effect.catchTag(limiter.take(bucket, diffPolicy, Math.max(1, guesses)), "RATE_LIMITED", (refused) =>
    guesses <= 1
      ? refused
      : new RateLimited({
          retryAfterSeconds: refused.retryAfterSeconds,
          message:
            "A credential that may not read values can compare at most 30 keys per minute that such credentials wrote. Compare with a credential that may read values, or, with 30 such keys or fewer, try again after the time in retryAfterSeconds."
        })
  )
  return { source: before.revision, target: after.revision }
})

/** Keys that hold, or build on, a text of this caller or of an author without a right to values (`withoutValues`). */
export const originsOf = (sql: SqlClient.SqlClient, permit: ComparePermit) =>
  Effect.map(SecretRows.origins(sql, permit, actorOf(permit.caller)), (rows) => {
    const graph = new Map<string, ReadonlyArray<string>>()
    const written: Array<string> = []
    for (const { key, refs, withoutValues } of rows) {
      if (key === null) continue
      graph.set(key, refs ?? [])
      if (withoutValues) written.push(key)
    }
    const keys: ReadonlySet<string> = new Set(graph.keys())
    return { revision: rows[0]?.revision, keys, withoutValues: withDependents(graph, written) }
  })

/** Do not reveal keys referenced by a stored text to callers who may not read it. */
export const withoutNames = (writing: Writing, changes: Changes) => {
  const ofStoredText = [...changes.values()].some((change) => change !== null && writeOf(change).from === "stored")
  if (!ofStoredText || readsValues(writing)) return (problem: Composition.Problem) => problem
  return (problem: Composition.Problem): Composition.Problem => {
    const field = problem.field === undefined ? {} : { field: problem.field }
    if (problem instanceof TemplateReferenceMissing) return new TemplateReferenceMissing({ ...field, references: [] })
    return problem instanceof TemplateCycle ? new TemplateCycle({ ...field, cycle: [] }) : problem
  }
}
