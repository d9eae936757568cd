/** Limits count per address. */
let count = 0

/** An address that no other test of this process has: of the block for measurements (RFC 2544), which has 131,072. */
export const freshAddress = (): string => {
  count++
  return `198.${18 + ((count >> 16) & 1)}.${(count >> 8) & 255}.${count & 255}`
}
