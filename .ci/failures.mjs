// Names each failed test of a vitest JSON report with the beginning of its error, then what the run said outside any test.
import * as fs from "node:fs"

const [report] = process.argv.slice(2)
const lines = (text, count) =>
  text
    .split("\n")
    .slice(0, count)
    .map((line) => `    ${line}`)
    .join("\n")

if (fs.existsSync(report)) {
  const { testResults } = JSON.parse(fs.readFileSync(report, "utf8"))
  for (const file of testResults.filter(({ status }) => status === "failed")) {
    console.log(`\nfailed: ${file.name.replace(`${process.cwd()}/`, "")}`)
    if (file.message) console.log(lines(file.message, 20))
    for (const test of file.assertionResults.filter(({ status }) => status === "failed")) {
      console.log(`  ${test.fullName}\n${lines(test.failureMessages.join("\n"), 20)}`)
    }
  }
}

// An error outside every test fails a run without failing a test; it stands in the log only.
const log = report.replace(/\.json$/, ".log")
const said = fs.existsSync(log) ? fs.readFileSync(log, "utf8").split("\n") : []
const unhandled = said.findIndex((line) => line.includes("Unhandled Error"))
if (unhandled >= 0) console.log(`\n${said.slice(unhandled, unhandled + 40).join("\n")}`)
if (!fs.existsSync(report)) console.log(`\nno report was written; the log ends with\n${said.slice(-40).join("\n")}`)
