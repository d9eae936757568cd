/**
 * Reads of secrets. Each use case asks `Access` itself and commits its audit entry before a value is returned. Answers
 * that `http/` sends as bytes stay sealed until then.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { type RateLimited, SecretNotFound, SecretVersionNotFound, ValidationFailed } from "#schema/Errors.ts"
import type { AuditAction } from "#schema/Audit.ts"
import type { EnvironmentId, SecretId } from "#schema/Ids.ts"
import type { ExportSealedValues } from "#schema/SealedApi.ts"
import type { DiffQuery, EnvironmentQuery, PagedQuery, ValueQuery } from "#schema/SecretRequests.ts"
import type { SecretDiff, SecretWithValue, SecretWithValueList } from "#schema/SecretResponses.ts"
import type { Representation } from "#schema/Values.ts"
import { Access } from "#src/access/Access.ts"
import { Exposure } from "#src/trail-use/Exposure.ts"
import { Audit } from "#src/trail/Audit.ts"
import type { EnvironmentPermit } from "#src/access/Permit.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { DataKeys } from "#src/crypto/DataKeys.ts"
import { RateLimiter } from "#src/limits/RateLimiter.ts"
import { methods } from "#src/Methods.ts"
import { SealingKeys } from "#src/projects/SealingKeys.ts"
import * as SealedEnv from "#src/sealed/SealedEnv.ts"
import * as Diff from "./Diff.ts"
import * as Guesses from "./Guesses.ts"
import * as OpenSecrets from "./OpenSecrets.ts"
import { inject } from "./Injection.ts"
import { openPage, type Paging, type ReadNeeds, reveal, snapshotOf, type ValuePermit } from "./RecordedReads.ts"
import { refOf } from "./SecretMetadata.ts"
import { matrix } from "./SecretMatrix.ts"
import * as SecretAbout from "./SecretAbout.ts"
import * as SecretNames from "./SecretNames.ts"
import * as SecretRows from "./SecretRows.ts"
import { Snapshots } from "./Snapshots.ts"

/** The values of an environment by key, or a page of them, read and recorded like an injection. */
const resolved = Effect.fnUntraced(function* (needs: ReadNeeds, query: PagedQuery) {
  const { answer } = yield* inject(needs, query)
  if (answer === undefined) return yield* Effect.dieMessage("an injection without a condition has an answer")
  return answer.value()
})

const pageOfValues = Effect.fnUntraced(function* (
  needs: ReadNeeds,
  permit: EnvironmentPermit<"secrets:read_values">,
  representation: Representation,
  paging: Paging
) {
  const { keys, paged, read, revision, secrets, texts } = yield* openPage(needs, permit, representation, paging)
  const pageKeys = new Set(keys)
  const value: SecretWithValueList = {
    items: secrets
      .filter((secret) => pageKeys.has(secret.key))
      .map((secret) => ({ ...refOf(permit.target, secret), value: texts.get(secret.key) ?? "", representation })),
    ...paged
  }
  return { revision, read, value }
})

const withValues = Effect.fnUntraced(function* (needs: ReadNeeds, query: PagedQuery) {
  const permit = yield* needs.access.environment("secrets:read_values", query, { audit: "secret.list_values" })
  const { page = 1, pageSize = 100, representation = "materialized" } = query
  const what = `values.${representation}.${page}.${pageSize}`
  const build = () => pageOfValues(needs, permit, representation, { page, pageSize })
  return yield* reveal(needs, permit, yield* snapshotOf(needs, permit, what, build))
})

const oneValue = Effect.fnUntraced(function* (
  needs: ReadNeeds,
  permit: EnvironmentPermit<"secrets:read_values">,
  key: string,
  representation: Representation
) {
  const { revision, secrets } = yield* OpenSecrets.named(needs, permit, [key], representation === "materialized")
  const secret = secrets.find((one) => one.key === key)
  if (secret === undefined) return yield* new SecretNotFound()
  const texts = yield* OpenSecrets.represent(secrets, representation)
  const value: SecretWithValue = { ...refOf(permit.target, secret), value: texts.get(key) ?? "", representation }
  return { revision, read: OpenSecrets.readOf([key], secrets), value }
})

/** `reason`: recorded, where the caller has to say why it needs the value itself (MCP). */
const value = Effect.fnUntraced(function* (needs: ReadNeeds, query: ValueQuery, reason?: string) {
  const { key, representation = "materialized" } = query
  const permit = yield* needs.access.environment("secrets:read_values", query, { audit: "secret.read", keys: [key] })
  const build = () => oneValue(needs, permit, key, representation)
  const answer = yield* snapshotOf(needs, permit, `value.${representation}.${key}`, build)
  return yield* reveal(needs, permit, answer, { reason })
})

