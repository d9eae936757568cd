/**
 * The quick path of the command line. `run`, `secrets get`, `secrets list`, `whoami`, `projects list`, `exposed` and
 * `doctor` start before other programs, in loops, prompts and scripts. They read their options here, without loading the
 * parser, the typed groups and the other commands. The parser reads a text that has to be one of a list and is not, and
 * words all errors.
 *
 * It exists beside the declared parser (`@effect/cli`) for start-up alone. Both take the words of a line from
 * `help/Arguments.ts`, with the page of the help as the table of options. `test/cli/Quick.test.ts` runs both over every
 * option, in each order, and over random words: an option that is missing here fails there.
 */
import type * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import { formats } from "#src/formats/FormatNames.ts"
import { type CommandLine, read } from "./help/Arguments.ts"
import { pages } from "./help/Manual.ts"
import { find, type Page } from "./help/Page.ts"
import type { ExposedOptions } from "./secrets/Exposed.ts"
import type { ListOptions } from "./secrets/List.ts"
import type { GetOptions } from "./secrets/Value.ts"
import { styleNames } from "./terminal/KeyNames.ts"
import { defaultTexts, parseDuration } from "./terminal/Times.ts"
import type { RunOptions } from "./values/RunOptions.ts"

/** A text that the declared parser refuses, or changes. */
class NotPlain extends Error {}

const reader = ({ texts }: CommandLine) => {
  const one = (name: string): Option.Option<string> => Option.fromNullable(texts.get(name)?.[0])
  /** The declared parser trims these texts, and drops empty ones. */
  const all = (name: string): ReadonlyArray<string> => {
    const list = texts.get(name) ?? []
    if (list.some((text) => text === "" || text !== text.trim())) throw new NotPlain()
    return [...list]
  }
  const text = (name: string): Option.Option<string> => {
    if (Option.contains(one(name), "")) throw new NotPlain()
    return one(name)
  }
  const oneOf = <const Word extends string>(name: string, words: ReadonlyArray<Word>): Option.Option<Word> =>
    Option.map(one(name), (given) => {
      const match = words.find((word) => word === given)
      if (match === undefined) throw new NotPlain()
      return match
    })
  const durationOf = (given: string): Duration.Duration =>
    Option.getOrThrowWith(parseDuration(given), () => new NotPlain())
  const duration = (name: keyof typeof defaultTexts) =>
    durationOf(Option.getOrElse(one(`--${name}`), () => defaultTexts[name]))
  const optionalDuration = (name: string) => Option.map(one(name), durationOf)
  const flag = (name: string): boolean => texts.has(name)
  return { all, text, oneOf, duration, optionalDuration, flag }
}

const connection = ({ oneOf, text }: ReturnType<typeof reader>) => ({
  url: text("--url"),
  credential: oneOf("--credential", ["env", "stored"])
})

const inEnvironment = (options: ReturnType<typeof reader>) => ({
  ...connection(options),
  project: options.text("--project"),
  environment: options.text("--env")
})

const getOptions = (line: CommandLine): GetOptions => {
  const options = reader(line)
  const [key] = line.rest
  if (key === undefined || line.rest.length > 1) throw new NotPlain()
  return {
    ...inEnvironment(options),
    key,
    json: options.flag("--json"),
    source: options.flag("--source"),
    raw: options.flag("--raw")
  }
}

const listOptions = (line: CommandLine): ListOptions => {
  const options = reader(line)
  if (line.rest.length > 0 || options.flag("--last-read")) throw new NotPlain()
  return { ...inEnvironment(options), json: options.flag("--json") }
}

const exposedOptions = (line: CommandLine): ExposedOptions => {
  const options = reader(line)
  if (line.rest.length > 1) throw new NotPlain()
  return {
    ...inEnvironment(options),
    json: options.flag("--json"),
    by: options.text("--by"),
    token: options.text("--token"),
    since: options.text("--since"),
    key: Option.fromNullable(line.rest[0])
  }
}

/** Of `whoami`, `doctor` and `projects list`. */
const connectionOptions = (line: CommandLine) => {
  const options = reader(line)
  if (line.rest.length > 0) throw new NotPlain()
  return { ...connection(options), json: options.flag("--json") }
}

const runOptions = (line: CommandLine): RunOptions => {
  const options = reader(line)
  // Opening a sealed file loads more than everything else here.
  if (options.flag("--sealed")) throw new NotPlain()
  return {
    ...inEnvironment(options),
    only: [...options.all("--only")],
    except: [...options.all("--except")],
    prefix: options.text("--prefix"),
    names: options.oneOf("--names", styleNames),
    allow: [...options.all("--allow")],
    keepExisting: options.flag("--no-override"),
    preserve: [...options.all("--preserve-env")],
    shellCommand: options.text("--command"),
    mount: options.text("--mount"),
    mountFormat: options.oneOf("--mount-format", formats),
    passCredentials: options.flag("--pass-credentials"),
    watch: options.flag("--watch"),
    interval: options.duration("watch-interval"),
    offline: options.flag("--offline"),
    offlineAge: options.duration("offline-max-age"),
    fallbackOnly: options.flag("--fallback-only"),
    timeout: options.optionalDuration("--timeout"),
    sealed: Option.none(),
    plan: options.text("--plan"),
    redact: options.flag("--redact")
  }
}

/** Undefined: the parser has to read it. */
const quick =
  <A>(options: (line: CommandLine) => A) =>
  /** `own`: the words without those of a child process. */
  (own: ReadonlyArray<string>, root: Page = pages()): A | undefined => {
    // A hyphen alone is a name of standard input.
    if (own.includes("-")) return undefined
    const match = find(root, own)
    const line = read(match, own.slice(match.path.length - 1))
    if (line._tag === "Misuse" || line.literal !== undefined) return undefined
    try {
      return options(line)
    } catch (error) {
      if (error instanceof NotPlain) return undefined
      throw error
    }
  }

export const getOf = quick(getOptions)
export const listOf = quick(listOptions)
export const exposedOf = quick(exposedOptions)
export const connectionOf = quick(connectionOptions)
export const runOf = quick(runOptions)
