/** Checks of the commands and options that the command line's own sentences name. */
import { manual } from "#src/cli/Commands.ts"
import * as HelpPage from "#src/cli/help/Page.ts"

/** Place of what a template puts in. */
export const placeholder = "·"

const pages = manual()

/** The forms that the program turns into another command (`src/cli/help/Manual.ts`). */
const rewritten = (words: ReadonlyArray<string>): ReadonlyArray<string> => {
  const [command, next] = words
  if (command === "restore" && words.includes("--at")) return ["secrets", "restore-at", ...words.slice(1)]
  const ofFile = command === "seal" ? "file" : command === "backup" ? "create" : undefined
  const below = pages.below.find(({ name }) => name === command)?.below ?? []
  return command === undefined || ofFile === undefined || next === undefined || below.some(({ name }) => name === next)
    ? words
    : [command, ofFile, ...words.slice(1)]
}

const namesOf = ({ at }: HelpPage.Match): ReadonlyArray<string> =>
  at.options.flatMap((row) => HelpPage.optionOf(row).names)

/** Complaint about a command that the program would not understand. */
export const complaint = (command: string): string | undefined => {
  // `ampoule a|b|c` names several; a pipe, another command or a comment ends the command.
  const own = command.split(/ (?:--|[|>&#;]+)(?: |$)/)[0]?.replaceAll(/([a-z-]+)(?:\|[a-z-]+)+/g, "$1") ?? ""
  const words = rewritten(own.split(/[ =]+/).filter((word) => word !== ""))
  // A template may put the name of a command in.
  if (words[0] === undefined || words[0].startsWith(placeholder)) return undefined
  // The name of a key derivation (docs/contract/sealed-values.md).
  if (command === "sealed-env v1") return undefined
  if (["--version", "--help", "COMMAND", "completion", "help", "version"].includes(words[0])) return undefined
  const match = HelpPage.find(pages, words)
  if (match.unknown !== undefined && match.at.isGroup && !/[·…]/.test(match.unknown)) {
    return `has no command ${match.unknown}`
  }
  const names = namesOf(match)
  const missing = words.filter((word) => /^--?[a-z]/.test(word) && word !== "--help" && !names.includes(word))
  return missing.length === 0 ? undefined : `${match.path.join(" ")} has no ${missing.join(", ")}`
}

/**
 * Complaints about the next steps that a failed command printed: a command that does not exist, or an option that the
 * command which failed does not have. The steps are the indented lines behind the first sentence.
 */
export const complaintsAbout = (args: ReadonlyArray<string>, stderr: string): ReadonlyArray<string> => {
  const at = stderr.lastIndexOf("ampoule: ")
  // Lines are wrapped at the width of a terminal.
  const steps = (at < 0 ? "" : stderr.slice(at))
    .split("\n")
    .slice(1)
    .filter((line) => line.startsWith("  "))
    .map((line) => line.trim())
    .join(" ")
  const commands = Array.from(steps.matchAll(/`ampoule ([^`]*)`/g), ([, command]) => complaint(command) ?? "")
  const match = HelpPage.find(pages, rewritten(args[0] === "run" ? ["run"] : args))
  const names = namesOf(match)
  const bare = steps.replaceAll(/`[^`]*`|\bampoule [a-z].*$|EDITOR=\S+ \S+/g, "").match(/(?<=^|[\s(])--[a-z][a-z-]*/g)
  const missing = (bare ?? []).filter((option) => !names.includes(option) && option !== "--help")
  return [...commands.filter((one) => one !== ""), ...missing.map((one) => `${match.path.join(" ")} has no ${one}`)]
}
