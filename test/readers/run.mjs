// @ts-check
/**
 * `npm run test:readers`: asks the readers of .env files that people use, each the program itself, what they make of the
 * lines of `lines.mjs` and of the files that Ampoule writes for the values of `values.mjs`, and records the answers in
 * test/records/readers.json. `npm test` compares ours with the record. Asks nushell about its format too. Needs Python,
 * Go, bash and the registries of npm, Python and Go; tools stay in AMPOULE_READERS_DIR.
 */
import * as esbuild from "esbuild"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import { createRequire } from "node:module"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { lines } from "./lines.mjs"
import { ask, install, nushell, versions } from "./Readers.mjs"
import { values } from "./values.mjs"

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..")
const record = path.join(root, "test/records/readers.json")
install()

const work = fs.mkdtempSync(path.join(tmpdir(), "ampoule-readers-"))
const bundle = path.join(work, "formats.cjs")
await esbuild.build({
  entryPoints: [path.join(root, "src/formats/EnvFile.ts")],
  outfile: bundle,
  bundle: true,
  format: "cjs",
  platform: "node"
})
const { print } = createRequire(import.meta.url)(bundle)

/** The file of one value, or null where the format refuses it. @returns {string | null} */
const fileOf = (/** @type {string} */ format, /** @type {string} */ value, /** @type {object} */ options = {}) => {
  const printed = print(format, [{ key: "A", value }], options)
  return printed._tag === "Right" ? printed.right : null
}

const readers = /** @type {const} */ ([undefined, "npm", "node", "compose", "python", "shell"])
const files = readers.map((reader) => values.map((value) => fileOf("dotenv", value, { reader })))
const texts = [...lines.map(([, text]) => text), ...files.flat().map((text) => text ?? "")]
const answers = await ask(texts)
const answersAt = (/** @type {number} */ i) =>
  Object.fromEntries(Object.entries(answers).map(([reader, all]) => [reader, all[i]]))
const readerOf = { npm: "npm", node: "node", compose: "compose", python: "python", shell: "bash" }

const written = values.map((value, i) => ({
  value,
  file: files[0][i],
  answers: answersAt(lines.length + i),
  for: Object.fromEntries(
    readers.slice(1).map((reader, at) => {
      const file = files[at + 1][i]
      const answer = answers[readerOf[reader ?? "npm"]][lines.length + (at + 1) * values.length + i]
      return [reader, { file, answer: file === null ? null : answer }]
    })
  )
}))

/** Nushell reads all values at once: what it hands to a program that it starts. */
const nuon = print(
  "nushell",
  values.map((value, i) => ({ key: `K${i}`, value }))
)
const nuonFile = path.join(work, "values.nuon")
fs.writeFileSync(nuonFile, nuon.right)
const printer = "process.stdout.write(JSON.stringify(process.env))"
const script = `open --raw '${nuonFile}' | from nuon | load-env; ^'${process.execPath}' -e '${printer}'`
const seen = JSON.parse(execFileSync(nushell(), ["--no-config-file", "-c", script], { encoding: "utf8" }))
const differs = values.filter((value, i) => seen[`K${i}`] !== value)
if (differs.length > 0) throw new Error(`nushell reads ${differs.length} values otherwise`)

const readerVersions = { ...versions.npm, ...versions.python, ...versions.go, node: process.version }
const byLine = lines.map(([name, text], i) => ({ name, text, answers: answersAt(i) }))
const json = JSON.stringify({ readers: readerVersions, nushell: values.length, lines: byLine, written }, null, 1)
fs.writeFileSync(record, `${json}\n`)
fs.rmSync(work, { recursive: true })
process.stdout.write(`${lines.length} lines, ${values.length} values, ${Object.keys(answers).length} readers\n`)
