/** Plain form of `ampoule run` (`src/cli/Quick.ts`), with nothing but what it needs. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { onBeforeExec } from "#src/cli/run/Become.ts"
import * as Descriptors from "#src/cli/run/Descriptors.ts"
import { split } from "#src/cli/help/Manual.ts"
import { runOf } from "#src/cli/Quick.ts"
import { ChildCommand, runCommand } from "#src/cli/run/Run.ts"
import { launch } from "./CliProcess.ts"
import { atServers } from "./CliServers.ts"

/** Returns false when the words are for the parser. */
export const start = (words: ReadonlyArray<string>, leave: () => void): boolean => {
  const { child, own } = split(words)
  const options = runOf(own)
  if (options === undefined) return false
  Descriptors.inherited()
  // `runOf` leaves --sealed to the parser.
  const openSealed = () => Effect.dieMessage("--sealed")
  const command = Effect.provideService(runCommand(options, openSealed), ChildCommand, Option.fromNullable(child))
  onBeforeExec(leave)
  launch(atServers(command), { json: false })
  return true
}
