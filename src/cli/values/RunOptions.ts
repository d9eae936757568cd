/** The options of `ampoule run`. */
import type * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import { formats } from "./Formats.ts"
import * as Shared from "#src/cli/terminal/Options.ts"

export const options = {
  ...Shared.inEnvironment,
  ...Shared.selection,
  allow: Shared.allow,
  keepExisting: Shared.flag("no-override", "A variable that is set already keeps its value (else the secret wins)"),
  preserve: Options.repeated(
    Shared.text("preserve-env", "names", "These variables keep the value that they have already: A,B; may be repeated")
  ),
  shellCommand: Options.optional(
    Shared.text("command", "text", "A line for the shell instead of a command after --, as in 'migrate && serve'")
  ),
  mount: Options.optional(
    Shared.text(
      "mount",
      "file",
      "Give the values to the command in this file instead of as variables: a pipe that it reads once, gone afterwards"
    )
  ),
  mountFormat: Options.choice("mount-format", formats).pipe(
    Options.withDescription("Format of the file of --mount; else by its name, else dotenv"),
    Options.optional
  ),
  passCredentials: Shared.flag(
    "pass-credentials",
    "Let the command see AMPOULE_API_TOKEN and the other credentials of Ampoule"
  ),
  watch: Shared.flag("watch", "Restart the command when the environment changes; it runs on while the server is away"),
  interval: Shared.watchInterval,
  offline: Shared.flag("offline", "Keep an encrypted copy, and use it when the server does not answer"),
  offlineAge: Shared.duration("offline-max-age", "24h").pipe(
    Options.withDescription("Oldest copy that --offline uses (24h)")
  ),
  sealed: Options.optional(
    Shared.text(
      "sealed",
      "file",
      "Pass the values of a sealed file, opened on the server, instead of the environment's secrets"
    )
  ),
  plan: Options.optional(
    Shared.text(
      "plan",
      "id",
      "Tell the agent that planned this run how it ended; with --redact also the end of its output"
    )
  ),
  redact: Shared.flag("redact", "Mask the values in the output of the command (its output is then no terminal)")
} as const

export type RunOptions = Command.Command.ParseConfig<typeof options>
