/**
 * Sealing keys: one HPKE keypair per environment, its private half wrapped by the vault (decisions 5). Whoever has the
 * public half seals; opening happens here, all or nothing, and is on record before a value leaves.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import {
  EnvironmentNotFound,
  IntegrityFailure,
  SealedValueInvalid,
  SealingKeyExpired,
  SealingKeyNotFound,
  ValidationFailed
} from "#schema/Errors.ts"
import type { EnvironmentKeypair, OpenedSealedValues, OpenSealedValues } from "#schema/SealedApi.ts"
import { secretKeyPattern } from "#schema/Values.ts"
import type { KeyContext } from "#schema/Vault.ts"
import { Audit } from "#src/access/Audit.ts"
import { change } from "#src/access/Change.ts"
import { dieWhenVaultIsDown } from "#src/access/Dependency.ts"
import type { EnvironmentPermit } from "#src/access/Permit.ts"
import type { EnvironmentTarget } from "#src/access/Target.ts"
import { Crypto, safeEqual } from "#src/crypto/Crypto.ts"
import { inTime, Vault } from "#src/crypto/Vault.ts"
import * as Hpke from "#src/sealed/Hpke.ts"
import * as SealedEnv from "#src/sealed/SealedEnv.ts"

interface KeyRow {
  readonly keyId: string
  readonly publicKey: Buffer
  readonly rootKeyId: string
  readonly wrappedPrivate: Buffer
  readonly state: "active" | "open_only" | "retired"
  readonly createdAt: Date
}

const maxNameLength = 255
const maxListed = 500

/** A variable's name has the grammar of a secret key, whatever its place in a file. */
const isName = (name: string): boolean => name.length <= maxNameLength && secretKeyPattern.test(name)

/** The names that the trail may show: what is no name is text of a request. */
export const namesOf = (entries: OpenSealedValues["entries"]): ReadonlyArray<string> =>
  Object.keys(entries).filter(isName)

const maxField = 300
const refused = (name: string) => new SealedValueInvalid({ field: `entries.${name}`.slice(0, maxField).toWellFormed() })

/** Public keys whose private half was seen to belong to them; beyond this many the oldest is looked at again. */
const capacity = 10_000

