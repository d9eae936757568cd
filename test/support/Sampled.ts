/**
 * How much is tried of what takes minutes. `npm test` tries a part, another one by each seed; `npm run test:long`, which CI
 * calls, tries more; `npm run test:whole` tries all of it (`AMPOULE_TEST_CASES`).
 */
import { createHash } from "node:crypto"

const amount = process.env["AMPOULE_TEST_CASES"]
const seed = process.env["AMPOULE_TEST_SEED"] ?? ""

/** How many cases of a property are tried; `inCi`: by `npm run test:long`. */
export const cases = (all: number, inCi = all / 4): number =>
  amount === "all" ? all : Math.ceil(amount === "some" ? inCi : all / 12)

/** Whether this one, by its name, is of the part that is tried: one of eight in `npm test`. */
export const chosen = (name: string): boolean =>
  amount === "all" || createHash("sha256").update(`${seed} ${name}`).digest()[0] % (amount === "some" ? 3 : 8) === 0
