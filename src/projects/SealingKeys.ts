/**
 * Sealing keys: one HPKE keypair per environment, whose private half the vault wraps (docs/contract/sealed-values.md).
 * Anyone with the public half can seal. Values are opened here, all or nothing, and recorded before one leaves.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import {
  EnvironmentNotFound,
  IntegrityFailure,
  SealedValueInvalid,
  SealingKeyExpired,
  SealingKeyNotFound,
  ValidationFailed
} from "#schema/Errors.ts"
import type { EnvironmentId } from "#schema/Ids.ts"
import type { EnvironmentKeypair, OpenedSealedValues, OpenSealedValues } from "#schema/SealedApi.ts"
import type { EnvironmentQuery } from "#schema/SecretRequests.ts"
import { secretKeyPattern } from "#schema/Values.ts"
import type { KeyContext } from "#schema/Vault.ts"
import { Access } from "#src/access/Access.ts"
import { Audit } from "#src/trail/Audit.ts"
import { change } from "#src/access/Change.ts"
import { dieWhenVaultIsDown } from "#src/database/Dependency.ts"
import type { EnvironmentPermit } from "#src/access/Permit.ts"
import type { EnvironmentTarget } from "#src/access/Target.ts"
import * as Policy from "#src/access/Policy.ts"
import * as AllowedKeys from "#src/formats/AllowedKeys.ts"
import { Crypto, safeEqual } from "#src/crypto/Crypto.ts"
import * as BoundKeys from "#src/crypto/BoundKeys.ts"
import * as Instance from "#src/crypto/Instance.ts"
import { ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import { inTime, Vault } from "#src/crypto/Vault.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"
import * as Hpke from "#src/sealed/Hpke.ts"
import * as SealedEnv from "#src/sealed/SealedEnv.ts"

const services = Effect.all({
  access: Access,
  sql: SqlClient.SqlClient,
  vault: Vault,
  crypto: Crypto,
  audit: Audit,
  serviceKeys: ServiceKeys,
  /** Public keys verified against their private half, by environment and key id. */
  verifiedKeys: Effect.sync(() => new Map<string, Uint8Array>())
})
type Needs = Effect.Effect.Success<typeof services>

const KeyRow = Schema.Struct({
  keyId: Schema.String,
  publicKey: Schema.Uint8ArrayFromSelf,
  bound: Schema.Boolean,
  rootKeyId: Schema.String,
  wrappedPrivate: Schema.Uint8ArrayFromSelf,
  state: Schema.Literal("active", "open_only", "retired"),
  createdAt: Rows.Iso
})
type KeyRow = typeof KeyRow.Type

const maxNameLength = 255
const maxListed = 500

/** A variable's name has the grammar of a secret key. */
const isName = (name: string): boolean => name.length <= maxNameLength && secretKeyPattern.test(name)

/** Names that the trail may show: other keys are arbitrary text of a request. */
export const namesOf = (entries: OpenSealedValues["entries"]): ReadonlyArray<string> =>
  Object.keys(entries).filter(isName)

const maxField = 300
const invalidEntry = (name: string) =>
  new SealedValueInvalid({ field: `entries.${name}`.slice(0, maxField).toWellFormed() })

/** Most verified public keys in memory; the oldest is dropped first. */
const maxVerifiedKeys = 10_000

const contextOf = (target: EnvironmentTarget, keyId: string, instance: string | undefined): KeyContext => ({
  purpose: "sealing-key",
  teamId: target.teamId,
  projectId: target.projectId,
  environmentId: target.environmentId,
  keyId: Instance.keyIdIn(keyId, instance)
})

const recordOf = (target: EnvironmentTarget, row: KeyRow): EnvironmentKeypair => ({
  environmentId: target.environmentId,
  keyId: row.keyId,
  publicKey: SealedEnv.printPublicKey(row.publicKey),
  algorithm: Hpke.algorithm,
  createdAt: row.createdAt
})

const columns = (sql: SqlClient.SqlClient) =>
  sql.literal("key_id, public_key, bound, root_key_id, wrapped_private, state, created_at")

const activeKey = ({ sql }: Needs, { environmentId }: EnvironmentTarget) =>
  Rows.findOne(
    KeyRow,
    sql`SELECT ${columns(sql)} FROM sealing_keys WHERE environment_id = ${environmentId} AND state = 'active'`
  )

const keyWithId = ({ sql }: Needs, { environmentId }: EnvironmentTarget, keyId: string) =>
  Rows.findOne(
    KeyRow,
    sql`SELECT ${columns(sql)} FROM sealing_keys WHERE environment_id = ${environmentId} AND key_id = ${keyId}`
  )

