/**
 * Variables that decide which code a program runs, or where its traffic goes. A writer of such a secret can run code as
 * the person or job that runs the environment. The list cannot be complete, since every program can read any variable.
 * It holds the names that common shells, loaders, languages, build tools and command-line programs act upon.
 */

import { groups, harmless } from "./DangerousNameLists.ts"

const words = (text: string | undefined): ReadonlyArray<string> =>
  (text ?? "").split(/\s+/).filter((word) => word !== "")

const makeTables = () => {
  const reasonsOf = (member: "names" | "prefixes" | "suffixes") =>
    groups.flatMap((group) => words(group[member]).map((word) => [word, group.reason] as const))
  return {
    byName: new Map(reasonsOf("names")),
    byPrefix: reasonsOf("prefixes"),
    bySuffix: reasonsOf("suffixes"),
    harmless: new Set(words(harmless))
  }
}
// Marked as pure: a bundler leaves the lists out of a program that only reads values.
const tables = /* @__PURE__ */ makeTables()

/** Families whose every member is a danger, whatever it ends with. */
const withoutExceptions = /^(?:LDR?_|DYLD_)/
/**
 * `CARGO_REGISTRY_TOKEN`, `UV_INDEX_SHOP_PASSWORD`, and `BUNDLE_RUBYGEMS__PKG__GITHUB__COM` (user and password of a
 * host, whose dots are two underscores each).
 */
const isCredential = (name: string): boolean =>
  /_(?:TOKENS?|PASSWORD|USERNAME)$/.test(name) ||
  name.startsWith("POETRY_PYPI_TOKEN_") ||
  (/^BUNDLE_[A-Z0-9]+__[A-Z0-9_]*$/.test(name) &&
    /_(?:COM|ORG|NET|IO|DEV)$/.test(name) &&
    !name.startsWith("BUNDLE_MIRROR__"))

/**
 * Why a variable of this name can change which code runs, as the end of a sentence; undefined when it is not known to.
 */
export const danger = (name: string): string | undefined => {
  const exact = tables.byName.get(name)
  if (exact !== undefined) return exact
  const family =
    tables.byPrefix.find(([prefix]) => name.startsWith(prefix)) ??
    tables.bySuffix.find(([suffix]) => name.endsWith(suffix))
  if (family === undefined) return undefined
  const isHarmless = tables.harmless.has(name) || (isCredential(name) && !withoutExceptions.test(name))
  return isHarmless ? undefined : family[1]
}

export const isDangerous = (name: string): boolean => danger(name) !== undefined