/** One version of a live secret as it was written, to look at before a rollback. */
const version = Effect.fnUntraced(function* (needs: ReadNeeds, id: SecretId, number: number) {
  const permit = yield* needs.access.environmentOfSecret("secrets:read_values", id, { audit: "secret.read" })
  const rows = yield* SecretRows.sealedVersion(needs.sql, permit, id, number)
  const [secret] = yield* OpenSecrets.open(
    needs,
    permit,
    rows.filter(({ live }) => live)
  )
  if (secret === undefined) return yield* new SecretVersionNotFound({ field: "version" })
  yield* needs.audit.record(permit.event({ keys: [secret.key], versions: [number] }))
  return { key: secret.key, text: secret.text }
})

interface Comparison {
  readonly difference: Diff.Difference
  readonly sourceRevision: number
  readonly targetRevision: number
}

/**
 * Counts the comparison before a value is opened. If an environment changed in between, the count is for another state:
 * it counts and reads again.
 */
const compared = (
  needs: ReadNeeds,
  source: Guesses.ComparePermit,
  target: Guesses.ComparePermit
): Effect.Effect<Comparison, Effect.Effect.Error<ReturnType<typeof readBoth>> | RateLimited> =>
  Effect.gen(function* () {
    const counted = yield* Guesses.countCompared(needs, source, target)
    const [before, after] = yield* readBoth(needs, source, target)
    if (counted !== undefined && (counted.source !== before.revision || counted.target !== after.revision)) {
      return yield* compared(needs, source, target)
    }
    const difference = Diff.diff(before.values, after.values)
    return { difference, sourceRevision: before.revision, targetRevision: after.revision }
  })

const readBoth = (needs: ReadNeeds, source: Guesses.ComparePermit, target: Guesses.ComparePermit) =>
  Effect.all([OpenSecrets.valuesByKey(needs, source), OpenSecrets.valuesByKey(needs, target)])

/** Names of keys that differ. Both environments must be readable; values are compared here and go nowhere. */
const diff = Effect.fnUntraced(function* (needs: ReadNeeds, { projectId, sourceEnv, targetEnv }: DiffQuery) {
  const { access, audit } = needs
  const intent = { audit: "secret.diff" } as const
  const source = yield* access.environment("secrets:read", { projectId, environment: sourceEnv }, intent)
  const target = yield* access.environment("secrets:read", { projectId, environment: targetEnv }, intent)
  const { difference, sourceRevision, targetRevision } = yield* compared(needs, source, target)
  const keys = [...difference.added, ...difference.removed, ...difference.changed].map((entry) => entry.key)
  // One entry for one comparison.
  const { environmentId, slug } = target.target
  const others = [{ environmentId, environment: slug, revision: targetRevision }]
  yield* audit.record(source.event({ keys, revision: sourceRevision, compared: others }))
  const response: SecretDiff = { projectId, sourceEnv, targetEnv, ...difference }
  return response
})

/** Entries of one sealed file. */
const maxEntries = 500

const recipientKeyInvalid = new ValidationFailed({
  field: "recipientPublicKey",
  message: "must be an X25519 public key, 32 bytes in base64url"
})

/** The keys that an export opens: all, or its own keys with all that they build on. */
const exported = Effect.fnUntraced(function* (needs: ReadNeeds, permit: ValuePermit, keys?: ReadonlyArray<string>) {
  if (keys === undefined) {
    const { revision, values } = yield* OpenSecrets.valuesByKey(needs, permit)
    return { read: { keys: [...values.keys()], revision }, values }
  }
  const { revision, secrets } = yield* OpenSecrets.named(needs, permit, keys, true)
  return {
    read: OpenSecrets.readAt(revision, keys, secrets),
    values: yield* OpenSecrets.represent(secrets, "materialized")
  }
})

/** Values of the keys that a person chose, read and recorded together. */
const chosen = Effect.fnUntraced(function* (
  needs: ReadNeeds,
  at: EnvironmentQuery & { readonly keys: ReadonlyArray<string> }
) {
  const intent = { audit: "secret.list_values", keys: at.keys } as const
  const permit = yield* needs.access.environment("secrets:read_values", at, intent)
  const { read, values } = yield* exported(needs, permit, at.keys)
  const entries: Array<{ readonly key: string; readonly value: string }> = []
  for (const key of at.keys) {
    const value = values.get(key)
    if (value === undefined) return yield* new SecretNotFound()
    entries.push({ key, value })
  }
  yield* needs.audit.record(permit.event(read))
  return entries
})

