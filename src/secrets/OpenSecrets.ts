/** Live secrets with their texts, as written or expanded: opened, or from the cached snapshot of their environment. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import { EnvironmentNotFound, IntegrityFailure } from "#schema/Errors.ts"
import type { Representation } from "#schema/Values.ts"
import type { Audit } from "#src/trail/Audit.ts"
import type { DataKeys } from "#src/crypto/DataKeys.ts"
import * as Composition from "./Composition.ts"
import * as SecretBoxes from "./SecretBoxes.ts"
import type { OpenSecret } from "./SecretMetadata.ts"
import type { Read, Snapshots } from "./Snapshots.ts"
import * as ValuePieces from "./ValuePieces.ts"
import * as SecretRows from "./SecretRows.ts"

export interface Openers {
  readonly sql: SqlClient.SqlClient
  readonly dataKeys: DataKeys
  readonly audit: Audit
}

export const open = (
  { audit, dataKeys }: Openers,
  permit: SecretRows.ReadPermit,
  rows: ReadonlyArray<SecretRows.SealedRow>
) => SecretBoxes.recordingRefusals(audit, permit.event(), SecretBoxes.open(dataKeys, permit.target, rows))

/** Rows of one statement: they are decoded without a pause. */
const batch = 1_000

/** All live secrets, sealed. More than one batch is read from one snapshot of the database. */
const sealedRows = Effect.fnUntraced(function* ({ sql }: Openers, permit: SecretRows.ReadPermit) {
  const first = yield* SecretRows.live(sql, permit, "", batch)
  if (first.length === 0) return yield* new EnvironmentNotFound()
  if (first.length < batch) return first
  const all = Effect.gen(function* () {
    yield* sql`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY`
    const rows: Array<(typeof first)[number]> = []
    for (let after = ""; ; after = rows[rows.length - 1].key) {
      const next = yield* SecretRows.live(sql, permit, after, batch)
      for (const row of next) if (row.live) rows.push(row)
      if (next.length < batch) return rows
    }
  })
  const rows = yield* Effect.orDie(sql.withTransaction(all))
  return rows.length === 0 ? yield* new EnvironmentNotFound() : rows
})

/** All values of the environment, and their revision. */
const all = Effect.fnUntraced(function* (
  openers: Openers,
  permit: SecretRows.ReadPermit,
  representation: Representation
) {
  const rows = yield* sealedRows(openers, permit)
  const secrets = yield* open(openers, permit, rows[0].live ? rows : [])
  return { revision: rows[0].revision, values: yield* represent(secrets, representation) }
})

/** Current values of all keys that changed after a revision; undefined when the changes are not known one by one. */
const since = Effect.fnUntraced(function* (
  openers: Openers,
  permit: SecretRows.ReadPermit,
  representation: Representation,
  revision: number
) {
  const rows = yield* SecretRows.since(openers.sql, permit, revision)
  if (rows.length === 0) return yield* new EnvironmentNotFound()
  if (!rows[0].followed) return undefined
  const live = rows.filter((row) => row.live)
  const secrets = yield* open(openers, permit, live)
  const changed = rows.filter((row) => row.changed)
  const texts = yield* represent(secrets, representation, new Set(changed.map(({ changedKey }) => changedKey)))
  const values = new Map<string, string | null>()
  for (const { changedKey } of changed) if (changedKey !== null) values.set(changedKey, texts.get(changedKey) ?? null)
  return { revision: rows[0].revision, values }
})

/** Builds and updates the snapshots of an environment. */
const sourceOf = (openers: Openers, permit: SecretRows.ReadPermit, representation: Representation) => ({
  all: all(openers, permit, representation),
  since: (revision: number) => since(openers, permit, representation, revision)
})

export interface Caches extends Openers {
  readonly snapshots: Snapshots
}

/** All values of an environment, from the cached snapshot where one exists. */
export const values = (needs: Caches, permit: SecretRows.ReadPermit, representation: Representation) => {
  const { environmentId, revision } = permit.target
  const source = sourceOf(needs, permit, representation)
  return needs.snapshots.values(environmentId, revision, representation, source)
}

export const valuesByKey = (needs: Caches, permit: SecretRows.ReadPermit) =>
  Effect.flatMap(
    values(needs, permit, "materialized"),
    Effect.fnUntraced(function* ({ members, revision }) {
      return { revision, values: yield* ValuePieces.values(members) }
    })
  )

