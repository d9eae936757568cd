/** Programs of others that a test needs beside Node. */
import { spawnSync } from "node:child_process"

const isThere = (program: string): boolean => spawnSync("which", [program], { stdio: "ignore" }).status === 0

/**
 * Whether one of them is not installed, so that its test is skipped. Where everything has to be tried (`CI`) that is an
 * error: `.ci/run` installs them.
 * @throws in CI, when one is not there
 */
export const missing = (...programs: ReadonlyArray<string>): boolean => {
  const absent = programs.filter((program) => !isThere(program))
  if (absent.length > 0 && process.env["CI"] !== undefined) {
    throw new Error(`not installed, and .ci/run should have: ${absent.join(", ")}`)
  }
  return absent.length > 0
}
