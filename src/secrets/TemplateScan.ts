/** Where a reference ends, and which keys a text refers to. Pure, and without imports: a browser runs it too. */
const maxKeyLength = 255
const A = 65
const Z = 90
const digit0 = 48
const digit9 = 57
const underscore = 95
const closing = 125

/** Returns the index of the `}` after the key that starts at `from`, or -1 when there is no well-formed key. */
export const endOfKey = (source: string, from: number): number => {
  const first = source.charCodeAt(from)
  if (!(first >= A && first <= Z)) return -1
  let i = from + 1
  while (i - from <= maxKeyLength) {
    const c = source.charCodeAt(i)
    if (c === closing) return i
    if (!((c >= A && c <= Z) || (c >= digit0 && c <= digit9) || c === underscore)) return -1
    i++
  }
  return -1
}

/** Keys that a text refers to, each once. Of a text that is no template: none. */
export const keysIn = (source: string): ReadonlyArray<string> => {
  const keys = new Set<string>()
  for (let at = source.indexOf("${"); at !== -1; at = source.indexOf("${", at + 2)) {
    const end = source[at - 1] === "$" ? -1 : endOfKey(source, at + 2)
    if (end !== -1) keys.add(source.slice(at + 2, end))
  }
  return [...keys]
}
