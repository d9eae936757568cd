/** Logins in the keychain of the system: macOS Keychain, Windows Credential Manager, Secret Service on Linux. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type { CredentialStore } from "#src/cli/connection/CredentialStore.ts"
import { CliFailure } from "#src/cli/terminal/Failure.ts"

const service = "ampoule"
/**
 * A keychain that asks the person for its password may take a while; a bus that nobody answers must not hang for ever.
 */
const patience = "60 seconds"

const unavailable = () =>
  new CliFailure({
    message: "The keychain of this system does not answer (none is running, or it is locked).",
    hint: "Unlock it, or log in with --plaintext-local, which keeps the credential in a file that only you can read."
  })

const withoutLibrary = () =>
  new CliFailure({
    message: "The library of keychains, @napi-rs/keyring, is not installed or does not run on this system.",
    hint: "Install ampoule with its optional dependencies, or log in with --plaintext-local, which keeps the credential in a file that only you can read."
  })

// Loaded on first use: the commands that need no keychain do not pay for its library, nor fail without it.
const entry = (url: string) =>
  Effect.tryPromise({ try: () => import("@napi-rs/keyring"), catch: withoutLibrary }).pipe(
    Effect.flatMap(({ AsyncEntry }) =>
      Effect.try({
        // Without this the library falls back to the kernel's keyring, which forgets at reboot and does not say so.
        try: () => new AsyncEntry(service, url, { linux: { store: "secret-service" } }),
        catch: unavailable
      })
    )
  )

const use = <A>(url: string, f: (keychain: Effect.Effect.Success<ReturnType<typeof entry>>) => Promise<A>) =>
  Effect.flatMap(entry(url), (keychain) => Effect.tryPromise({ try: () => f(keychain), catch: unavailable })).pipe(
    Effect.timeoutFail({ duration: patience, onTimeout: unavailable })
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
