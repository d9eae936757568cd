/** `ampoule run` for the parser of command lines. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { secretKey } from "#schema/Patterns.ts"
import type { ChosenLink } from "#src/cli/connection/Choice.ts"
import type { Resolved } from "#src/cli/values/EnvironmentSource.ts"
import { CliFailure } from "#src/cli/terminal/Failure.ts"
import * as Help from "#src/cli/help/Help.ts"
import { warn } from "#src/cli/terminal/Output.ts"
import { runCommand } from "./Run.ts"
import { options } from "#src/cli/values/RunOptions.ts"
import type { TargetOptions } from "#src/cli/connection/Target.ts"

const openSealed = Effect.fnUntraced(function* (session: ChosenLink, name: string, target: TargetOptions) {
  const [{ openOnServer, readSealed }, { connect }] = yield* Effect.promise(() =>
    Promise.all([import("#src/cli/sealed/Open.ts"), import("#src/cli/connection/Client.ts")])
  )
  const file = yield* readSealed(name)
  const { activeKey, values } = yield* openOnServer(
    { ...(yield* connect(session.chosen)), chosen: session.chosen },
    file,
    target
  )
  const foreign = Object.keys(values).find((key) => !secretKey.test(key))
  if (foreign !== undefined) return yield* new CliFailure({ message: `${name} holds a name that is not a secret key.` })
  if (activeKey !== undefined) {
    yield* warn(`${name} is sealed with an old key: \`ampoule reseal ${name}\` seals it with the active key.`)
  }
  return { values, etag: Option.none(), aliases: file.aliases } satisfies Resolved
})

export const run = Help.command(
  "run",
  {
    says: "Run a command with the environment's secrets as variables. Nothing is written to disk.",
    more: [
      "Exits with the command's exit code, or by the signal that ended it (128+N in a shell). 126: not executable; 127: not found; 125: ampoule itself failed before the command ran.",
      "A secret whose name is known to change which code runs (PATH, NODE_OPTIONS, MAKEFLAGS, HTTPS_PROXY, ...) is passed on only with --allow. The list of such names cannot be complete, so only run environments whose writers you trust.",
      "The command does not inherit the credentials of Ampoule itself (AMPOULE_API_TOKEN, AMPOULE_DATABASE_URL, ...)."
    ],
    examples: [
      "ampoule run --project shop --env development -- node app.js",
      "ampoule run --only 'DATABASE_*' -- ./migrate.sh",
      "ampoule run --command 'echo $GREETING && ./serve'",
      "ampoule run --names tf-var --prefix AWS_ -- terraform plan",
      "ampoule run --names alias -- dotnet run",
      "ampoule run --allow HTTPS_PROXY -- npm test",
      "ampoule run --watch --offline -- npm start",
      "ampoule run --mount secrets.json -- ./serve --config secrets.json",
      "ampoule run --redact -- make test",
      "ampoule run --sealed .env.sealed -- node app.js"
    ]
  },
  options,
  (given) => runCommand(given, openSealed)
)
