/** `ampoule trust`: records that the user trusts the project file of a folder. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { CliFailure } from "#src/cli/terminal/Failure.ts"
import * as Help from "#src/cli/help/Help.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { json, note, plain } from "#src/cli/terminal/Output.ts"
import * as ProjectFile from "#src/cli/connection/ProjectFile.ts"

export const trust = Help.command(
  "trust",
  {
    says: "Trust the .ampoule.json of this folder, or of the nearest folder above in its present content.",
    more: [
      "The file often arrives with a repository, and chooses which secrets its programs receive. It has no effect until you trust it: commands ask at a terminal, and fail elsewhere. Trust it again after each change. Names that --project and --env give need no trust."
    ],
    examples: ["ampoule trust", "ampoule trust && ampoule run -- npm test"]
  },
  { json: Shared.json },
  Effect.fnUntraced(function* (options) {
    const file = yield* ProjectFile.find({ foreign: true })
    if (Option.isNone(file)) {
      return yield* new CliFailure({
        message: `There is no ${ProjectFile.fileName} in this folder or above it.`,
        hint: 'Write one like {"project": "shop", "environment": "development"}.'
      })
    }
    yield* ProjectFile.trust(file.value)
    const { environment, path, project } = file.value
    if (options.json) {
      return yield* json({
        file: path,
        project: Option.getOrNull(project),
        environment: Option.getOrNull(environment)
      })
    }
    yield* note(`${plain(path)} is trusted as it is now: ${ProjectFile.description(file.value)}.`)
  })
)
