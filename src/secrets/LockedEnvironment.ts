/**
 * An environment under the lock of a write, with the rows that the write concerns. For `Commit.ts`, and for the use
 * cases that decide their changes under that lock.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { EnvironmentNotFound, SecretNotFound, SecretVersionConflict } from "#schema/Errors.ts"
import type { SecretId } from "#schema/Ids.ts"
import type { SecretKind } from "#schema/Values.ts"
import { Audit } from "#src/trail/Audit.ts"
import type { EnvironmentPermit } from "#src/access/Permit.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { DataKeys } from "#src/crypto/DataKeys.ts"
import * as Envelope from "#src/crypto/Envelope.ts"
import { RateLimiter } from "#src/limits/RateLimiter.ts"
import * as Composition from "./Composition.ts"
import { Idempotency } from "./Idempotency.ts"
import * as SecretBoxes from "./SecretBoxes.ts"
import * as SecretRowChanges from "./SecretRowChanges.ts"
import * as SecretRows from "./SecretRows.ts"
import { Snapshots } from "./Snapshots.ts"
import * as ValueSource from "./ValueSource.ts"
import type { Write } from "./ValueSource.ts"

export const services = Effect.all({
  sql: SqlClient.SqlClient,
  crypto: Crypto,
  dataKeys: DataKeys,
  cipher: Envelope.ValueCipher,
  audit: Audit,
  limiter: RateLimiter,
  idempotency: Idempotency,
  snapshots: Snapshots
})
export type Needs = Effect.Effect.Success<typeof services>
export type WritePermit = EnvironmentPermit<"secrets:write">

export interface Transaction extends Needs {
  readonly permit: WritePermit
  /**
   * Live secrets that the write concerns: its own keys, the templates that build on them, and all keys that either
   * builds on.
   */
  readonly live: ReadonlyMap<string, SecretRowChanges.LiveRow>
  readonly byId: ReadonlyMap<string, SecretRowChanges.LiveRow>
  /** Keys that the write names, and those that build on them. */
  readonly above: ReadonlyArray<string>
  /** The last version that each of these keys ever had; deleted ones too. */
  readonly lastVersions: ReadonlyMap<string, number>
  /** `live` with its texts, opened at the first use. */
  readonly stored: Effect.Effect<Composition.State, SecretBoxes.BoxAltered>
  readonly facts: SecretRowChanges.Facts
  readonly at: Date
  /** The revision so far in this transaction. */
  revision: number
  /** An approved change of an author without a right to values: comparing it is a guess. */
  readonly withoutValues: boolean
  /** Versions that this transaction gave to keys, for the trail. */
  readonly versions: Map<string, number>
}

/** The secrets that a write names. The keys that texts of `sources` refer to are read with them. */
export interface Naming {
  /** Also the keys that a refusal names in the trail. */
  readonly keys?: ReadonlyArray<string> | undefined
  readonly ids?: ReadonlyArray<SecretId> | undefined
  readonly sources?: ReadonlyArray<ValueSource.ValueSource> | undefined
  readonly withoutValues?: boolean | undefined
}

const entryOf = (kind: SecretKind, key: string, text: string) =>
  Effect.mapError(Composition.entry(kind, text), () => new SecretBoxes.BoxAltered({ keys: [key] }))

export const opened = Effect.fnUntraced(function* (
  { dataKeys }: Needs,
  permit: WritePermit,
  rows: ReadonlyArray<SecretRows.SealedRow>
) {
  const state = new Map<string, Composition.Entry>()
  for (const { key, kind, text } of yield* SecretBoxes.open(dataKeys, permit.target, rows)) {
    state.set(key, yield* entryOf(kind, key, text))
  }
  return state
})

/**
 * Counts the totals and references of the environment. They are missing or old after a write by an earlier release, and
 * when this release writes for the first time.
 */
