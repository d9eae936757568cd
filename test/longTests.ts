/** Tests that start programs, browsers or databases for minutes, fuzz, or kill: `npm run test:long`, which CI calls. */
export const longTests = [
  "test/access/ended.test.ts",
  "test/access/manyCells.test.ts",
  "test/audit/millions.test.ts",
  "test/backup/release.test.ts",
  "test/crypto/cores.test.ts",
  "test/dashboard/access.test.ts",
  "test/dashboard/hostile.test.ts",
  "test/dashboard/journeys.test.ts",
  "test/dashboard/login.test.ts",
  "test/dashboard/pages.test.ts",
  "test/dashboard/settings.test.ts",
  "test/dashboard/typing.test.ts",
  "test/deploy/*.test.ts",
  "test/fuzz/fuzz.test.ts",
  "test/http/declared.test.ts",
  "test/layers/redisProcesses.test.ts",
  "test/mcp/journey.test.ts",
  "test/readme.test.ts",
  "test/vault/Release.test.ts",
  "test/vault/process.test.ts",
  "test/webhooks/killed.test.ts"
]
