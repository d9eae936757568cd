// @ts-check
/** The commit that a build names: read once, by the build. */
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"

const commitText = /^[0-9a-f]{12,64}(?:-dirty)?$/

/**
 * `AMPOULE_COMMIT` where the sources are built without their repository (deploy/Dockerfile). Undefined: neither it nor
 * a repository exists, or git is missing or refuses to read it.
 *
 * @param {string} root @param {string | undefined} given @returns {string | undefined}
 * @throws when `given` is no commit
 */
export const commitOf = (root, given = process.env["AMPOULE_COMMIT"]) => {
  if (given !== undefined && given !== "") {
    if (!commitText.test(given)) throw new Error("AMPOULE_COMMIT takes 12 to 64 hexadecimal digits of a commit.")
    return given
  }
  // Of a folder inside another repository, git would name that repository's commit.
  if (!fs.existsSync(path.join(root, ".git"))) return undefined
  /** @param {ReadonlyArray<string>} words */
  const git = (...words) =>
    execFileSync("git", words, { cwd: root, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim()
  try {
    const commit = git("rev-parse", "HEAD").slice(0, 12)
    return git("status", "--porcelain", "--untracked-files=no") === "" ? commit : `${commit}-dirty`
  } catch {
    return undefined
  }
}
