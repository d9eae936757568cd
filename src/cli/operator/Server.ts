/** `ampoule server` and `ampoule migrate`: settings come from the environment alone (docs/contract/names.md). */
import * as Effect from "effect/Effect"
import * as Help from "#src/cli/help/Help.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { json, note } from "#src/cli/terminal/Output.ts"
import { serverPrograms } from "./ServerSide.ts"

export const server = Help.command(
  "server",
  {
    says: "Run the server. After SIGTERM or ^C it first completes the requests in progress.",
    more: ["Without AMPOULE_DATABASE_URL it uses an embedded database in AMPOULE_DATA_DIR (./.ampoule)."],
    examples: ["ampoule server", "AMPOULE_PORT=8080 AMPOULE_DATABASE_URL_FILE=/run/secrets/db ampoule server"]
  },
  {},
  () => Effect.flatMap(serverPrograms, (programs) => programs.server)
)

export const migrate = Help.command(
  "migrate",
  {
    says: "Migrate the database to the schema of this release. The server does the same when it starts.",
    examples: ["AMPOULE_DATABASE_URL=postgres://… ampoule migrate"]
  },
  { json: Shared.json },
  Effect.fnUntraced(function* (options) {
    yield* (yield* serverPrograms).migrate
    if (options.json) return yield* json({ upToDate: true })
    yield* note("The database is up to date.")
  })
)
