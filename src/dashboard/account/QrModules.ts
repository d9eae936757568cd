/**
 * QR codes (ISO/IEC 18004) of a text: byte mode, error correction level L, versions 1 to 20, enough for 858 bytes.
 * Pure: turns a text into dark and light modules.
 */

/** By version, from 1: codewords of error correction in each block, and blocks (table 9, level L). */
const correction = [7, 10, 15, 20, 26, 18, 20, 24, 30, 18, 20, 24, 26, 30, 22, 24, 28, 30, 28, 28] as const
const blocks = [1, 1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4, 4, 6, 6, 6, 6, 7, 8] as const

/** Modules that hold codewords, without finders, timing, alignment, format and version. */
const rawModules = (version: number): number => {
  const aligned = Math.floor(version / 7) + 2
  const all = (16 * version + 128) * version + 64
  return version < 2 ? all : all - ((25 * aligned - 10) * aligned - 55) - (version < 7 ? 0 : 36)
}
const codewords = (version: number): number => Math.floor(rawModules(version) / 8)
const dataCodewords = (version: number): number => codewords(version) - correction[version - 1] * blocks[version - 1]

// --- Reed-Solomon over GF(256) with the polynomial 0x11d ---

const times = (a: number, b: number): number => {
  let product = 0
  for (let bit = 7; bit >= 0; bit--) {
    product = (product << 1) ^ ((product >>> 7) * 0x11d)
    product ^= ((b >>> bit) & 1) * a
  }
  return product
}

const divisorOf = (degree: number): ReadonlyArray<number> => {
  const divisor = Array.from({ length: degree }, (_, i): number => (i === degree - 1 ? 1 : 0))
  let root = 1
  for (let n = 0; n < degree; n++) {
    for (let i = 0; i < degree; i++) divisor[i] = times(divisor[i], root) ^ (divisor[i + 1] ?? 0)
    root = times(root, 2)
  }
  return divisor
}

const remainderOf = (data: ReadonlyArray<number>, divisor: ReadonlyArray<number>): ReadonlyArray<number> => {
  const rest = divisor.map(() => 0)
  for (const byte of data) {
    const factor = byte ^ (rest.shift() ?? 0)
    rest.push(0)
    divisor.forEach((coefficient, i) => (rest[i] ^= times(coefficient, factor)))
  }
  return rest
}

// --- the text as codewords ---

/** Mode, length, bytes and padding, in whole codewords. */
const dataOf = (bytes: Uint8Array, version: number): ReadonlyArray<number> => {
  const capacity = dataCodewords(version)
  const bits: Array<number> = []
  const put = (value: number, length: number) => {
    for (let i = length - 1; i >= 0; i--) bits.push((value >>> i) & 1)
  }
  put(4, 4)
  put(bytes.length, version < 10 ? 8 : 16)
  for (const byte of bytes) put(byte, 8)
  put(0, Math.min(4, capacity * 8 - bits.length))
  put(0, (8 - (bits.length % 8)) % 8)
  const data: Array<number> = []
  for (let i = 0; i < bits.length; i += 8) data.push(Number.parseInt(bits.slice(i, i + 8).join(""), 2))
  for (let pad = 0xec; data.length < capacity; pad ^= 0xec ^ 0x11) data.push(pad)
  return data
}

/** Blocks with their error correction, interleaved. */
const interleaved = (data: ReadonlyArray<number>, version: number): ReadonlyArray<number> => {
  const count = blocks[version - 1]
  const divisor = divisorOf(correction[version - 1])
  const short = Math.floor(data.length / count)
  const longFrom = count - (data.length % count)
  let at = 0
  const parts = Array.from({ length: count }, (_, i) => {
    const part = data.slice(at, at + short + (i < longFrom ? 0 : 1))
    at += part.length
    return { part, check: remainderOf(part, divisor) }
  })
  const out: Array<number> = []
  for (let i = 0; i <= short; i++) for (const { part } of parts) if (i < part.length) out.push(part[i])
  for (let i = 0; i < divisor.length; i++) for (const { check } of parts) out.push(check[i])
  return out
}

// --- the picture ---

interface Grid {
  readonly size: number
  readonly dark: Array<Array<boolean>>
  /** Modules of fixed patterns, which hold no codeword. */
  readonly fixed: Array<Array<boolean>>
}

const set = ({ dark, size, fixed }: Grid, x: number, y: number, is: boolean) => {
  if (x < 0 || y < 0 || x >= size || y >= size) return
  dark[y][x] = is
  fixed[y][x] = true
}

const alignments = (version: number, size: number): ReadonlyArray<number> => {
  if (version === 1) return []
  const count = Math.floor(version / 7) + 2
  const step = Math.floor((version * 8 + count * 3 + 5) / (count * 4 - 4)) * 2
  return [6, ...Array.from({ length: count - 1 }, (_, i) => size - 7 - (count - 2 - i) * step)]
}

