/**
 * Reads the words of one command by its page of help: options before, between and behind the arguments, `--name text`
 * and `--name=text`. Every word after `--` is an argument. Pure.
 *
 * The small programs and the parser of all commands take their words from here, so that both read a line in one way and
 * refuse it with one sentence. The parser (`@effect/cli`) decodes the texts.
 */
import { closest } from "#src/cli/terminal/Closest.ts"
import { type Match, optionOf } from "./Page.ts"

export interface CommandLine {
  readonly _tag: "CommandLine"
  /** Texts by the option's name on its page. A flag has the text `true`. */
  readonly texts: ReadonlyMap<string, ReadonlyArray<string>>
  /** Arguments before `--`. */
  readonly rest: ReadonlyArray<string>
  /** Arguments after `--`. Undefined without one. */
  readonly literal: ReadonlyArray<string> | undefined
}

/** A line that the command does not take. No text of an option is in the sentences: it may be a value. */
export interface Misuse {
  readonly _tag: "Misuse"
  readonly message: string
  readonly hint: string
}

type Option = ReturnType<typeof optionOf>

const isRepeatable = ({ value }: Option): boolean => value?.endsWith("...") === true

/** The name of an option that does not exist. Other words after a hyphen may be a value. */
const printable = (word: string): string | undefined => /^(--[a-z][a-z-]{0,29}|-[a-z])(?==|$)/i.exec(word)?.[1]

const misuse = ({ path }: Match, message: string, hint?: string): Misuse => ({
  _tag: "Misuse",
  message,
  hint: hint ?? `\`${path.join(" ")} --help\` shows how it is used.`
})

const unknownOption = (match: Match, options: ReadonlyArray<Option>, word: string): Misuse => {
  const name = printable(word)
  if (name === undefined) {
    return misuse(match, "This command has no such option.", "An argument that begins with a hyphen comes after --.")
  }
  const meant = closest(
    name,
    options.flatMap(({ names }) => names.filter((one) => one.startsWith("--")))
  )
  return misuse(
    match,
    `This command has no option ${name}.`,
    meant === undefined ? undefined : `Did you mean ${meant}?`
  )
}

/** `--name=text`. */
const halves = (word: string): readonly [name: string, text: string | undefined] => {
  const at = word.startsWith("--") ? word.indexOf("=") : -1
  return at < 0 ? [word, undefined] : [word.slice(0, at), word.slice(at + 1)]
}

const isCommandToRun = ({ path }: Match): boolean => path[1] === "run"

/** Text of an option that takes one: the half behind `=`, or the next word. `--` or the name of an option is no text. */
const textOf = (options: ReadonlyArray<Option>, half: string | undefined, next: string | undefined) => {
  const text = half ?? next
  if (text === "--" || text === undefined) return undefined
  return half === undefined && options.some(({ names }) => names.includes(text)) ? undefined : text
}

/** `words`: those after the command's own name. */
export const read = (match: Match, words: ReadonlyArray<string>): CommandLine | Misuse => {
  const options = match.at.options.map(optionOf)
  const texts = new Map<string, Array<string>>()
  const rest: Array<string> = []
  for (let i = 0; i < words.length; i++) {
    const word = words[i] ?? ""
    if (word === "--") return { _tag: "CommandLine", texts, rest, literal: words.slice(i + 1) }
    if (!word.startsWith("-") || word === "-") {
      if (isCommandToRun(match)) {
        return misuse(match, "Put -- before the command to run.", "Example: ampoule run [options] -- node app.js")
      }
      rest.push(word)
      continue
    }
    const [name, half] = halves(word)
    const option = options.find(({ names }) => names.includes(name))
    if (option === undefined) return unknownOption(match, options, word)
    const earlier = texts.get(option.name) ?? []
    if (earlier.length > 0 && !isRepeatable(option)) return misuse(match, `${name} can be given only once.`)
    if (option.value === undefined) {
      if (half === "false") continue
      if (half !== undefined && half !== "true") return misuse(match, `${name} takes no text.`)
      texts.set(option.name, ["true"])
      continue
    }
    const text = textOf(options, half, words[i + 1])
    if (text === undefined)
      return misuse(match, `${name} needs a text: ${name} ${option.value.replace(/\.\.\.$/, "")}.`)
    if (half === undefined) i++
    texts.set(option.name, [...earlier, text])
  }
  return { _tag: "CommandLine", texts, rest, literal: undefined }
}

/** The line as the parser takes it: options first, each flag with its text, because it takes a word such as `on` for one. */
export const canonical = ({ literal, rest, texts }: CommandLine): ReadonlyArray<string> => [
  ...[...texts].flatMap(([name, all]) => all.flatMap((text) => [name, text])),
  ...rest,
  ...(literal === undefined ? [] : ["--", ...literal])
]

/** Name of the argument or option that has this text. */
export const nameOfText = ({ at }: Match, { literal, rest, texts }: CommandLine, text: string): string | undefined => {
  const option = [...texts].find(([, all]) => all.includes(text))
  if (option !== undefined) return option[0]
  const index = [...rest, ...(literal ?? [])].indexOf(text)
  return index < 0 ? undefined : /[A-Z_-]+/i.exec(at.arguments[index]?.[0] ?? "")?.[0]
}
