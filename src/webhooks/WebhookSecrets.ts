/** Keys of webhook signatures: made here, sealed by the vault, opened for a delivery. */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type { TeamId } from "#schema/Ids.ts"
import type { KeyContext } from "#schema/Vault.ts"
import { base62, Crypto } from "#src/crypto/Crypto.ts"
import { inTime, Vault } from "#src/crypto/Vault.ts"

/** A row of `webhook_secrets`. */
export interface SealedSecret {
  readonly id: string
  readonly rootKeyId: string
  readonly wrapped: Uint8Array
}

/** 43 base62 characters: 256 bits. */
const length = 43

const contextOf = (teamId: TeamId, id: string): KeyContext => ({
  purpose: "webhook-secret",
  teamId,
  projectId: "",
  environmentId: "",
  keyId: id
})

export class WebhookSecrets extends Effect.Service<WebhookSecrets>()("webhooks/WebhookSecrets", {
  effect: Effect.gen(function* () {
    const vault = yield* Vault
    const crypto = yield* Crypto

    /** `text` is shown once and kept nowhere. */
    const make = Effect.fn("WebhookSecrets.make")(function* (teamId: TeamId) {
      const id = yield* crypto.uuid
      const text = `whsec_${yield* crypto.randomText(base62, length)}`
      const bytes = Redacted.make(new TextEncoder().encode(text))
      const { rootKeyId, wrapped } = yield* inTime(vault.wrapBytes(contextOf(teamId, id), bytes))
      return { text, sealed: { id, rootKeyId, wrapped: Buffer.from(wrapped) } }
    })

    const open = (teamId: TeamId, { id, rootKeyId, wrapped }: SealedSecret) =>
      inTime(vault.unwrapBytes(contextOf(teamId, id), wrapped, rootKeyId))

    return { make, open } as const
  })
}) {}
