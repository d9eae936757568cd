/** What a credential without a right to values could learn by writing and comparing, and how it is kept from it. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import { RateLimited, TemplateCycle, TemplateReferenceMissing } from "#schema/Errors.ts"
import { actorOf } from "#src/trail/Actor.ts"
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

/** The author of a version. It is marked when it may not have values: comparing what it wrote is a guess. */
export const authorOf = (writing: Pick<Writing, "permit"> & { readonly steered: boolean }) => ({
  ...actorOf(writing.permit.caller),
  ...(readsValues(writing) && !writing.steered ? {} : { withoutValues: true })
})

/** What the caller is told: that a value was equal is told only to callers who may have it. */
export const toldOutcome = (writing: Pick<Writing, "permit">, { outcome }: KeyResult): KeyResult["outcome"] =>
  outcome === "unchanged" && !readsValues(writing) ? "updated" : outcome

/**
 * Whether a new text equals the old one shows: by the outcome, and by a version that does not change. Without a right
 * to values that is a guess tested, so each such key takes one unit of the limit that comparisons have. A request with
 * more keys than the limit is refused whole; the message says to send fewer.
 */
const guessesOf = (writing: Writing, changes: Changes) =>
  readsValues(writing)
    ? 0
    : [...changes].filter(
        ([key, change]) =>
          change !== null && !("restored" in change) && writeOf(change).from !== "server" && writing.live.has(key)
      ).length

/** All parts of one request together; `changes` are in the order of `writings`. */
export const count = (
  writings: ReadonlyArray<Writing>,
  changes: ReadonlyArray<Changes>
): Effect.Effect<void, RateLimited> => {
  let guesses = 0
  for (const [i, writing] of writings.entries()) guesses += guessesOf(writing, changes[i])
  if (guesses === 0) return Effect.void
  const { limiter, permit } = writings[0]
  const taken = limiter.take(`diff:${permit.caller.credentialId}`, diffPolicy, guesses)
  return Effect.catchTag(
    taken,
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
 * A comparison is one unit for callers who may have the values of both environments. For others it takes one for each
 * key of both that could carry a guess: it, or something that it builds on, was written on either side by this caller
 * or by any without a right to values (two of them could share the work). What others wrote cannot be steered, so the
 * rest of the comparison is one unit. Returns the revisions that were counted.
 */
export const countCompared = Effect.fnUntraced(function* (
  { limiter, sql }: { readonly limiter: RateLimiter; readonly sql: SqlClient.SqlClient },
  source: ComparePermit,
  target: ComparePermit
) {
  const bucket = `diff:${source.caller.credentialId}`
  if (readsValues({ permit: source }) && readsValues({ permit: target })) {
    yield* limiter.take(bucket, diffPolicy)
    return undefined
  }
  const before = yield* originsOf(sql, source)
  const after = yield* originsOf(sql, target)
  const guesses = [...before.keys].filter(
    (key) => after.keys.has(key) && (before.steered.has(key) || after.steered.has(key))
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

/** Which keys hold, or build on, what this caller or any without a right to values wrote (`steered`). */
export const originsOf = (sql: SqlClient.SqlClient, permit: ComparePermit) =>
  Effect.map(SecretRows.origins(sql, permit, actorOf(permit.caller)), (rows) => {
    const graph = new Map<string, ReadonlyArray<string>>()
    const written: Array<string> = []
    for (const { key, refs, steered } of rows) {
      if (key === null) continue
      graph.set(key, refs ?? [])
      if (steered) written.push(key)
    }
    const keys: ReadonlySet<string> = new Set(graph.keys())
    return { revision: rows[0]?.revision, keys, steered: withDependents(graph, written) }
  })

/** Keys that a text names are part of it: they are told only to callers who sent it or may read it. */
export const withoutNames = (writing: Writing, changes: Changes) => {
  const ofStoredText = [...changes.values()].some((change) => change !== null && writeOf(change).from === "stored")
  if (!ofStoredText || readsValues(writing)) return (problem: Composition.Problem) => problem
  return (problem: Composition.Problem): Composition.Problem => {
    const field = problem.field === undefined ? {} : { field: problem.field }
    if (problem instanceof TemplateReferenceMissing) return new TemplateReferenceMissing({ ...field, references: [] })
    return problem instanceof TemplateCycle ? new TemplateCycle({ ...field, cycle: [] }) : problem
  }
}