interface SealedExport {
  /** All by default. */
  readonly keys?: ReadonlyArray<string> | undefined
  /** Public key of the only one who opens them; the environment's own by default. */
  readonly recipient?: string
}

/** Values, each sealed to a public key. Only ciphertext leaves, once the permit's entry is committed. */
const sealed = Effect.fnUntraced(
  function* (needs: ReadNeeds, permit: EnvironmentPermit<"secrets:run">, { keys, recipient: other }: SealedExport) {
    const { environmentId } = permit.target
    const publicKey = other ?? (yield* needs.sealingKeys.publicKeyOf(permit)).publicKey
    const recipient = yield* SealedEnv.parsePublicKey(publicKey).pipe(
      Effect.flatMap((bytes) => SealedEnv.recipient(environmentId, bytes)),
      Effect.mapError(() => recipientKeyInvalid)
    )
    const { read, values } = yield* exported(needs, permit, keys)
    if (read.keys.length > maxEntries) {
      return yield* new ValidationFailed({ field: "keys", message: "must name at most 500 keys of this environment" })
    }
    const entries = new Map<string, string>()
    for (const [i, name] of read.keys.entries()) {
      const text = values.get(name)
      if (text === undefined) return yield* new SecretNotFound({ field: `keys.${i}` })
      entries.set(name, yield* SealedEnv.sealEntry(recipient, name, Redacted.make(text)))
    }
    if (entries.size > 0) entries.set(SealedEnv.manifestName, yield* SealedEnv.sealManifest(recipient, entries))
    const target = { type: "sealing_key", id: recipient.keyId, name: publicKey }
    yield* needs.audit.record({ ...permit.event(read), target })
    return { environmentId, keyId: recipient.keyId, entries: Object.fromEntries(entries) }
  },
  // Only a public key that was not checked before can be invalid.
  Effect.catchTag("SealingKeyInvalid", Effect.die)
)

const intentOf = <const Audit extends AuditAction>(audit: Audit, keys?: ReadonlyArray<string>) => ({
  audit,
  ...(keys === undefined ? {} : { keys })
})

/** Sealed to the environment's own key. Only the server opens it, so no value is handed out. */
const sealedExport = Effect.fn("SecretReads.sealedExport")(function* (
  needs: ReadNeeds,
  at: EnvironmentQuery & { readonly keys?: ReadonlyArray<string> }
) {
  const permit = yield* needs.access.environment("secrets:run", at, intentOf("sealed.export", at.keys))
  return yield* sealed(needs, permit, { keys: at.keys })
})

/** The same by the id of the environment. */
const sealedExportOf = Effect.fn("SecretReads.sealedExportOf")(function* (
  needs: ReadNeeds,
  environmentId: EnvironmentId,
  { keys }: ExportSealedValues
) {
  const permit = yield* needs.access.environmentWithId("secrets:run", environmentId, intentOf("sealed.export", keys))
  const { entries, keyId } = yield* sealed(needs, permit, { keys })
  return { keyId, entries }
})

/** Sealed to a key of the caller's. Its holder reads the values: recorded as an injection, with the right to read them. */
const sealedForOthers = Effect.fn("SecretReads.sealedForOthers")(function* (
  needs: ReadNeeds,
  at: EnvironmentQuery & { readonly keys?: ReadonlyArray<string>; readonly recipient: string }
) {
  const intent = intentOf("secret.inject", at.keys)
  const permit = yield* needs.access.environment("secrets:run", at, intent)
  yield* needs.access.environment("secrets:read_values", at, intent)
  return yield* sealed(needs, permit, at)
})

/** The reading half of `SecretStore.ts`. */
export const make = Effect.gen(function* () {
  const needs: ReadNeeds = {
    access: yield* Access,
    audit: yield* Audit,
    dataKeys: yield* DataKeys,
    exposure: yield* Exposure,
    limiter: yield* RateLimiter,
    rowSeal: yield* RowSeal,
    sealingKeys: yield* SealingKeys,
    snapshots: yield* Snapshots,
    sql: yield* SqlClient.SqlClient
  }
  const { check, composition, deleted, list, listed, plan, search, versions } = SecretNames
  const { described, due, dueInTeam } = SecretAbout
  const names = { described, due, dueInTeam, list, listed, search, check, plan, composition, versions, deleted }
  return methods(needs, {
    ...names,
    inject,
    resolved,
    value,
    withValues,
    chosen,
    version,
    diff,
    matrix,
    sealedExport,
    sealedExportOf,
    sealedForOthers
  })
})
