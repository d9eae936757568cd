/** Reads of names and metadata. Nothing here opens a value. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { SecretNotFound } from "#schema/Errors.ts"
import type { SecretId } from "#schema/Ids.ts"
import type {
  DeletedSecretList,
  ListSecretsResponse,
  SecretCompositionGraph,
  SecretVersionList
} from "#schema/SecretResponses.ts"
import type { EnvironmentQuery, ListQuery, PagedQuery } from "#schema/SecretRequests.ts"
import type { Access } from "#src/access/Access.ts"
import type { Exposure } from "#src/trail-use/Exposure.ts"
import type { Audit } from "#src/trail/Audit.ts"
import type { AuditEvent } from "#src/trail/Entry.ts"
import { isResolvable, type KeyGraph } from "./KeyGraph.ts"
import { aboutOf, refOf } from "./SecretMetadata.ts"
import * as SecretRows from "./SecretRows.ts"
import type { Snapshots } from "./Snapshots.ts"

interface Needs {
  readonly access: Access
  readonly audit: Audit
  readonly sql: SqlClient.SqlClient
}

/**
 * Live secrets whose key contains `query` (case does not count), in the order of keys; with the first page of more than
 * one, the groups that they fall into.
 */
export const search = Effect.fnUntraced(function* (
  { access, sql }: Needs,
  at: EnvironmentQuery & { readonly query?: string; readonly page?: number; readonly pageSize?: number }
) {
  const permit = yield* access.environment("secrets:read", at, { audit: "secret.list" })
  const { page = 1, pageSize = 100, query = "" } = at
  const part = query.toUpperCase()
  const { rows, total } = yield* SecretRows.page(sql, permit, part, pageSize, (page - 1) * pageSize)
  const groups = page === 1 && total > rows.length ? yield* SecretRows.groups(sql, permit, part) : undefined
  return { target: permit.target, rows, groups, page, pageSize, total }
})

/** A page of names and metadata. It is the same for all callers, and cached as long as its revision. */
export const listed = Effect.fnUntraced(function* (
  { access, snapshots, sql }: Needs & { readonly snapshots: Snapshots },
  query: PagedQuery
) {
  const permit = yield* access.environment("secrets:read", query, { audit: "secret.list" })
  const { target } = permit
  const { page = 1, pageSize = 100 } = query
  const build = () =>
    Effect.map(SecretRows.page(sql, permit, "", pageSize, (page - 1) * pageSize), ({ revision, rows, total }) => {
      const value: ListSecretsResponse = {
        items: rows.map((row) =>
          Object.assign(refOf(target, row), aboutOf(row), { references: row.refs, updatedBy: row.updatedBy })
        ),
        page,
        pageSize,
        total,
        hasMore: page * pageSize < total
      }
      return { revision, read: { keys: [] }, value }
    })
  return yield* snapshots.get(
    target.environmentId,
    target.revision,
    `names.${target.described}.${page}.${pageSize}`,
    build
  )
})

type ListNeeds = Parameters<typeof listed>[0] & { readonly exposure: Exposure }

/** A page with the last read of each secret, where the query asks for it. */
export const list = Effect.fnUntraced(function* (needs: ListNeeds, { lastRead, ...query }: ListQuery) {
  const page = (yield* listed(needs, query)).value()
  if (lastRead !== "true") return page
  const reads = yield* needs.exposure.lastReads(
    query,
    page.items.map(({ key }) => key)
  )
  const response: ListSecretsResponse = { ...page, items: page.items.map((one) => ({ ...one, ...reads.of(one) })) }
  return response
})

export const composition = Effect.fnUntraced(function* ({ access, sql }: Needs, query: EnvironmentQuery) {
  const permit = yield* access.environment("secrets:read", query, { audit: "secret.composition" })
  const rows = yield* SecretRows.names(sql, permit)
  const response: SecretCompositionGraph = {
    projectId: permit.target.projectId,
    environment: permit.target.slug,
    nodes: rows.map(({ id, key, kind }) => ({ id, key, kind })),
    edges: rows.flatMap((row) => row.refs.map((to) => ({ from: row.key, to })))
  }
  return response
})

export const versions = Effect.fnUntraced(function* ({ access, sql }: Needs, id: SecretId) {
  const permit = yield* access.environmentOfSecret("secrets:read", id, { audit: "secret.history" })
  const rows = yield* SecretRows.versions(sql, permit, id)
  if (rows.length === 0) return yield* new SecretNotFound()
  const response: SecretVersionList = {
    items: rows.map((row) => ({ ...row, createdAt: row.createdAt.toISOString() }))
  }
  return response
})

/** Deleted secrets that can still be restored. */
export const deleted = Effect.fnUntraced(function* ({ access, sql }: Needs, query: EnvironmentQuery) {
  const permit = yield* access.environment("secrets:read", query, { audit: "secret.list_deleted" })
  const rows = yield* SecretRows.deleted(sql, permit, new Date(yield* Clock.currentTimeMillis))
  const response: DeletedSecretList = {
    items: rows.map((row) => ({
      ...refOf(permit.target, row),
      deletedAt: row.deletedAt.toISOString(),
      purgeAt: row.purgeAt.toISOString()
    }))
  }
  return response
})

const graphOf = (sql: SqlClient.SqlClient, permit: SecretRows.ReadPermit) =>
  Effect.map(SecretRows.names(sql, permit), (rows): KeyGraph => new Map(rows.map((row) => [row.key, row.refs])))

/** Which of `keys` exist, and which of those cannot be resolved. */
export const check = Effect.fnUntraced(function* (
  { access, sql }: Needs,
  at: EnvironmentQuery & { readonly keys: ReadonlyArray<string> }
) {
  const permit = yield* access.environment("secrets:read", at, { audit: "secret.list", keys: at.keys })
  const graph = yield* graphOf(sql, permit)
  const present = at.keys.filter((key) => graph.has(key))
  return {
    present,
    missing: at.keys.filter((key) => !graph.has(key)),
    unresolved: present.filter((key) => !isResolvable(graph, key))
  }
})

/** The plan of an injection of `keys` (all when absent). It is recorded, and no value is read. */
export const plan = Effect.fnUntraced(function* (
  { access, audit, sql }: Needs,
  at: EnvironmentQuery & { readonly keys?: ReadonlyArray<string> },
  details: Pick<AuditEvent, "target"> = {}
) {
  const permit = yield* access.environment("secrets:run", at, {
    audit: "secret.plan",
    ...(at.keys === undefined ? {} : { keys: at.keys })
  })
  const graph = yield* graphOf(sql, permit)
  const plannedKeys = at.keys ?? [...graph.keys()]
  const problems = plannedKeys.flatMap((key) => {
    if (!graph.has(key)) return [{ key, reason: "missing" }]
    return isResolvable(graph, key) ? [] : [{ key, reason: "unresolved" }]
  })
  const broken = new Set(problems.map(({ key }) => key))
  const injected = plannedKeys.filter((key) => !broken.has(key))
  yield* audit.record(permit.event({ ...details, keys: injected }))
  return { permit, injected, problems }
})
