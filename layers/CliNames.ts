/** Names from the server for shell completion (`src/cli/connection/Suggest.ts`). */
import { suggest } from "#src/cli/connection/Suggest.ts"
import { launch } from "./CliProcess.ts"
import { atServers } from "./CliServers.ts"

export const start = ([, ...words]: ReadonlyArray<string>): boolean => {
  launch(atServers(suggest(words)), { json: false })
  return true
}
