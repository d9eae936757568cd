/** The effect of an import, and the reasons to refuse it, before anything is sent. Names and lines, never values. */
import type { Meaning } from "./Meaning.ts"
import { formTexts } from "./Meaning.ts"
import { keyAt } from "./References.ts"

export interface Refusal {
  readonly message: string
  readonly hint: string
}

/** A secret that the environment has. */
export interface Existing {
  readonly key: string
  readonly references: ReadonlyArray<string>
}

/** Of a template (docs/contract/secrets.md, "Templates"). */
const deepestPath = 10
const longestValue = 65_536
const mostNamed = 10

const nothingWritten = "Nothing was written."
const named = (keys: ReadonlyArray<string>): string =>
  keys.length > mostNamed
    ? `${keys.slice(0, mostNamed).join(", ")} and ${keys.length - mostNamed} more`
    : keys.join(", ")

const inQuotes = "Where the value is text: write it in single quotes in a .env file"
const asText = (place: Place): string =>
  place === "page" ? `${inQuotes}.` : `${inQuotes}, or say --literal for the whole file.`

const refusedText = ({ key, line, problem }: Meaning, place: Place): Refusal => ({
  message: `line ${line}: ${key}: ${problem ?? ""}.`,
  hint: `${nothingWritten} ${asText(place)}`
})

const refusedReferences = (
  broken: ReadonlyArray<{ readonly meaning: Meaning; readonly absent: ReadonlyArray<string> }>,
  environment: string,
  place: Place
): Refusal => {
  const lines = broken
    .slice(0, mostNamed)
    .map(({ absent, meaning }) => `line ${meaning.line}: ${meaning.key} refers to ${named(absent)}`)
  const more = broken.length > mostNamed ? `; ${broken.length - mostNamed} more do so` : ""
  return {
    message: `Neither the file nor ${environment} has what these refer to. ${lines.join("; ")}${more}.`,
    hint: `${nothingWritten} Write the missing keys first. ${asText(place)}`
  }
}

type Graph = ReadonlyMap<string, ReadonlyArray<string>>

/** Longest path of references below each key, or a circle of keys. Without recursion: a chain has as many as there are keys. */
const depths = (graph: Graph): ReadonlyMap<string, number> | { readonly circle: ReadonlyArray<string> } => {
  const depth = new Map<string, number>()
  for (const start of graph.keys()) {
    const path: Array<{ readonly key: string; next: number }> = depth.has(start) ? [] : [{ key: start, next: 0 }]
    const onPath = new Set(path.map(({ key }) => key))
    for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
      const uses = graph.get(top.key) ?? []
      const used = uses[top.next++]
      if (used === undefined) {
        depth.set(
          top.key,
          uses.reduce((most, key) => Math.max(most, 1 + (depth.get(key) ?? 0)), 0)
        )
        onPath.delete(top.key)
        path.pop()
      } else if (onPath.has(used)) {
        const from = path.findIndex(({ key }) => key === used)
        return { circle: path.slice(from).map(({ key }) => key) }
      } else if (!depth.has(used)) {
        onPath.add(used)
        path.push({ key: used, next: 0 })
      }
    }
  }
  return depth
}

const codePoints = (text: string): number => text.length - (text.match(/[\ud800-\udbff][\udc00-\udfff]/g)?.length ?? 0)

