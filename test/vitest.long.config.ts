import { defineConfig } from "vitest/config"
import { longTests, sampledTests } from "./longTests.ts"
import { seeded } from "./seed.ts"

const whole = process.env["AMPOULE_TEST_CASES"] === "all"

/** `npm run test:long` and `npm run test:whole`: each file in a process of its own, from the top of the repository. */
export default defineConfig({
  test: {
    ...seeded,
    include: whole ? [...longTests, ...sampledTests] : longTests,
    env: { ...seeded.env, AMPOULE_TEST_CASES: whole ? "all" : "some" },
    globalSetup: ["test/support/globalSetup.ts"],
    setupFiles: ["test/support/testMethods.ts"],
    testTimeout: 120_000,
    hookTimeout: 180_000,
    pool: "forks",
    poolOptions: { forks: { maxForks: 2 } }
  }
})