/** A page of the live secrets (`keys`); with `expand`, `secrets` also holds what they build on. */
export const page = Effect.fnUntraced(function* (
  openers: Openers,
  permit: SecretRows.ReadPermit,
  { page, pageSize }: { readonly page: number; readonly pageSize: number },
  expand: boolean
) {
  const rows = yield* SecretRows.livePage(openers.sql, permit, pageSize, (page - 1) * pageSize, expand)
  if (rows.length === 0) return yield* new EnvironmentNotFound()
  return {
    revision: rows[0].revision,
    total: rows[0].total,
    keys: rows.filter((row) => row.live && row.shown).map((row) => row.key),
    secrets: yield* open(openers, permit, rows[0].live ? rows : [])
  }
})

/** Secrets by key, as far as they are live; with `expand` also everything that they build on. */
export const named = Effect.fnUntraced(function* (
  openers: Openers,
  permit: SecretRows.ReadPermit,
  keys: ReadonlyArray<string>,
  expand: boolean
) {
  const rows = yield* SecretRows.closure(openers.sql, permit, keys, expand)
  return {
    /** 0: none of the keys is live. */
    revision: rows.length === 0 ? 0 : rows[0].revision,
    secrets: yield* open(openers, permit, rows)
  }
})

/** The keys and versions that the entry of a read names: `keys`, and more where composed values hold others. */
export const readOf = (keys: ReadonlyArray<string>, secrets: ReadonlyArray<OpenSecret>): Read => {
  const versions = new Map(secrets.map(({ key, version }) => [key, version]))
  const keyVersions = keys.map((key) => versions.get(key) ?? 0)
  for (const key of keys) versions.delete(key)
  return {
    keys,
    versions: keyVersions,
    ...(versions.size === 0 ? {} : { contains: Object.fromEntries([...versions].sort()) })
  }
}

/** The entry of many keys names the revision of the environment instead of versions, and stays short. */
export const readAt = (revision: number, keys: ReadonlyArray<string>, secrets: ReadonlyArray<OpenSecret>): Read => {
  const { versions: _, ...read } = readOf(keys, secrets)
  return { ...read, revision }
}

/** Templates that are expanded without a pause. */
const templatesAtOnce = 50

/**
 * The text of each key in the representation, or of those `wanted`, in the order of `secrets`. A stored environment can
 * always be resolved (it was checked when it was written), so a problem here means that its rows do not belong together
 * any more.
 */
export const represent = Effect.fnUntraced(function* (
  secrets: ReadonlyArray<OpenSecret>,
  representation: Representation,
  wanted?: ReadonlySet<string | null>
) {
  const values = new Map<string, string>()
  const state = new Map<string, Composition.Entry>()
  const templates: Array<string> = []
  for (const { key, kind, text } of secrets) {
    if (representation === "materialized") {
      state.set(key, yield* Effect.mapError(Composition.entry(kind, text), () => new IntegrityFailure()))
    }
    if (wanted?.has(key) === false) continue
    values.set(key, text)
    if (representation === "materialized" && kind === "template") templates.push(key)
  }
  for (let i = 0; i < templates.length; i += templatesAtOnce) {
    if (i > 0) yield* SecretBoxes.turn
    const expanded = Composition.resolve(state, templates.slice(i, i + templatesAtOnce))
    for (const [key, text] of yield* Effect.mapError(expanded, () => new IntegrityFailure())) values.set(key, text)
  }
  const all: ReadonlyMap<string, string> = values
  return all
})

/**
 * For each of these keys, where its expanded text holds values of other keys ([start, end) in UTF-16 code units). Keys
 * without such a place are left out.
 */
export const placesOfValues = Effect.fnUntraced(function* (
  secrets: ReadonlyArray<OpenSecret>,
  keys: ReadonlyArray<string>
) {
  const kinds = new Map(secrets.map(({ key, kind }) => [key, kind]))
  const templates = keys.filter((key) => kinds.get(key) === "template")
  const places = new Map<string, ReadonlyArray<Composition.Span>>()
  if (templates.length === 0) return places
  const state = new Map<string, Composition.Entry>()
  for (const { key, kind, text } of secrets) {
    state.set(key, yield* Effect.mapError(Composition.entry(kind, text), () => new IntegrityFailure()))
  }
  for (let i = 0; i < templates.length; i += templatesAtOnce) {
    yield* SecretBoxes.turn
    const spans = Composition.spans(state, templates.slice(i, i + templatesAtOnce))
    for (const [key, within] of yield* Effect.mapError(spans, () => new IntegrityFailure())) places.set(key, within)
  }
  return places
})
