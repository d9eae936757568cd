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
import type { ProjectId } from "#schema/Ids.ts"
import * as Commit from "./Commit.ts"
import * as Guesses from "./Guesses.ts"
import * as KeyChanges from "./KeyChanges.ts"
import type { WritePermit } from "./LockedEnvironment.ts"
import * as SourcedWrites from "./SourcedWrites.ts"
import type { Needs } from "./SourcedWrites.ts"
import type { ValueSource } from "./ValueSource.ts"
import type { Refusal } from "./WriteDecision.ts"
import { byOutcome, type Outcome, type WriteRequest } from "./WriteRequest.ts"

/** The part of the request for one environment. */
interface EnvironmentPart extends KeyChanges.EnvironmentEntries {
  readonly permit: WritePermit
  /** The member of the request that each key's text came in. */
  readonly fields: ReadonlyMap<string, string>
}
type Entry = KeyChanges.EnvironmentEntries["entries"][number]

const bySlug = ({ entries }: ChangeSecrets) => {
  const slugs = new Map<SecretChange["environment"], Array<Entry>>()
  for (const [at, entry] of entries.entries()) {
    const siblings = slugs.get(entry.environment)
    if (siblings === undefined) slugs.set(entry.environment, [{ ...entry, at }])
    else siblings.push({ ...entry, at })
  }
  return slugs
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
  const part: EnvironmentPart = { permit, entries, sources, fields }
  return part
})

/**
 * Finds all environments before it decides a right to any: an error must not reveal whether another environment exists.
 */
const partsOf = Effect.fnUntraced(function* (needs: Needs, projectId: ProjectId, body: ChangeSecrets) {
  const entriesBySlug = bySlug(body)
  for (const environment of entriesBySlug.keys()) yield* needs.access.visibleEnvironment({ projectId, environment })
  const permits: Array<readonly [WritePermit, ReadonlyArray<Entry>]> = []
  for (const [environment, entries] of entriesBySlug) {
    const audit = entries.every(({ op }) => op === "delete") ? "secret.delete" : "secret.update"
    const intent = { audit, keys: entries.map(({ key }) => key) } as const
    permits.push([yield* needs.access.environment("secrets:write", { projectId, environment }, intent), entries])
  }
  return yield* Effect.forEach(permits, ([permit, entries]) => partOf(needs, permit, entries))
})

type Refused = Effect.Effect.Error<ReturnType<typeof KeyChanges.inSeveral>> | Refusal

const eventsOf = (permit: WritePermit, reason: string | undefined) => (outcome: Outcome) => {
  const deleted = [...outcome.changes].flatMap(([key, change]) => (change === null ? [key] : []))
  return [
    ...(deleted.length > 0 ? [permit.event({ audit: "secret.delete", keys: deleted })] : []),
    ...byOutcome(permit)(outcome)
  ].map((event) => (reason === undefined ? event : { ...event, reason }))
}

const itemsOf = ({ changes, results, transaction }: Outcome): ChangedEnvironment["items"] =>
  [...changes.keys()].map((key) => {
    const result = results.get(key)
    return result === undefined
      ? { key, outcome: "deleted", version: transaction.live.get(key)?.version ?? 0 }
      : { key, outcome: Guesses.visibleOutcome(transaction, result), version: result.secret.version }
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
  const request: WriteRequest<SecretsChangedResult, Refused, never> = {
    parts: parts.map(({ entries, fields, permit, sources }) => ({
      permit,
      keys: entries.map(({ key }) => key),
      sources: [...sources.values()],
      field: fields,
      entries: eventsOf(permit, reason),
      reason
    })),
    changes: (transactions) => KeyChanges.inSeveral(parts, transactions),
    answer: (outcomes) => Effect.succeed(resultOf(outcomes)),
    refusal: (problem) => problem
  }
  return yield* Commit.request(needs, request)
})
