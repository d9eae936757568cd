// @ts-check
/**
 * `node deploy/licences.mjs [DIST [FILE [NAME]]]`: writes `licences.txt` into the build. It has our licence, those of the
 * bundled packages, and those of code from others in the sources (`deploy/licences`, one file each, by name and
 * version). With FILE it adds the licence of the runtime inside, which is Node without NAME. Shared texts and terms are printed once.
 * `ampoule licences` shows it.
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
  // Without a file, the manifest's licence.
  const text = texts.join("\n\n") || [license, by].filter(Boolean).join(", ")
  byText.set(text, [...(byText.get(text) ?? []), `${name} ${version}`])
}
for (const file of fs.readdirSync(path.join(root, "deploy/licences"))) {
  const [, name, version] = /^(.+)-(\d.*)\.txt$/.exec(file) ?? []
  if (name === undefined) throw new Error(`deploy/licences/${file} is not named NAME-VERSION.txt`)
  byText.set(fs.readFileSync(path.join(root, "deploy/licences", file), "utf8").trim(), [`${name} ${version}`])
}
const { name, version } = json(path.join(root, "package.json"))
/** Shared terms with separate copyright lines. */
const shared = [
  /Apache License\s+Version 2\.0, January 2004[^]*?END OF TERMS AND CONDITIONS/,
  /Permission is hereby granted, free of charge, to any person obtaining[^]*?DEALINGS IN THE\s+SOFTWARE\./i
]
const read = (/** @type {string} */ file) => fs.readFileSync(file, "utf8").trim()
/** @type {Array<[string, Array<string>]>} */
const first = [[read(path.join(root, "LICENSE")), [`${name} ${version}`]]]
if (process.argv[3] !== undefined)
  first.push([read(process.argv[3]), [process.argv[4] ?? "Node.js, and what is in it"]])
/** Section of each text, by its exact words. @type {Map<string, string>} */
const sectionOf = new Map()
/** Prints each text once, and later refers to its section. @param {string} text @param {string} whose */
const once = (text, whose) =>
  shared.reduce(
    (rest, terms) =>
      rest.replace(terms, (own) => {
        const words = own.replace(/\s+/g, " ").toLowerCase()
        const where = sectionOf.get(words)
        if (where === undefined) sectionOf.set(words, whose)
        return where === undefined ? own : `The same terms, word for word, as of ${where} above.`
      }),
    text
  )
const sections = [...first, ...byText].map(([text, names]) => `${names.join(", ")}\n\n${once(text, names[0] ?? "")}\n`)
fs.writeFileSync(path.join(dist, "licences.txt"), sections.join(`\n${"-".repeat(80)}\n\n`))
