/** `ampoule whoami`, `projects list`, `exposed` and `doctor` (`src/cli/Quick.ts`), with nothing but what they need. */
import type * as Effect from "effect/Effect"
import { checkEverything } from "#src/cli/account/Doctor.ts"
import { showCredential } from "#src/cli/account/Whoami.ts"
import type { CredentialStores } from "#src/cli/connection/CredentialStore.ts"
import type { Transport } from "#src/cli/connection/Transport.ts"
import { connectionOf, exposedOf } from "#src/cli/Quick.ts"
import { showRecipients } from "#src/cli/secrets/Exposed.ts"
import { listProjects } from "#src/cli/team/ProjectList.ts"
import type { CliError } from "#src/cli/terminal/Failure.ts"
import { launch } from "./CliProcess.ts"
import { atServers } from "./CliServers.ts"

const command =
  <A extends { readonly json: boolean }>(
    read: (words: ReadonlyArray<string>) => A | undefined,
    handler: (options: A) => Effect.Effect<void, CliError, Transport | CredentialStores>
  ) =>
  (words: ReadonlyArray<string>): boolean => {
    const options = read(words)
    if (options === undefined) return false
    launch(atServers(handler(options)), options)
    return true
  }

/** By the first word. */
const commands = new Map([
  ["whoami", command(connectionOf, showCredential)],
  ["projects", command(connectionOf, listProjects)],
  ["exposed", command(exposedOf, showRecipients)],
  ["doctor", command(connectionOf, checkEverything)]
])

/** Returns false when the words are for the parser. */
export const start = (words: ReadonlyArray<string>): boolean => commands.get(words[0] ?? "")?.(words) ?? false
