// @ts-check
/**
 * Files that the built program needs to run: `node deploy/collect.mjs FOLDER [DIST]` copies `dist/` and the packages
 * outside the bundle, with their dependencies, from this installation.
 */
import * as fs from "node:fs"
import * as path from "node:path"
import { fileURLToPath } from "node:url"

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const to = path.resolve(process.argv[2] ?? "")
const dist = path.resolve(root, process.argv[3] ?? "dist")
if (process.argv[2] === undefined) throw new Error("collect.mjs needs the folder to copy to")

/** @param {string} file */
const json = (file) => JSON.parse(fs.readFileSync(file, "utf8"))

/** Folder of the package, resolved like Node does. @param {string} name @param {string} from */
const find = (name, from) => {
  for (let at = from; ; at = path.dirname(at)) {
    const folder = path.join(at, "node_modules", name)
    if (fs.existsSync(path.join(folder, "package.json"))) return folder
    if (at === root) return undefined
  }
}

/** @type {Set<string>} */
const packages = new Set()
/** @param {string} name @param {string} from @param {boolean} optional */
const add = (name, from, optional) => {
  const folder = find(name, from)
  if (folder === undefined) {
    if (optional) return
    throw new Error(`${name} is not installed`)
  }
  if (packages.has(folder)) return
  packages.add(folder)
  const { dependencies = {}, optionalDependencies = {} } = json(path.join(folder, "package.json"))
  for (const needed of Object.keys(optionalDependencies)) add(needed, folder, true)
  for (const needed of Object.keys(dependencies)) if (!(needed in optionalDependencies)) add(needed, folder, false)
}

const { name, version, type, optionalDependencies } = json(path.join(root, "package.json"))
for (const external of json(path.join(dist, "packages.json")).external) {
  add(external, root, external in optionalDependencies)
}

fs.mkdirSync(to, { recursive: true })
for (const folder of packages) {
  fs.cpSync(folder, path.join(to, path.relative(root, folder)), {
    recursive: true,
    // Nested packages are listed separately; types and source maps are for developers.
    filter: (from) =>
      !path.relative(folder, from).split(path.sep).includes("node_modules") && !/\.map$|\.d\.[cm]?ts$/.test(from)
  })
}
// The client library is for other programs.
const ofLibrary = ["client", "types"].map((name) => path.join(dist, name))
// Links keep their target: Node would write the absolute path of the copied folder.
fs.cpSync(dist, path.join(to, "dist"), {
  recursive: true,
  verbatimSymlinks: true,
  filter: (from) => !ofLibrary.includes(from)
})
fs.writeFileSync(path.join(to, "package.json"), `${JSON.stringify({ name, version, type, private: true })}\n`)
process.stdout.write(`${packages.size} packages and the bundle in ${to}\n`)
