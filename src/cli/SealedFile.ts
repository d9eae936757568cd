/**
 * A sealed `.env` file as text (decisions 5): a header that says for which environment and key, then one line for each
 * value, so that two people's changes merge line by line. Pure.
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

/** Every fault of the file; none = `Either.right`. A line with a plain value is the one that matters most. */
export const read = (text: string): Either.Either<SealedFile, ReadonlyArray<Fault>> => {
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

/** The text with one entry replaced or added, and nothing else touched; the manifest stays last. */
export const put = (text: string, name: string, entry: string): string => {
  const lines = text.split("\n")
  const starts = (wanted: string) =>
    lines.findIndex((at) => at.startsWith(`${wanted}=`) || at.startsWith(`export ${wanted}=`))
  const at = starts(name)
  if (at >= 0) {
    lines[at] = line(name, entry).trimEnd()
    return lines.join("\n")
  }
  const manifest = name === manifestName ? -1 : starts(manifestName)
  if (manifest >= 0) {
    lines.splice(manifest, 0, line(name, entry).trimEnd())
    return lines.join("\n")
  }
  return (text === "" || text.endsWith("\n") ? text : `${text}\n`) + line(name, entry)
}
