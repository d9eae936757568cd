/**
 * Decides the changes of keys under the lock of their environment, from the data of a request: the values of a request
 * reach the pipeline through here.
 */
import * as Effect from "effect/Effect"
import {
  SecretAlreadyExists,
  SecretHasDependents,
  SecretNotFound,
  SecretsChanged,
  SecretVersionConflict
} from "#schema/Errors.ts"
import type { SecretId } from "#schema/Ids.ts"
import type { SecretChange } from "#schema/ProjectChangesApi.ts"
import * as Composition from "./Composition.ts"
import { expectedSecret, type Transaction } from "./LockedEnvironment.ts"
import type { Change, Changes } from "./SecretChanges.ts"
import { type ValueSource, writeOf } from "./ValueSource.ts"
import type { Decider } from "./WriteRequest.ts"

type Sources = ReadonlyMap<string, ValueSource>

const create = Effect.fnUntraced(function* (
  { lastVersions, live }: Transaction,
  key: string,
  source: ValueSource,
  expectedVersion: number
) {
  if (live.has(key)) return yield* new SecretAlreadyExists({ field: "key" })
  const currentVersion = lastVersions.get(key) ?? 0
  if (expectedVersion > 0 && currentVersion !== expectedVersion) {
    return yield* new SecretVersionConflict({ currentVersion, field: "expectedVersion" })
  }
  return new Map([[key, writeOf(source)]])
})

/** A new secret. The key's last version must be the expected one; 0: any. */
export const creation =
  (key: string, source: ValueSource, expectedVersion = 0): Decider<SecretAlreadyExists | SecretVersionConflict> =>
  (transaction) =>
    create(transaction, key, source, expectedVersion)

/** A new text, or another kind, for a live secret. */
export const update =
  (
    id: SecretId,
    source: ValueSource,
    expectedVersion: number | undefined
  ): Decider<SecretNotFound | SecretVersionConflict | Effect.Effect.Error<Transaction["stored"]>> =>
  (transaction) =>
    Effect.zipWith(expectedSecret(transaction, id, expectedVersion), transaction.stored, ({ key, pinned }, stored) => {
      const entry = stored.get(key)
      return new Map([[key, writeOf(source, { pinned, text: entry === undefined ? "" : Composition.sourceOf(entry) })]])
    })

/** A text for each key. Without `overwrite` a key that is live is left out. */
export const assignment =
  (sources: Sources, overwrite = true): Decider =>
  ({ live }) => {
    const changes = new Map<string, Change>()
    for (const [key, source] of sources) {
      const secret = live.get(key)
      if (overwrite || secret === undefined) changes.set(key, writeOf(source, secret))
    }
    return Effect.succeed(changes)
  }

// --- several environments ---

/** The entries of a request for one environment. */
export interface EnvironmentEntries {
  readonly entries: ReadonlyArray<SecretChange & { /** Its index in the request. */ readonly at: number }>
  /** Of each key that is set; the others are deleted. */
  readonly sources: Sources
}

const conflictsOf = ({ entries }: EnvironmentEntries, { live }: Transaction) =>
  entries.flatMap(({ environment, expectedVersion, key }) => {
    const currentVersion = live.get(key)?.version ?? 0
    return expectedVersion === undefined || expectedVersion === currentVersion
      ? []
      : [{ environment, key, currentVersion }]
  })

const changesOf = Effect.fnUntraced(function* (
  { entries, sources }: EnvironmentEntries,
  { live, stored }: Transaction
) {
  const changes = new Map<string, Change>()
  const deleted = new Set<string>()
  for (const { at, key } of entries) {
    const source = sources.get(key)
    if (source === undefined && !live.has(key)) return yield* new SecretNotFound({ field: `entries.${at}.key` })
    if (source === undefined) deleted.add(key)
    changes.set(key, source === undefined ? null : writeOf(source, live.get(key)))
  }
  if (deleted.size > 0) {
    // Keys that the request writes are checked as they will be.
    const dependents = Composition.dependentsOfAll(yield* stored, deleted).filter((key) => !sources.has(key))
    const at = entries.find(({ key }) => deleted.has(key))?.at ?? 0
    if (dependents.length > 0) return yield* new SecretHasDependents({ dependents, field: `entries.${at}.key` })
  }
  const decided: Changes = changes
  return decided
})

/** The changes of all environments, when each key has the version that the request expects. */
export const inSeveral = Effect.fnUntraced(function* (
  parts: ReadonlyArray<EnvironmentEntries>,
  transactions: ReadonlyArray<Transaction>
) {
  const conflicts = parts.flatMap((part, i) => conflictsOf(part, transactions[i]))
  if (conflicts.length > 0) return yield* new SecretsChanged({ conflicts })
  return yield* Effect.forEach(parts, (part, i) => changesOf(part, transactions[i]))
})
