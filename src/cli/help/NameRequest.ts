/** Kind of names that complete a word of the command line, from the pages of the help. Pure except for reading them. */
import * as Option from "effect/Option"
import { find, namesOfArgument, namesOfOption, optionOf } from "./Page.ts"
import type { NameKind } from "./Page.ts"
import { pages } from "./Manual.ts"

export interface NameRequest {
  readonly kind: NameKind
  readonly project: string | undefined
  readonly environment: string | undefined
  readonly credential: Option.Option<"env" | "stored">
}

/** Undefined when no name from the server belongs there. */
export const nameRequest = (words: ReadonlyArray<string>): NameRequest | undefined => {
  const typed = words.slice(0, -1)
  const { at, path, unknown } = find(pages(), typed)
  if (unknown !== undefined || typed.includes("--")) return undefined
  const options = at.options.map(optionOf)
  const texts = new Map<string, string>()
  let open: (typeof options)[number] | undefined
  let index = 0
  for (const word of typed.slice(path.length - 1)) {
    if (open !== undefined) {
      texts.set(open.name, word)
      open = undefined
    } else if (word.startsWith("-")) {
      const option = options.find(({ names }) => names.includes(word))
      open = option?.value === undefined ? undefined : option
    } else index++
  }
  // No credential goes to another server before the user starts the command.
  if (texts.has("--url")) return undefined
  const kind = open === undefined ? namesOfArgument(at, index) : namesOfOption(open)
  const credential = texts.get("--credential")
  return kind === undefined
    ? undefined
    : {
        kind,
        project: texts.get("--project"),
        environment: texts.get("--env"),
        credential: credential === "env" || credential === "stored" ? Option.some(credential) : Option.none()
      }
}
