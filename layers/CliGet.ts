/** Plain forms of `ampoule secrets get` and `list` (`src/cli/Quick.ts`), with nothing but what they need. */
import { getOf, listOf } from "#src/cli/Quick.ts"
import { readList } from "#src/cli/secrets/List.ts"
import { readValue } from "#src/cli/secrets/Value.ts"
import { launch } from "./CliProcess.ts"
import { atServers } from "./CliServers.ts"

/** Returns false when the words are for the parser. */
export const start = (words: ReadonlyArray<string>): boolean => {
  if (words[1] === "list") {
    const options = listOf(words)
    if (options === undefined) return false
    launch(atServers(readList(options)), options)
    return true
  }
  const options = getOf(words)
  if (options === undefined) return false
  launch(atServers(readValue(options)), options)
  return true
}
