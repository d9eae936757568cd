/** Input of a vault about a key, and its failures. Shared by the local vault and the vault process. */
import * as Schema from "effect/Schema"

/** Purpose of a wrapped key. A key that was wrapped for another purpose is refused. */
export const KeyPurpose = Schema.Literal("data-key", "sealing-key", "service-key", "webhook-secret", "vault-canary")
export type KeyPurpose = typeof KeyPurpose.Type

/**
 * Place of a wrapped key, authenticated with it (the "encryption context" of other key services). A key that was moved
 * to another row, environment, project or team does not unwrap. An id that does not apply is "".
 */
export const KeyContext = Schema.Struct({
  purpose: KeyPurpose,
  teamId: Schema.String,
  projectId: Schema.String,
  environmentId: Schema.String,
  keyId: Schema.String
})
export type KeyContext = typeof KeyContext.Type

/** Root key ids: `rk_` and 8 hex digits, derived one-way from the key. The first one wraps new keys. */
export const VaultStatus = Schema.Struct({
  rootKeyId: Schema.String,
  rootKeyIds: Schema.Array(Schema.String)
})
export type VaultStatus = typeof VaultStatus.Type

/** The vault did not respond. `reason` is a fixed sentence. */
export class VaultUnavailable extends Schema.TaggedError<VaultUnavailable>()("VaultUnavailable", {
  reason: Schema.String
}) {
  override get message() {
    return this.reason
  }
}
