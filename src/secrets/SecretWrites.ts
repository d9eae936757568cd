/** Writes of secrets. Every use case asks `Access` itself and ends in the pipeline of `Commit.ts`. */
import * as Effect from "effect/Effect"
import { SecretAlreadyExists, SecretHasDependents, SecretNotFound, SecretVersionNotFound } from "#schema/Errors.ts"
import type { SecretId } from "#schema/Ids.ts"
import type { BulkCreateResult, BulkDeleteResult, DeleteSecretResult, SecretRef } from "#schema/SecretResponses.ts"
import type {
  CreateSecret,
  CreateSecretsBulk,
  DeleteSecretsBulk,
  RollbackSecret,
  UpdateSecret
} from "#schema/SecretRequests.ts"
import type { Disposition } from "#schema/Values.ts"
import { Access, type Location } from "#src/access/Access.ts"
import { methods } from "#src/Methods.ts"
import { SealingKeys } from "#src/projects/SealingKeys.ts"
import * as Composition from "./Composition.ts"
import { visibleOutcome } from "./Guesses.ts"
import type { Change, Changes } from "./SecretChanges.ts"
import * as CreationQueue from "./CreationQueue.ts"
import { describe } from "./SecretAbout.ts"
import { canTakeBack, restoreEnvironment, takeBack } from "./PastRestores.ts"
import { rename } from "./Renames.ts"
import { refOf } from "./SecretMetadata.ts"
import * as ProjectChanges from "./ProjectChanges.ts"
import * as SecretRows from "./SecretRows.ts"
import { tag } from "./Tags.ts"
import * as SourcedWrites from "./SourcedWrites.ts"
import * as KeyChanges from "./KeyChanges.ts"
import * as LockedEnvironment from "./LockedEnvironment.ts"
import type { Transaction, WritePermit } from "./LockedEnvironment.ts"
import * as ValueSource from "./ValueSource.ts"
import * as EnvironmentWrite from "./EnvironmentWrite.ts"
import { type AnswerOrRequest, asReference, byOutcome, type Outcome } from "./WriteRequest.ts"

type Created = AnswerOrRequest<SecretRef>
type Needs = SourcedWrites.Needs & { readonly creations: CreationQueue.CreationQueue<Created> }

/** The stored answer of a request with an idempotency key. */
const onceOf = (key: string | undefined, route: string, request: ReadonlyArray<unknown>) =>
  key === undefined ? undefined : { key, route, request }

// --- create, update, roll back, restore ---

const create = Effect.fnUntraced(function* (needs: Needs, body: CreateSecret, idempotencyKey?: string) {
  const { environment, expectedVersion, key, kind, projectId, source, value } = body
  const permit = yield* needs.access.environment("secrets:write", body, { audit: "secret.create", keys: [key] })
  const request = [projectId, environment, key, kind, value, source, expectedVersion]
  const from = ValueSource.requested(body)
  const changes = KeyChanges.creation(key, from, expectedVersion)
  const field = source === undefined ? "value" : "source"
  // New members first: keeps one hidden class.
  const options = { keys: [key], sources: [from], field, ...asReference(permit) }
  if (idempotencyKey === undefined && !permit.proposes) {
    return yield* CreationQueue.create(needs, permit, changes, options)
  }
  const once = onceOf(idempotencyKey, "POST /secrets", request)
  return yield* EnvironmentWrite.writeOnce(needs, permit, once, changes, options)
})

const createBulk = Effect.fnUntraced(function* (needs: Needs, body: CreateSecretsBulk, idempotencyKey?: string) {
  const { environment, projectId, secrets } = body
  const keys = secrets.map((secret) => secret.key)
  const permit = yield* needs.access.environment("secrets:write", body, { audit: "secret.create", keys })
  const request = [projectId, environment, secrets.map(({ key, value }) => [key, value])]
  const sources = new Map(secrets.map(({ key, value }) => [key, ValueSource.requested({ value })]))
  const changes = KeyChanges.assignment(sources)
  const fields = new Map<string, string>(keys.map((key, i) => [key, `secrets.${i}.value`]))
  const once = onceOf(idempotencyKey, "POST /secrets/bulk", request)
  const answer = (outcome: Outcome) => Effect.succeed(bulkResult(outcome))
  const options = { keys, sources: [...sources.values()], field: fields, answer }
  return yield* EnvironmentWrite.writeOnce(needs, permit, once, changes, options)
})

