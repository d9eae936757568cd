/** Requests that need no command: pages of the help, completion scripts, the version. */
import * as Completion from "./Completion.ts"
import { manualText } from "./ManualText.ts"
import * as HelpPage from "./Page.ts"

let read: HelpPage.Page | undefined
/** Pages of all commands, written beside the program by its build. */
export const pages = (): HelpPage.Page =>
  // Safe cast: the build wrote the file from this type, for this program.
  (read ??= JSON.parse(manualText()) as HelpPage.Page)

/** `help secrets set` and `version`, as in other programs. */
const asOptions = (words: ReadonlyArray<string>): ReadonlyArray<string> => {
  if (words[0] === "help") return [...words.slice(1), "--help"]
  return words[0] === "version" && words.length === 1 ? ["--version"] : words
}

/** The parser allows a command either arguments or subcommands, not both. */
const fileCommands: ReadonlyMap<string, string> = new Map([
  ["seal", "file"],
  ["backup", "create"]
])

/**
 * `seal FILE` means `seal file FILE`, and `backup FILE` means `backup create FILE`. `restore --at TIME` restores an
 * environment, `restore FILE` a backup.
 */
const withFileCommand = (words: ReadonlyArray<string>): ReadonlyArray<string> => {
  const [command = "", next] = words
  if (command === "restore" && words.some((word) => word === "--at" || word.startsWith("--at="))) {
    return ["secrets", "restore-at", ...words.slice(1)]
  }
  const subcommand = fileCommands.get(command)
  if (subcommand === undefined || next === undefined || next === "--help" || next === "-h") return words
  const subcommands = pages().below.find(({ name }) => name === command)?.below ?? []
  return subcommands.some(({ name }) => name === next) ? words : [command, subcommand, ...words.slice(1)]
}

/** The words in the form that the parser takes. */
export const parsedWords = (words: ReadonlyArray<string>): ReadonlyArray<string> => withFileCommand(asOptions(words))

/** In `run`, everything after the first `--` belongs to the child process. */
export const split = (words: ReadonlyArray<string>) => {
  const at = words.indexOf("--")
  return at < 0 || words[0] !== "run"
    ? { own: words, child: undefined }
    : { own: words.slice(0, at), child: words.slice(at + 1) }
}

export const asksForCompletion = ([first]: ReadonlyArray<string>): boolean =>
  first === "completion" || first === "--completions"

/** Depth of the deepest group of commands. */
const deepestGroup = 2

/** Undefined when a command has to run, or the words are not understood. */
export const textFor = (args: ReadonlyArray<string>, version: string): string | undefined => {
  const words = asOptions(split(args).own)
  if (words[0] === "--version" && words.length === 1) return `${version}\n`
  if (asksForCompletion(words)) {
    const [, shell, ...more] = words
    return Completion.isShell(shell) && more.length === 0 ? Completion.script(shell, pages()) : undefined
  }
  const wantsHelp = words.includes("--help") || words.includes("-h")
  if (!wantsHelp && words.length > deepestGroup) return undefined
  return pageFor(withFileCommand(words), wantsHelp)
}

const pageFor = (words: ReadonlyArray<string>, wantsHelp: boolean): string | undefined => {
  const match = HelpPage.find(pages(), words)
  if (match.unknown !== undefined) return undefined
  return wantsHelp || (match.at.isGroup && words.length === match.path.length - 1) ? HelpPage.page(match) : undefined
}
