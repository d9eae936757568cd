/**
 * Library of keychains in an executable (`deploy/executables.mjs`), in place of `@napi-rs/keyring`. The system loads it
 * from a file alone. Bun would write that into the common folder for temporary files; this one belongs to the user.
 */
import type * as Library from "@napi-rs/keyring"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import { join } from "node:path"
import { cacheBase, makeFolders } from "#src/cli/terminal/Home.ts"

/** The same bytes, in a file that nobody else can write. */
const isOurs = (file: string, bytes: Uint8Array): boolean => {
  try {
    const { mode, uid } = fs.lstatSync(file)
    const isPrivate = process.getuid === undefined || (uid === process.getuid() && (mode & 0o022) === 0)
    return isPrivate && fs.readFileSync(file).equals(bytes)
  } catch {
    return false
  }
}

/** Written under a temporary name, because another start may do the same. */
const unpack = (folder: string, file: string, bytes: Uint8Array): void => {
  makeFolders(folder)
  const unfinished = `${file}.${process.pid}`
  try {
    fs.writeFileSync(unfinished, bytes, { flag: "wx", mode: 0o600 })
    fs.renameSync(unfinished, file)
  } catch (error) {
    fs.rmSync(unfinished, { force: true })
    throw error
  }
}

const load = (): typeof Library => {
  const bytes = fs.readFileSync(globalThis.ampouleFiles.keyring())
  const folder = join(cacheBase(), "ampoule", "libraries")
  const file = join(folder, `keyring-${createHash("sha256").update(bytes).digest("hex").slice(0, 16)}.node`)
  if (!isOurs(file, bytes)) unpack(folder, file, bytes)
  const module = { exports: {} }
  process.dlopen(module, file)
  // Safe cast: the build took the library from this package.
  return module.exports as typeof Library
}

export const { AsyncEntry } = load()
