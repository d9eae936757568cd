import { defineConfig } from "vitest/config"
import { safeWebAssembly } from "../layers/SafeWebAssembly.ts"
import { longTests, sampledTests } from "./longTests.ts"
import { seeded } from "./seed.ts"
import { SlowFirst } from "./SlowFirst.ts"

const whole = process.env["AMPOULE_TEST_CASES"] === "all"

/**
 * `npm run test:long` and `npm run test:whole`, from the top of the repository. Files share the modules of their worker
 * process, as those of `npm test` do (`vitest.config.ts` says why, and why there are as many processes at least as at most).
 */
export default defineConfig({
  test: {
    ...seeded,
    include: whole ? [...longTests, ...sampledTests] : longTests,
    env: { ...seeded.env, AMPOULE_TEST_CASES: whole ? "all" : "some" },
    globalSetup: ["test/support/globalSetup.ts"],
    setupFiles: ["test/support/testMethods.ts"],
    testTimeout: 120_000,
    hookTimeout: 180_000,
    // A named seed gives the order.
    sequence: { ...seeded.sequence, ...(seeded.sequence.shuffle ? {} : { sequencer: SlowFirst }) },
    pool: "forks",
    poolOptions: { forks: { minForks: 3, maxForks: 3, isolate: false, execArgv: [safeWebAssembly] } }
  }
})
