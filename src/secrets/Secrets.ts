/** What can be done with secrets: the only door for `http/`, `mcp/` and the dashboard (decisions 4). */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import {
  EnvironmentNotFound,
  IntegrityFailure,
  PlanLimitReached,
  type RateLimited,
  SecretAlreadyExists,
  SecretHasDependents,
  SecretNotFound,
  SecretVersionConflict,
  SecretVersionNotFound,
  TemplateInvalid
} from "#schema/Errors.ts"
import type { SecretId } from "#schema/Ids.ts"
import type {
  BulkCreateResult,
  BulkDeleteResult,
  CreateSecret,
  CreateSecretsBulk,
  DeletedSecretList,
  DeleteSecretResult,
  DeleteSecretsBulk,
  DiffQuery,
  EnvironmentQuery,
  ListSecretsResponse,
  PagedQuery,
  RollbackSecret,
  SecretCompositionGraph,
  SecretDiff,
  SecretRef,
  SecretVersionList,
  UpdateSecret,
  ValueQuery
} from "#schema/SecretsApi.ts"
import type { Disposition, Representation, SecretKind, SecretText } from "#schema/Values.ts"
import { Access } from "#src/access/Access.ts"
import { Audit } from "#src/access/Audit.ts"
import type { EnvironmentPermit } from "#src/access/Permit.ts"
import type { EnvironmentTarget } from "#src/access/Target.ts"
import { diffPolicy, RateLimiter } from "#src/limits/RateLimiter.ts"
import { CurrentCaller } from "#schema/Caller.ts"
import * as Composition from "./Composition.ts"
import * as Diff from "./Diff.ts"
import { Idempotency } from "./Idempotency.ts"
import {
  BoxAltered,
  type Locked,
  type OpenSecret,
  reportedOutcome,
  type SecretMeta,
  SecretStore,
  type Write,
  type Written
} from "./SecretStore.ts"
import { type Answer, Snapshots } from "./Snapshots.ts"
import * as Template from "./Template.ts"

const refOf = (target: EnvironmentTarget, meta: SecretMeta): SecretRef => ({
  id: meta.id,
  projectId: target.projectId,
  environment: target.slug,
  key: meta.key,
  kind: meta.kind,
  version: meta.version,
  createdAt: meta.createdAt.toISOString(),
  updatedAt: meta.updatedAt.toISOString()
})

interface Paging {
  readonly page: number
  readonly pageSize: number
}

interface Asked {
  readonly kind?: SecretKind
  readonly value?: SecretText
  readonly source?: SecretText
}

/** What a request stores, given what stands there (decisions 4 "Kind"); `stored` is undefined for a new key. */
export const decideWrite = (
  { kind, source, value }: Asked,
  stored: { readonly pinned: boolean; readonly text: string } | undefined
): Write => {
  const given = source ?? value
  const text = given === undefined ? (stored?.text ?? "") : Redacted.value(given)
  const from = given === undefined && stored !== undefined ? ("stored" as const) : ("caller" as const)
  if (kind === "literal") return { kind, pinned: true, text, from }
  if (kind === "template") return { kind, pinned: false, text, from }
  if (source !== undefined) return { kind: "template", pinned: false, text, from }
  if (stored?.pinned === true) return { kind: "literal", pinned: true, text, from }
  return { kind: Template.kindOf(text), pinned: false, text, from }
}

const asState = (secrets: ReadonlyArray<OpenSecret>) =>
  Effect.gen(function* () {
    const state = new Map<string, Composition.Entry>()
    for (const secret of secrets) state.set(secret.key, yield* Composition.entry(secret.kind, secret.text))
    return state
  })

/**
 * Text per key as asked for. A stored environment can always be resolved (it was checked when written), so a problem here
 * means that the rows do not belong together any more.
 */
export const represent = (secrets: ReadonlyArray<OpenSecret>, representation: Representation) =>
  representation === "source"
    ? Effect.succeed(new Map(secrets.map((secret) => [secret.key, secret.text])))
    : Effect.flatMap(asState(secrets), Composition.resolve).pipe(Effect.mapError(() => new IntegrityFailure()))

