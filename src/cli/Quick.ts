/**
 * The quick path of the command line. `run`, `secrets get` and `secrets list` start before other programs, in loops and
 * in scripts. Their plain forms are read here with the pages of help as the only table of options, without loading the
 * parser, the typed groups and the other commands. The parser reads everything else, and words all errors.
 *
 * It exists beside the declared parser (`@effect/cli`) for start-up alone. The build writes the table from the declared
 * options, and `test/cli/Quick.test.ts` runs both parsers over every option and over random words.
 */
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import { find, optionOf, type Page, type Row } from "./help/Page.ts"
import { pages } from "./help/Manual.ts"
import type { RunOptions } from "./values/RunOptions.ts"
import type { ListOptions } from "./secrets/List.ts"
import type { GetOptions } from "./secrets/Value.ts"

interface Parsed {
  readonly texts: ReadonlyMap<string, ReadonlyArray<string>>
  readonly rest: ReadonlyArray<string>
}

/** Known options with their texts, before any argument. Undefined: the parser has to read it. */
const read = (options: ReadonlyArray<Row>, words: ReadonlyArray<string>): Parsed | undefined => {
  const declared = options.map(optionOf)
  const texts = new Map<string, Array<string>>()
  for (let i = 0; i < words.length; i++) {
    const word = words[i] ?? ""
    if (!word.startsWith("-")) {
      const rest = words.slice(i)
      return rest.some((one) => one.startsWith("-")) ? undefined : { texts, rest }
    }
    const option = declared.find(({ names }) => names.includes(word))
    if (option === undefined) return undefined
    const text = option.value !== undefined ? words[++i] : ""
    if (text === undefined || text.startsWith("-") || (text === "" && option.value !== undefined)) return undefined
    texts.set(option.name, [...(texts.get(option.name) ?? []), text])
  }
  return { texts, rest: [] }
}

/** An option given twice, or a word that is not in its list. */
class NotPlain extends Error {}

const reader = ({ texts }: Parsed) => {
  const all = (name: string): ReadonlyArray<string> => texts.get(name) ?? []
  const text = (name: string): Option.Option<string> => {
    if (all(name).length > 1) throw new NotPlain()
    return Option.fromNullable(all(name)[0])
  }
  const oneOf = <const Word extends string>(name: string, words: ReadonlyArray<Word>): Option.Option<Word> =>
    Option.map(text(name), (given) => {
      const match = words.find((word) => word === given)
      if (match === undefined) throw new NotPlain()
      return match
    })
  const flag = (name: string): boolean => Option.isSome(text(name))
  return { all, text, oneOf, flag }
}

const inEnvironment = ({ oneOf, text }: ReturnType<typeof reader>) => ({
  url: text("--url"),
  credential: oneOf("--credential", ["env", "stored"]),
  project: text("--project"),
  environment: text("--env")
})

const getOptions = (parsed: Parsed): GetOptions => {
  const options = reader(parsed)
  const [key, ...more] = parsed.rest
  if (key === undefined || more.length > 0) throw new NotPlain()
  return {
    ...inEnvironment(options),
    key,
    json: options.flag("--json"),
    source: options.flag("--source"),
    raw: options.flag("--raw")
  }
}

const listOptions = (parsed: Parsed): ListOptions => {
  const options = reader(parsed)
  if (parsed.rest.length > 0 || parsed.texts.has("--last-read")) throw new NotPlain()
  return { ...inEnvironment(options), json: options.flag("--json") }
}

/** Options of `run` whose texts need a parser of their own. */
const parserOnlyOptions = ["--names", "--mount-format", "--watch-interval", "--offline-max-age", "--sealed"]

const runOptions = (parsed: Parsed): RunOptions => {
  const options = reader(parsed)
  if (parsed.rest.length > 0 || parserOnlyOptions.some((name) => parsed.texts.has(name))) throw new NotPlain()
  return {
    ...inEnvironment(options),
    only: [...options.all("--only")],
    except: [...options.all("--except")],
    prefix: options.text("--prefix"),
    names: Option.none(),
    allow: [...options.all("--allow")],
    keepExisting: options.flag("--no-override"),
    preserve: [...options.all("--preserve-env")],
    shellCommand: options.text("--command"),
    mount: options.text("--mount"),
    mountFormat: Option.none(),
    passCredentials: options.flag("--pass-credentials"),
    watch: options.flag("--watch"),
    interval: Duration.seconds(15),
    offline: options.flag("--offline"),
    offlineAge: Duration.hours(24),
    sealed: Option.none(),
    plan: options.text("--plan"),
    redact: options.flag("--redact")
  }
}

const readOwn = (root: Page, words: ReadonlyArray<string>, depth: number): Parsed | undefined =>
  read(find(root, words.slice(0, depth)).at.options, words.slice(depth))

/** Undefined: the parser has to read it. */
const unlessNotPlain = <A>(parsed: Parsed | undefined, options: (given: Parsed) => A): A | undefined => {
  if (parsed === undefined) return undefined
  try {
    return options(parsed)
  } catch (error) {
    if (error instanceof NotPlain) return undefined
    throw error
  }
}

/** `own`: the words without those of a child process. */
export const getOf = (own: ReadonlyArray<string>, root = pages()) => unlessNotPlain(readOwn(root, own, 2), getOptions)
export const listOf = (own: ReadonlyArray<string>, root = pages()) => unlessNotPlain(readOwn(root, own, 2), listOptions)
export const runOf = (own: ReadonlyArray<string>, root = pages()) => unlessNotPlain(readOwn(root, own, 1), runOptions)
