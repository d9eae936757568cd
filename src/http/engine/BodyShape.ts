/**
 * Bounds the depth and the size of a JSON text before it is parsed. Parsing and decoding 32 MiB of `{},{},…` would
 * block all other requests for seconds. The formatter of refusals is recursive, so the input must not decide its depth.
 */

/** Levels of a body; bodies of the contract have at most five. */
const maxDepth = 32

/** Entries and members of a body. Bodies of the contract have about 3,000; slightly larger ones get a precise error. */
const maxParts = 20_000

/** Problem with the shape of a JSON text, if any. The result for other text has no meaning. */
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
