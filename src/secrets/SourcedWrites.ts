/**
 * Writes whose values the server makes or moves: it generates, copies or composes them, or opens them from a sealed
 * file. The caller does not see the values, and no conversation holds them.
 */
import * as Effect from "effect/Effect"
import { SecretNotFound } from "#schema/Errors.ts"
import type { ProjectId, SecretId } from "#schema/Ids.ts"
import { charsets, type ValueSourceInput } from "#schema/ValueSource.ts"
import type { OpenSealedValues } from "#schema/SealedApi.ts"
import type { EnvironmentQuery } from "#schema/SecretRequests.ts"
import type { Access, Location } from "#src/access/Access.ts"
import { namesOf, type SealingKeys } from "#src/projects/SealingKeys.ts"
import { visibleOutcome } from "./Guesses.ts"
import * as OpenSecrets from "./OpenSecrets.ts"
import type { KeyResult } from "./SecretChanges.ts"
import * as KeyChanges from "./KeyChanges.ts"
import * as LockedEnvironment from "./LockedEnvironment.ts"
import type { WritePermit } from "./LockedEnvironment.ts"
import * as ValueSource from "./ValueSource.ts"
import * as EnvironmentWrite from "./EnvironmentWrite.ts"
import { byAction, onlySecret, type Outcome } from "./WriteRequest.ts"

export interface Needs extends LockedEnvironment.Needs {
  readonly access: Access
  readonly sealingKeys: SealingKeys
}

type Sources = ReadonlyMap<string, ValueSource.ValueSource>

/**
 * Secrets of an environment as sources of a copy, as they are written: a template stays a template, and the target must
 * have the secrets that it refers to.
 */
const copies = Effect.fnUntraced(function* (
  needs: Needs,
  at: Location,
  keys: ReadonlyArray<string>,
  into: WritePermit
) {
  const permit = yield* needs.access.sourceOfCopy(at, into, { audit: "secret.read", keys })
  const { secrets } = yield* OpenSecrets.named(needs, permit, keys, false)
  const sources: Sources = new Map(secrets.map(({ key, kind, text }) => [key, ValueSource.copied(text, kind)]))
  // The entry of the write names the target and its keys.
  const event = {
    ...permit.event(OpenSecrets.readOf([...sources.keys()], secrets)),
    target: { type: "environment", id: into.target.environmentId, name: into.target.slug }
  }
  return { event, sources }
})

/**
 * The secrets that these inputs copy, by environment. Each environment costs one check, one read and one audit entry.
 */
export const copiesFor = Effect.fnUntraced(function* (
  needs: Needs,
  inputs: ReadonlyArray<ValueSourceInput>,
  into: WritePermit
) {
  const keysByEnvironment = new Map<string, Set<string>>()
  for (const { copyFrom } of inputs) {
    if (copyFrom === undefined) continue
    keysByEnvironment.set(
      copyFrom.environment,
      (keysByEnvironment.get(copyFrom.environment) ?? new Set()).add(copyFrom.key)
    )
  }
  const { projectId } = into.target
  const byEnvironment = new Map<string, Sources>()
  for (const [environment, keys] of keysByEnvironment) {
    const { event, sources } = yield* copies(needs, { projectId, environment }, [...keys], into)
    if (sources.size > 0) yield* needs.audit.record(event)
    byEnvironment.set(environment, sources)
  }
  return byEnvironment
})

export const sourceOf = Effect.fnUntraced(function* (
  { crypto }: Needs,
  { copyFrom, generate, kind, template, value }: ValueSourceInput,
  copied: ReadonlyMap<string, Sources>,
  field: string
) {
  if (generate !== undefined) {
    const { charset = "alphanumeric", length } = generate
    return ValueSource.generated(yield* crypto.randomText(charsets[charset], length))
  }
  if (copyFrom !== undefined) {
    const source = copied.get(copyFrom.environment)?.get(copyFrom.key)
    return source ?? (yield* new SecretNotFound({ field: `${field}copyFrom.key` }))
  }
  if (template !== undefined) return ValueSource.requested({ kind: "template", source: template.source })
  if (value === undefined) return ValueSource.requested({})
  return ValueSource.requested(kind === undefined ? { value } : { kind, value })
})

export const fieldOf = (input: ValueSourceInput) =>
  input.template !== undefined ? "template.source" : input.copyFrom !== undefined ? "copyFrom.key" : "value"

const asReference = (permit: WritePermit) => ({
  entries: byAction(permit),
  answer: (outcome: Outcome) => Effect.map(onlySecret(outcome), ({ id, key, version }) => ({ id, key, version }))
})

