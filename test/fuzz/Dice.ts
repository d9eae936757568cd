/** Randomness that a seed fixes (sfc32 after C. Doty-Humphrey): the same seed throws the same dice on every machine. */
import { createHash } from "node:crypto"

export interface Dice {
  /** 0 to `sides - 1`. */
  readonly below: (sides: number) => number
  readonly chance: (probability: number) => boolean
  readonly pick: <A>(from: ReadonlyArray<A>) => A
  /** `weights[i]` is the weight of `from[i]`. */
  readonly weighted: <A>(from: ReadonlyArray<readonly [weight: number, one: A]>) => A
}

export const dice = (...seed: ReadonlyArray<string | number>): Dice => {
  const bytes = createHash("sha256").update(seed.join(" ")).digest()
  let [a, b, c, d] = [0, 4, 8, 12].map((at) => bytes.readUInt32LE(at))
  const next = (): number => {
    const t = (((a + b) | 0) + d) | 0
    d = (d + 1) | 0
    a = b ^ (b >>> 9)
    b = (c + (c << 3)) | 0
    c = (c << 21) | (c >>> 11)
    c = (c + t) | 0
    return (t >>> 0) / 4_294_967_296
  }
  const below = (sides: number) => Math.floor(next() * sides)
  return {
    below,
    chance: (probability) => next() < probability,
    pick: (from) => from[below(from.length)],
    weighted: (from) => {
      let rest = next() * from.reduce((sum, [weight]) => sum + weight, 0)
      for (const [weight, one] of from) {
        rest -= weight
        if (rest < 0) return one
      }
      return from[from.length - 1][1]
    }
  }
}
