// @ts-check
/**
 * `npm run test:readers`: asks the readers of .env files that people use, each the program itself, what they make of the
 * lines of `lines.mjs`, and records their answers in test/records/readers.json. `npm test` compares ours with the
 * record. Needs Python, Go, bash and the registries of npm, Python and Go; tools stay in AMPOULE_READERS_DIR.
 */
import * as fs from "node:fs"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { lines } from "./lines.mjs"
import { ask, install, versions } from "./Readers.mjs"

const record = path.join(path.dirname(fileURLToPath(import.meta.url)), "../records/readers.json")
install()
const answers = await ask(lines.map(([, text]) => text))
const byLine = lines.map(([name, text], i) => ({
  name,
  text,
  answers: Object.fromEntries(Object.entries(answers).map(([reader, all]) => [reader, all[i]]))
}))
const readers = {
  ...versions.npm,
  ...versions.python,
  ...versions.go,
  node: process.version
}
fs.writeFileSync(record, `${JSON.stringify({ readers, lines: byLine }, null, 2)}\n`)
process.stdout.write(`${lines.length} lines, ${Object.keys(answers).length} readers\n`)
