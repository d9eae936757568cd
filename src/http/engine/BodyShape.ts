/**
 * What is looked for in the text of a body before anybody parses it. Parsing, decoding and describing 32 MiB of
 * `{},{},…`
 * would hold up everybody else for seconds, and what formats a refusal is recursive: the input must not decide its
 * depth.
 */

/** Levels of a body; those of the contract have five at most. */
const maxDepth = 32

/**
 * Entries and members of a body; those of the contract have some 3,000 at most, and a few more are told what is wrong.
 */
const maxParts = 20_000

/** What is wrong with the shape of a JSON text. Other text gets an answer as well, which says nothing about it. */
export const shapeProblem = (text: string): "nested too deeply" | "made of too many parts" | undefined => {
  let depth = 0
  let parts = 0
  let quoted = false
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i)
    if (quoted) {
      if (c === 0x5c) i++
      else if (c === 0x22) quoted = false
    } else if (c === 0x22) {
      quoted = true
    } else if (c === 0x2c) {
      if (++parts > maxParts) return "made of too many parts"
    } else if (c === 0x5b || c === 0x7b) {
      if (++depth > maxDepth) return "nested too deeply"
      if (++parts > maxParts) return "made of too many parts"
    } else if (c === 0x5d || c === 0x7d) {
      depth--
    }
  }
  return undefined
}
