/** Who guards root keys at rest: the file's permissions alone, or a key service that has to open each of them. */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"

/** The service did not do it. `message` is one sentence for the operator and holds no key. */
export class KeyProviderFailed extends Data.TaggedError("KeyProviderFailed")<{ readonly message: string }> {}

/** Keys that a service guards are known by what stands before them in the key file. */
export const prefixes = ["aws-kms:", "transit:"] as const
type Prefix = (typeof prefixes)[number]

interface Guard {
  readonly prefix: Prefix
  /** One word without white space. `key`: 32 bytes. */
  readonly seal: (key: Redacted.Redacted<Uint8Array>) => Effect.Effect<string, KeyProviderFailed>
  readonly open: (text: string) => Effect.Effect<Redacted.Redacted<Uint8Array>, KeyProviderFailed>
}

/** Null: root keys stand in the file as they are. */
export class KeyProvider extends Context.Reference<KeyProvider>()("vault/KeyProvider", {
  defaultValue: (): Guard | null => null
}) {}
