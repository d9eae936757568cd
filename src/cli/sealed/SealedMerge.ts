/**
 * Three versions of a sealed file made one, key by key: what git's own merge takes for a conflict because two lines
 * stand beside each other is none. Values stay sealed; no key is needed. Pure.
 */
import * as Either from "effect/Either"
import { manifestName } from "#src/sealed/SealedEnv.ts"
import * as SealedFile from "./SealedFile.ts"

interface Entry {
  /** Comments and blank lines above it. */
  readonly above: ReadonlyArray<string>
  readonly line: string
}

interface Parts {
  /** The header, which says for which environment and key. */
  readonly head: ReadonlyArray<string>
  readonly entries: ReadonlyMap<string, Entry>
  /** Comments behind the last entry. */
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

/** What both sides mean: the same, or what one of them changed. Left: they changed it differently. */
const agreed = <A>(base: A, ours: A, theirs: A): Either.Either<A, undefined> =>
  ours === theirs || theirs === base
    ? Either.right(ours)
    : ours === base
      ? Either.right(theirs)
      : Either.left(undefined)

/** Comments are never a conflict: of two changes both stay. */
const comments = (base: Entry | undefined, ours: Entry | undefined, theirs: Entry | undefined) => {
  const [b, o, t] = [base, ours, theirs].map((entry) => (entry?.above ?? []).join("\n"))
  const one = agreed(b, o, t)
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

/** The conflict that begins in this line: a line at most of each side, and where it ends. */
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

/** Alphabetical where both sides are; else ours, and behind it what is new. The manifest is last. */
const order = (ours: Parts, theirs: Parts): ReadonlyArray<string> => {
  const [mine, other] = [ours, theirs].map(({ entries }) => [...entries.keys()].filter((name) => name !== manifestName))
  const all = [...new Set([...(mine ?? []), ...(other ?? [])])]
  const ordered = isSorted(mine ?? []) && isSorted(other ?? []) ? all.sort() : all
  return [...ordered, manifestName]
}

export interface Merged {
  readonly text: string
  /** Keys that both sides changed, each in another way. */
  readonly conflicts: ReadonlyArray<string>
  /** The list of entries was sealed before the merge, and has to be sealed anew. */
  readonly staleManifest: boolean
}

/** Left: a sentence why the files cannot be merged. `base` may be empty: both sides made the file. */
export const merge = (base: string, ours: string, theirs: string): Either.Either<Merged, string> => {
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
    const [was, left, right] = [b, mine, other].map(({ entries }) => entries.get(name))
    const line = agreed(was?.line, left?.line, right?.line)
    const above = comments(was, left, right)
    if (name === manifestName) {
      // Never two of them: which one holds is for `seal manifest` to say.
      if (left !== undefined || right !== undefined) lines.push(...above, (left ?? right)?.line ?? "")
    } else if (Either.isLeft(line)) {
      conflicts.push(name)
      lines.push(...above, ...conflict(left, right))
    } else if (line.right !== undefined) lines.push(...above, line.right)
  }
  const text = `${[...lines, ...mine.tail, ...other.tail.filter((line) => !mine.tail.includes(line))].join("\n")}\n`
  return Either.right({ text, conflicts, staleManifest: manifests.length > 0 && text !== ours && text !== theirs })
}

/** The text with the conflict of a key resolved; undefined when there is none. */
export const resolve = (text: string, key: string, side: "ours" | "theirs"): string | undefined => {
  const lines = text.split("\n")
  const kept: Array<string> = []
  let found = false
  for (let at = 0; at < lines.length; at++) {
    const block = conflictAt(lines, at)
    const name = block && SealedFile.nameOf(block.ours[0] ?? block.theirs[0] ?? "")
    if (block !== undefined && name === key) {
      found = true
      kept.push(...block[side])
      at = block.end
    } else kept.push(lines[at] ?? "")
  }
  return found ? kept.join("\n") : undefined
}
