/**
 * Code cache (`vm.Script`, `cachedData`) of the small programs. Compiling them again takes a third of a start. Newer
 * releases of Node have a cache of their own, which serves the large programs.
 */
import * as fs from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import * as vm from "node:vm"
import { cacheBase, makeFolders } from "./terminal/Home.ts"

/** A folder of this user: in a shared one, another user could choose the code that runs here. */
export const folder = (): string => join(cacheBase(), "ampoule", "compiled")

/** V8 compares only the length of a program. A digest of its text, in front of the code, tells two builds apart. */
const digestLength = 32

/** Undefined when no code is stored, or it belongs to another build, or another user could have written it. */
const readStored = (file: string, digest: string): Buffer | undefined => {
  let fd: number | undefined
  try {
    fd = fs.openSync(file, "r")
    const { mode, uid } = fs.fstatSync(fd)
    const userId = process.getuid?.()
    if (userId !== undefined && (uid !== userId || (mode & 0o022) !== 0)) return undefined
    const bytes = fs.readFileSync(fd)
    return bytes.toString("latin1", 0, digestLength) === digest ? bytes.subarray(digestLength) : undefined
  } catch {
    return undefined
  } finally {
    if (fd !== undefined) fs.closeSync(fd)
  }
}

const write = (file: string, content: Buffer): void => {
  const fd = fs.openSync(file, "wx", 0o600)
  try {
    fs.writeFileSync(fd, content)
    fs.fsyncSync(fd)
  } finally {
    fs.closeSync(fd)
  }
}

/**
 * Atomic, and synced to the disk: half a file could break every later start. A failure is not reported, since only time
 * is lost.
 */
const store = (file: string, digest: string, code: Buffer): void => {
  const unfinished = `${file}.${process.pid}`
  try {
    makeFolders(dirname(file))
    try {
      write(unfinished, Buffer.concat([Buffer.from(digest, "latin1"), code]))
      fs.renameSync(unfinished, file)
    } catch {
      fs.rmSync(unfinished, { force: true })
    }
  } catch {
    // Without a folder there is no cache.
  }
}

export interface Loaded {
  /** The program's exports. */
  readonly exports: unknown
  /** Stores the code compiled so far, unless it is stored already. */
  readonly keep: () => void
}

const fileOf = (name: string): string => join(import.meta.dirname, `${name}.cjs`)

/** Exports of a program beside this one, loaded by Node. */
export const compile = (name: string): unknown => createRequire(fileOf(name))(fileOf(name))

/**
 * Loads a CommonJS program beside this one. `digest` is that of its text. Each `use` has its own cache, since each
 * compiles other functions.
 */
export const load = (name: string, digest: string, use: string): Loaded => {
  const filename = fileOf(name)
  const file = join(folder(), `${use}-${process.version}-${process.arch}`)
  const cachedData = readStored(file, digest)
  const text = `(function (exports, require, module, __filename, __dirname) {${fs.readFileSync(filename, "utf8")}\n})`
  const script = new vm.Script(text, { filename, cachedData })
  const module = { exports: {} }
  // The same call as in Node's own CommonJS loader.
  const wrapper: (...args: ReadonlyArray<unknown>) => void = script.runInThisContext()
  wrapper(module.exports, createRequire(filename), module, filename, dirname(filename))
  let isStored = cachedData !== undefined && script.cachedDataRejected !== true
  return {
    exports: module.exports,
    keep: () => {
      if (!isStored) store(file, digest, script.createCachedData())
      isStored = true
    }
  }
}
