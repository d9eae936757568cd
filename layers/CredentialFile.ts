/** Logins in a file of mode 0600, for machines without a keychain. Used only with --plaintext-local. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { join } from "node:path"
import type { CredentialStore } from "#src/cli/connection/CredentialStore.ts"
import { CliFailure } from "#src/cli/terminal/Failure.ts"
import { folders, infoOf, jsonFile } from "#src/cli/terminal/Folders.ts"
import * as Shape from "#src/cli/terminal/Shape.ts"
import { isWindows } from "#src/cli/terminal/Windows.ts"

const file = jsonFile("config", "credentials.json", Shape.record(Shape.string), "the credentials file")
type Credentials = Readonly<Record<string, string>>

// Refused like ssh keys: a credential that others can read may have leaked.
const refuseOpenMode = Effect.gen(function* () {
  const file = join(folders().config, "credentials.json")
  const info = yield* infoOf(file)
  if (!isWindows && Option.isSome(info) && (info.value.mode & 0o077) !== 0) {
    return yield* new CliFailure({
      message: `Others can read ${file}.`,
      hint: `Revoke the login in the dashboard if that may have happened; then \`chmod 600 ${file}\`.`
    })
  }
})

const all = Effect.zipRight(refuseOpenMode, file.read).pipe(Effect.map(Option.getOrElse((): Credentials => ({}))))

export const credentialFile: CredentialStore = {
  read: (url) => Effect.map(all, (logins) => Option.map(Option.fromNullable(logins[url]), Redacted.make)),
  write: (url, credential) =>
    Effect.flatMap(all, (logins) => file.write({ ...logins, [url]: Redacted.value(credential) })),
  forget: (url) =>
    Effect.flatMap(all, (logins) =>
      file.write(Object.fromEntries(Object.entries(logins).filter(([other]) => other !== url)))
    )
}
