/** An environment's values, each sealed to a public key: what leaves is ciphertext, and is on record like an injection. */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { SecretNotFound, ValidationFailed } from "#schema/Errors.ts"
import type { EnvironmentQuery } from "#schema/SecretsApi.ts"
import { Access } from "#src/access/Access.ts"
import { Audit } from "#src/access/Audit.ts"
import { SealingKeys } from "#src/projects/SealingKeys.ts"
import * as SealedEnv from "#src/sealed/SealedEnv.ts"
import { represent } from "#src/secrets/Secrets.ts"
import { SecretStore } from "#src/secrets/SecretStore.ts"

/** Entries of one file (decisions 5). */
const maxEntries = 500

export class SealedExport extends Effect.Service<SealedExport>()("mcp/SealedExport", {
  effect: Effect.gen(function* () {
    const access = yield* Access
    const audit = yield* Audit
    const keys = yield* SealingKeys
    const store = yield* SecretStore

    const invalidKey = new ValidationFailed({
      field: "recipientPublicKey",
      message: "must be an X25519 public key, 32 bytes in base64url"
    })

    /** `recipient`: a key that is not the environment's own; whoever holds its private half can read the values. */
    const seal = Effect.fn("SealedExport.seal")(
      function* (at: EnvironmentQuery & { readonly keys?: ReadonlyArray<string>; readonly recipient?: string }) {
        const intent = { audit: "secret.inject", ...(at.keys === undefined ? {} : { keys: at.keys }) } as const
        const permit = yield* access.environment("secrets:run", at, intent)
        const { target } = permit
        const publicKey = at.recipient ?? (yield* keys.keypairIn(at)).publicKey
        const recipient = yield* Effect.mapError(SealedEnv.parsePublicKey(publicKey), () => invalidKey).pipe(
          Effect.flatMap((bytes) => SealedEnv.recipient(target.environmentId, bytes)),
          Effect.catchTag("SealingKeyInvalid", () => invalidKey)
        )
        const { secrets } = yield* store.live(permit)
        const values = yield* represent(secrets, "materialized")
        const names = at.keys ?? [...values.keys()]
        if (names.length > maxEntries) {
          return yield* new ValidationFailed({
            field: "keys",
            message: "must name at most 500 keys of this environment"
          })
        }
        const entries = new Map<string, string>()
        for (const [i, name] of names.entries()) {
          const value = values.get(name)
          if (value === undefined) return yield* new SecretNotFound({ field: `keys.${i}` })
          entries.set(name, yield* SealedEnv.sealEntry(recipient, name, Redacted.make(value)))
        }
        if (entries.size > 0) entries.set(SealedEnv.manifestName, yield* SealedEnv.sealManifest(recipient, entries))
        yield* audit.record(permit.event({ keys: names }))
        return { environmentId: target.environmentId, keyId: recipient.keyId, entries: Object.fromEntries(entries) }
      },
      Effect.catchTag("SealingKeyInvalid", Effect.die)
    )

    return { seal } as const
  })
}) {}