export class SealingKeys extends Effect.Service<SealingKeys>()("projects/SealingKeys", {
  effect: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const vault = yield* Vault
    const crypto = yield* Crypto
    const audit = yield* Audit
    const services = { sql, audit }

    const contextOf = (target: EnvironmentTarget, keyId: string): KeyContext => ({
      purpose: "sealing-key",
      teamId: target.teamId,
      projectId: target.projectId,
      environmentId: target.environmentId,
      keyId
    })

    const recordOf = (target: EnvironmentTarget, row: KeyRow): EnvironmentKeypair => ({
      environmentId: target.environmentId,
      keyId: row.keyId,
      publicKey: SealedEnv.printPublicKey(row.publicKey),
      algorithm: Hpke.algorithm,
      createdAt: row.createdAt.toISOString()
    })

    const columns = sql.literal("key_id, public_key, root_key_id, wrapped_private, state, created_at")
    const activeKey = (target: EnvironmentTarget) =>
      Effect.map(
        sql<KeyRow>`
          SELECT ${columns} FROM sealing_keys WHERE environment_id = ${target.environmentId} AND state = 'active'`,
        (rows): KeyRow | undefined => rows[0]
      )
    const keyWithId = (target: EnvironmentTarget, keyId: string) =>
      Effect.map(
        sql<KeyRow>`
          SELECT ${columns} FROM sealing_keys WHERE environment_id = ${target.environmentId} AND key_id = ${keyId}`,
        (rows): KeyRow | undefined => rows[0]
      )

    /** A keypair that no row has yet. The bytes of its private half are gone when it is wrapped. */
    const generate = Effect.fnUntraced(function* (target: EnvironmentTarget) {
      const seed = yield* crypto.randomBytes(Hpke.keyLength)
      const pair = yield* Hpke.deriveKeyPair(Redacted.make(seed))
      const keyId = SealedEnv.keyIdOf(pair.publicKey)
      const { rootKeyId, wrapped } = yield* dieWhenVaultIsDown(
        inTime(vault.wrapBytes(contextOf(target, keyId), pair.privateKey))
      )
      seed.fill(0)
      Redacted.value(pair.privateKey).fill(0)
      return { keyId, publicKey: Buffer.from(pair.publicKey), rootKeyId, wrapped: Buffer.from(wrapped) }
    })

    /** Under this lock an environment has one active key before and after, whoever else makes or rotates one. */
    const lock = Effect.fnUntraced(function* (target: EnvironmentTarget) {
      const found = yield* sql`
        SELECT 1 FROM environments WHERE id = ${target.environmentId} AND deleted_at IS NULL FOR NO KEY UPDATE`
      if (found.length === 0) return yield* new EnvironmentNotFound()
    })

    const insert = Effect.fnUntraced(function* (
      target: EnvironmentTarget,
      made: Effect.Effect.Success<ReturnType<typeof generate>>
    ) {
      // Ids are 32 bits of a digest: one that the environment had before is refused here, and the next request makes another.
      const rows = yield* sql<KeyRow>`
        INSERT INTO sealing_keys (environment_id, key_id, public_key, root_key_id, wrapped_private, state, created_at)
        VALUES (${target.environmentId}, ${made.keyId}, ${made.publicKey}, ${made.rootKeyId}, ${made.wrapped}, 'active',
          ${yield* DateTime.nowAsDate})
        ON CONFLICT (environment_id, key_id) DO NOTHING
        RETURNING ${columns}`
      return rows.at(0) ?? (yield* Effect.dieMessage("a new sealing key has the id of an older one"))
    })

    /** Made on first use; of two that ask first at once, one makes it. */
    const create = (permit: EnvironmentPermit<"secrets:read">) =>
      Effect.flatMap(generate(permit.target), (made) =>
        change(
          services,
          permit.event(),
          Effect.gen(function* () {
            yield* lock(permit.target)
            const found = yield* activeKey(permit.target)
            if (found !== undefined) return found
            const row = yield* insert(permit.target, made)
            yield* audit.append(
              permit.event({
                audit: "sealing_key.create",
                target: { type: "sealing_key", id: row.keyId, name: row.keyId }
              })
            )
            return row
          })
        )
      )

    const openerOf = Effect.fnUntraced(function* (target: EnvironmentTarget, row: KeyRow) {
      const privateKey = yield* dieWhenVaultIsDown(
        inTime(vault.unwrapBytes(contextOf(target, row.keyId), row.wrappedPrivate, row.rootKeyId))
      )
      const opener = Effect.gen(function* () {
        const publicKey = yield* Hpke.publicKeyOf(privateKey)
        // The wrapping authenticates the private half; a public half that was put in its place is found here.
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

    const known = new Map<string, Buffer>()
    /**
     * A public key leaves only when the vault vouches for it, once per process: whoever can write to the database could
     * else have secrets sealed to a key of their own.
     */
    const vouched = Effect.fnUntraced(function* (target: EnvironmentTarget, row: KeyRow) {
      const name = `${target.environmentId}/${row.keyId}`
      const seen = known.get(name)
      if (seen !== undefined && safeEqual(seen, row.publicKey)) return row
      yield* openerOf(target, row)
      known.set(name, row.publicKey)
      for (const oldest of known.keys()) {
        if (known.size <= capacity) break
        known.delete(oldest)
      }
      return row
    })

    /** The public half of the active key. */
    const keypair = Effect.fn("SealingKeys.keypair")(function* (permit: EnvironmentPermit<"secrets:read">) {
      const row = (yield* Effect.orDie(activeKey(permit.target))) ?? (yield* create(permit))
      return recordOf(permit.target, yield* vouched(permit.target, row))
    })

    /** A refusal of the whole file is on record with its names, like the opening of one. */
    const deny = (permit: EnvironmentPermit<"secrets:run">, keys: ReadonlyArray<string>) => (error: { _tag: string }) =>
      audit.record({ ...permit.event({ keys }), outcome: "denied", reason: error._tag })

    /** Values by name. All or nothing: the first entry that is refused names the field. */
    const open = Effect.fn("SealingKeys.open")(function* (
      permit: EnvironmentPermit<"secrets:run">,
      { entries, keyId }: OpenSealedValues
    ) {
      const { target } = permit
      const keys = namesOf(entries)
      const row = yield* Effect.orDie(keyWithId(target, keyId))
      if (row === undefined) return yield* new SealingKeyNotFound()
      if (row.state === "retired") return yield* new SealingKeyExpired()
      const values = yield* Effect.gen(function* () {
        for (const name of Object.keys(entries)) {
          if (name !== SealedEnv.manifestName && !isName(name)) return yield* refused(name)
        }
        const opener = yield* openerOf(target, row)
        return yield* SealedEnv.openAll(opener, new Map(Object.entries(entries))).pipe(
          Effect.catchTag("SealedEntryRefused", ({ name }) => refused(name))
        )
      }).pipe(Effect.tapError(deny(permit, keys)))
      const active = row.state === "active" ? row : yield* Effect.orDie(activeKey(target))
      const newer = active === undefined || active.keyId === row.keyId ? undefined : yield* vouched(target, active)
      yield* audit.record(permit.event({ keys: [...values.keys()] }))
      const response: OpenedSealedValues = {
        keyId,
        values: Object.fromEntries([...values].map(([name, value]) => [name, Redacted.value(value)])),
        ...(newer === undefined
          ? {}
          : { activeKey: { keyId: newer.keyId, publicKey: SealedEnv.printPublicKey(newer.publicKey) } })
      }
      return response
    })

    /** A new active key; the old private half stays for opening. */
    const rotate = Effect.fn("SealingKeys.rotate")(function* (permit: EnvironmentPermit<"sealing-keys:manage">) {
      const { target } = permit
      const made = yield* generate(target)
      const event = permit.event({ target: { type: "sealing_key", id: made.keyId, name: made.keyId } })
      return yield* change(
        services,
        event,
        Effect.gen(function* () {
          yield* lock(target)
          yield* sql`
            UPDATE sealing_keys SET state = 'open_only'
            WHERE environment_id = ${target.environmentId} AND state = 'active'`
          const row = yield* insert(target, made)
          yield* audit.append(event)
          return recordOf(target, row)
        })
      )
    })

    /** From its commit on a file sealed with the key is refused. The active key cannot be retired. */
    const retire = Effect.fn("SealingKeys.retire")(function* (
      permit: EnvironmentPermit<"sealing-keys:manage">,
      keyId: string
    ) {
      const { target } = permit
      const event = permit.event({ target: { type: "sealing_key", id: keyId, name: keyId } })
      return yield* change(
        services,
        event,
        Effect.gen(function* () {
          yield* lock(target)
          const row = yield* keyWithId(target, keyId)
          if (row === undefined) return yield* new SealingKeyNotFound()
          if (row.state === "active") {
            return yield* new ValidationFailed({
              field: "keyId",
              message: "The active key cannot be retired. Rotate first."
            })
          }
          if (row.state === "open_only") {
            yield* sql`
              UPDATE sealing_keys SET state = 'retired', retired_at = ${yield* DateTime.nowAsDate}
              WHERE environment_id = ${target.environmentId} AND key_id = ${keyId}`
            yield* audit.append(event)
          }
          return recordOf(target, row)
        })
      )
    })

    /** All keys of the environment, newest first: which one seals, and which still open. */
    const list = Effect.fn("SealingKeys.list")(function* (permit: EnvironmentPermit<"secrets:read">) {
      const rows = yield* sql<KeyRow>`
        SELECT ${columns} FROM sealing_keys WHERE environment_id = ${permit.target.environmentId}
        ORDER BY created_at DESC, key_id LIMIT ${maxListed}`
      return rows.map((row) => ({ ...recordOf(permit.target, row), state: row.state }))
    }, Effect.orDie)

    return { keypair, list, open, rotate, retire } as const
  })
}) {}
