/**
 * `npm test` tries a part of what takes minutes, another one by each seed; `npm run test:long` tries all of it, in the
 * same files (`sampledTests` of `test/longTests.ts`).
 */
import { createHash } from "node:crypto"

const whole = process.env["AMPOULE_TEST_LONG"] === "1"
const seed = process.env["AMPOULE_TEST_SEED"] ?? ""

/** How many cases of a property are tried. */
export const cases = (all: number): number => (whole ? all : Math.ceil(all / 12))

/** Whether this one, by its name, is of the part that is tried: one of eight. */
export const chosen = (name: string): boolean =>
  whole || createHash("sha256").update(`${seed} ${name}`).digest()[0] % 8 === 0
