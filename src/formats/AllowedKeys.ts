/**
 * A team's list of allowed keys (docs/contract/access.md, "Allowed keys"). A list of what may run ends the race that a
 * list of what may not run never wins: a program that reads its options from a variable of any other name gets none.
 */
import { isDangerous } from "./DangerousNames.ts"

/** A prefix allows no name that is known to run code: such a name is written out. */
export const allows = (list: ReadonlyArray<string>, key: string): boolean =>
  list.includes(key) ||
  (list.some((entry) => entry.endsWith("*") && key.startsWith(entry.slice(0, -1))) && !isDangerous(key))

/** The sentence of a refusal. */
export const refusalOf = (key: string): string =>
  `The team's list of allowed keys does not have ${key}. An owner can add it in the team's settings.`

/** Whether the list allows a key that the list before does not. An entry may be covered by a wider one. */
export const isWider = (before: ReadonlyArray<string> | null, after: ReadonlyArray<string> | null): boolean =>
  before !== null &&
  (after === null ||
    after.some((entry) =>
      entry.endsWith("*")
        ? !before.some((other) => other.endsWith("*") && entry.startsWith(other.slice(0, -1)))
        : !allows(before, entry)
    ))
