// @ts-check
/**
 * Alterations that no test notices, and why none has to. `at` is a part of the line, `to` what it became (any, when it is
 * not said).
 * @type {ReadonlyArray<{ module: string, at: string, to?: string, why: string }>}
 */
export const reasons = [
  {
    module: "TokenText",
    at: "if (kind === undefined ||",
    to: "false",
    why: "The pattern has no other kinds than the list: the compiler alone asks for the line."
  },
  {
    module: "TokenText",
    at: "&& row !== undefined",
    to: "true",
    why: "The columns of no row are 32 zero bytes, which no secret hashes to: the second lock of the same door."
  },
  {
    module: "Envelope",
    at: "extends Context.Reference<ValueCipher>()",
    to: '""',
    why: "The name of a setting inside the process; nothing is found by it but itself."
  }
]
