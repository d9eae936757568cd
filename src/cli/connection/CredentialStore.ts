/**
 * Store of the login between two commands. Implementations: `layers/CredentialKeychain.ts`, `layers/CredentialFile.ts`.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import type { CliFailure } from "#src/cli/terminal/Failure.ts"

/** A login belongs to one server: `url` without a trailing slash. */
export interface CredentialStore {
  readonly read: (url: string) => Effect.Effect<Option.Option<Redacted.Redacted>, CliFailure>
  readonly write: (url: string, credential: Redacted.Redacted) => Effect.Effect<void, CliFailure>
  readonly forget: (url: string) => Effect.Effect<void, CliFailure>
}

/**
 * Names of the contract (docs/contract/device-authorization.md). The approval page shows which one the login asked for.
 */
export type Protection = "os_keychain" | "plaintext_local"

/** Both stores exist. A login records the one that holds it, and never falls back from the safer store to the other. */
export class CredentialStores extends Context.Tag("cli/CredentialStores")<
  CredentialStores,
  Readonly<Record<Protection, CredentialStore>>
>() {}
