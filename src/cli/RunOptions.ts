/** The options of `ampoule run`. */
import type * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import * as ValidationError from "@effect/cli/ValidationError"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Shared from "./Options.ts"

const secondsPerUnit = new Map([
  ["s", 1],
  ["m", 60],
  ["h", 3_600],
  ["d", 86_400]
])

/** `30s`, `15m`, `24h`, `7d`; a bare number is seconds. */
const parseDuration = (text: string): Option.Option<Duration.Duration> => {
  const match = /^(\d{1,6})([smhd])?$/.exec(text)
  if (match === null) return Option.none()
  return Option.some(Duration.seconds(Number(match[1]) * (secondsPerUnit.get(match[2] ?? "s") ?? 1)))
}

const duration = (name: string, fallback: string) =>
  Options.text(name).pipe(
    Options.withPseudoName("duration"),
    Options.withDefault(fallback),
    Options.mapEffect((text) =>
      Effect.mapError(parseDuration(text), () =>
        ValidationError.invalidValue(HelpDoc.p(`--${name} takes a time like 30s, 15m, 24h or 7d`))
      )
    )
  )

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
  passCredentials: Shared.flag(
    "pass-credentials",
    "Let the command see AMPOULE_API_TOKEN and the other credentials of Ampoule"
  ),
  watch: Shared.flag("watch", "Restart the command when the environment changes; it runs on while the server is away"),
  interval: duration("watch-interval", "15s").pipe(Options.withDescription("How often --watch asks (15s)")),
  offline: Shared.flag("offline", "Keep an encrypted copy, and use it when the server does not answer"),
  offlineAge: duration("offline-max-age", "24h").pipe(Options.withDescription("Oldest copy that --offline uses (24h)")),
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
