/**
 * Tests that start programs, browsers or databases for minutes, fuzz, or kill: `npm run test:long`, which CI calls. Of the
 * command line `npm test` keeps what needs a process or two (its parts, proxies, questions on a terminal); its journeys
 * start a process for each step.
 */
export const longTests = [
  "test/access/ended.test.ts",
  "test/access/exposureLong.test.ts",
  "test/access/manyCells.test.ts",
  "test/audit/millions.test.ts",
  "test/backup/release.test.ts",
  "test/cli/access.test.ts",
  "test/cli/admin.test.ts",
  "test/cli/completion.test.ts",
  "test/cli/daily.test.ts",
  "test/cli/help.test.ts",
  "test/cli/json.test.ts",
  "test/cli/leaks.test.ts",
  "test/cli/login.test.ts",
  "test/cli/management.test.ts",
  "test/cli/offline.test.ts",
  "test/cli/operator.test.ts",
  "test/cli/run.test.ts",
  "test/cli/seal.test.ts",
  "test/cli/sealedMerge.test.ts",
  "test/cli/secrets.test.ts",
  "test/cli/width.test.ts",
  "test/client/package.test.ts",
  "test/crypto/cores.test.ts",
  "test/dashboard/access.test.ts",
  "test/dashboard/hostile.test.ts",
  "test/dashboard/journeys.test.ts",
  "test/dashboard/login.test.ts",
  "test/dashboard/matrix.test.ts",
  "test/dashboard/openid.test.ts",
  "test/dashboard/pages.test.ts",
  "test/dashboard/palette.test.ts",
  "test/dashboard/passkeys.test.ts",
  "test/dashboard/settings.test.ts",
  "test/dashboard/shell.test.ts",
  "test/dashboard/typing.test.ts",
  "test/deploy/*.test.ts",
  "test/faults/kills.test.ts",
  "test/fuzz/fuzz.test.ts",
  "test/fuzz/regexes.test.ts",
  "test/http/declared.test.ts",
  "test/layers/MigrationSteps.test.ts",
  "test/layers/Pglite.test.ts",
  "test/layers/redisProcesses.test.ts",
  "test/leaks.test.ts",
  "test/mcp/journey.test.ts",
  "test/readme.test.ts",
  "test/vault/Release.test.ts",
  "test/vault/process.test.ts",
  "test/webhooks/killed.test.ts"
]

/** Properties that `npm test` tries on a part of their cases, and `npm run test:whole` on all (`test/support/Sampled.ts`). */
export const sampledTests = ["test/access/matrix.test.ts", "test/audit/Keeping.test.ts"]
