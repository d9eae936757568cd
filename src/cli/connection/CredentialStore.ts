/**
 * Where a login is kept between two commands. Implementations: `layers/CredentialKeychain.ts`,
 * `layers/CredentialFile.ts`.
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
 * Names of the contract (docs/contract/device-authorization.md): the approval page shows which of them the login asked
 * for.
 */
export type Protection = "os_keychain" | "plaintext_local"

/** Both are there: a login says which one holds it, and nothing falls back from the safer to the other by itself. */
export class CredentialStores extends Context.Tag("cli/CredentialStores")<
  CredentialStores,
  Readonly<Record<Protection, CredentialStore>>
>() {}