/** A keypair without a row. The bytes of its private half are erased once it is wrapped. */
const generate = Effect.fnUntraced(function* ({ crypto, serviceKeys, sql, vault }: Needs, target: EnvironmentTarget) {
  const seed = yield* crypto.randomBytes(Hpke.keyLength)
  const pair = yield* Hpke.deriveKeyPair(Redacted.make(seed))
  const keyId = SealedEnv.keyIdOf(pair.publicKey)
  const instance = yield* dieWhenVaultIsDown(BoundKeys.forNewKey(serviceKeys, sql))
  const { rootKeyId, wrapped } = yield* dieWhenVaultIsDown(
    inTime(vault.wrapBytes(contextOf(target, keyId, instance), pair.privateKey))
  )
  seed.fill(0)
  Redacted.value(pair.privateKey).fill(0)
  return {
    keyId,
    bound: instance !== undefined,
    publicKey: Buffer.from(pair.publicKey),
    rootKeyId,
    wrapped: Buffer.from(wrapped)
  }
})
type NewKey = Effect.Effect.Success<ReturnType<typeof generate>>

/** Locks the environment, so that it always has exactly one active key after its first. */
const lock = Effect.fnUntraced(function* ({ sql }: Needs, { environmentId }: EnvironmentTarget) {
  const isLive = yield* Rows.exists(sql`
    SELECT 1 FROM environments WHERE id = ${environmentId} AND deleted_at IS NULL FOR NO KEY UPDATE`)
  if (!isLive) return yield* new EnvironmentNotFound()
})

const insert = Effect.fnUntraced(function* ({ sql }: Needs, { environmentId }: EnvironmentTarget, key: NewKey) {
  // Ids are 32 bits of a digest. A collision within the environment fails here, and the next request creates another
  // key.
  const row = yield* Rows.findOne(
    KeyRow,
    sql`
      INSERT INTO sealing_keys (
        environment_id, key_id, public_key, bound, root_key_id, wrapped_private, state, created_at)
      VALUES (${environmentId}, ${key.keyId}, ${key.publicKey}, ${key.bound}, ${key.rootKeyId}, ${key.wrapped}, 'active',
        ${yield* DateTime.nowAsDate})
      ON CONFLICT (environment_id, key_id) DO NOTHING
      RETURNING ${columns(sql)}`
  )
  return row ?? (yield* Effect.dieMessage("a new sealing key has the id of an older one"))
})

const eventAbout = (permit: EnvironmentPermit<"sealing-keys:manage">, keyId: string) =>
  permit.event({ target: { type: "sealing_key", id: keyId, name: keyId } })

/** Names or use of values: neither asks for more than the public half tells. */
type KeyPermit = EnvironmentPermit<"secrets:read"> | EnvironmentPermit<"secrets:run">

/** Creates the first key of an environment at its first request; of two simultaneous requests, one creates it. */
const create = Effect.fnUntraced(function* (needs: Needs, permit: KeyPermit) {
  const key = yield* generate(needs, permit.target)
  return yield* change(needs, permit.event(), function* () {
    yield* lock(needs, permit.target)
    const existing = yield* activeKey(needs, permit.target)
    if (existing !== undefined) return existing
    const row = yield* insert(needs, permit.target, key)
    yield* needs.audit.append(
      permit.event({ audit: "sealing_key.create", target: { type: "sealing_key", id: row.keyId, name: row.keyId } })
    )
    return row
  })
})

const openerOf = Effect.fnUntraced(function* ({ serviceKeys, vault }: Needs, target: EnvironmentTarget, row: KeyRow) {
  const instance = yield* dieWhenVaultIsDown(BoundKeys.ofStoredKey(serviceKeys, row.bound))
  const privateKey = yield* dieWhenVaultIsDown(
    inTime(vault.unwrapBytes(contextOf(target, row.keyId, instance), row.wrappedPrivate, row.rootKeyId))
  )
  const opener = Effect.gen(function* () {
    const publicKey = yield* Hpke.publicKeyOf(privateKey)
    // The wrapping authenticates the private half; this check finds a replaced public half.
    if (!safeEqual(publicKey, row.publicKey) || SealedEnv.keyIdOf(publicKey) !== row.keyId) {
      return yield* new IntegrityFailure()
    }
    return yield* SealedEnv.opener(target.environmentId, { publicKey, privateKey })
  })
  return yield* opener.pipe(
    Effect.catchTag("SealingKeyInvalid", () => new IntegrityFailure()),
    Effect.ensuring(Effect.sync(() => Redacted.value(privateKey).fill(0)))
  )
})

