/**
 * `npm run test:seeds -- [runs] [files…]`: the tests again and again, 5 times unless said otherwise, each time in
 * another order and with other random values. What fails is named with its seed: `AMPOULE_TEST_SEED=… npm test` runs
 * that one again.
 */
import { spawnSync } from "node:child_process"
import { randomInt } from "node:crypto"
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const [first, ...rest] = process.argv.slice(2)
const counted = /^[0-9]+$/.test(first ?? "")
const runs = counted ? Number(first) : 5
const files = counted || first === undefined ? rest : [first, ...rest]

const folder = mkdtempSync(join(tmpdir(), "ampoule-seeds-"))
const failed = []
for (let run = 1; run <= runs; run++) {
  const seed = String(randomInt(1_000_000_000))
  process.stdout.write(`\nRun ${run} of ${runs}: AMPOULE_TEST_SEED=${seed}\n`)
  const report = join(folder, `${seed}.json`)
  const { status } = spawnSync(
    process.execPath,
    [
      "node_modules/vitest/vitest.mjs",
      "run",
      "--reporter=dot",
      "--reporter=json",
      `--outputFile.json=${report}`,
      ...files
    ],
    { stdio: "inherit", env: { ...process.env, AMPOULE_TEST_SEED: seed } }
  )
  if (status === 0) continue
  const { testResults = [] } = existsSync(report) ? JSON.parse(readFileSync(report, "utf8")) : {}
  const names = testResults.flatMap(({ assertionResults, message, name, status }) => {
    const tests = assertionResults
      .filter((one) => one.status === "failed")
      .map(({ fullName }) => `${name}: ${fullName}`)
    return tests.length === 0 && status === "failed" ? [`${name}: ${message}`] : tests
  })
  for (const name of names.length === 0 ? [`the run ended with ${status}`] : names) failed.push(`${seed}  ${name}`)
}
rmSync(folder, { recursive: true, force: true })
process.stdout.write(
  failed.length === 0
    ? `\n${runs} runs with ${runs} seeds: nothing failed.\n`
    : `\nFailed, with the seed of the run:\n${failed.join("\n")}\n`
)
process.exitCode = failed.length === 0 ? 0 : 1
