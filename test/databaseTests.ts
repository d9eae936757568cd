/**
 * The test files that get a database, told by what they import. The others are the same whatever the database is: a run on
 * Postgres leaves them to the one on the embedded database.
 */
import { readdirSync, readFileSync } from "node:fs"
import * as path from "node:path"

const imported = /(?:from\s+|import\s*\(?\s*)"([#.][^"]+\.ts)"/g
/** What a run hands to its files: `test/support/globalSetup.ts`. */
const asks = /inject\("(?:postgres|embeddedTemplate)"\)/

interface File {
  readonly asks: boolean
  readonly imports: ReadonlyArray<string>
}
const files = new Map<string, File>()
const read = (name: string): File => {
  const known = files.get(name)
  if (known !== undefined) return known
  const text = readFileSync(name, "utf8")
  const imports = [...text.matchAll(imported)].map(([, target]) =>
    target.startsWith("#") ? target.slice(1) : path.posix.join(path.posix.dirname(name), target)
  )
  const file = { asks: asks.test(text), imports: imports.filter((one) => one.startsWith("test/")) }
  files.set(name, file)
  return file
}

const getsDatabase = (test: string): boolean => {
  // The iteration of a Set also visits members that are added during the iteration.
  const reached = new Set([test])
  for (const name of reached) {
    const file = read(name)
    if (file.asks) return true
    for (const one of file.imports) reached.add(one)
  }
  return false
}

export const databaseTests = (): ReadonlyArray<string> =>
  readdirSync("test", { recursive: true, encoding: "utf8" })
    .map((name) => path.posix.join("test", name))
    .filter((name) => name.endsWith(".test.ts") && getsDatabase(name))
