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
import { atOnce, following, ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import type { Vault } from "#src/crypto/Vault.ts"
import { dieWhenVaultIsDown } from "#src/database/Dependency.ts"
import * as Entry from "./Entry.ts"

const name = "audit-entries"

export const provedBy =
  (ring: KeyRing.KeyRing): Chain.Proves =>
  (hash, mac) => {
    const key = mac === null ? undefined : KeyRing.madeBy(ring, mac)
    return mac !== null && key !== undefined && timingSafeEqual(mac, Entry.macOf(key, hash))
  }

/**
 * For a process that writes. It loads the key at its start or, after an outage of the vault, with the first entry.
 * Until then no entry is committed.
 */
export const shared = Effect.gen(function* () {
  const keys = yield* ServiceKeys
  const current = following(keys, keys.ring(name))
  yield* Effect.catchTag(current, "VaultUnavailable", () => Effect.void)
  return atOnce(current, Effect.orDie(dieWhenVaultIsDown(current)))
})

/** For a reader, which creates no key. Without a key, or with one that the vault cannot open, no entry is proved. */
export const proves = (needs: { readonly sql: SqlClient.SqlClient; readonly vault: Vault["Type"] }) =>
  Effect.map(KeyGenerations.open(needs, name), (ring): Chain.Proves =>
    ring === undefined ? () => false : provedBy(ring)
  )
