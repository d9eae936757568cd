/**
 * Root keys guarded by AWS KMS. At rest there is only the output of `Encrypt`, and each start calls `Decrypt`. The
 * official client finds region and credentials (environment, web identity, container, instance) and signs the calls.
 */
import { DecryptCommand, EncryptCommand, KMSClient } from "@aws-sdk/client-kms"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { KeyProvider, KeyProviderFailed } from "#src/vault/KeyProvider.ts"

export interface Options {
  /** Id, alias or ARN. */
  readonly keyId: string
}

/**
 * Authenticated with the ciphertext and shown in the trail of KMS: a text that was wrapped for another purpose does not
 * open.
 */
const EncryptionContext = { service: "ampoule", purpose: "root-key" }

const timeoutMillis = 10_000

/** A name such as AccessDeniedException. KMS's own message may reveal more than an operator's log should have. */
const failed = (error: unknown) => {
  const name = error instanceof Error && /^\w{1,80}$/.test(error.name) ? error.name : "unknown reason"
  return new KeyProviderFailed({
    message: `AWS KMS did not open the root key (${name}); check AMPOULE_KMS_KEY_ID, the region and the credentials.`
  })
}

export const layer = ({ keyId }: Options) =>
  Layer.scoped(
    KeyProvider,
    Effect.gen(function* () {
      const client = yield* Effect.acquireRelease(
        Effect.sync(() => new KMSClient({ maxAttempts: 4 })),
        (client) => Effect.sync(() => client.destroy())
      )
      const ask = <A>(call: (abortSignal: AbortSignal) => Promise<A>) =>
        Effect.tryPromise({
          try: (signal) => call(AbortSignal.any([signal, AbortSignal.timeout(timeoutMillis)])),
          catch: failed
        })
      const present = (bytes: Uint8Array | undefined) =>
        bytes === undefined ? Effect.fail(failed(undefined)) : Effect.succeed(bytes)

      return {
        prefix: "aws-kms:" as const,
        seal: (key) =>
          ask((abortSignal) =>
            client.send(new EncryptCommand({ KeyId: keyId, Plaintext: Redacted.value(key), EncryptionContext }), {
              abortSignal
            })
          ).pipe(
            Effect.flatMap(({ CiphertextBlob }) => present(CiphertextBlob)),
            Effect.map((blob) => Buffer.from(blob).toString("base64"))
          ),
        open: (text) =>
          ask((abortSignal) =>
            // Naming the key refuses a ciphertext under an attacker's key.
            client.send(
              new DecryptCommand({ KeyId: keyId, CiphertextBlob: Buffer.from(text, "base64"), EncryptionContext }),
              { abortSignal }
            )
          ).pipe(
            Effect.flatMap(({ Plaintext }) => present(Plaintext)),
            Effect.map((bytes) => Redacted.make(Uint8Array.from(bytes)))
          )
      }
    })
  )
