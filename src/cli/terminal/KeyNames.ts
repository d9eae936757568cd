/** Names under which a program expects its variables. Keys are A-Z, 0-9 and _. Pure. */
import * as Either from "effect/Either"
import { secretKey } from "#schema/Patterns.ts"

const wordsOf = (key: string): ReadonlyArray<string> =>
  key
    .toLowerCase()
    .split("_")
    .filter((word) => word !== "")
const capital = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1)
const pascal = (key: string): string => wordsOf(key).map(capital).join("")
/** Two underscores divide sections: SMTP__USER_NAME. */
const sections = (key: string, divider: string): string => key.split("__").map(pascal).join(divider)

/** A name of another program as a key: `db-url`, `db.url` and `dbUrl` as DB_URL. Two underscores divide sections, and stay. */
export const keyOf = (name: string): string =>
  name
    .replace(/([a-z0-9])([A-Z])/g, "$1_$2")
    .replace(/[^A-Za-z0-9_]+/g, "_")
    .replace(/^_+/, "")
    .replace(/_+$/, "")
    .toUpperCase()

/**
 * Words of letters with at most two digits behind each, as names of variables have: `db-url`, `dbUrl`, `smtp2.host`. A
 * random text rarely looks like that, so it may be repeated in an error.
 */
const name = /^(?:[A-Z]{1,16}|[A-Z]?[a-z]{1,16}(?:[A-Z][a-z]{1,15}){0,4})\d{0,2}$/

/** Key that the user meant by a name of another form. Undefined for a text that may be a value. */
export const keyMeant = (text: string): string | undefined => {
  const words = text.split(/[-_.]/)
  if (words.length > 4 || !words.every((word) => name.test(word))) return undefined
  const key = keyOf(text)
  return secretKey.test(key) ? key : undefined
}

const styles = {
  camel: (key: string) => pascal(key).replace(/^./, (first) => first.toLowerCase()),
  "upper-camel": pascal,
  "lower-snake": (key: string) => key.toLowerCase(),
  "lower-kebab": (key: string) => wordsOf(key).join("-"),
  /** A key that has the prefix already is not given it twice. */
  "tf-var": (key: string) => `TF_VAR_${key.replace(/^TF_VAR_/, "").toLowerCase()}`,
  dotnet: (key: string) => sections(key, ":"),
  "dotnet-env": (key: string) => sections(key, "__")
} as const
/** The name that another program has for a secret does not follow from its key (`secrets note --alias`). */
const aliasStyle = "alias"
export type Style = keyof typeof styles | typeof aliasStyle
export const styleNames = [
  "camel",
  "upper-camel",
  "lower-snake",
  "lower-kebab",
  "tf-var",
  "dotnet",
  "dotnet-env",
  aliasStyle
] as const satisfies ReadonlyArray<Style>

/** Left: two keys with the same resulting name. */
export const rename = (
  values: Readonly<Record<string, string>>,
  style: Style,
  aliases: ReadonlyMap<string, string>
): Either.Either<Readonly<Record<string, string>>, readonly [string, string]> => {
  const from = new Map<string, string>()
  const renamed: Array<readonly [string, string]> = []
  for (const [key, value] of Object.entries(values)) {
    const name = style === aliasStyle ? (aliases.get(key) ?? key) : styles[style](key)
    const other = from.get(name)
    if (other !== undefined) return Either.left([other, key])
    from.set(name, key)
    renamed.push([name, value])
  }
  return Either.right(Object.fromEntries(renamed))
}
