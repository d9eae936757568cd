/** Secrets of webhook signatures: made here, sealed by the vault, and opened to sign a delivery. */
import { createHmac } from "node:crypto"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type { TeamId } from "#schema/Ids.ts"
import type { KeyContext } from "#schema/Vault.ts"
import { base62, Crypto } from "#src/crypto/Crypto.ts"
import * as BoundKeys from "#src/crypto/BoundKeys.ts"
import * as Instance from "#src/crypto/Instance.ts"
import { ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import { inTime, Vault } from "#src/crypto/Vault.ts"

/** A row of `webhook_secrets`. */
export interface SealedSecret {
  readonly id: string
  readonly bound: boolean
  readonly rootKeyId: string
  readonly wrapped: Uint8Array
}

/**
 * The header `Ampoule-Signature: t=<unix seconds>,v1=<hex>[,v1=<hex>]`: HMAC-SHA256 of `<t>.<body>`, keyed with the
 * UTF-8 text of the secret. For a day after a rotation it has two signatures, of the new and the old secret.
 */
export const sign = (secrets: ReadonlyArray<Redacted.Redacted<Uint8Array>>, seconds: number, body: string): string =>
  [
    `t=${seconds}`,
    ...secrets.map(
      (secret) => `v1=${createHmac("sha256", Redacted.value(secret)).update(`${seconds}.${body}`).digest("hex")}`
    )
  ].join(",")

/** 43 base62 characters: 256 bits. */
const length = 43

const contextOf = (teamId: TeamId, id: string, instance: string | undefined): KeyContext => ({
  purpose: "webhook-secret",
  teamId,
  projectId: "",
  environmentId: "",
  keyId: Instance.keyIdIn(id, instance)
})

export class WebhookSecrets extends Effect.Service<WebhookSecrets>()("webhooks/WebhookSecrets", {
  effect: Effect.gen(function* () {
    const vault = yield* Vault
    const crypto = yield* Crypto
    const sql = yield* SqlClient.SqlClient
    const serviceKeys = yield* ServiceKeys

    /** `text` is shown once and never stored. */
    const make = Effect.fn("WebhookSecrets.make")(function* (teamId: TeamId) {
      const id = yield* crypto.uuid
      const text = `whsec_${yield* crypto.randomText(base62, length)}`
      const bytes = Redacted.make(new TextEncoder().encode(text))
      const instance = yield* BoundKeys.forNewKey(serviceKeys, sql)
      const { rootKeyId, wrapped } = yield* inTime(vault.wrapBytes(contextOf(teamId, id, instance), bytes))
      return { text, sealed: { id, bound: instance !== undefined, rootKeyId, wrapped: Buffer.from(wrapped) } }
    })

    const open = (teamId: TeamId, { bound, id, rootKeyId, wrapped }: SealedSecret) =>
      Effect.flatMap(BoundKeys.ofStoredKey(serviceKeys, bound), (instance) =>
        inTime(vault.unwrapBytes(contextOf(teamId, id, instance), wrapped, rootKeyId))
      )

    return { make, open } as const
  })
}) {}
