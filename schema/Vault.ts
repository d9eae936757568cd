/**
 * What a vault is told about a key, and how it says that it cannot answer. Shared by the local vault and the vault
 * process.
 */
import * as Schema from "effect/Schema"

/** What a wrapped key is for. One wrapped for one purpose is refused for another. */
export const KeyPurpose = Schema.Literal("data-key", "sealing-key", "service-key", "webhook-secret", "vault-canary")
export type KeyPurpose = typeof KeyPurpose.Type

/**
 * Where a wrapped key belongs: authenticated with it (the "encryption context" of other key services), so that a
 * wrapped key moved to another row, environment, project or team does not unwrap. An id that does not apply is "".
 */
export const KeyContext = Schema.Struct({
  purpose: KeyPurpose,
  teamId: Schema.String,
  projectId: Schema.String,
  environmentId: Schema.String,
  keyId: Schema.String
})
export type KeyContext = typeof KeyContext.Type

/** Root key ids: `rk_` and 8 hex digits, derived one-way from the key. The first is the one that wraps. */
export const VaultStatus = Schema.Struct({
  rootKeyId: Schema.String,
  rootKeyIds: Schema.Array(Schema.String)
})
export type VaultStatus = typeof VaultStatus.Type

/** The vault did not answer. `reason` is a fixed sentence. */
export class VaultUnavailable extends Schema.TaggedError<VaultUnavailable>()("VaultUnavailable", {
  reason: Schema.String
}) {
  override get message() {
    return this.reason
  }
}
