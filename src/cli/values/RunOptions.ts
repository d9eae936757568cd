/** Options of `ampoule run`. */
import type * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import { formats } from "#src/formats/FormatNames.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { defaultTexts } from "#src/cli/terminal/Times.ts"

export const options = {
  ...Shared.inEnvironment,
  ...Shared.selection,
  allow: Shared.allow,
  keepExisting: Shared.flag(
    "no-override",
    "Variables that are already set keep their values (default: the secret wins)"
  ),
  preserve: Options.repeated(
    Shared.text("preserve-env", "names", "Variables that keep their present values: A,B; may be repeated")
  ),
  shellCommand: Options.optional(
    Shared.text("command", "text", "Shell command line instead of a command after --, such as 'migrate && serve'")
  ),
  mount: Options.optional(
    Shared.text(
      "mount",
      "file",
      "Pass the values in this file instead of in variables: a pipe that can be read once, and is then deleted"
    )
  ),
  mountFormat: Options.choice("mount-format", formats).pipe(
    Options.withDescription("Format of the --mount file (default: from its name, then dotenv)"),
    Options.optional
  ),
  passCredentials: Shared.flag(
    "pass-credentials",
    "Pass AMPOULE_API_TOKEN and the other credentials of Ampoule to the command"
  ),
  watch: Shared.flag(
    "watch",
    "Restart the command when the environment changes; it keeps running while the server is unreachable"
  ),
  interval: Shared.watchInterval,
  offline: Shared.flag("offline", "Keep an encrypted copy, and use it when the server is unreachable"),
  offlineAge: Shared.duration("offline-max-age", defaultTexts["offline-max-age"]).pipe(
    Options.withDescription("Maximum age of the copy for --offline (24h)")
  ),
  fallbackOnly: Shared.flag("fallback-only", "Use the copy of an earlier --offline, and do not ask the server"),
  timeout: Shared.optionalDuration("timeout").pipe(
    Options.withDescription("Longest wait for an answer of the server (30s; with a copy of --offline 3s of silence)")
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
      "Report the exit code to the agent that planned this run; with --redact also the end of the output"
    )
  ),
  redact: Shared.flag(
    "redact",
    "Mask the values in the command's output, which is then not a terminal; other encodings such as base64 are not masked"
  )
} as const

export type RunOptions = Command.Command.ParseConfig<typeof options>
