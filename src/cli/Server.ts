/** `ampoule server` and `ampoule migrate`: settings come from the environment alone (docs/contract/names.md). */
import * as Command from "@effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Shared from "./Options.ts"
import { json, note } from "./Output.ts"
import { serverPrograms } from "./ServerSide.ts"

export const server = Command.make("server", {}, () =>
  Effect.flatMap(serverPrograms, (programs) => programs.server)
).pipe(
  Command.withDescription(
    Shared.describe("Serve, until SIGTERM or ^C: then requests under way are answered first.", {
      more: ["Without AMPOULE_DATABASE_URL it uses an embedded database in AMPOULE_DATA_DIR (./.ampoule)."],
      examples: ["ampoule server", "AMPOULE_PORT=8080 AMPOULE_DATABASE_URL_FILE=/run/secrets/db ampoule server"]
    })
  )
)

export const migrate = Command.make("migrate", { json: Shared.json }, (options) =>
  Effect.gen(function* () {
    yield* (yield* serverPrograms).migrate
    if (options.json) return yield* json({ upToDate: true })
    yield* note("The database is up to date.")
  })
).pipe(
  Command.withDescription(
    Shared.describe("Bring the database to the schema of this release; the server does so itself when it starts.", {
      examples: ["AMPOULE_DATABASE_URL=postgres://… ampoule migrate"]
    })
  )
)
