/** `ampoule licences`: licence texts that must be passed on with the program. */
import * as Effect from "effect/Effect"
import { CliFailure } from "#src/cli/terminal/Failure.ts"
import * as Help from "./Help.ts"
import { licencesText } from "./LicencesText.ts"
import { out } from "#src/cli/terminal/Output.ts"

export const licences = Help.command(
  "licences",
  {
    says: "Show the licences of Ampoule and of the packages in it.",
    examples: ["ampoule licences | less"]
  },
  {},
  Effect.fnUntraced(function* () {
    const text = yield* Effect.try({
      try: licencesText,
      catch: () =>
        new CliFailure({
          message: "This build has no list of licences.",
          hint: "`node deploy/licences.mjs` makes it from the installed packages."
        })
    })
    yield* out(text)
  })
)