const square = (grid: Grid, x: number, y: number, radius: number, isDark: (distance: number) => boolean) => {
  for (let dy = -radius; dy <= radius; dy++) {
    for (let dx = -radius; dx <= radius; dx++) set(grid, x + dx, y + dy, isDark(Math.max(Math.abs(dx), Math.abs(dy))))
  }
}

/** Bits with their own error correction: format (generator 0x537) and version (0x1f25). */
const withCheck = (value: number, length: number, generator: number): number => {
  let rest = value
  for (let i = 0; i < length; i++) rest = (rest << 1) ^ ((rest >>> (length - 1)) * generator)
  return (value << length) | rest
}

const drawFormat = (grid: Grid, mask: number) => {
  // Level L is 01.
  const bits = withCheck((1 << 3) | mask, 10, 0x537) ^ 0x5412
  const bit = (i: number) => ((bits >>> i) & 1) === 1
  const { size } = grid
  for (let i = 0; i <= 5; i++) set(grid, 8, i, bit(i))
  set(grid, 8, 7, bit(6))
  set(grid, 8, 8, bit(7))
  set(grid, 7, 8, bit(8))
  for (let i = 9; i < 15; i++) set(grid, 14 - i, 8, bit(i))
  for (let i = 0; i < 8; i++) set(grid, size - 1 - i, 8, bit(i))
  for (let i = 8; i < 15; i++) set(grid, 8, size - 15 + i, bit(i))
  set(grid, 8, size - 8, true)
}

const drawFixed = (grid: Grid, version: number) => {
  const { size } = grid
  for (let i = 0; i < size; i++) {
    set(grid, 6, i, i % 2 === 0)
    set(grid, i, 6, i % 2 === 0)
  }
  for (const [x, y] of [
    [3, 3],
    [size - 4, 3],
    [3, size - 4]
  ] as const) {
    square(grid, x, y, 4, (distance) => distance !== 2 && distance !== 4)
  }
  const centres = alignments(version, size)
  const last = centres.length - 1
  centres.forEach((x, i) =>
    centres.forEach((y, j) => {
      const inFinder = (i === 0 && j === 0) || (i === 0 && j === last) || (i === last && j === 0)
      if (!inFinder) square(grid, x, y, 2, (distance) => distance !== 1)
    })
  )
  if (version < 7) return
  const bits = withCheck(version, 12, 0x1f25)
  for (let i = 0; i < 18; i++) {
    const is = ((bits >>> i) & 1) === 1
    const [a, b] = [size - 11 + (i % 3), Math.floor(i / 3)]
    set(grid, a, b, is)
    set(grid, b, a, is)
  }
}

/** Fills pairs of columns from the right, up and down, and skips the column of the timing pattern. */
const drawCodewords = ({ dark, size, fixed }: Grid, bytes: ReadonlyArray<number>) => {
  let i = 0
  for (let right = size - 1; right >= 1; right -= 2) {
    if (right === 6) right = 5
    const upward = ((right + 1) & 2) === 0
    for (let n = 0; n < size; n++) {
      const y = upward ? size - 1 - n : n
      for (const x of [right, right - 1]) {
        if (fixed[y][x] || i >= bytes.length * 8) continue
        dark[y][x] = ((bytes[i >>> 3] >>> (7 - (i & 7))) & 1) === 1
        i++
      }
    }
  }
}

/** Mask 0, a checkerboard: readers accept any mask, and screens have enough contrast for all. */
const mask = 0
const applyMask = ({ dark, size, fixed }: Grid) => {
  for (let y = 0; y < size; y++) {
    for (let x = 0; x < size; x++) if (!fixed[y][x] && (x + y) % 2 === 0) dark[y][x] = !dark[y][x]
  }
}

/** Rows from the top, without the quiet zone; true is dark. Undefined if the text is too long. */
export const modulesOf = (text: string): ReadonlyArray<ReadonlyArray<boolean>> | undefined => {
  const bytes = new TextEncoder().encode(text)
  const fits = (version: number) => dataCodewords(version) * 8 >= 4 + (version < 10 ? 8 : 16) + bytes.length * 8
  const version = blocks.findIndex((_, i) => fits(i + 1)) + 1
  if (version === 0) return undefined
  const size = version * 4 + 17
  const blank = () => Array.from({ length: size }, () => Array.from({ length: size }, () => false))
  const grid: Grid = { size, dark: blank(), fixed: blank() }
  drawFixed(grid, version)
  drawFormat(grid, mask)
  drawCodewords(grid, interleaved(dataOf(bytes, version), version))
  applyMask(grid)
  return grid.dark
}
