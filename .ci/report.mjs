// Reads a vitest JSON report: `counts` prints "passed failed", `files` the files to run once more, `failures` each failed
// test with the beginning of its error, and what the run said outside any test. A run whose process died wrote no report:
// then `counts` and `files` read what `ended.mjs` kept, and files that had not ended are to be run once more too.
import * as fs from "node:fs"
import { stripVTControlCharacters } from "node:util"

const [what, report] = process.argv.slice(2)
const exists = fs.existsSync(report)
const {
  numPassedTests = 0,
  numFailedTests = 0,
  testResults = []
} = exists ? JSON.parse(fs.readFileSync(report, "utf8")) : {}
const failed = testResults.filter(({ status }) => status === "failed")
const path = (name) => name.replace(`${process.cwd()}/`, "")
const lines = (text, count) =>
  text
    .split("\n")
    .slice(0, count)
    .map((line) => `    ${line}`)
    .join("\n")

const kept = report.replace(/\.json$/, ".ended")
const files =
  !exists && fs.existsSync(kept)
    ? fs
        .readFileSync(kept, "utf8")
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line))
    : []
const ended = files.filter((file) => file.ended !== undefined)
const good = ended.filter((file) => file.failed === 0)
const sum = (of, which) => of.reduce((total, file) => total + file[which], 0)
const again = exists
  ? failed.map(({ name }) => path(name))
  : files.flatMap(({ has = [] }) => has).filter((file) => !good.some((one) => one.ended === file))

if (what === "counts") console.log(`${numPassedTests + sum(good, "passed")} ${numFailedTests + sum(ended, "failed")}`)
if (what === "files") console.log(again.join(" "))
if (what === "failures") {
  for (const file of failed) {
    console.log(`\nfailed: ${path(file.name)}`)
    if (file.message) console.log(lines(file.message, 20))
    for (const test of file.assertionResults.filter(({ status }) => status === "failed")) {
      console.log(`  ${test.fullName}\n${lines(stripVTControlCharacters(test.failureMessages.join("\n")), 20)}`)
    }
  }
  // The report lacks what an error was caused by, and errors outside of tests, which fail a run alone. The log has both.
  const log = report.replace(/\.json$/, ".log")
  const said = fs.existsSync(log) ? stripVTControlCharacters(fs.readFileSync(log, "utf8")).split("\n") : []
  for (const line of new Set(said.filter((line) => line.startsWith("Caused by:")))) console.log(`  ${line}`)
  const unhandled = said.findIndex((line) => line.includes("Unhandled Error"))
  if (unhandled >= 0) console.log(`\n${said.slice(unhandled, unhandled + 40).join("\n")}`)
  if (!exists) console.log(`\nno report was written; the log ends with\n${said.slice(-40).join("\n")}`)
}
