/**
 * The one seed of a run: random properties start from it, and tests run in the order that it gives when it is named:
 * `AMPOULE_TEST_SEED=7 npm test`. Without a name it is random, and the order is that of the files. A run that failed
 * prints it.
 */
import { randomInt } from "node:crypto"
import type { Reporter } from "vitest/node"

const named = process.env["AMPOULE_TEST_SEED"]
if (named !== undefined && !/^[0-9]{1,9}$/.test(named))
  throw new Error("AMPOULE_TEST_SEED is a number of 1 to 9 digits")
const seed = named === undefined ? randomInt(1_000_000_000) : Number(named)

const reporter: Reporter = {
  onTestRunEnd: (_modules, _errors, reason) => {
    if (reason === "failed") process.stdout.write(`\nThe seed of this run: AMPOULE_TEST_SEED=${seed}\n`)
  }
}

/** Settings that both configurations share. */
export const seeded = {
  env: { AMPOULE_TEST_SEED: String(seed) },
  sequence: { seed, shuffle: named !== undefined },
  reporters: ["default", reporter] satisfies ReadonlyArray<string | Reporter>
}
