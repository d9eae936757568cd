/**
 * The key that proves that a server wrote the end of a stream. All servers of a database share it, and the database
 * stores it wrapped by the vault.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import { timingSafeEqual } from "node:crypto"
import type * as Chain from "#src/audit/Chain.ts"
import * as KeyGenerations from "#src/crypto/KeyGenerations.ts"
import * as KeyRing from "#src/crypto/KeyRing.ts"
import { following, ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import type { Vault } from "#src/crypto/Vault.ts"
import { dieWhenVaultIsDown } from "#src/database/Dependency.ts"

const name = "audit-entries"

/**
 * The last entry of each statement has a MAC of its hash, which covers the whole stream so far. Servers have the key,
 * but writers of the database do not. So only a server can extend a stream. The MAC is a separate column: readers
 * without the key ignore it.
 */
export const entryMac = (key: KeyRing.RingKey, hash: Uint8Array): Buffer =>
  KeyRing.tagged(key, KeyRing.hmac(key, "audit entry").update(hash).digest())

export const provedBy =
  (ring: KeyRing.KeyRing): Chain.Proves =>
  (hash, mac) => {
    const key = mac === null ? undefined : KeyRing.madeBy(ring, mac)
    return mac !== null && key !== undefined && timingSafeEqual(mac, entryMac(key, hash))
  }

/**
 * For a process that writes. It loads the key at its start or, after an outage of the vault, with the first entry.
 * Until then no entry is committed.
 */
export const shared = Effect.gen(function* () {
  const keys = yield* ServiceKeys
  const current = following(keys, keys.ring(name))
  yield* Effect.catchTag(current, "VaultUnavailable", () => Effect.void)
  const slow = Effect.orDie(dieWhenVaultIsDown(current))
  return Effect.suspend(() => {
    const ring = current.now()
    return ring === undefined ? slow : Effect.succeed(ring)
  })
})

/** For a reader, which creates no key. Without a key, or with one that the vault cannot open, no entry is proved. */
export const proves = (needs: { readonly sql: SqlClient.SqlClient; readonly vault: Vault["Type"] }) =>
  Effect.map(KeyGenerations.open(needs, name), (ring): Chain.Proves =>
    ring === undefined ? () => false : provedBy(ring)
  )