const bulkResult = ({ results, transaction }: Outcome): BulkCreateResult => {
  const items: Array<BulkCreateResult["items"][number]> = [...results.values()].map((written) => ({
    // New members first: keeps one hidden class.
    outcome: visibleOutcome(transaction, written),
    ...refOf(transaction.permit.target, written.secret)
  }))
  const count = (outcome: string) => items.filter((item) => item.outcome === outcome).length
  return { created: count("created"), updated: count("updated"), unchanged: count("unchanged"), items }
}

const update = Effect.fnUntraced(function* (needs: Needs, id: SecretId, body: UpdateSecret) {
  const permit = yield* needs.access.environmentOfSecret("secrets:write", id, { audit: "secret.update" })
  const source = ValueSource.requested(body)
  const changes = KeyChanges.update(id, source, body.expectedVersion)
  const field = body.source !== undefined ? "source" : body.value !== undefined ? "value" : "kind"
  const options = { ids: [id], sources: [source], field, ...asReference(permit) }
  return yield* EnvironmentWrite.ofSecret(EnvironmentWrite.write(needs, permit, changes, options))
})

/** Writes the text of an earlier version: a new version, or the same one when it is equal. */
const rollback = Effect.fnUntraced(function* (needs: Needs, id: SecretId, body: RollbackSecret) {
  const permit = yield* needs.access.environmentOfSecret("secrets:write", id, { audit: "secret.rollback" })
  const changes = Effect.fnUntraced(function* (transaction: Transaction) {
    const { key } = yield* LockedEnvironment.expectedSecret(transaction, id, body.expectedVersion)
    const earlier = yield* LockedEnvironment.earlierVersion(transaction, { id, version: body.version })
    if (earlier === undefined) return yield* new SecretVersionNotFound({ field: "version" })
    return new Map([[key, earlier]])
  })
  return yield* EnvironmentWrite.ofSecret(
    EnvironmentWrite.write(needs, permit, changes, {
      ...asReference(permit),
      ids: [id],
      field: "version"
    })
  )
})

/** Brings a deleted secret back at the version it had. */
const restore = Effect.fnUntraced(function* (needs: Needs, id: SecretId) {
  const permit = yield* needs.access.environmentOfSecret("secrets:write", id, { audit: "secret.restore" })
  const changes = Effect.fnUntraced(function* (transaction: Transaction) {
    const restored = transaction.byId.get(id) ?? (yield* LockedEnvironment.deletedSecret(transaction, id))
    if (restored === undefined) return yield* new SecretNotFound()
    if (transaction.live.has(restored.key)) return yield* new SecretAlreadyExists({ field: "key" })
    const write = yield* LockedEnvironment.earlierVersion(transaction, restored)
    if (write === undefined) return yield* new SecretNotFound()
    return new Map([[restored.key, { restored, write }]])
  })
  return yield* EnvironmentWrite.ofSecret(
    EnvironmentWrite.write(needs, permit, changes, { ...asReference(permit), ids: [id] })
  )
})

/** Ids of secrets that a write names by their keys. `field`: the member of the input that has an unknown key. */
const idsOf = Effect.fnUntraced(function* (
  { access, sql }: Needs,
  at: Location,
  keys: ReadonlyArray<string>,
  { audit, field }: { readonly audit: "secret.update" | "secret.delete"; readonly field: (index: number) => string }
) {
  const permit = yield* access.environment("secrets:write", at, { audit, keys })
  const idByKey = new Map((yield* SecretRows.withKeys(sql, permit, keys)).map(({ id, key }) => [key, id]))
  const ids: Array<SecretId> = []
  for (const [index, key] of keys.entries()) {
    const id = idByKey.get(key)
    if (id === undefined) return yield* new SecretNotFound({ field: field(index) })
    ids.push(id)
  }
  return ids
})

// --- delete ---

