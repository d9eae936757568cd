/** Protection of root keys at rest: the file's permissions only, or a key service that has to open each key. */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"

/** The key service failed. `message` is one sentence for the operator, without any key. */
export class KeyProviderFailed extends Data.TaggedError("KeyProviderFailed")<{ readonly message: string }> {}

/** Prefixes in the key file that mark keys of a service. */
export const prefixes = ["aws-kms:", "transit:"] as const
type Prefix = (typeof prefixes)[number]

interface Guard {
  readonly prefix: Prefix
  /** One word without white space. `key`: 32 bytes. */
  readonly seal: (key: Redacted.Redacted<Uint8Array>) => Effect.Effect<string, KeyProviderFailed>
  readonly open: (text: string) => Effect.Effect<Redacted.Redacted<Uint8Array>, KeyProviderFailed>
}

/** Null: root keys are in the file as plain text. */
export class KeyProvider extends Context.Reference<KeyProvider>()("vault/KeyProvider", {
  defaultValue: (): Guard | null => null
}) {}
