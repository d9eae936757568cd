/** What a command line asks of the program itself: pages of the help, completion scripts, the version. */
import { join } from "node:path"
import { fs } from "#src/cli/terminal/BuiltIn.ts"
import * as Completion from "./Completion.ts"
import * as HelpPage from "./HelpPage.ts"

let read: HelpPage.Page | undefined
/** Of all commands: written beside the program by its build. */
export const pages = (): HelpPage.Page =>
  // The build wrote it from this very type, beside this very program.
  (read ??= JSON.parse(fs().readFileSync(join(import.meta.dirname, "manual.json"), "utf8")) as HelpPage.Page)

/** `help secrets set` and `version`, as other programs have them. */
const asOptions = (words: ReadonlyArray<string>): ReadonlyArray<string> => {
  if (words[0] === "help") return [...words.slice(1), "--help"]
  return words[0] === "version" && words.length === 1 ? ["--version"] : words
}

/** A command of the parser has arguments or commands, not both. */
const meantWithFile: ReadonlyMap<string, string> = new Map([
  ["seal", "file"],
  ["backup", "create"]
])

/**
 * `seal FILE` is `seal file FILE`, `backup FILE` is `backup create FILE`. `restore --at TIME` is about an environment,
 * `restore FILE` about a backup.
 */
const withFileCommand = (words: ReadonlyArray<string>): ReadonlyArray<string> => {
  const [command = "", next] = words
  if (command === "restore" && words.some((word) => word === "--at" || word.startsWith("--at="))) {
    return ["secrets", "restore-at", ...words.slice(1)]
  }
  const meant = meantWithFile.get(command)
  if (meant === undefined || next === undefined || next === "--help" || next === "-h") return words
  const own = pages().below.find(({ name }) => name === command)?.below ?? []
  return own.some(({ name }) => name === next) ? words : [command, meant, ...words.slice(1)]
}

/** The words as the parser takes them. */
export const parsedWords = (words: ReadonlyArray<string>): ReadonlyArray<string> => withFileCommand(asOptions(words))

/** All after the first `--` of `run` belongs to its command, whatever it looks like. */
export const split = (words: ReadonlyArray<string>) => {
  const at = words.indexOf("--")
  return at < 0 || words[0] !== "run"
    ? { own: words, child: undefined }
    : { own: words.slice(0, at), child: words.slice(at + 1) }
}

export const asksForCompletion = ([first]: ReadonlyArray<string>): boolean =>
  first === "completion" || first === "--completions"

/** No group of commands lies deeper. */
const deepestGroup = 2

/** Undefined when a command is to do something, or is not understood. */
export const answer = (given: ReadonlyArray<string>, version: string): string | undefined => {
  const words = asOptions(split(given).own)
  if (words[0] === "--version" && words.length === 1) return `${version}\n`
  if (asksForCompletion(words)) {
    const [, shell, ...more] = words
    return Completion.isShell(shell) && more.length === 0 ? Completion.script(shell, pages()) : undefined
  }
  const asked = words.includes("--help") || words.includes("-h")
  if (!asked && words.length > deepestGroup) return undefined
  return pageFor(withFileCommand(words), asked)
}

const pageFor = (words: ReadonlyArray<string>, asked: boolean): string | undefined => {
  const found = HelpPage.find(pages(), words)
  if (found.unknown !== undefined) return undefined
  return asked || (found.at.isGroup && words.length === found.path.length - 1) ? HelpPage.page(found) : undefined
}