const encoder = new TextEncoder()

export class Secrets extends Effect.Service<Secrets>()("secrets/Secrets", {
  effect: Effect.gen(function* () {
    const access = yield* Access
    const audit = yield* Audit
    const limiter = yield* RateLimiter
    const store = yield* SecretStore
    const snapshots = yield* Snapshots
    const idempotency = yield* Idempotency

    // --- reads ---

    const list = Effect.fnUntraced(function* (query: PagedQuery) {
      const permit = yield* access.environment("secrets:read", query, { audit: "secret.list" })
      const { page = 1, pageSize = 100 } = query
      const rows = yield* store.page(permit, pageSize, (page - 1) * pageSize)
      const total = yield* store.count(permit)
      const response: ListSecretsResponse = {
        items: rows.map((row) => ({ ...refOf(permit.target, row), references: row.refs, updatedBy: row.updatedBy })),
        page,
        pageSize,
        total,
        hasMore: page * pageSize < total
      }
      return response
    })

    /** Commits the entry, then hands out the bytes: no value leaves before its entry is committed (decisions 10). */
    const reveal = Effect.fnUntraced(function* (
      permit: EnvironmentPermit<"secrets:run" | "secrets:read_values">,
      answer: Answer,
      reason?: string
    ) {
      const event = permit.event({ keys: answer.keys })
      yield* audit.record(reason === undefined ? event : { ...event, reason })
      return answer
    })

    const whole = (permit: EnvironmentPermit<"secrets:run">) =>
      Effect.map(store.live(permit), ({ revision, secrets }) => ({
        revision,
        secrets,
        keys: secrets.map(({ key }) => key),
        total: secrets.length
      }))
    const pageOf = (
      permit: EnvironmentPermit<"secrets:run" | "secrets:read_values">,
      { page, pageSize }: Paging,
      representation: Representation
    ) => store.livePage(permit, pageSize, (page - 1) * pageSize, representation === "materialized")

    const buildInjected = (
      permit: EnvironmentPermit<"secrets:run">,
      representation: Representation,
      paging: Paging | undefined
    ) =>
      Effect.gen(function* () {
        const found = yield* paging === undefined ? whole(permit) : pageOf(permit, paging, representation)
        const { keys, revision, total } = found
        const texts = yield* represent(found.secrets, representation)
        const { page, pageSize } = paging ?? { page: 1, pageSize: total }
        const body = JSON.stringify({
          projectId: permit.target.projectId,
          environment: permit.target.slug,
          representation,
          values: Object.fromEntries(keys.map((key) => [key, texts.get(key)])),
          page,
          pageSize,
          total,
          hasMore: page * pageSize < total,
          revision
        })
        return { revision, keys, body: encoder.encode(body) }
      })

    /** `undefined` body = the caller's ETag still holds: no value was read, so nothing is recorded (decisions 4). */
    const inject = Effect.fnUntraced(function* (query: PagedQuery, ifNoneMatch: string | undefined) {
      const permit = yield* access.environment("secrets:run", query, { audit: "secret.inject" })
      const { representation = "materialized" } = query
      const paging =
        query.page === undefined && query.pageSize === undefined
          ? undefined
          : { page: query.page ?? 1, pageSize: query.pageSize ?? 100 }
      const form = `${representation}${paging === undefined ? "" : `.${paging.page}.${paging.pageSize}`}`
      const etag = (revision: number) => `"${permit.target.environmentId}.${revision}.${form}"`
      if (ifNoneMatch !== undefined && matches(ifNoneMatch, etag(permit.target.revision))) {
        return { etag: etag(permit.target.revision), body: undefined }
      }
      const answer = yield* snapshots.get(
        permit.target.environmentId,
        permit.target.revision,
        `inject.${form}`,
        buildInjected(permit, representation, paging)
      )
      yield* reveal(permit, answer)
      return { etag: etag(answer.revision), body: answer.body }
    })

    const listWithValues = Effect.fnUntraced(function* (query: PagedQuery) {
      const permit = yield* access.environment("secrets:read_values", query, { audit: "secret.list_values" })
      const { page = 1, pageSize = 100, representation = "materialized" } = query
      const build = Effect.gen(function* () {
        const { keys, revision, secrets, total } = yield* pageOf(permit, { page, pageSize }, representation)
        const texts = yield* represent(secrets, representation)
        const shown = new Set(keys)
        const body = JSON.stringify({
          items: secrets
            .filter((secret) => shown.has(secret.key))
            .map((secret) => ({ ...refOf(permit.target, secret), value: texts.get(secret.key), representation })),
          page,
          pageSize,
          total,
          hasMore: page * pageSize < total
        })
        return { revision, keys, body: encoder.encode(body) }
      })
      const { environmentId, revision } = permit.target
      const answer = yield* snapshots.get(
        environmentId,
        revision,
        `values.${representation}.${page}.${pageSize}`,
        build
      )
      return (yield* reveal(permit, answer)).body
    })

    /** `reason`: why the value itself is needed, where whoever asks has to say so (MCP); recorded. */
    const readValue = Effect.fnUntraced(function* (query: ValueQuery, reason?: string) {
      const permit = yield* access.environment("secrets:read_values", query, {
        audit: "secret.read",
        keys: [query.key]
      })
      const { key, representation = "materialized" } = query
      const build = Effect.gen(function* () {
        const found = yield* store.closure(permit, [key], representation === "materialized")
        const secret = found.secrets.find((one) => one.key === key)
        if (secret === undefined) return yield* new SecretNotFound()
        const texts = yield* represent(found.secrets, representation)
        const body = JSON.stringify({ ...refOf(permit.target, secret), value: texts.get(key), representation })
        return { revision: found.revision, keys: [key], body: encoder.encode(body) }
      })
      const { environmentId, revision } = permit.target
      const answer = yield* snapshots.get(environmentId, revision, `value.${representation}.${key}`, build)
      return (yield* reveal(permit, answer, reason)).body
    })

    /** Names of what differs. Both environments must be readable; values are compared here and go nowhere (security 3.2). */
    const diff = Effect.fnUntraced(function* ({ projectId, sourceEnv, targetEnv }: DiffQuery) {
      const caller = yield* CurrentCaller
      yield* limiter.take(`diff:${caller.credentialId}`, diffPolicy)
      const intent = { audit: "secret.diff" } as const
      const source = yield* access.environment("secrets:read", { projectId, environment: sourceEnv }, intent)
      const target = yield* access.environment("secrets:read", { projectId, environment: targetEnv }, intent)
      const resolved = (permit: EnvironmentPermit<"secrets:read">) =>
        Effect.flatMap(store.live(permit), ({ secrets }) => represent(secrets, "materialized"))
      const difference = Diff.diff(yield* resolved(source), yield* resolved(target))
      const keys = [...difference.added, ...difference.removed, ...difference.changed].map((entry) => entry.key)
      yield* audit.record(source.event({ keys }), target.event({ keys }))
      const response: SecretDiff = { projectId, sourceEnv, targetEnv, ...difference }
      return response
    })

    const composition = Effect.fnUntraced(function* (query: EnvironmentQuery) {
      const permit = yield* access.environment("secrets:read", query, { audit: "secret.composition" })
      const rows = yield* store.graph(permit)
      const response: SecretCompositionGraph = {
        projectId: permit.target.projectId,
        environment: permit.target.slug,
        nodes: rows.map(({ id, key, kind }) => ({ id, key, kind })),
        edges: rows.flatMap((row) => row.refs.map((to) => ({ from: row.key, to })))
      }
      return response
    })

    const versions = Effect.fnUntraced(function* (id: SecretId) {
      const permit = yield* access.environmentOfSecret("secrets:read", id, { audit: "secret.history" })
      const rows = yield* store.versions(permit, id)
      if (rows.length === 0) return yield* new SecretNotFound()
      const response: SecretVersionList = {
        items: rows.map((row) => ({ ...row, createdAt: row.createdAt.toISOString() }))
      }
      return response
    })

    const listDeleted = Effect.fnUntraced(function* (query: EnvironmentQuery) {
      const permit = yield* access.environment("secrets:read", query, { audit: "secret.list_deleted" })
      const rows = yield* store.deleted(permit, new Date(yield* Clock.currentTimeMillis))
      const response: DeletedSecretList = {
        items: rows.map((row) => ({
          ...refOf(permit.target, row),
          deletedAt: row.deletedAt.toISOString(),
          purgeAt: row.purgeAt.toISOString()
        }))
      }
      return response
    })

    // --- writes ---

    const create = Effect.fnUntraced(function* (body: CreateSecret, idempotencyKey?: string) {
      const permit = yield* access.environment("secrets:write", body, { audit: "secret.create", keys: [body.key] })
      const work = store.change(permit, (env) =>
        Effect.gen(function* () {
          if (env.live.has(body.key)) return yield* new SecretAlreadyExists({ field: "key" })
          const { expectedVersion = 0 } = body
          if (expectedVersion > 0) {
            const currentVersion = yield* env.lastVersion(body.key)
            if (currentVersion !== expectedVersion) {
              return yield* new SecretVersionConflict({ currentVersion, field: "expectedVersion" })
            }
          }
          const field = body.source === undefined ? "value" : "source"
          const written = yield* env.commit(new Map([[body.key, decideWrite(body, undefined)]]), () => field)
          yield* env.audit(permit.event({ keys: [body.key] }))
          return refOf(permit.target, (yield* resultOf(written, body.key)).meta)
        })
      )
      const request = JSON.stringify([
        body.projectId,
        body.environment,
        body.key,
        body.kind ?? null,
        textOf(body.value),
        textOf(body.source),
        body.expectedVersion ?? null
      ])
      const once = idempotency.once(permit, { key: idempotencyKey, route: "POST /secrets", request }, work)
      return yield* store.outermost(permit.event({ keys: [body.key] }), once)
    })

    const createBulk = Effect.fnUntraced(function* (body: CreateSecretsBulk, idempotencyKey?: string) {
      const keys = body.secrets.map((secret) => secret.key)
      const permit = yield* access.environment("secrets:write", body, { audit: "secret.create", keys })
      const work = store.change(permit, (env) =>
        Effect.gen(function* () {
          const changes = new Map<string, Write>(
            body.secrets.map(({ key, value }) => {
              const stored = env.live.get(key)
              return [
                key,
                decideWrite({ value }, stored === undefined ? undefined : { pinned: stored.pinned, text: "" })
              ]
            })
          )
          const fields = new Map<string, string>(keys.map((key, i) => [key, `secrets.${i}.value`]))
          const written = yield* env.commit(changes, (key) => fields.get(key))
          const results = yield* Effect.forEach(keys, (key) => resultOf(written, key))
          const items = results.map((result) => ({
            ...refOf(permit.target, result.meta),
            outcome: reportedOutcome(permit, result)
          }))
          const named = (outcome: string) =>
            results.filter((result) => result.outcome === outcome).map(({ meta }) => meta.key)
          const count = (outcome: string) => items.filter((item) => item.outcome === outcome).length
          const [created, updated] = [named("created"), named("updated")]
          if (created.length > 0) yield* env.audit(permit.event({ keys: created }))
          if (updated.length > 0) yield* env.audit(permit.event({ audit: "secret.update", keys: updated }))
          const response: BulkCreateResult = {
            created: count("created"),
            updated: count("updated"),
            unchanged: count("unchanged"),
            items
          }
          return response
        })
      )
      const request = JSON.stringify([
        body.projectId,
        body.environment,
        body.secrets.map((secret) => [secret.key, textOf(secret.value)])
      ])
      const once = idempotency.once(permit, { key: idempotencyKey, route: "POST /secrets/bulk", request }, work)
      return yield* store.outermost(permit.event({ keys }), once)
    })

    /** Routes that name a secret say SECRET_NOT_FOUND also when its environment was deleted meanwhile. */
    const changeSecret = <A, E, R>(
      permit: EnvironmentPermit<"secrets:write">,
      use: (env: Locked) => Effect.Effect<A, E, R>
    ) =>
      Effect.catchIf(
        store.outermost(permit.event(), store.change(permit, use)),
        (error): error is Extract<typeof error, EnvironmentNotFound> => error instanceof EnvironmentNotFound,
        () => new SecretNotFound()
      )

    const liveSecret = (env: Locked, id: SecretId) =>
      Effect.mapError(Effect.fromNullable(env.byId.get(id)), () => new SecretNotFound())

    /** A live secret by id, at the version the caller expects. */
    const expected = Effect.fnUntraced(function* (env: Locked, id: SecretId, expectedVersion: number | undefined) {
      const meta = yield* liveSecret(env, id)
      if (expectedVersion === undefined || expectedVersion === meta.version) return meta
      return yield* new SecretVersionConflict({ currentVersion: meta.version, field: "expectedVersion" })
    })

    const update = Effect.fnUntraced(function* (id: SecretId, body: UpdateSecret) {
      const permit = yield* access.environmentOfSecret("secrets:write", id, { audit: "secret.update" })
      return yield* changeSecret(permit, (env) =>
        Effect.gen(function* () {
          const meta = yield* expected(env, id, body.expectedVersion)
          const text = (yield* env.open([meta.key])).get(meta.key) ?? ""
          const field = body.source !== undefined ? "source" : body.value !== undefined ? "value" : "kind"
          const write = decideWrite(body, { pinned: meta.pinned, text })
          const written = yield* env.commit(new Map([[meta.key, write]]), () => field)
          yield* env.audit(permit.event({ keys: [meta.key] }))
          return refOf(permit.target, (yield* resultOf(written, meta.key)).meta)
        })
      )
    })

    const rollback = Effect.fnUntraced(function* (id: SecretId, body: RollbackSecret) {
      const permit = yield* access.environmentOfSecret("secrets:write", id, { audit: "secret.rollback" })
      return yield* changeSecret(permit, (env) =>
        Effect.gen(function* () {
          const meta = yield* expected(env, id, body.expectedVersion)
          const earlier = yield* env.version(id, meta.key, body.version)
          if (earlier === undefined) return yield* new SecretVersionNotFound({ field: "version" })
          const written = yield* env.commit(new Map([[meta.key, earlier]]), () => "version")
          yield* env.audit(permit.event({ keys: [meta.key] }))
          return refOf(permit.target, (yield* resultOf(written, meta.key)).meta)
        })
      )
    })

    const restore = Effect.fnUntraced(function* (id: SecretId) {
      const permit = yield* access.environmentOfSecret("secrets:write", id, { audit: "secret.restore" })
      return yield* changeSecret(permit, (env) =>
        Effect.gen(function* () {
          const live = env.byId.get(id)
          const secret = live ?? (yield* env.deleted(id))
          if (secret === undefined) return yield* new SecretNotFound()
          if (env.live.has(secret.key)) return yield* new SecretAlreadyExists({ field: "key" })
          const write = yield* env.version(id, secret.key, secret.version)
          if (write === undefined) return yield* new SecretNotFound()
          const revived = yield* env.revive(secret, write)
          yield* env.audit(permit.event({ keys: [secret.key] }))
          return refOf(permit.target, revived)
        })
      )
    })

    const remove = Effect.fnUntraced(function* (id: SecretId, disposition: Disposition | undefined) {
      const permit = yield* access.environmentOfSecret("secrets:write", id, { audit: "secret.delete" })
      return yield* changeSecret(permit, (env) =>
        Effect.gen(function* () {
          const { key } = yield* liveSecret(env, id)
          const state = yield* asStored(env.state([key]))
          const dependents = Composition.dependents(state, key)
          if (dependents.length > 0 && disposition === undefined) return yield* new SecretHasDependents({ dependents })
          const flattened = disposition === "flatten" ? yield* asStored(Composition.flatten(state, key)) : []
          const cascaded = disposition === "cascade" ? Composition.transitiveDependents(state, key) : []
          const changes = new Map<string, Write | null>([[key, null]])
          for (const gone of cascaded) changes.set(gone, null)
          for (const { key: user, kind, text } of flattened)
            changes.set(user, { kind, pinned: false, text, from: "server" })
          yield* asFlattened(env.commit(changes))
          const names = flattened.map((one) => one.key)
          yield* env.audit(permit.event({ keys: [key, ...cascaded] }))
          if (names.length > 0) yield* env.audit(permit.event({ audit: "secret.update", keys: names }))
          const response: DeleteSecretResult = { id, key, deleted: true, flattened: names, cascaded }
          return response
        })
      )
    })

    const deleteBulk = Effect.fnUntraced(function* (body: DeleteSecretsBulk, idempotencyKey?: string) {
      const permit = yield* access.environment("secrets:write", body, { audit: "secret.delete" })
      const work = store.change(permit, (env) =>
        Effect.gen(function* () {
          const keys: Array<string> = []
          for (const [i, id] of body.ids.entries()) {
            const meta = env.byId.get(id)
            if (meta === undefined) return yield* new SecretNotFound({ field: `ids.${i}` })
            keys.push(meta.key)
          }
          const state = yield* asStored(env.state(keys))
          const dependents = Composition.dependentsOfAll(state, new Set(keys))
          if (dependents.length > 0) return yield* new SecretHasDependents({ dependents, field: "ids" })
          yield* asStored(env.commit(new Map(keys.map((key) => [key, null]))))
          yield* env.audit(permit.event({ keys }))
          const response: BulkDeleteResult = { deleted: keys.length, ids: body.ids }
          return response
        })
      )
      const request = JSON.stringify([body.projectId, body.environment, body.ids])
      const once = idempotency.once(permit, { key: idempotencyKey, route: "POST /secrets/delete-bulk", request }, work)
      return yield* store.outermost(permit.event(), once)
    })

    return {
      list,
      inject,
      listWithValues,
      readValue,
      diff,
      composition,
      versions,
      listDeleted,
      create,
      createBulk,
      update,
      rollback,
      restore,
      remove,
      deleteBulk
    } as const
  })
}) {}

