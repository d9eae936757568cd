import { defineConfig } from "vitest/config"
import { longTests, sampledTests } from "./longTests.ts"
import { seeded } from "./seed.ts"

/** `npm run test:long`: each file in a process of its own, from the top of the repository. */
export default defineConfig({
  test: {
    ...seeded,
    include: [...longTests, ...sampledTests],
    env: { ...seeded.env, AMPOULE_TEST_LONG: "1" },
    globalSetup: ["test/support/globalSetup.ts"],
    setupFiles: ["test/support/testMethods.ts"],
    testTimeout: 120_000,
    hookTimeout: 180_000,
    pool: "forks",
    poolOptions: { forks: { maxForks: 2 } }
  }
})
