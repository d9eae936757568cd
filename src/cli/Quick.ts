/**
 * `run`, `secrets get` and `secrets list` stand before other programs, in loops and in scripts: the plain forms of their command lines
 * are read here, from the pages of the help, and nothing of the parser, the typed groups and the other commands is
 * loaded. What is unusual or wrong is left to the parser, which also says what is wrong with it.
 */
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import { find, optionOf, type Page, type Row } from "./help/HelpPage.ts"
import { pages } from "./help/Manual.ts"
import type { RunOptions } from "./values/RunOptions.ts"
import type { ListOptions } from "./secrets/SecretList.ts"
import type { GetOptions } from "./secrets/SecretValue.ts"

interface Given {
  readonly texts: ReadonlyMap<string, ReadonlyArray<string>>
  readonly rest: ReadonlyArray<string>
}

/** Options before arguments, each known, with its text behind it. Undefined: anything else. */
const read = (options: ReadonlyArray<Row>, words: ReadonlyArray<string>): Given | undefined => {
  const known = options.map(optionOf)
  const texts = new Map<string, Array<string>>()
  for (let i = 0; i < words.length; i++) {
    const word = words[i] ?? ""
    if (!word.startsWith("-")) {
      const rest = words.slice(i)
      return rest.some((one) => one.startsWith("-")) ? undefined : { texts, rest }
    }
    const option = known.find(({ names }) => names.includes(word))
    if (option === undefined) return undefined
    const text = option.value !== undefined ? words[++i] : ""
    if (text === undefined || text.startsWith("-") || (text === "" && option.value !== undefined)) return undefined
    texts.set(option.name, [...(texts.get(option.name) ?? []), text])
  }
  return { texts, rest: [] }
}

/** What is given twice where once is meant, or is not one of the words that are meant. */
class Unusual extends Error {}

const reader = ({ texts }: Given) => {
  const all = (name: string): ReadonlyArray<string> => texts.get(name) ?? []
  const text = (name: string): Option.Option<string> => {
    if (all(name).length > 1) throw new Unusual()
    return Option.fromNullable(all(name)[0])
  }
  const oneOf = <const Word extends string>(name: string, words: ReadonlyArray<Word>): Option.Option<Word> =>
    Option.map(text(name), (given) => {
      const found = words.find((word) => word === given)
      if (found === undefined) throw new Unusual()
      return found
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

const getOptions = (given: Given): GetOptions => {
  const options = reader(given)
  const [key, ...more] = given.rest
  if (key === undefined || more.length > 0) throw new Unusual()
  return {
    ...inEnvironment(options),
    key,
    json: options.flag("--json"),
    source: options.flag("--source"),
    raw: options.flag("--raw")
  }
}

const listOptions = (given: Given): ListOptions => {
  const options = reader(given)
  if (given.rest.length > 0 || given.texts.has("--last-read")) throw new Unusual()
  return { ...inEnvironment(options), json: options.flag("--json") }
}

/** What these take has a form of its own. */
const rareOfRun = ["--names", "--mount-format", "--watch-interval", "--offline-max-age", "--sealed"]

const runOptions = (given: Given): RunOptions => {
  const options = reader(given)
  if (given.rest.length > 0 || rareOfRun.some((name) => given.texts.has(name))) throw new Unusual()
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

const readOwn = (root: Page, own: ReadonlyArray<string>, depth: number): Given | undefined =>
  read(find(root, own.slice(0, depth)).at.options, own.slice(depth))

/** Undefined: the parser is to read it. */
const unlessUnusual = <A>(given: Given | undefined, options: (given: Given) => A): A | undefined => {
  if (given === undefined) return undefined
  try {
    return options(given)
  } catch (error) {
    if (error instanceof Unusual) return undefined
    throw error
  }
}

/** `own`: the words, without what belongs to a child process. */
export const getOf = (own: ReadonlyArray<string>, root = pages()) => unlessUnusual(readOwn(root, own, 2), getOptions)
export const listOf = (own: ReadonlyArray<string>, root = pages()) => unlessUnusual(readOwn(root, own, 2), listOptions)
export const runOf = (own: ReadonlyArray<string>, root = pages()) => unlessUnusual(readOwn(root, own, 1), runOptions)
