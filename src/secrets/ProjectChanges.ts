/**
 * Changes of several environments of a project in one transaction: all are written, or none. Each environment keeps its
 * own rules; where one holds changes for an approval, its part waits and the others are written.
 */
import * as Effect from "effect/Effect"
import type {
  ChangedEnvironment,
  ChangeSecrets,
  SecretChange,
  SecretsChangedResult
} from "#schema/ProjectChangesApi.ts"
import { SecretHasDependents, SecretNotFound, SecretsChanged } from "#schema/Errors.ts"
import type { ProjectId } from "#schema/Ids.ts"
import * as Commit from "./Commit.ts"
import type { Outcome } from "./Commit.ts"
import * as Composition from "./Composition.ts"
import * as EnvironmentWrite from "./EnvironmentWrite.ts"
import * as Guesses from "./Guesses.ts"
import type { Transaction, WritePermit } from "./LockedEnvironment.ts"
import type { Change, Changes } from "./SecretChanges.ts"
import * as SourcedWrites from "./SourcedWrites.ts"
import type { Needs } from "./SourcedWrites.ts"
import type { ValueSource } from "./ValueSource.ts"

interface Entry extends SecretChange {
  /** Its index in the request. */
  readonly at: number
}

/** The entries of the request for one environment. */
interface EnvironmentPart {
  readonly permit: WritePermit
  readonly entries: ReadonlyArray<Entry>
  /** Of each key that is set. */
  readonly sources: ReadonlyMap<string, ValueSource>
  readonly field: (key: string) => string | undefined
}

const bySlug = ({ entries }: ChangeSecrets) => {
  const found = new Map<SecretChange["environment"], Array<Entry>>()
  for (const [at, entry] of entries.entries()) {
    const siblings = found.get(entry.environment)
    if (siblings === undefined) found.set(entry.environment, [{ ...entry, at }])
    else siblings.push({ ...entry, at })
  }
  return found
}

const partOf = Effect.fnUntraced(function* (needs: Needs, permit: WritePermit, entries: ReadonlyArray<Entry>) {
  const copied = yield* SourcedWrites.copiesFor(needs, entries, permit)
  const sources = new Map<string, ValueSource>()
  for (const entry of entries) {
    if (entry.op === "delete") continue
    sources.set(entry.key, yield* SourcedWrites.sourceOf(needs, entry, copied, `entries.${entry.at}.`))
  }
  const fields = new Map<string, string>(
    entries.map((entry) => [entry.key, `entries.${entry.at}.${SourcedWrites.fieldOf(entry)}`])
  )
  const part: EnvironmentPart = { permit, entries, sources, field: (key) => fields.get(key) }
  return part
})

/** Nothing is visible or not by another environment of the request: all are found before a right to any is decided. */
const partsOf = Effect.fnUntraced(function* (needs: Needs, projectId: ProjectId, body: ChangeSecrets) {
  const found = bySlug(body)
  for (const environment of found.keys()) yield* needs.access.visibleEnvironment({ projectId, environment })
  const permits: Array<readonly [WritePermit, ReadonlyArray<Entry>]> = []
  for (const [environment, entries] of found) {
    const audit = entries.every(({ op }) => op === "delete") ? "secret.delete" : "secret.update"
    const intent = { audit, keys: entries.map(({ key }) => key) } as const
    permits.push([yield* needs.access.environment("secrets:write", { projectId, environment }, intent), entries])
  }
  return yield* Effect.forEach(permits, ([permit, entries]) => partOf(needs, permit, entries))
})

// --- under the locks ---

interface LockedPart {
  readonly part: EnvironmentPart
  readonly transaction: Transaction
}

const conflictsOf = ({ part, transaction }: LockedPart) =>
  part.entries.flatMap(({ environment, expectedVersion, key }) => {
    const currentVersion = transaction.live.get(key)?.version ?? 0
    return expectedVersion === undefined || expectedVersion === currentVersion
      ? []
      : [{ environment, key, currentVersion }]
  })

const changesOf = Effect.fnUntraced(function* ({ part, transaction: { live, stored } }: LockedPart) {
  const changes = new Map<string, Change>()
  const deleted = new Set<string>()
  for (const { at, key } of part.entries) {
    const source = part.sources.get(key)
    if (source === undefined && !live.has(key)) return yield* new SecretNotFound({ field: `entries.${at}.key` })
    if (source === undefined) deleted.add(key)
    changes.set(key, source === undefined ? null : source(live.get(key)))
  }
  if (deleted.size > 0) {
    // Keys that the request writes are checked as they will be.
    const dependents = Composition.dependentsOfAll(yield* stored, deleted).filter((key) => !part.sources.has(key))
    const at = part.entries.find(({ key }) => deleted.has(key))?.at ?? 0
    if (dependents.length > 0) return yield* new SecretHasDependents({ dependents, field: `entries.${at}.key` })
  }
  const decided: Changes = changes
  return decided
})

/** The changes of all parts, when each key has the version that the request expects. */
const allChanges = Effect.fnUntraced(function* (
  parts: ReadonlyArray<EnvironmentPart>,
  transactions: ReadonlyArray<Transaction>
) {
  const locked = parts.map((part, i): LockedPart => ({ part, transaction: transactions[i] }))
  const conflicts = locked.flatMap(conflictsOf)
  if (conflicts.length > 0) return yield* new SecretsChanged({ conflicts })
  return yield* Effect.forEach(locked, changesOf)
})

type Refused = Effect.Effect.Error<ReturnType<typeof allChanges>> | Commit.Refusal

const eventsOf = (permit: WritePermit, reason: string | undefined) => (outcome: Outcome) => {
  const deleted = [...outcome.changes].flatMap(([key, change]) => (change === null ? [key] : []))
  return [
    ...(deleted.length > 0 ? [permit.event({ audit: "secret.delete", keys: deleted })] : []),
    ...EnvironmentWrite.byOutcome(permit)(outcome)
  ].map((event) => (reason === undefined ? event : { ...event, reason }))
}

const itemsOf = ({ changes, results, transaction }: Outcome): ChangedEnvironment["items"] =>
  [...changes.keys()].map((key) => {
    const result = results.get(key)
    return result === undefined
      ? { key, outcome: "deleted", version: transaction.live.get(key)?.version ?? 0 }
      : { key, outcome: Guesses.toldOutcome(transaction, result), version: result.secret.version }
  })

const environmentOf = (outcome: Outcome): ChangedEnvironment => ({
  environment: outcome.transaction.permit.target.slug,
  items: outcome.pending === undefined ? itemsOf(outcome) : [],
  request: outcome.pending ?? null
})

const resultOf = (outcomes: ReadonlyArray<Outcome>): SecretsChangedResult => ({
  environments: outcomes.map(environmentOf)
})

export const change = Effect.fnUntraced(function* (needs: Needs, projectId: ProjectId, body: ChangeSecrets) {
  const { reason } = body
  const parts = yield* partsOf(needs, projectId, body)
  const request: Commit.Write<SecretsChangedResult, Refused, never> = {
    parts: parts.map(({ entries, field, permit, sources }) => ({
      permit,
      keys: entries.map(({ key }) => key),
      sources: [...sources.values()],
      field,
      entries: eventsOf(permit, reason),
      reason
    })),
    changes: (transactions) => allChanges(parts, transactions),
    answer: (outcomes) => Effect.succeed(resultOf(outcomes)),
    refusal: (problem) => problem
  }
  return yield* Commit.request(needs, request)
})
