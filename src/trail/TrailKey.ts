/**
 * The key that proves that a server wrote the end of a stream (`Chain.entryMac`). All servers of a database share it;
 * a writer of the database sees it wrapped by the vault only.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { createSecretKey, type KeyObject } from "node:crypto"
import * as Chain from "#src/audit/Chain.ts"
import * as ServiceKeys from "#src/crypto/ServiceKeys.ts"
import type { Vault } from "#src/crypto/Vault.ts"
import { dieWhenVaultIsDown } from "#src/database/Dependency.ts"

const name = "audit-entries"
const keyOf = (bytes: Redacted.Redacted<Uint8Array>): KeyObject => createSecretKey(Redacted.value(bytes))

/**
 * Of a process that writes: read once, at its start or, when the vault is away then, by the first entry that finds the
 * vault back. Until then no entry is committed.
 */
export const shared = Effect.gen(function* () {
  const keys = yield* ServiceKeys.ServiceKeys
  let held: KeyObject | undefined
  const load = Effect.tap(Effect.map(keys.get(name), keyOf), (key) => Effect.sync(() => (held = key)))
  yield* Effect.catchTag(load, "VaultUnavailable", () => Effect.void)
  return Effect.suspend(() => (held === undefined ? Effect.orDie(dieWhenVaultIsDown(load)) : Effect.succeed(held)))
})

/** For a reader, which makes none: without a key, or with one that the vault does not open, no entry is proved. */
export const proves = (needs: { readonly sql: SqlClient.SqlClient; readonly vault: Vault["Type"] }) =>
  ServiceKeys.open(needs, name).pipe(
    Effect.catchTag("INTEGRITY_FAILURE", () => Effect.succeed(undefined)),
    Effect.map((bytes): Chain.Proves => (bytes === undefined ? () => false : Chain.proves(keyOf(bytes))))
  )
