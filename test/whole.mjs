// npm run test:whole: the long tests with every case of those that `npm test` and CI try in part, and the record of how
// many passed: test/records/whole.json. On Postgres with .ci/with-postgres.
import { spawnSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

const at = (name) => fileURLToPath(new URL(name, import.meta.url))
const { version } = JSON.parse(readFileSync(at("../package.json"), "utf8"))
const folder = mkdtempSync(join(tmpdir(), "ampoule-whole-"))
const report = join(folder, "report.json")
const { status } = spawnSync(
  "npx",
  ["vitest", "run", "--root", ".", "--config", "test/vitest.long.config.ts"].concat(
    ["--reporter=default", "--reporter=json", `--outputFile.json=${report}`],
    process.argv.slice(2)
  ),
  {
    cwd: at(".."),
    stdio: "inherit",
    env: { ...process.env, AMPOULE_TEST_CASES: "all" }
  }
)
const { numFailedTests, numPassedTests, numPendingTests, startTime, testResults } = JSON.parse(
  readFileSync(report, "utf8")
)
rmSync(folder, { recursive: true })
const ended = Math.max(...testResults.map(({ endTime }) => endTime))
const record = {
  what: "The long tests with every case. npm run test:whole",
  date: new Date().toISOString().slice(0, 10),
  versions: { ampoule: version, node: process.versions.node },
  database: process.env.AMPOULE_TEST_DATABASE_URL === undefined ? "embedded" : "Postgres",
  files: testResults.length,
  passed: numPassedTests,
  failed: numFailedTests,
  skipped: numPendingTests,
  minutes: Math.round((ended - startTime) / 60_000)
}
// A run of some files is none of all.
if (process.argv.length === 2) writeFileSync(at("records/whole.json"), `${JSON.stringify(record, undefined, 2)}\n`)
process.stdout.write(`${JSON.stringify(record, undefined, 2)}\n`)
process.exitCode = status ?? 1
