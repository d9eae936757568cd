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
import * as Composition from "./Composition.ts"
import * as Guesses from "./Guesses.ts"
import * as LockedEnvironment from "./LockedEnvironment.ts"
import type { Transaction, WritePermit } from "./LockedEnvironment.ts"
import * as SecretBoxes from "./SecretBoxes.ts"
import type { Change, Changes } from "./SecretChanges.ts"
import * as SourcedWrites from "./SourcedWrites.ts"
import type { Needs } from "./SourcedWrites.ts"
import type { ValueSource } from "./ValueSource.ts"
import * as WriteTransaction from "./WriteTransaction.ts"

/** An entry, and where it stands in the request. */
interface Entry extends SecretChange {
  readonly at: number
}

/** What the request does in one environment. */
interface Part {
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
  const part: Part = { permit, entries, sources, field: (key) => fields.get(key) }
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

interface Begun {
  readonly part: Part
  readonly transaction: Transaction
}

const conflictsOf = ({ part, transaction }: Begun) =>
  part.entries.flatMap(({ environment, expectedVersion, key }) => {
    const currentVersion = transaction.live.get(key)?.version ?? 0
    return expectedVersion === undefined || expectedVersion === currentVersion
      ? []
      : [{ environment, key, currentVersion }]
  })

const changesOf = Effect.fnUntraced(function* ({ part, transaction: { live, stored } }: Begun) {
  const changes = new Map<string, Change>()
  const gone = new Set<string>()
  for (const { at, key } of part.entries) {
    const source = part.sources.get(key)
    if (source === undefined && !live.has(key)) return yield* new SecretNotFound({ field: `entries.${at}.key` })
    if (source === undefined) gone.add(key)
    changes.set(key, source === undefined ? null : source(live.get(key)))
  }
  if (gone.size > 0) {
    // What the request writes anew is checked as it will be.
    const dependents = Composition.dependentsOfAll(yield* stored, gone).filter((key) => !part.sources.has(key))
    const at = part.entries.find(({ key }) => gone.has(key))?.at ?? 0
    if (dependents.length > 0) return yield* new SecretHasDependents({ dependents, field: `entries.${at}.key` })
  }
  const decided: Changes = changes
  return decided
})

const eventsOf = (permit: WritePermit, reason: string | undefined) => (outcome: WriteTransaction.Outcome) => {
  const gone = [...outcome.changes].flatMap(([key, change]) => (change === null ? [key] : []))
  return [
    ...(gone.length > 0 ? [permit.event({ audit: "secret.delete", keys: gone })] : []),
    ...WriteTransaction.byOutcome(permit)(outcome)
  ].map((event) => (reason === undefined ? event : { ...event, reason }))
}

const itemsOf = ({ changes, results, transaction }: WriteTransaction.Outcome): ChangedEnvironment["items"] =>
  [...changes.keys()].map((key) => {
    const written = results.get(key)
    return written === undefined
      ? { key, outcome: "deleted", version: transaction.live.get(key)?.version ?? 0 }
      : { key, outcome: Guesses.toldOutcome(transaction, written), version: written.secret.version }
  })

const asIs = (problem: WriteTransaction.Refusal) => problem

interface Settled {
  readonly answer: ChangedEnvironment
  readonly permit: WritePermit
  readonly left: WriteTransaction.Left | undefined
}

/** `working` is told which part is under way: a refusal is recorded as that one's. */
const transact = (needs: Needs, parts: ReadonlyArray<Part>, reason: string | undefined, working: (at: Part) => void) =>
  Effect.gen(function* () {
    yield* LockedEnvironment.lockAll(
      needs,
      parts.map(({ permit }) => permit)
    )
    const begun: Array<Begun> = []
    for (const part of parts) {
      working(part)
      const keys = part.entries.map(({ key }) => key)
      begun.push({
        part,
        transaction: yield* LockedEnvironment.begin(needs, part.permit, { keys, sources: part.sources.values() })
      })
    }
    const conflicts = begun.flatMap(conflictsOf)
    if (conflicts.length > 0) return yield* new SecretsChanged({ conflicts })
    const decided = yield* Effect.forEach(begun, (one) =>
      Effect.map(changesOf(one), (changes) => ({ ...one, changes }))
    )
    yield* Guesses.count(decided.map(({ changes, transaction }) => ({ writing: transaction, changes })))
    const done: Array<Settled> = []
    for (const [i, { changes, part, transaction }] of decided.entries()) {
      working(part)
      const { field, permit } = part
      const answer = (outcome: WriteTransaction.Outcome) => Effect.succeed(itemsOf(outcome))
      const ends = i === decided.length - 1
      // The first part may have moved the head that this lock saw: each takes the one of now.
      const options = { answer, ends, entries: eventsOf(permit, reason), field, head: null, reason }
      const settled = yield* WriteTransaction.settle(transaction, changes, options, asIs)
      const environment = permit.target.slug
      done.push(
        "waits" in settled
          ? { permit, left: undefined, answer: { environment, items: [], request: settled.waits } }
          : { permit, left: settled.left, answer: { environment, items: settled.answer, request: null } }
      )
    }
    return done
  }).pipe(needs.sql.withTransaction, WriteTransaction.dieOfSql)

export const change = Effect.fnUntraced(function* (needs: Needs, projectId: ProjectId, body: ChangeSecrets) {
  const parts = yield* partsOf(needs, projectId, body)
  let current = parts[0]
  const done = yield* Effect.catchAll(
    transact(needs, parts, body.reason, (part) => void (current = part)),
    (error) => {
      const event = current.permit.event({ keys: current.entries.map(({ key }) => key) })
      return SecretBoxes.recordingRefusals(needs.audit, event, Effect.fail(error))
    }
  )
  for (const { left, permit } of done) if (left !== undefined) yield* WriteTransaction.leave(needs, permit, left)
  const result: SecretsChangedResult = { environments: done.map(({ answer }) => answer) }
  return result
})