const textOf = (text: SecretText | undefined): string | null => (text === undefined ? null : Redacted.value(text))

/** What a commit made of one key that it was given. */
export const resultOf = (written: ReadonlyMap<string, Written>, key: string) =>
  Effect.orDie(Effect.fromNullable(written.get(key)))

/** RFC 9110 13.1.2: a list of entity tags, compared weakly; `*` matches whatever there is. */
const matches = (header: string, etag: string): boolean =>
  header.split(",").some((one) => {
    const tag = one.trim().replace(/^W\//, "")
    return tag === "*" || tag === etag
  })

/** A deletion never breaks what was stored well: a problem here means that rows were damaged. */
const asStored = <A, R>(self: Effect.Effect<A, Composition.Problem | TemplateInvalid | RateLimited | BoxAltered, R>) =>
  Effect.mapError(self, (problem) => (problem instanceof BoxAltered ? problem : new BoxAltered({ keys: [] })))

/** Flattened texts are escaped: as written they can be longer than the templates they replace, and meet the limit. */
const asFlattened = <A, R>(
  self: Effect.Effect<A, Composition.Problem | TemplateInvalid | RateLimited | BoxAltered, R>
) =>
  Effect.mapError(self, (problem) =>
    problem instanceof BoxAltered || problem instanceof PlanLimitReached ? problem : new BoxAltered({ keys: [] })
  )
