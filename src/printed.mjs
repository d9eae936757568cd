// @ts-check
/** Output of a module of ours, for what the build derives from the sources. */
import { build } from "esbuild"
import { execFileSync } from "node:child_process"
import * as path from "node:path"
import { fileURLToPath } from "node:url"

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))

/**
 * Evaluates it in a process of its own, because the caller may be a test runner with its own modules.
 *
 * @param {string} contents text of the module, which imports from the top of the repository
 * @param {ReadonlyArray<string>} args
 */
export const printed = async (contents, args = []) => {
  const { outputFiles } = await build({
    absWorkingDir: root,
    stdin: { contents, resolveDir: root },
    bundle: true,
    write: false,
    platform: "node",
    target: "node20",
    format: "esm"
  })
  const input = outputFiles[0]?.contents
  return execFileSync(process.execPath, ["--input-type=module", "-", ...args], {
    input,
    maxBuffer: 2 ** 27,
    encoding: "utf8"
  })
}
