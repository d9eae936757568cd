/**
 * Injection: the values of an environment for a process (docs/contract/secrets.md, "Bound reads"). A plan or a list of
 * keys bounds it: only those are opened, recorded and answered.
 */
import { createHash } from "node:crypto"
import * as Effect from "effect/Effect"
import { SecretNotFound, ValidationFailed } from "#schema/Errors.ts"
import type { InjectQuery } from "#schema/SecretRequests.ts"
import type { InjectedSecrets } from "#schema/SecretResponses.ts"
import type { Representation } from "#schema/Values.ts"
import type { EnvironmentPermit } from "#src/access/Permit.ts"
import * as OpenSecrets from "./OpenSecrets.ts"
import { openPage, type Paging, type ReadNeeds, reveal, snapshotOf } from "./RecordedReads.ts"
import { begun, boundOf } from "./RunPlans.ts"
import type { CachedRead, OpenedValues } from "./Snapshots.ts"

type Injected = Omit<InjectedSecrets, "values" | "revision">

/** The same text as `JSON.stringify` of `InjectedSecrets`, around values that are JSON already. */
const injectedBytes = (injected: Injected, { members, revision }: OpenedValues) => {
  const { environment, hasMore, page, pageSize, projectId, representation, total } = injected
  const before = JSON.stringify({ projectId, environment, representation }).slice(0, -1)
  const after = JSON.stringify({ page, pageSize, total, hasMore, revision }).slice(1)
  const parts = members.flatMap((piece, i) => (i === 0 ? [piece] : [Buffer.from(","), piece]))
  return Buffer.concat([Buffer.from(`${before},"values":{`), ...parts, Buffer.from(`},${after}`)])
}

const injectedWhole = Effect.fnUntraced(function* (
  needs: ReadNeeds,
  permit: EnvironmentPermit<"secrets:run">,
  representation: Representation
) {
  const opened = yield* OpenSecrets.values(needs, permit, representation)
  const total = opened.keys.length
  const { projectId, slug: environment } = permit.target
  const injected = { projectId, environment, representation, page: 1, pageSize: total, total, hasMore: false }
  const bytes = injectedBytes(injected, opened)
  const answer: CachedRead<InjectedSecrets> = {
    revision: opened.revision,
    read: { keys: opened.keys, revision: opened.revision },
    bytes,
    // The members above are those of the type, with keys and texts as values.
    value: () => JSON.parse(bytes.toString()) as InjectedSecrets
  }
  return answer
})

const injectedPage = Effect.fnUntraced(function* (
  needs: ReadNeeds,
  permit: EnvironmentPermit<"secrets:run">,
  representation: Representation,
  paging: Paging
) {
  const { keys, paged, read, revision, texts } = yield* openPage(needs, permit, representation, paging)
  const value: InjectedSecrets = {
    projectId: permit.target.projectId,
    environment: permit.target.slug,
    representation,
    values: Object.fromEntries(keys.map((key) => [key, texts.get(key) ?? ""])),
    ...paged,
    revision
  }
  return { revision, read, value }
})

/** These keys alone, and where their values hold values of other keys. One that is not live: SECRET_NOT_FOUND. */
const injectedKeys = Effect.fnUntraced(function* (
  needs: ReadNeeds,
  permit: EnvironmentPermit<"secrets:run">,
  representation: Representation,
  keys: ReadonlyArray<string>
) {
  const expanded = representation === "materialized"
  const { revision, secrets } = yield* OpenSecrets.named(needs, permit, keys, expanded)
  const live = new Set(secrets.map(({ key }) => key))
  if (!keys.every((key) => live.has(key))) return yield* new SecretNotFound({ field: "keys" })
  const texts = yield* OpenSecrets.represent(secrets, representation, new Set(keys))
  const places = expanded ? yield* OpenSecrets.placesOfValues(secrets, keys) : new Map<string, never>()
  const total = keys.length
  const value: InjectedSecrets = {
    projectId: permit.target.projectId,
    environment: permit.target.slug,
    representation,
    values: Object.fromEntries(keys.map((key) => [key, texts.get(key) ?? ""])),
    page: 1,
    pageSize: total,
    total,
    hasMore: false,
    revision,
    ...(places.size === 0 ? {} : { contained: Object.fromEntries(places) })
  }
  return { revision, read: OpenSecrets.readOf(keys, secrets), value }
})

/** The part of an environment that a query asks for. */
type Part =
  | { readonly _tag: "whole" }
  | ({ readonly _tag: "page" } & Paging)
  | { readonly _tag: "keys"; readonly keys: ReadonlyArray<string> }

const partOf = ({ keys, page, pageSize }: InjectQuery): Part => {
  if (keys !== undefined) return { _tag: "keys", keys: [...keys].sort() }
  if (page === undefined && pageSize === undefined) return { _tag: "whole" }
  return { _tag: "page", page: page ?? 1, pageSize: pageSize ?? 100 }
}

/** Name of the part in an ETag and in the cache. A list of keys is hashed, since it may have 128,000 characters. */
const nameOf = (part: Part): string => {
  switch (part._tag) {
    case "whole":
      return ""
    case "page":
      return `.${part.page}.${part.pageSize}`
    case "keys":
      return `.${createHash("sha256").update(part.keys.join(",")).digest("base64url")}`
  }
}

const read = (
  needs: ReadNeeds,
  permit: EnvironmentPermit<"secrets:run">,
  representation: Representation,
  part: Part
) => {
  const name = `inject.${representation}${nameOf(part)}`
  switch (part._tag) {
    case "whole":
      return injectedWhole(needs, permit, representation)
    case "page":
      return snapshotOf(needs, permit, name, () => injectedPage(needs, permit, representation, part))
    case "keys":
      return snapshotOf(needs, permit, name, () => injectedKeys(needs, permit, representation, part.keys))
  }
}

const notPaged = new ValidationFailed({ field: "page", message: "must not be given together with keys or plan" })

/** `undefined` as answer: the ETag of the caller still holds. No value was read, so nothing is recorded. */
export const inject = Effect.fnUntraced(function* (needs: ReadNeeds, query: InjectQuery, ifNoneMatch?: string) {
  const { plan, representation = "materialized" } = query
  const intent = { audit: "secret.inject", ...(query.keys === undefined ? {} : { keys: query.keys }) } as const
  const permit = yield* needs.access.environment("secrets:run", query, intent)
  if ((query.keys !== undefined || plan !== undefined) && (query.page !== undefined || query.pageSize !== undefined)) {
    return yield* notPaged
  }
  const bound = plan === undefined ? query : yield* boundOf(needs, permit, query, plan)
  const part = partOf(bound)
  const form = `${representation}${nameOf(part)}`
  const etag = (revision: number) => `"${permit.target.environmentId}.${revision}.${form}"`
  if (ifNoneMatch !== undefined && matches(ifNoneMatch, etag(permit.target.revision))) {
    return { etag: etag(permit.target.revision), answer: undefined }
  }
  const opened = yield* read(needs, permit, representation, part)
  const target = plan === undefined ? undefined : yield* begun(needs, permit, query, plan)
  const answer = yield* reveal(needs, permit, opened, target)
  return { etag: etag(answer.revision), answer }
})

/** RFC 9110 13.1.2: a list of entity tags, compared weakly; `*` matches any. */
const matches = (header: string, etag: string): boolean =>
  header.split(",").some((one) => {
    const tag = one.trim().replace(/^W\//, "")
    return tag === "*" || tag === etag
  })
