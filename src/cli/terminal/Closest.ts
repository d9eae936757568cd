/** The name that a mistyped word most likely means. Pure. */

/**
 * Insertions, deletions, changes and swaps of neighbours that lead from one word to the other (optimal string
 * alignment).
 */
const distance = (a: string, b: string): number => {
  let before: ReadonlyArray<number> = []
  let row: ReadonlyArray<number> = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const change = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      const swap = isSwap ? (before[j - 2] ?? 0) + 1 : Infinity
      next.push(Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, change, swap))
    }
    before = row
    row = next
  }
  return row[b.length] ?? 0
}

/** A word of four letters with two errors is another word. */
const mostErrors = (word: string): number => (word.length < 5 ? 1 : word.length < 13 ? 2 : 3)
/** Longest word that is compared, since the cost grows with its square. */
const longest = 64

/** Undefined when no name is near, or the word is one of the names. */
export const closest = (word: string, names: ReadonlyArray<string>): string | undefined => {
  let best: string | undefined
  let fewest = mostErrors(word) + 1
  if (word.length > longest) return undefined
  for (const name of names) {
    if (Math.abs(name.length - word.length) >= fewest) continue
    const errors = distance(word, name)
    if (errors === 0) return undefined
    if (errors < fewest) [best, fewest] = [name, errors]
  }
  return best
}

/** `Did you mean X?`, or nothing. */
export const didYouMean = (word: string, names: ReadonlyArray<string>): string | undefined => {
  const name = closest(word, names)
  return name === undefined ? undefined : `Did you mean ${name}?`
}