/**
 * Verifies a public key with the vault, once per process, before it leaves. Otherwise a writer of the database could
 * have secrets sealed to their own key.
 */
const verifyKey = Effect.fnUntraced(function* (needs: Needs, target: EnvironmentTarget, row: KeyRow) {
  const { verifiedKeys } = needs
  const name = `${target.environmentId}/${row.keyId}`
  const verified = verifiedKeys.get(name)
  if (verified !== undefined && safeEqual(verified, row.publicKey)) return row
  yield* openerOf(needs, target, row)
  verifiedKeys.set(name, row.publicKey)
  for (const oldest of verifiedKeys.keys()) {
    if (verifiedKeys.size <= maxVerifiedKeys) break
    verifiedKeys.delete(oldest)
  }
  return row
})

/** The public half of the active key, which a caller with this permit may seal to. */
const publicKeyOf = Effect.fnUntraced(function* (needs: Needs, permit: KeyPermit) {
  const row = (yield* activeKey(needs, permit.target)) ?? (yield* create(needs, permit))
  return recordOf(permit.target, yield* verifyKey(needs, permit.target, row))
})

/** The public half of the active key. */
const keypair = Effect.fn("SealingKeys.keypair")(function* (needs: Needs, environmentId: EnvironmentId) {
  const intent = { audit: "sealing_key.read" } as const
  return yield* publicKeyOf(needs, yield* needs.access.environmentWithId("secrets:read", environmentId, intent))
})

/** The same for an environment named by project and slug. */
const keypairIn = Effect.fn("SealingKeys.keypairIn")(function* (needs: Needs, at: EnvironmentQuery) {
  const intent = { audit: "sealing_key.read" } as const
  return yield* publicKeyOf(needs, yield* needs.access.environment("secrets:read", at, intent))
})

/** The key of a file, and the newer key that should seal it from now on. */
const keyOfFile = Effect.fnUntraced(function* (needs: Needs, target: EnvironmentTarget, keyId: string) {
  const row = yield* keyWithId(needs, target, keyId)
  if (row === undefined) return yield* new SealingKeyNotFound()
  if (row.state === "retired") return yield* new SealingKeyExpired()
  const newer = row.state === "active" ? undefined : yield* activeKey(needs, target)
  return { row, newer }
})

const openEntries = Effect.fnUntraced(function* (
  needs: Needs,
  { caller, target }: EnvironmentPermit<"secrets:run">,
  row: KeyRow,
  entries: OpenSealedValues["entries"]
) {
  const allowed = Policy.teamOf(caller, target.teamId)?.allowedKeys ?? null
  for (const name of Object.keys(entries)) {
    if (name === SealedEnv.manifestName) continue
    if (!isName(name)) return yield* invalidEntry(name)
    // Anyone with the public key can seal a value under any name, so the team's list holds for a file too.
    if (allowed !== null && !AllowedKeys.allows(allowed, name)) {
      return yield* new ValidationFailed({ field: `entries.${name}`, message: AllowedKeys.refusalOf(name) })
    }
  }
  const opener = yield* openerOf(needs, target, row)
  return yield* SealedEnv.openAll(opener, new Map(Object.entries(entries))).pipe(
    Effect.catchTag("SealedEntryRefused", ({ name }) => invalidEntry(name))
  )
})

const PartRow = Schema.Struct({ key: Schema.String })

/** Most secrets of an environment, hence of the parts of its values. */
const maxParts = 5_000

/** Secrets that the values of these keys may be composed of, by any kept version: a file can be old. */
const partsOf = ({ sql }: Needs, { environmentId }: EnvironmentTarget, keys: ReadonlyArray<string>) =>
  Rows.findAll(
    PartRow,
    sql`
      WITH RECURSIVE needed (key) AS (
        SELECT unnest(${keys}::text[]) COLLATE "C"
        UNION
        SELECT unnest(v.refs) COLLATE "C" FROM needed n
        JOIN secrets s ON s.environment_id = ${environmentId} AND s.key = n.key
        JOIN secret_versions v ON v.secret_id = s.id
      )
      SELECT key FROM needed WHERE key <> ALL(${keys}::text[]) ORDER BY key LIMIT ${maxParts}`
  )

