/** Logins in a file of mode 0600, for machines without a keychain; only when it was asked for (--plaintext-local). */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { CredentialStore } from "#src/cli/CredentialStore.ts"
import { CliFailure } from "#src/cli/Failure.ts"
import { folders, jsonFile } from "#src/cli/Folders.ts"

const Credentials = Schema.Record({ key: Schema.String, value: Schema.String })
const stored = jsonFile("config", "credentials.json", Credentials, "the credentials file")

export const make: Effect.Effect<CredentialStore, never, FileSystem.FileSystem | Path.Path> = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const context = yield* Effect.context<FileSystem.FileSystem | Path.Path>()
  const file = path.join((yield* folders).config, "credentials.json")

  // As ssh does with keys: a credential that others may have read is not used as if nothing were the matter.
  const refuseOpenMode = Effect.gen(function* () {
    const info = yield* Effect.option(fs.stat(file))
    if (process.platform !== "win32" && Option.isSome(info) && (info.value.mode & 0o077) !== 0) {
      return yield* new CliFailure({
        message: `Others can read ${file}.`,
        hint: `Revoke the login in the dashboard if that may have happened; then \`chmod 600 ${file}\`.`
      })
    }
  })
  const all = Effect.zipRight(refuseOpenMode, stored.read).pipe(
    Effect.map(Option.getOrElse((): typeof Credentials.Type => ({}))),
    Effect.provide(context)
  )
  const write = (credentials: typeof Credentials.Type) => Effect.provide(stored.write(credentials), context)
  return {
    read: (url) => Effect.map(all, (known) => Option.map(Option.fromNullable(known[url]), Redacted.make)),
    write: (url, credential) => Effect.flatMap(all, (known) => write({ ...known, [url]: Redacted.value(credential) })),
    forget: (url) =>
      Effect.flatMap(all, (known) =>
        write(Object.fromEntries(Object.entries(known).filter(([other]) => other !== url)))
      )
  }
})
