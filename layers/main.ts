/**
 * The program `ampoule`. The words decide which code is loaded: for a version nothing, for help only its page. The
 * commands of `src/cli/Quick.ts` have small programs. Everything else loads all commands.
 */
import * as module from "node:module"
import * as CompiledCode from "#src/cli/CompiledCode.ts"
import * as Home from "#src/cli/terminal/Home.ts"
import type * as Manual from "#src/cli/help/Manual.ts"
import { release } from "#src/Release.ts"

const words = process.argv.slice(2)
const [first, second] = words
const isServer = first === "server" || first === "vault"

/** Off for processes that hold root keys, which start once. */
const usesCodeCache = (): boolean =>
  !isServer && process.env["NODE_DISABLE_COMPILE_CACHE"] === undefined && !Home.isUnreachable(CompiledCode.folder())

/** Code cache of the large programs, in Node 22.1 and later. */
const enableCodeCache = () => {
  if (!usesCodeCache() || !("enableCompileCache" in module) || typeof module.enableCompileCache !== "function") return
  module.enableCompileCache(CompiledCode.folder())
}

/** Digests of the small programs, inserted by the build. */
declare const digests: Readonly<Record<"get" | "manual" | "names" | "run" | "show", string>>

interface Program {
  /** Returns false when the words are for the parser. `leave` runs before this process becomes another program. */
  readonly start: (words: ReadonlyArray<string>, leave: () => void) => boolean
}

/** A file beside this one, by its name in `src/bundle.mjs`. */
const beside = (name: keyof typeof digests, use: string = name) => {
  if (!usesCodeCache()) return { exports: CompiledCode.compile(name), keep: () => {} }
  const loaded = CompiledCode.load(name, digests[name], use)
  process.once("exit", loaded.keep)
  return loaded
}

interface SmallProgram {
  readonly name: keyof typeof digests
  readonly use?: string
}

/** Small program for these words, if there is one. */
const smallProgram = (): SmallProgram | undefined => {
  switch (first) {
    case "run":
      return { name: "run" }
    case "secrets":
      return second === "get" || second === "list" ? { name: "get", use: second } : undefined
    case "projects":
      // Alone, with options or without, it is the list.
      return second === undefined || second === "list" || second.startsWith("-")
        ? { name: "show", use: first }
        : undefined
    case "whoami":
    case "exposed":
    case "doctor":
      return { name: "show", use: first }
    case "__complete":
      return { name: "names" }
    default:
      return undefined
  }
}

/** True when the pages of the help may answer. */
const asksForHelp = (program: SmallProgram | undefined): boolean =>
  first !== "__complete" &&
  (first === "help" || words.includes("--help") || words.includes("-h") || (words.length <= 2 && program === undefined))

const answer = (program: SmallProgram | undefined): string | undefined => {
  if (!asksForHelp(program)) return undefined
  // Safe cast: the build wrote this file.
  const manual = beside("manual").exports as typeof Manual
  return manual.textFor(words, release)
}

const start = async () => {
  if ((first === "--version" || first === "-v") && words.length === 1) return process.stdout.write(`${release}\n`)
  const remote = isServer ? [] : Home.remoteFolders()
  if (remote.length > 0) {
    const { unreachable } = await import("./RemoteHome.ts")
    globalThis.ampouleUnreachable = await unreachable(remote)
  }
  const small = smallProgram()
  const text = answer(small)
  if (text !== undefined) {
    // The reader may have closed the pipe (`| head`).
    process.stdout.on("error", () => process.exit())
    return process.stdout.write(text)
  }
  // Otherwise V8 comes to allocate Effect's objects in the old space, which makes every collection slow. Set before
  // loading them, and only for servers: Node compiles its own modules again when a flag differs.
  if (isServer) process.getBuiltinModule("node:v8").setFlagsFromString("--no-allocation-site-pretenuring")
  const program = small === undefined ? undefined : beside(small.name, small.use)
  // Safe cast: the build wrote this file.
  if (program !== undefined && (program.exports as Program).start(words, program.keep)) return
  enableCodeCache()
  const all = await import("./Cli.ts")
  all.start(words)
}

void start()