/** Characters of each value of the file once its references are expanded, at least: what only the server has counts as none. */
const tooLong = (meanings: ReadonlyArray<Meaning>): Meaning | undefined => {
  const byKey = new Map(meanings.map((meaning) => [meaning.key, meaning]))
  const sizeByKey = new Map<string, number>()
  const sizeOf = (key: string): number => {
    const meaning = byKey.get(key)
    if (meaning === undefined) return 0
    const size = sizeByKey.get(key)
    if (size !== undefined) return size
    let characters = 0
    let at = 0
    for (const { 0: match, index } of meaning.kind === "literal" ? [] : meaning.value.matchAll(/\$\$?\{/g)) {
      const used = match === "${" ? keyAt(meaning.value, index) : undefined
      if (index < at || used === undefined) continue
      characters += codePoints(meaning.value.slice(at, index)) + sizeOf(used)
      at = index + used.length + 3
    }
    characters += codePoints(meaning.value.slice(at))
    sizeByKey.set(key, characters)
    return characters
  }
  return meanings.find(({ key, references }) => references.length > 0 && sizeOf(key) > longestValue)
}

/** The first reason why the server would refuse this, in an environment that holds these secrets. */
export const refusal = (
  meanings: ReadonlyArray<Meaning>,
  existing: ReadonlyArray<Existing>,
  environment: string,
  place: Place = "command"
): Refusal | undefined => {
  const unsaid = meanings.find(({ problem }) => problem !== undefined)
  if (unsaid !== undefined) return refusedText(unsaid, place)
  const keys = new Set([...meanings, ...existing].map(({ key }) => key))
  const broken = meanings
    .map((meaning) => ({ meaning, absent: meaning.references.filter((key) => !keys.has(key)) }))
    .filter(({ absent }) => absent.length > 0)
  if (broken.length > 0) return refusedReferences(broken, environment, place)
  const graph = new Map([...existing, ...meanings].map(({ key, references }) => [key, references]))
  const depthOf = depths(graph)
  const byKey = new Map(meanings.map((meaning) => [meaning.key, meaning]))
  if ("circle" in depthOf) {
    const line = depthOf.circle.map((key) => byKey.get(key)?.line).find((at) => at !== undefined)
    return {
      message: `line ${line ?? 1}: ${[...depthOf.circle, depthOf.circle[0]].slice(0, mostNamed).join(" → ")} is a circle of references.`,
      hint: `${nothingWritten} ${asText(place)}`
    }
  }
  const deep = meanings.find(({ key }) => (depthOf.get(key) ?? 0) > deepestPath)
  const above = existing.find(({ key }) => !byKey.has(key) && (depthOf.get(key) ?? 0) > deepestPath)
  if (deep !== undefined || above !== undefined) {
    const what = deep === undefined ? (above?.key ?? "") : `line ${deep.line}: ${deep.key}`
    return {
      message: `${what} would have more than ${deepestPath} references on a path.`,
      hint: `${nothingWritten} Put the values of some of them in place of the references.`
    }
  }
  const long = tooLong(meanings)
  if (long === undefined) return undefined
  return {
    message: `line ${long.line}: the value of ${long.key} would have more than ${longestValue} characters, its references expanded.`,
    hint: nothingWritten
  }
}

const atLine = ({ key, line }: Meaning): string => `${key} (line ${line})`

/** Parts of a key's value, where it is not plain text. */
export const notesByKey = (meanings: ReadonlyArray<Meaning>): ReadonlyMap<string, string> =>
  new Map(
    meanings.flatMap(({ key, kind, references }): ReadonlyArray<readonly [key: string, note: string]> => {
      if (references.length > 0) return [[key, `refers to ${named(references)}`]]
      return kind === "literal" ? [[key, "text, although it looks like a reference"]] : []
    })
  )

/** The keys of a plan with these notes. */
export const inPlan = (meanings: ReadonlyArray<Meaning>, keys: ReadonlyArray<string>): ReadonlyArray<string> => {
  const notes = notesByKey(meanings)
  return keys.map((key) => (notes.has(key) ? `${key}  ${notes.get(key)}` : key))
}

/** Where a person reads it: the command line has options, a page has none. */
export type Place = "command" | "page"

/** Remarks about how the file was read, one sentence each. */
export const remarks = (meanings: ReadonlyArray<Meaning>, place: Place = "command"): ReadonlyArray<string> => {
  const foreign = meanings.filter(({ foreign }) => foreign.length > 0)
  const isOne = foreign.length === 1
  const looks = foreign.map((meaning) => `${meaning.key} (line ${meaning.line}, ${meaning.foreign.join(" ")})`)
  const forms = Object.entries(formTexts).flatMap(([form, text]) => {
    const of = meanings.filter(({ forms }) => forms.some((one) => one === form))
    return of.length === 0 ? [] : [`Other programs read this otherwise: ${named(of.map(atLine))}: ${text}.`]
  })
  const replaced = meanings.flatMap(({ key, line, replaces }) =>
    replaces.length === 0 ? [] : [`${key}: line ${line} counts, and not line ${replaces.join(", ")}.`]
  )
  return [
    ...(foreign.length === 0
      ? []
      : [
          `${foreign.length} ${isOne ? "looks" : "look"} like references that Ampoule does not expand, and ${isOne ? "is" : "are"} written as text: ${named(looks)}. A reference is \${KEY}${place === "page" ? "" : "; --bare-references takes $KEY for one"}.`
        ]),
    ...forms,
    ...replaced
  ]
}

/** The same for programs. */
export const remarksForPrograms = (meanings: ReadonlyArray<Meaning>) => ({
  references: meanings
    .filter(({ references }) => references.length > 0)
    .map(({ key, line, references }) => ({ key, line, references })),
  literal: meanings.filter(({ kind }) => kind === "literal").map(({ key }) => key),
  unexpanded: meanings
    .filter(({ foreign }) => foreign.length > 0)
    .map(({ foreign, key, line }) => ({ key, line, forms: foreign })),
  readOtherwise: meanings.filter(({ forms }) => forms.length > 0).map(({ forms, key, line }) => ({ key, line, forms })),
  names: meanings.flatMap(({ alias, key }) => (alias === undefined ? [] : [{ key, alias }])),
  notes: meanings.filter(({ note }) => note !== undefined).map(({ key }) => key),
  replaced: meanings
    .filter(({ replaces }) => replaces.length > 0)
    .map(({ key, line, replaces }) => ({ key, line, lines: replaces }))
})
