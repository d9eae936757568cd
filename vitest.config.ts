import { defineConfig } from "vitest/config"
import { safeWebAssembly } from "./layers/SafeWebAssembly.ts"
import { databaseTests } from "./test/databaseTests.ts"
import { longTests } from "./test/longTests.ts"
import { seeded } from "./test/seed.ts"

/**
 * `npm test`. Files share the modules of their worker process (`isolate: false`): importing the server anew for every
 * file took most of the time. So a test leaves no trace in a module or in `process.env`. Runs of minutes are in
 * `test/longTests.ts`, for `npm run test:long`. On Postgres (`.ci/with-postgres npm test`) those that know a database.
 */
export default defineConfig({
  test: {
    ...seeded,
    include: process.env["AMPOULE_TEST_DATABASE_URL"] === undefined ? ["test/**/*.test.ts"] : [...databaseTests()],
    exclude: longTests,
    globalSetup: ["test/support/globalSetup.ts"],
    setupFiles: ["test/support/testMethods.ts"],
    testTimeout: 60_000,
    // The first that needs the built program waits until it is built.
    hookTimeout: 180_000,
    pool: "forks",
    // On two cores: a test waits for its database and its programs for half of its time. As many at least as at most:
    // otherwise vitest 3.2 gives up when there are more shares of files than processes that wait.
    // What collects garbage beside a process would take turns from the two others.
    poolOptions: {
      forks: { minForks: 3, maxForks: 3, isolate: false, execArgv: ["--single-threaded-gc", safeWebAssembly] }
    }
  }
})
