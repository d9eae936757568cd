/**
 * Merges three versions of a sealed file key by key. Git's own merge reports a conflict for changes on neighbouring
 * lines, which this does not. Values stay sealed, and no key is needed. Pure.
 */
import * as Either from "effect/Either"
import { manifestName } from "#src/sealed/SealedEnv.ts"
import * as SealedFile from "./File.ts"

interface Entry {
  /** Comments and blank lines above it. */
  readonly above: ReadonlyArray<string>
  readonly line: string
}

interface Parts {
  /** Header with the environment and the key. */
  readonly head: ReadonlyArray<string>
  readonly entries: ReadonlyMap<string, Entry>
  /** Comments after the last entry. */
  readonly tail: ReadonlyArray<string>
}

const header = /^# (?:Sealed by ampoule:|ampoule environment:|ampoule key:)/

const partsOf = (text: string): Parts => {
  const head: Array<string> = []
  const entries = new Map<string, Entry>()
  let above: Array<string> = []
  for (const line of text.replace(/\n$/, "").split("\n")) {
    const name = SealedFile.nameOf(line)
    if (name !== undefined) {
      entries.set(name, { above, line })
      above = []
    } else if (entries.size === 0 && header.test(line)) head.push(line)
    else above.push(line)
  }
  return { head, entries, tail: above.filter((line) => line !== "") }
}

/** Three-way merge of one part: equal sides, or the only changed one. Left when both changed it differently. */
const mergeOne = <A>(base: A, ours: A, theirs: A): Either.Either<A, undefined> =>
  ours === theirs || theirs === base
    ? Either.right(ours)
    : ours === base
      ? Either.right(theirs)
      : Either.left(undefined)

/** Comments never conflict: both changes stay. */
const comments = (base: Entry | undefined, ours: Entry | undefined, theirs: Entry | undefined) => {
  const [b, o, t] = [base, ours, theirs].map((entry) => (entry?.above ?? []).join("\n"))
  const one = mergeOne(b, o, t)
  if (Either.isRight(one)) return one.right === undefined || one.right === "" ? [] : one.right.split("\n")
  const mine = ours?.above ?? []
  return [...mine, ...(theirs?.above ?? []).filter((line) => !mine.includes(line))]
}

const marks = { ours: "<<<<<<< ours", between: "=======", theirs: ">>>>>>> theirs" } as const

const conflict = (ours: Entry | undefined, theirs: Entry | undefined): ReadonlyArray<string> => [
  marks.ours,
  ...(ours === undefined ? [] : [ours.line]),
  marks.between,
  ...(theirs === undefined ? [] : [theirs.line]),
  marks.theirs
]

/** Conflict that begins on this line: at most one line of each side, and its end. */
const conflictAt = (lines: ReadonlyArray<string>, at: number) => {
  if (lines[at] !== marks.ours) return undefined
  const between = lines[at + 1] === marks.between ? at + 1 : at + 2
  if (lines[between] !== marks.between) return undefined
  const end = lines[between + 1] === marks.theirs ? between + 1 : between + 2
  if (lines[end] !== marks.theirs) return undefined
  return { ours: lines.slice(at + 1, between), theirs: lines.slice(between + 1, end), end }
}

const isSorted = (names: ReadonlyArray<string>): boolean =>
  names.every((name, i) => i === 0 || (names[i - 1] ?? "") < name)

/** Alphabetical if both sides are; else our order, followed by new keys. The manifest is last. */
const order = (ours: Parts, theirs: Parts): ReadonlyArray<string> => {
  const [mine, other] = [ours, theirs].map(({ entries }) => [...entries.keys()].filter((name) => name !== manifestName))
  const all = [...new Set([...(mine ?? []), ...(other ?? [])])]
  const ordered = isSorted(mine ?? []) && isSorted(other ?? []) ? all.sort() : all
  return [...ordered, manifestName]
}

export interface MergeResult {
  readonly text: string
  /** Keys that both sides changed differently. */
  readonly conflicts: ReadonlyArray<string>
  /** True when the manifest was sealed before the merge and must be sealed again. */
  readonly staleManifest: boolean
}

/** Left: the reason why the files cannot be merged. `base` is empty when both sides created the file. */
export const merge = (base: string, ours: string, theirs: string): Either.Either<MergeResult, string> => {
  const [o, t] = [SealedFile.read(ours), SealedFile.read(theirs)]
  if (Either.isLeft(o) || Either.isLeft(t)) return Either.left("one side is not a sealed file")
  if (o.right.environmentId !== t.right.environmentId) return Either.left("the sides are of two environments")
  if (o.right.keyId !== t.right.keyId) {
    return Either.left(`one side is sealed with ${o.right.keyId}, the other with ${t.right.keyId}`)
  }
  const [b, mine, other] = [partsOf(base), partsOf(ours), partsOf(theirs)]
  const lines = [...mine.head]
  const conflicts: Array<string> = []
  const manifests = [mine, other].flatMap(({ entries }) => entries.get(manifestName)?.line ?? [])
  for (const name of order(mine, other)) {
    const [before, left, right] = [b, mine, other].map(({ entries }) => entries.get(name))
    const line = mergeOne(before?.line, left?.line, right?.line)
    const above = comments(before, left, right)
    if (name === manifestName) {
      // A single manifest: `seal manifest` decides later which entries it covers.
      if (left !== undefined || right !== undefined) lines.push(...above, (left ?? right)?.line ?? "")
    } else if (Either.isLeft(line)) {
      conflicts.push(name)
      lines.push(...above, ...conflict(left, right))
    } else if (line.right !== undefined) lines.push(...above, line.right)
  }
  const text = `${[...lines, ...mine.tail, ...other.tail.filter((line) => !mine.tail.includes(line))].join("\n")}\n`
  return Either.right({ text, conflicts, staleManifest: manifests.length > 0 && text !== ours && text !== theirs })
}

/** Text with the conflict of a key resolved; undefined when it has none. */
export const resolve = (text: string, key: string, side: "ours" | "theirs"): string | undefined => {
  const lines = text.split("\n")
  const output: Array<string> = []
  let isResolved = false
  for (let at = 0; at < lines.length; at++) {
    const block = conflictAt(lines, at)
    const name = block && SealedFile.nameOf(block.ours[0] ?? block.theirs[0] ?? "")
    if (block !== undefined && name === key) {
      isResolved = true
      output.push(...block[side])
      at = block.end
    } else output.push(lines[at] ?? "")
  }
  return isResolved ? output.join("\n") : undefined
}
