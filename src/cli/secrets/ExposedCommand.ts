/** `ampoule exposed` for the parser of command lines. */
import * as Args from "@effect/cli/Args"
import * as Options from "@effect/cli/Options"
import * as Help from "#src/cli/help/Help.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { showRecipients } from "./Exposed.ts"

export const options = {
  ...Shared.inEnvironment,
  json: Shared.json,
  by: Options.optional(Shared.text("by", "person", "Only values that this person received: e-mail address or id")),
  token: Options.optional(Shared.text("token", "name-or-id", "Only values that this API token or CI rule received")),
  since: Options.optional(Shared.text("since", "time", "Only values that were handed out since this day or time")),
  key: Args.optional(Shared.keyArgument)
} as const

export const exposed = Help.command(
  "exposed",
  {
    says: "Show who received which version of a secret: people, tokens, agents, CI jobs, backups.",
    more: [
      "For owners and admins, and API tokens with audit:read. KEY selects one secret. Without it the command covers the project; --by and --token select one person or token."
    ],
    examples: [
      "ampoule exposed DATABASE_URL --env production",
      "ampoule exposed --by bob@example.com --since 2026-11-01",
      "ampoule exposed --token ci --json"
    ]
  },
  options,
  showRecipients
)
