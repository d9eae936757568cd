/**
 * Text of a sealed `.env` file (docs/contract/sealed-values.md). A header names its environment and key. Each value has
 * a line of its own, so that changes of two people merge line by line. Pure.
 */
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Dotenv from "#src/formats/Dotenv.ts"
import { manifestName, parseEntry } from "#src/sealed/SealedEnv.ts"

export interface SealedFile {
  /** From the header; undefined when it names none. */
  readonly environmentId: string | undefined
  readonly keyId: string
  /** Entry text by name, in the order of the file, including `_manifest` if there is one. */
  readonly entries: ReadonlyMap<string, string>
  /** Names in other programs by key: the comment above an entry. They are not sealed. */
  readonly aliases: ReadonlyMap<string, string>
}

/** Position and reason of a fault; lines count from 1, 0 = the whole file. Never includes the line's content. */
export interface Fault {
  readonly line: number
  readonly reason: string
}

const environmentLine = /^# ampoule environment: ([0-9a-f-]{36})$/m
const keyLine = /^# ampoule key: (ek_[0-9a-f]{8})$/m

const header = (environmentId: string, keyId: string): string =>
  [
    "# Sealed by ampoule: safe to commit. `ampoule run --sealed`, `ampoule unseal`, `ampoule seal set KEY`.",
    `# ampoule environment: ${environmentId}`,
    `# ampoule key: ${keyId}`,
    ""
  ].join("\n")

const aliasLine = /^# ampoule name: ([A-Za-z_][A-Za-z0-9_.:-]{0,254})$/

export const isAlias = (name: string | undefined): name is string =>
  name !== undefined && aliasLine.test(`# ampoule name: ${name}`)

const aliasesIn = (text: string): ReadonlyMap<string, string> => {
  const aliases = new Map<string, string>()
  let alias: string | undefined
  for (const at of text.split(/\r?\n/)) {
    const key = nameOf(at)
    if (alias !== undefined && key !== undefined) aliases.set(key, alias)
    alias = aliasLine.exec(at)?.[1]
  }
  return aliases
}

const line = (name: string, entry: string): string => `${name}="${entry}"\n`

export const print = (
  environmentId: string,
  keyId: string,
  entries: ReadonlyMap<string, string>,
  aliases: ReadonlyMap<string, string> = new Map()
): string => {
  const above = (name: string) => (aliases.has(name) ? `# ampoule name: ${aliases.get(name)}\n` : "")
  return header(environmentId, keyId) + [...entries].map(([name, entry]) => above(name) + line(name, entry)).join("")
}

const conflicts = (text: string): ReadonlyArray<Fault> => {
  const lines = text.split("\n")
  const marked = (mark: RegExp) => lines.flatMap((at, i) => (mark.test(at.trimEnd()) ? [i + 1] : []))
  const starts = marked(/^<{7}(?: |$)/)
  return (starts.length > 0 ? starts : marked(/^(?:\|{7}|={7}|>{7})(?: |$)/)).map((line) => ({
    line,
    reason: "a merge conflict: keep one line for each key, and remove git's markers"
  }))
}

/** All faults of the file. A plain value counts most, so lines are checked first. */
export const read = (text: string): Either.Either<SealedFile, ReadonlyArray<Fault>> => {
  const unmerged = conflicts(text)
  if (unmerged.length > 0) return Either.left(unmerged)
  const parsed = Dotenv.parse(text)
  if (Either.isLeft(parsed)) return Either.left([{ line: parsed.left.line, reason: parsed.left.reason }])
  const faults: Array<Fault> = []
  const entries = new Map<string, string>()
  const headerKey = keyLine.exec(text)?.[1]
  let keyId = headerKey
  for (const { key, line, value } of parsed.right) {
    const entry = parseEntry(value)
    if (Option.isNone(entry)) {
      faults.push({ line, reason: `the value of ${key} is not sealed` })
      continue
    }
    keyId ??= entry.value.keyId
    if (entry.value.keyId !== keyId) {
      faults.push({ line, reason: `${key} is sealed with ${entry.value.keyId}, but the file with ${keyId}` })
    }
    entries.set(key, value)
  }
  if (faults.length > 0) return Either.left(faults)
  if (keyId === undefined) return Either.left([{ line: 0, reason: "it has no sealed values" }])
  return Either.right({ environmentId: environmentLine.exec(text)?.[1], keyId, entries, aliases: aliasesIn(text) })
}

export const nameOf = (at: string): string | undefined => /^(?:export )?([A-Za-z_][A-Za-z0-9_]*)=/.exec(at)?.[1]

/**
 * Replaces or adds one entry and changes nothing else; the manifest stays last. In a file in alphabetical order, a new
 * entry goes to its place. Appended entries of two branches would always conflict.
 */
export const put = (text: string, name: string, entry: string): string => {
  const lines = text.split("\n")
  const replaced = lines.findIndex((at) => nameOf(at) === name)
  if (replaced >= 0) {
    lines[replaced] = line(name, entry).trimEnd()
    return lines.join("\n")
  }
  const names = lines.flatMap((at) => nameOf(at) ?? []).filter((other) => other !== manifestName)
  const isSorted = names.every((other, i) => i === 0 || (names[i - 1] ?? "") < other)
  const next =
    name === manifestName
      ? -1
      : lines.findIndex((at) => {
          const other = nameOf(at)
          return other !== undefined && (other === manifestName || (isSorted && other > name))
        })
  if (next >= 0) {
    lines.splice(next, 0, line(name, entry).trimEnd())
    return lines.join("\n")
  }
  return (text === "" || text.endsWith("\n") ? text : `${text}\n`) + line(name, entry)
}