const recount = Effect.fnUntraced(function* (needs: Needs, permit: WritePermit) {
  const rows = (yield* SecretRows.live(needs.sql, permit)).filter(({ live }) => live)
  const templates = yield* opened(
    needs,
    permit,
    rows.filter(({ kind }) => kind === "template")
  )
  const used = new Set([...templates.values()].flatMap(Composition.referencesOf))
  const bases = yield* opened(
    needs,
    permit,
    rows.filter(({ key, kind }) => kind === "literal" && used.has(key))
  )
  let besides = 0
  for (const { key, sealed } of rows) {
    if (!templates.has(key) && !bases.has(key)) besides += sealed.length - Envelope.overhead
  }
  const totals = Composition.totalsOf(new Map([...templates, ...bases]), { written: besides, expanded: besides })
  yield* SecretRowChanges.listReferences(needs.sql, permit.target)
  yield* SecretRowChanges.setTotals(needs.sql, permit.target, { ...totals, secrets: rows.length })
})

/** Locks the environments of a transaction that writes several, before `begin` of any. */
export const lockAll = ({ sql }: Needs, permits: ReadonlyArray<WritePermit>) =>
  SecretRowChanges.lockAll(
    sql,
    permits.map(({ target }) => target)
  )

/** Locks the environment until the transaction ends, and reads what the write concerns. */
export const begin = Effect.fnUntraced(function* (needs: Needs, permit: WritePermit, naming: Naming) {
  const { audit, sql } = needs
  const { ids = [], keys = [], sources = [] } = naming
  const named = { ids, keys, mentions: ValueSource.references(sources) }
  const read = Effect.flatMap(
    Effect.suspend(() => SecretRowChanges.lock(sql, permit.target, named, audit.freeHead())),
    (row) => (row === undefined ? new EnvironmentNotFound() : Effect.succeed(row))
  )
  let concerned = yield* read
  if (!concerned.facts.current) concerned = yield* read
  if (!concerned.facts.counted) {
    yield* recount(needs, permit)
    concerned = yield* read
  }
  const { facts, rows } = concerned
  const live = rows.filter((row) => row.live)
  // Member by member, as all that is made for each request (docs/architecture.md, "No request makes a hidden class").
  const transaction: Transaction = {
    sql,
    crypto: needs.crypto,
    dataKeys: needs.dataKeys,
    cipher: needs.cipher,
    audit,
    limiter: needs.limiter,
    idempotency: needs.idempotency,
    snapshots: needs.snapshots,
    permit,
    live: new Map(live.map((row) => [row.key, row])),
    byId: new Map(live.map((row) => [row.id, row])),
    above: rows.flatMap(({ above, key }) => (above ? [key] : [])),
    lastVersions: new Map(rows.map(({ key, lastVersion }) => [key, lastVersion ?? 0])),
    stored: live.length === 0 ? Effect.succeed(new Map()) : yield* Effect.cached(opened(needs, permit, live)),
    facts,
    at: new Date(yield* Clock.currentTimeMillis),
    revision: facts.revision,
    withoutValues: naming.withoutValues ?? false,
    versions: new Map()
  }
  return transaction
})

/** For look-ups of versions that need no lock. */
export interface Opening extends Pick<Transaction, "at" | "dataKeys" | "permit" | "sql"> {}

/** Text, kind and pin of an earlier version of a live or deleted secret; undefined when it has no such version. */
export const earlierVersion = Effect.fnUntraced(function* (
  { dataKeys, permit, sql }: Opening,
  at: { readonly id: SecretId; readonly version: number }
) {
  const rows = yield* SecretRows.sealedVersion(sql, permit, at.id, at.version)
  if (rows.length === 0) return undefined
  const [{ kind, text }] = yield* SecretBoxes.open(dataKeys, permit.target, rows)
  const write: Write = { kind, pinned: rows[0].pinned, text, from: "stored" }
  return write
})

export const deletedSecret = ({ at, permit, sql }: Opening, id: SecretId) =>
  SecretRows.deletedSecret(sql, permit, id, at)

// --- secrets by id ---

export const liveSecret = ({ byId }: Transaction, id: SecretId) =>
  Effect.mapError(Effect.fromNullable(byId.get(id)), () => new SecretNotFound())

/** A live secret by id, at the version that the caller expects. */
export const expectedSecret = Effect.fnUntraced(function* (
  transaction: Transaction,
  id: SecretId,
  expectedVersion: number | undefined
) {
  const secret = yield* liveSecret(transaction, id)
  if (expectedVersion === undefined || expectedVersion === secret.version) return secret
  return yield* new SecretVersionConflict({ currentVersion: secret.version, field: "expectedVersion" })
})
