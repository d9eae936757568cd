/** Programs of others that a test needs beside Node. */
import { spawnSync } from "node:child_process"
import { readFileSync } from "node:fs"

const isThere = (program: string): boolean => spawnSync("which", [program], { stdio: "ignore" }).status === 0

/** Programs that `.ci/run` installs, and mise, which a test takes from npm. */
const installed = new Set([
  "mise",
  ...readFileSync(new URL("../../.ci/programs", import.meta.url), "utf8")
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => line.split(" ")[0])
])

/**
 * Whether one of them is not installed, so that its test is skipped. Where everything has to be tried (`CI`) that is an
 * error: `.ci/run` installs them.
 * @throws anywhere, when `.ci/programs` does not name one; in CI, when one is not there
 */
export const missing = (...programs: ReadonlyArray<string>): boolean => {
  const unknown = programs.filter((program) => !installed.has(program))
  if (unknown.length > 0) throw new Error(`.ci/programs does not name ${unknown.join(", ")}`)
  const absent = programs.filter((program) => !isThere(program))
  if (absent.length > 0 && process.env["CI"] !== undefined) {
    throw new Error(`not installed, and .ci/run should have: ${absent.join(", ")}`)
  }
  return absent.length > 0
}
