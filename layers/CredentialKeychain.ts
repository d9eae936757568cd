/** Logins in the system's keychain: macOS Keychain, Windows Credential Manager, Secret Service on Linux. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type { CredentialStore } from "#src/cli/connection/CredentialStore.ts"
import { CliFailure } from "#src/cli/terminal/Failure.ts"

const service = "ampoule"
/**
 * Long enough for a keychain that asks the user for a password; bounded, because a bus without a service never answers.
 */
const keychainTimeout = "60 seconds"

const unavailable = () =>
  new CliFailure({
    message: "The keychain of this system does not respond (it is not running, or it is locked).",
    hint: "Unlock it, or log in with --plaintext-local, which stores the credential in a file that only you can read."
  })

const withoutLibrary = () =>
  new CliFailure({
    message: "The keychain library, @napi-rs/keyring, is not installed or does not run on this system.",
    hint: "Install ampoule with its optional dependencies, or log in with --plaintext-local, which stores the credential in a file that only you can read."
  })

// Loaded on first use: commands without a keychain neither wait for the library nor fail without it.
const entry = (url: string) =>
  Effect.tryPromise({ try: () => import("@napi-rs/keyring"), catch: withoutLibrary }).pipe(
    Effect.flatMap(({ AsyncEntry }) =>
      Effect.try({
        // The library's default falls back to the kernel's keyring, which silently loses its content at a reboot.
        try: () => new AsyncEntry(service, url, { linux: { store: "secret-service" } }),
        catch: unavailable
      })
    )
  )

const use = <A>(url: string, f: (keychain: Effect.Effect.Success<ReturnType<typeof entry>>) => Promise<A>) =>
  Effect.flatMap(entry(url), (keychain) => Effect.tryPromise({ try: () => f(keychain), catch: unavailable })).pipe(
    Effect.timeoutFail({ duration: keychainTimeout, onTimeout: unavailable })
  )

export const keychain: CredentialStore = {
  read: (url) =>
    Effect.map(
      use(url, (k) => k.getPassword()),
      (text) => Option.map(Option.fromNullable(text), Redacted.make)
    ),
  write: (url, credential) => use(url, (k) => k.setPassword(Redacted.value(credential))),
  forget: (url) => Effect.asVoid(use(url, (k) => k.deletePassword()))
}
