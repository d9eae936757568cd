/** `ampoule secrets get` in its plain form (`src/cli/Quick.ts`), with what it needs and nothing else. */
import { getOf } from "#src/cli/Quick.ts"
import { readValue } from "#src/cli/SecretValue.ts"
import { launch } from "./CliProcess.ts"
import { atServers } from "./CliServers.ts"

/** False: the words are for the parser. */
export const start = (words: ReadonlyArray<string>): boolean => {
  const options = getOf(words)
  if (options === undefined) return false
  launch(atServers(readValue(options)), options)
  return true
}
