// @ts-check
/**
 * `node deploy/licences.mjs [DIST [NODE]]`: writes `licences.txt` into what was built: ours, then the licences of the
 * packages that are in the bundle, as their authors ask; with the file NODE, Node's own, where Node is passed on too. A
 * text that several share stands there once. `ampoule licences` shows it.
 */
import * as fs from "node:fs"
import * as path from "node:path"
import { fileURLToPath } from "node:url"

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const dist = path.resolve(process.argv[2] ?? path.join(root, "dist"))
const json = (/** @type {string} */ file) => JSON.parse(fs.readFileSync(file, "utf8"))

/** @type {Map<string, Array<string>>} */
const byText = new Map()
for (const folder of json(path.join(dist, "packages.json")).bundled) {
  const { author, license, name, version } = json(path.join(root, folder, "package.json"))
  const files = fs.readdirSync(path.join(root, folder)).filter((file) => /^(licen[cs]e|notice|copying)/i.test(file))
  const texts = files.map((file) => fs.readFileSync(path.join(root, folder, file), "utf8").trim())
  const by = typeof author === "string" ? author : author?.name
  // No file: what its manifest says.
  const text = texts.join("\n\n") || [license, by].filter(Boolean).join(", ")
  byText.set(text, [...(byText.get(text) ?? []), `${name} ${version}`])
}
const { name, version } = json(path.join(root, "package.json"))
const read = (/** @type {string} */ file) => fs.readFileSync(file, "utf8").trim()
/** @type {Array<[string, Array<string>]>} */
const first = [[read(path.join(root, "LICENSE")), [`${name} ${version}`]]]
if (process.argv[3] !== undefined) first.push([read(process.argv[3]), ["Node.js, and what is in it"]])
const sections = [...first, ...byText].map(([text, names]) => `${names.join(", ")}\n\n${text}\n`)
fs.writeFileSync(path.join(dist, "licences.txt"), sections.join(`\n${"-".repeat(80)}\n\n`))