/** The facts of a confirmation before secrets of one environment are deleted; refused as the deletion would be. */
const removal = Effect.fnUntraced(function* ({ access, sql }: Needs, ids: ReadonlyArray<SecretId>) {
  const permit = yield* access.environmentOfSecret("secrets:write", ids[0], { audit: "secret.delete" })
  const { keys, project } = yield* SecretRows.named(sql, permit, ids)
  return keys.length < ids.length ? yield* new SecretNotFound() : { keys, project, environment: permit.target.slug }
})

const remove = Effect.fnUntraced(function* (needs: Needs, id: SecretId, disposition?: Disposition) {
  const permit = yield* needs.access.environmentOfSecret("secrets:write", id, { audit: "secret.delete" })
  const changes = Effect.fnUntraced(function* (transaction: Transaction) {
    const { key } = yield* LockedEnvironment.liveSecret(transaction, id)
    const state = yield* transaction.stored
    const dependents = Composition.dependents(state, key)
    if (dependents.length > 0 && disposition === undefined) return yield* new SecretHasDependents({ dependents })
    const cascaded = disposition === "cascade" ? Composition.transitiveDependents(state, key) : []
    const flattened = disposition === "flatten" ? yield* EnvironmentWrite.flattened(state, key) : []
    return new Map<string, Change>([
      [key, null],
      ...cascaded.map((gone) => [gone, null] as const),
      ...flattened.map((one) => [one.key, { kind: one.kind, pinned: false, text: one.text, from: "server" }] as const)
    ])
  })
  const answer = ({ changes, results }: Outcome) => {
    const [key, ...cascaded] = deletedOf(changes)
    const response: DeleteSecretResult = { id, key, deleted: true, flattened: [...results.keys()], cascaded }
    return Effect.succeed(response)
  }
  return yield* EnvironmentWrite.ofSecret(
    EnvironmentWrite.remove(needs, permit, changes, { ids: [id], entries: withDeleted(permit), answer })
  )
})

const deleteBulk = Effect.fnUntraced(function* (needs: Needs, body: DeleteSecretsBulk, idempotencyKey?: string) {
  const { environment, ids, projectId } = body
  const permit = yield* needs.access.environment("secrets:write", body, { audit: "secret.delete" })
  const changes = Effect.fnUntraced(function* (transaction: Transaction) {
    const keys: Array<string> = []
    for (const [i, id] of ids.entries()) {
      const secret = transaction.byId.get(id)
      if (secret === undefined) return yield* new SecretNotFound({ field: `ids.${i}` })
      keys.push(secret.key)
    }
    const dependents = Composition.dependentsOfAll(yield* transaction.stored, new Set(keys))
    if (dependents.length > 0) return yield* new SecretHasDependents({ dependents, field: "ids" })
    return new Map<string, Change>(keys.map((key) => [key, null]))
  })
  const response: BulkDeleteResult = { deleted: ids.length, ids }
  const once = onceOf(idempotencyKey, "POST /secrets/delete-bulk", [projectId, environment, ids])
  const options = { ids, entries: withDeleted(permit), answer: () => Effect.succeed(response) }
  return yield* EnvironmentWrite.removeOnce(needs, permit, once, changes, options)
})

const deletedOf = (changes: Changes) => [...changes].filter(([, change]) => change === null).map(([key]) => key)
const withDeleted = (permit: WritePermit) => (outcome: Outcome) => [
  permit.event({ keys: deletedOf(outcome.changes) }),
  ...byOutcome(permit)(outcome)
]

/** The writing half of `SecretStore.ts`. */
export const make = Effect.gen(function* () {
  const services: SourcedWrites.Needs = {
    // New members first: keeps one hidden class.
    access: yield* Access,
    sealingKeys: yield* SealingKeys,
    ...(yield* LockedEnvironment.services)
  }
  const needs: Needs = { ...services, creations: yield* CreationQueue.make<Created>(services) }
  const single = {
    describe,
    tag,
    rename,
    restoreEnvironment,
    takeBack,
    canTakeBack,
    create,
    update,
    rollback,
    restore,
    remove
  }
  const { copy, createFrom, importSealed, updateFrom, upsert } = SourcedWrites
  return methods(needs, {
    ...single,
    idsOf,
    removal,
    createBulk,
    deleteBulk,
    createFrom,
    updateFrom,
    upsert,
    copy,
    importSealed,
    change: ProjectChanges.change
  })
})
