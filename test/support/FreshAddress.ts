/** Limits count per address. */
let taken = 0

/** An address that no other test of this process has: of the block for measurements (RFC 2544), which has 131,072. */
export const freshAddress = (): string => {
  taken++
  return `198.${18 + ((taken >> 16) & 1)}.${(taken >> 8) & 255}.${taken & 255}`
}
