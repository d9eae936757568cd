/**
 * The small programs with their compiled code, which V8 makes and takes again (`vm.Script`, `cachedData`): compiling them
 * anew takes a third of a start. Node's own cache of modules does the same for the large ones, by a Node that has it.
 */
import * as fs from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import * as vm from "node:vm"
import { cacheBase } from "./terminal/Home.ts"

/** In a folder of this user's: the one for all users would let another one say what is run here. */
export const folder = (): string => join(cacheBase(), "ampoule", "compiled")

/** V8 compares the length of a program, not its text: what it made of another build has another digest before it. */
const digestLength = 32

/** Undefined: there is none, or it is not of this very program, or somebody else may have written it. */
const kept = (file: string, digest: string): Buffer | undefined => {
  let fd: number | undefined
  try {
    fd = fs.openSync(file, "r")
    const { mode, uid } = fs.fstatSync(fd)
    const own = process.getuid?.()
    if (own !== undefined && (uid !== own || (mode & 0o022) !== 0)) return undefined
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
 * Whole or not at all, also when the machine stops: half of it could stop every later start. What only saves time is not
 * told of when it fails.
 */
const keep = (file: string, digest: string, code: Buffer): void => {
  const unfinished = `${file}.${process.pid}`
  try {
    fs.mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
    try {
      write(unfinished, Buffer.concat([Buffer.from(digest, "latin1"), code]))
      fs.renameSync(unfinished, file)
    } catch {
      fs.rmSync(unfinished, { force: true })
    }
  } catch {
    // No folder, no cache.
  }
}

export interface Loaded {
  /** What the program exports. */
  readonly exports: unknown
  /** Keeps the code, with what has been compiled by now, unless it is kept already. */
  readonly keep: () => void
}

const fileOf = (name: string): string => join(import.meta.dirname, `${name}.cjs`)

/** What a program beside this one exports, as Node loads it. */
export const compile = (name: string): unknown => createRequire(fileOf(name))(fileOf(name))

/** A program beside this one, in CommonJS. `digest`: of its text; `use`: code is kept for each, as what it needs differs. */
export const load = (name: string, digest: string, use: string): Loaded => {
  const filename = fileOf(name)
  const file = join(folder(), `${use}-${process.version}-${process.arch}`)
  const cachedData = kept(file, digest)
  const text = `(function (exports, require, module, __filename, __dirname) {${fs.readFileSync(filename, "utf8")}\n})`
  const script = new vm.Script(text, { filename, cachedData })
  const module = { exports: {} }
  // As Node's own loader of CommonJS calls it.
  const wrapper: (...given: ReadonlyArray<unknown>) => void = script.runInThisContext()
  wrapper(module.exports, createRequire(filename), module, filename, dirname(filename))
  let isKept = cachedData !== undefined && script.cachedDataRejected !== true
  return {
    exports: module.exports,
    keep: () => {
      if (!isKept) keep(file, digest, script.createCachedData())
      isKept = true
    }
  }
}
