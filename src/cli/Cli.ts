/** The command tree. */
import * as CliConfig from "@effect/cli/CliConfig"
import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Span from "@effect/cli/HelpDoc/Span"
import { run } from "./Run.ts"
import { version } from "./Version.ts"

const root = Command.make("ampoule").pipe(
  Command.withDescription("Secrets stay sealed until the moment they are injected."),
  Command.withSubcommands([run])
)

export const execute = Command.run(root, {
  name: "Ampoule",
  version,
  executable: "ampoule",
  summary: Span.text("secrets, handed to the process that needs them"),
  footer: HelpDoc.p("`ampoule COMMAND --help` tells more of each command.")
})

export const config = CliConfig.layer({ showBuiltIns: false, isCaseSensitive: true })
