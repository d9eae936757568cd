/** `ampoule whoami` and `ampoule doctor` for the parser of command lines. */
import * as Help from "#src/cli/help/Help.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { checkEverything } from "./Doctor.ts"
import { showCredential } from "./Whoami.ts"

export const options = { ...Shared.connection, json: Shared.json } as const

export const whoami = Help.command(
  "whoami",
  {
    says: "Show the credential in use, why it was chosen, and what it may do.",
    examples: ["ampoule whoami", "ampoule whoami --credential env", "ampoule whoami --json"]
  },
  options,
  showCredential
)

export const doctor = Help.command(
  "doctor",
  {
    says: "Check the address, proxy, server, clock, credential, keychain and versions.",
    more: ["The exit code is 1 when a check fails."],
    examples: ["ampoule doctor", "ampoule doctor --json"]
  },
  options,
  checkEverything
)