/** Values by name, all or nothing: the first invalid entry is in the error's field. */
const openFile = Effect.fnUntraced(function* (
  needs: Needs,
  permit: EnvironmentPermit<"secrets:run">,
  { entries, keyId }: OpenSealedValues
) {
  const { target } = permit
  const { newer, row } = yield* keyOfFile(needs, target, keyId)
  const values = yield* Effect.tapError(openEntries(needs, permit, row, entries), (error) =>
    // Records the refusal of a file with its names, like an opening.
    needs.audit.record({ ...permit.event({ keys: namesOf(entries) }), outcome: "denied", reason: error._tag })
  )
  const active = newer === undefined ? undefined : yield* verifyKey(needs, target, newer)
  const keys = [...values.keys()]
  // The entry has no versions, 0 for parts: only the person who sealed the file knows them.
  const contains = Object.fromEntries((yield* partsOf(needs, target, keys)).map(({ key }) => [key, 0]))
  yield* needs.audit.record(permit.event({ keys, contains, revision: target.revision }))
  const response: OpenedSealedValues = {
    keyId,
    values: Object.fromEntries([...values].map(([name, value]) => [name, Redacted.value(value)])),
    ...(active === undefined
      ? {}
      : { activeKey: { keyId: active.keyId, publicKey: SealedEnv.printPublicKey(active.publicKey) } })
  }
  return response
})

const open = Effect.fn("SealingKeys.open")(function* (
  needs: Needs,
  environmentId: EnvironmentId,
  file: OpenSealedValues
) {
  const intent = { audit: "sealed.open", keys: namesOf(file.entries) } as const
  return yield* openFile(needs, yield* needs.access.environmentWithId("secrets:run", environmentId, intent), file)
})

/** The same in an environment named by project and slug. */
const openIn = Effect.fn("SealingKeys.openIn")(function* (needs: Needs, at: EnvironmentQuery, file: OpenSealedValues) {
  const intent = { audit: "sealed.open", keys: namesOf(file.entries) } as const
  return yield* openFile(needs, yield* needs.access.environment("secrets:run", at, intent), file)
})

/** Creates a new active key; the old private half stays for opening. */
const rotate = Effect.fn("SealingKeys.rotate")(function* (needs: Needs, environmentId: EnvironmentId) {
  const { access, audit, sql } = needs
  const intent = { audit: "sealing_key.rotate" } as const
  const permit = yield* access.environmentWithId("sealing-keys:manage", environmentId, intent)
  const { target } = permit
  const key = yield* generate(needs, target)
  const event = eventAbout(permit, key.keyId)
  return yield* change(needs, event, function* () {
    yield* lock(needs, target)
    yield* Rows.run(sql`
        UPDATE sealing_keys SET state = 'open_only' WHERE environment_id = ${environmentId} AND state = 'active'`)
    const row = yield* insert(needs, target, key)
    yield* audit.append(event)
    return recordOf(target, row)
  })
})

/** Retires a key: files sealed with it are refused from the commit on. The active key cannot be retired. */
const retire = Effect.fn("SealingKeys.retire")(function* (needs: Needs, environmentId: EnvironmentId, keyId: string) {
  const { access, audit, sql } = needs
  const intent = { audit: "sealing_key.retire" } as const
  const permit = yield* access.environmentWithId("sealing-keys:manage", environmentId, intent)
  const { target } = permit
  const event = eventAbout(permit, keyId)
  return yield* change(needs, event, function* () {
    yield* lock(needs, target)
    const row = yield* keyWithId(needs, target, keyId)
    if (row === undefined) return yield* new SealingKeyNotFound()
    if (row.state === "active") {
      return yield* new ValidationFailed({
        field: "keyId",
        message: "The active key cannot be retired. Rotate first."
      })
    }
    if (row.state === "open_only") {
      yield* Rows.run(sql`
          UPDATE sealing_keys SET state = 'retired', retired_at = ${yield* DateTime.nowAsDate}
          WHERE environment_id = ${environmentId} AND key_id = ${keyId}`)
      yield* audit.append(event)
    }
    return recordOf(target, row)
  })
})

/** All keys of the environment, newest first, with their states. */
const list = Effect.fn("SealingKeys.list")(function* ({ access, sql }: Needs, environmentId: EnvironmentId) {
  const intent = { audit: "sealing_key.read" } as const
  const { target } = yield* access.environmentWithId("secrets:read", environmentId, intent)
  const rows = yield* Rows.findAll(
    KeyRow,
    sql`
      SELECT ${columns(sql)} FROM sealing_keys WHERE environment_id = ${environmentId}
      ORDER BY created_at DESC, key_id LIMIT ${maxListed}`
  )
  return rows.map((row) => ({ ...recordOf(target, row), state: row.state }))
})

export class SealingKeys extends Effect.Service<SealingKeys>()("projects/SealingKeys", {
  effect: Effect.map(services, (needs) =>
    methods(needs, { keypair, keypairIn, list, open, openIn, publicKeyOf, rotate, retire })
  )
}) {}
