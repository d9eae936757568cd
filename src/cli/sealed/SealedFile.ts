/**
 * A sealed `.env` file as text (docs/contract/sealed-values.md): a header that says for which environment and key, then
 * one line for each value, so that two people's changes merge line by line. Pure.
 */
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Dotenv from "#src/formats/Dotenv.ts"
import { manifestName, parseEntry } from "#src/sealed/SealedEnv.ts"

export interface SealedFile {
  /** Of the header; undefined when it says none. */
  readonly environmentId: string | undefined
  readonly keyId: string
  /** Name to entry text, in the order of the file, `_manifest` among them when there is one. */
  readonly entries: ReadonlyMap<string, string>
}

/** What is wrong, and where: lines count from 1, 0 = the whole file. Never what the line says. */
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

const line = (name: string, entry: string): string => `${name}="${entry}"\n`

export const print = (environmentId: string, keyId: string, entries: ReadonlyMap<string, string>): string =>
  header(environmentId, keyId) + [...entries].map(([name, entry]) => line(name, entry)).join("")

const conflicts = (text: string): ReadonlyArray<Fault> => {
  const lines = text.split("\n")
  const marked = (mark: RegExp) => lines.flatMap((at, i) => (mark.test(at.trimEnd()) ? [i + 1] : []))
  const begun = marked(/^<{7}(?: |$)/)
  return (begun.length > 0 ? begun : marked(/^(?:\|{7}|={7}|>{7})(?: |$)/)).map((line) => ({
    line,
    reason: "a merge conflict: keep one line for each key, and take out the lines of git"
  }))
}

/** Every fault of the file; none = `Either.right`. A line with a plain value is the one that matters most. */
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
      faults.push({ line, reason: `${key} is sealed with ${entry.value.keyId}, the file with ${keyId}` })
    }
    entries.set(key, value)
  }
  if (faults.length > 0) return Either.left(faults)
  if (keyId === undefined) return Either.left([{ line: 0, reason: "it holds no sealed values" }])
  return Either.right({ environmentId: environmentLine.exec(text)?.[1], keyId, entries })
}

export const nameOf = (at: string): string | undefined => /^(?:export )?([A-Za-z_][A-Za-z0-9_]*)=/.exec(at)?.[1]

/**
 * The text with one entry replaced or added, and nothing else touched; the manifest stays last. Into a file in
 * alphabetical order a new one goes where it belongs: two additions at the end would be a merge conflict each time.
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