export const createFrom = Effect.fnUntraced(function* (
  needs: Needs,
  at: Location & { readonly key: string } & ValueSourceInput
) {
  const permit = yield* needs.access.environment("secrets:write", at, { audit: "secret.create", keys: [at.key] })
  const source = yield* sourceOf(needs, at, yield* copiesFor(needs, [at], permit), "")
  return yield* EnvironmentWrite.write(needs, permit, KeyChanges.creation(at.key, source), {
    ...asReference(permit),
    keys: [at.key],
    sources: [source],
    field: fieldOf(at)
  })
})

export const updateFrom = Effect.fnUntraced(function* (
  needs: Needs,
  at: { readonly secretId: SecretId; readonly expectedVersion?: number } & ValueSourceInput
) {
  const permit = yield* needs.access.environmentOfSecret("secrets:write", at.secretId, { audit: "secret.update" })
  const source = yield* sourceOf(needs, at, yield* copiesFor(needs, [at], permit), "")
  const changes = KeyChanges.update(at.secretId, source, at.expectedVersion)
  const options = { ...asReference(permit), ids: [at.secretId], sources: [source], field: fieldOf(at) }
  return yield* EnvironmentWrite.ofSecret(EnvironmentWrite.write(needs, permit, changes, options))
})

interface ManySources {
  readonly sources: Sources
  readonly fields: ReadonlyMap<string, string>
  /** Whether a key that exists is written; else it is skipped. */
  readonly overwrite: boolean
}

/** Writes all of them or none, and returns the keys grouped by outcome. */
const writeMany = (needs: Needs, permit: WritePermit, { fields, overwrite, sources }: ManySources) =>
  EnvironmentWrite.write(needs, permit, KeyChanges.assignment(sources, overwrite), {
    keys: [...sources.keys()],
    sources: [...sources.values()],
    field: fields,
    answer: ({ results, transaction }) => {
      const named = (outcome: KeyResult["outcome"]) =>
        [...results].filter(([, written]) => visibleOutcome(transaction, written) === outcome).map(([key]) => key)
      const skipped = [...sources.keys()].filter((key) => !results.has(key))
      return Effect.succeed({
        created: named("created"),
        updated: named("updated"),
        unchanged: named("unchanged"),
        skipped
      })
    }
  })

export const upsert = Effect.fnUntraced(function* (
  needs: Needs,
  at: Location & { readonly secrets: ReadonlyArray<{ readonly key: string } & ValueSourceInput> }
) {
  const keys = at.secrets.map(({ key }) => key)
  const permit = yield* needs.access.environment("secrets:write", at, { audit: "secret.create", keys })
  const copied = yield* copiesFor(needs, at.secrets, permit)
  const sources = new Map<string, ValueSource.ValueSource>()
  const fields = new Map<string, string>()
  for (const [i, secret] of at.secrets.entries()) {
    sources.set(secret.key, yield* sourceOf(needs, secret, copied, `secrets.${i}.`))
    fields.set(secret.key, `secrets.${i}.${fieldOf(secret)}`)
  }
  return yield* writeMany(needs, permit, { sources, fields, overwrite: true })
})

export const copy = Effect.fnUntraced(function* (
  needs: Needs,
  at: {
    readonly projectId: ProjectId
    readonly sourceEnv: string
    readonly targetEnv: string
    readonly keys: ReadonlyArray<string>
    readonly overwrite?: boolean
  }
) {
  const { keys, overwrite = false, projectId } = at
  const from = { projectId, environment: at.sourceEnv }
  // An error must not reveal an environment: both must be visible before a right to either is decided.
  yield* needs.access.visibleEnvironment(from)
  const into = { projectId, environment: at.targetEnv }
  const permit = yield* needs.access.environment("secrets:write", into, { audit: "secret.create", keys })
  const copied = yield* copies(needs, from, keys, permit)
  const absent = keys.findIndex((key) => !copied.sources.has(key))
  if (absent >= 0) return yield* new SecretNotFound({ field: `keys.${absent}` })
  yield* needs.audit.record(copied.event)
  const sources = new Map(keys.flatMap((key) => [...copied.sources].filter(([one]) => one === key)))
  const fields = new Map<string, string>(keys.map((key, i) => [key, `keys.${i}`]))
  return yield* writeMany(needs, permit, { sources, fields, overwrite })
})

/** Stores the values of a sealed file verbatim. */
export const importSealed = Effect.fnUntraced(function* (
  needs: Needs,
  { entries, keyId, overwrite = false, ...at }: EnvironmentQuery & OpenSealedValues & { readonly overwrite?: boolean }
) {
  const intent = { audit: "secret.create", keys: namesOf(entries) } as const
  const permit = yield* needs.access.environment("secrets:write", at, intent)
  const { values } = yield* needs.sealingKeys.openIn(at, { entries, keyId })
  const sources = new Map(Object.entries(values).map(([key, text]) => [key, ValueSource.unsealed(text)]))
  const fields = new Map<string, string>([...sources.keys()].map((key) => [key, `entries.${key}`]))
  return yield* writeMany(needs, permit, { sources, fields, overwrite })
})
