// @ts-check
/** Clones of a commit, and what `npm run release:check` makes in them. */
import { execFileSync, spawnSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"

/** @param {string} command @param {ReadonlyArray<string>} args @param {import("node:child_process").SpawnSyncOptions} options */
const must = (command, args, options) => {
  const { status, stderr, stdout } = spawnSync(command, args, { ...options, encoding: "utf8", maxBuffer: 2 ** 28 })
  if (status !== 0) throw new Error(`${command} ${args.join(" ")}: ${status}\n${String(stdout).slice(-2000)}${stderr}`)
  return String(stdout)
}

/**
 * Makes the parts of a release in a clone, under other names, rights, time zone and language than those of this account.
 * @param {string} root @param {string} commit @param {string} clone
 * @param {{ umask: string, zone: string, language: string }} surroundings
 */
export const makeRelease = (root, commit, clone, { language, umask, zone }) => {
  execFileSync("git", ["clone", "--quiet", "--no-checkout", root, clone])
  execFileSync("git", ["checkout", "--quiet", commit], { cwd: clone })
  const home = `${clone}-home`
  fs.mkdirSync(home)
  const registry = execFileSync("npm", ["config", "get", "registry"], { encoding: "utf8" }).trim()
  const env = {
    PATH: process.env["PATH"],
    HOME: home,
    TZ: zone,
    LC_ALL: language,
    npm_config_registry: registry,
    AMPOULE_RELEASE_DIGESTS: "off",
    AMPOULE_RELEASE_DIR: path.join(home, "tools"),
    ...(process.env["CI"] === undefined ? {} : { CI: process.env["CI"] })
  }
  const line = `umask ${umask} && npm ci --ignore-scripts --no-audit --no-fund && npm run --silent release:check`
  must("bash", ["-c", line], { cwd: clone, env })
  const out = path.join(clone, ".artifacts/release")
  // The record of the check is for the working tree of a developer.
  execFileSync("git", ["checkout", "--quiet", "--", "test/records"], { cwd: clone })
  return out
}

/** Names of the files of a release, with their digests. @param {string} folder */
export const sumsOf = (folder) =>
  new Map(
    fs
      .readFileSync(path.join(folder, "SHA256SUMS"), "utf8")
      .trim()
      .split("\n")
      .map((line) => {
        const [sum = "", name = ""] = line.split("  ")
        return [name, sum]
      })
  )

/** Commit of a release that has no tag. */
const untagged = new Map([["1.0.0", "323b8ec8d75cb25ea6046d59bedee2924298c3f6"]])

/** The release before the one of this tree, and its commit. @param {string} root */
export const releaseBefore = (root) => {
  const headings = fs.readFileSync(path.join(root, "CHANGELOG.md"), "utf8").matchAll(/^## (\d+\.\d+\.\d+)$/gm)
  const [, version = ""] = [...headings].map(([, name = ""]) => name)
  const tag = spawnSync("git", ["rev-parse", "--verify", "--quiet", `v${version}^{commit}`], {
    cwd: root,
    encoding: "utf8"
  })
  const commit = tag.status === 0 ? tag.stdout.trim() : untagged.get(version)
  if (commit === undefined) throw new Error(`Release ${version} has no tag v${version}.`)
  return { version, commit }
}

/** Packs the package of a former release. @param {string} root @param {string} commit @param {string} clone */
export const packFormer = (root, commit, clone) => {
  execFileSync("git", ["clone", "--quiet", "--no-checkout", root, clone])
  execFileSync("git", ["checkout", "--quiet", commit], { cwd: clone })
  must("npm", ["install", "--ignore-scripts", "--no-audit", "--no-fund"], { cwd: clone })
  // Release 1.0.0 was never published: its manifest says so.
  must("npm", ["pkg", "delete", "private"], { cwd: clone })
  const name = must("npm", ["pack", "--silent"], { cwd: clone }).trim().split("\n").at(-1) ?? ""
  return path.join(clone, name)
}
