// @ts-check
/** Packages of the npm registry that executables and image take parts of, by version and digest. */
import { execFileSync } from "node:child_process"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import * as path from "node:path"
import { fileURLToPath } from "node:url"

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))

/** @typedef {{ readonly name: string, readonly version: string, readonly integrity: string }} Package */

/** Folder of the kept files, by name and version: `node_modules/.cache/ampoule/…`. @param {Package} one */
export const cacheOf = ({ name, version }) =>
  path.join("node_modules/.cache/ampoule", `${name.replace(/^@/, "").replace("/", "-")}-${version}`)

/**
 * Folder with these files of a package. It is downloaded once, verified by its digest, and kept between builds.
 * @param {Package} one @param {ReadonlyArray<string>} files
 */
export const filesOf = (one, files) => {
  const folder = path.join(root, cacheOf(one))
  const wanted = files.map((file) => `package/${file}`)
  if (wanted.every((name) => fs.existsSync(path.join(folder, name)))) return path.join(folder, "package")
  fs.mkdirSync(folder, { recursive: true })
  const pack = ["pack", "--silent", "--pack-destination", folder, `${one.name}@${one.version}`]
  const file = path.join(folder, execFileSync("npm", pack, { cwd: folder, encoding: "utf8" }).trim())
  const digest = `sha512-${createHash("sha512").update(fs.readFileSync(file)).digest("base64")}`
  if (digest !== one.integrity) throw new Error(`${one.name}@${one.version} has another digest: ${digest}`)
  execFileSync("tar", ["-xzf", file, "-C", folder, ...wanted])
  fs.rmSync(file)
  return path.join(folder, "package")
}
