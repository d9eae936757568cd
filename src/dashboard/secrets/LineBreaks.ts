/**
 * Line breaks of a value that a page shows for editing. A text field knows only LF (HTML, 4.10.11), so the form carries
 * which breaks the value had, and the saved text gets them back.
 */

/** Name of the form's hidden field. */
export const lineBreaks = "lineBreaks"

const breaks = new Map([
  ["n", "\n"],
  ["w", "\r\n"],
  ["r", "\r"]
])
const letters = new Map([...breaks].map(([letter, text]) => [text, letter]))

/** One letter if all breaks are alike, else one for each break; empty for a text with LF alone. */
export const of = (text: string): string => {
  const each = Array.from(text.matchAll(/\r\n|\r|\n/g), ([one]) => letters.get(one) ?? "")
  if (each.every((one) => one === "n")) return ""
  return each.every((one) => one === each[0]) ? each.slice(0, 1).join("") : each.join("")
}

/** The most frequent letter, for text whose number of lines has changed. */
const usual = (sequence: string): string => {
  const count = (letter: string) => sequence.split(letter).length
  return ["n", "w", "r"].reduce((most, one) => (count(one) > count(most) ? one : most))
}

/** The text of a field with the breaks of the value that was loaded into it. */
export const restored = (text: string, sequence: string): string => {
  const plain = text.replaceAll(/\r\n|\r/g, "\n")
  if (!/^[nwr]+$/.test(sequence)) return plain
  const each = sequence.length === plain.split("\n").length - 1 ? sequence : undefined
  const every = sequence.length === 1 ? sequence : usual(sequence)
  let at = 0
  return plain.replaceAll("\n", () => breaks.get(each?.[at++] ?? every) ?? "\n")
}
