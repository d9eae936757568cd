/**
 * The test files that get a database, told by what they import. The others are the same whatever the database is: a run on
 * Postgres leaves them to the one on the embedded database.
 */
import { filesBelow, type Module, read } from "./imports.ts"

/** Values that a run hands to its files: `test/support/globalSetup.ts`. */
const asks = /inject\("(?:postgres|embeddedTemplate)"\)/

const modules = new Map<string, Module>()
const moduleOf = (file: string): Module => {
  const module = modules.get(file) ?? read(file)
  modules.set(file, module)
  return module
}

const getsDatabase = (test: string): boolean => {
  // The iteration of a Set also visits members that are added during the iteration.
  const reached = new Set([test])
  for (const file of reached) {
    const { ours, text } = moduleOf(file)
    if (asks.test(text)) return true
    for (const one of ours) if (one.startsWith("test/")) reached.add(one)
  }
  return false
}

export const databaseTests = (): ReadonlyArray<string> =>
  filesBelow("test").filter((file) => file.endsWith(".test.ts") && getsDatabase(file))
