// @ts-check
/** Values that some reader treats specially, alone, in pairs, and in longer mixes that are the same each time. */
const pieces = ["'", '"', "`", "\\", "$", "{", "}", "#", " ", "\n", "\r", "\\n", "\\'", "${A}", "$(id)", "=", "é", "a"]

let seed = 7
/** A number below `n`: the steps of Numerical Recipes, so that each run has the same values. */
const next = (/** @type {number} */ n) => {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0
  return Math.floor((seed / 2 ** 32) * n)
}

/** @type {ReadonlyArray<string>} */
export const values = [
  ...new Set([
    "",
    "word",
    "two words",
    '{"a":"b c"}',
    "-----BEGIN X-----\nab==\n-----END X-----",
    "p@$$w0rd",
    "it's",
    "C:\\dir\\",
    ...pieces.flatMap((one) => pieces.map((other) => `x${one}${other}y`)).filter((_, i) => i % 3 === 0),
    ...Array.from({ length: 150 }, () =>
      Array.from({ length: 1 + next(6) }, () => pieces[next(pieces.length)]).join("")
    )
  ])
]
