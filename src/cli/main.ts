/**
 * The program `ampoule`. What is asked of it decides what is loaded: a version nothing, a page of the help that page,
 * `run`, `secrets get` and `secrets list` a small program of their own, everything else the commands.
 */
import * as module from "node:module"
import { join } from "node:path"
import { cacheBase } from "./Home.ts"
import type * as Manual from "./Manual.ts"
import { version } from "./Version.ts"

const words = process.argv.slice(2)
const [first, second] = words
const isServer = first === "server" || first === "vault"

/**
 * Compiled code is kept between two starts, by a Node that can (22.1). In a folder of this user's: the one for all
 * users would let another one say what is run here. Not by processes that hold root keys and start once.
 */
const keepCompiledCode = () => {
  if (isServer || process.env["NODE_DISABLE_COMPILE_CACHE"] !== undefined) return
  if (!("enableCompileCache" in module) || typeof module.enableCompileCache !== "function") return
  module.enableCompileCache(join(cacheBase(), "ampoule", "compiled"))
}

/** Whether it may be answered by the pages of the help. */
const asksForHelp = (): boolean =>
  first !== "__complete" && (words.length <= 2 || first === "help" || words.includes("--help") || words.includes("-h"))

interface Program {
  /** False: the words are for the parser. */
  readonly start: (words: ReadonlyArray<string>) => boolean
}

/** Files beside this one, by their names in `src/bundle.mjs`. */
const beside = module.createRequire(import.meta.url)

/** The program that may answer these words by itself. */
const quick = (): Program | undefined => {
  if (first === "run") return beside("./run.cjs")
  if (first === "secrets" && (second === "get" || second === "list")) return beside("./get.cjs")
  return first === "__complete" ? beside("./names.cjs") : undefined
}

const answer = (): string | undefined => {
  if (!asksForHelp()) return undefined
  const manual: typeof Manual = beside("./manual.cjs")
  return manual.answer(words, version)
}

const start = async () => {
  if ((first === "--version" || first === "-v") && words.length === 1) return process.stdout.write(`${version}\n`)
  keepCompiledCode()
  const text = answer()
  if (text !== undefined) {
    // The reader may have gone (`| head`).
    process.stdout.on("error", () => process.exit())
    return process.stdout.write(text)
  }
  // V8 comes to allocate Effect's objects in the old space, which makes every collection slow; set before they are
  // loaded. Not for a command that ends soon: Node compiles its own modules anew when a flag differs.
  if (isServer) process.getBuiltinModule("node:v8").setFlagsFromString("--no-allocation-site-pretenuring")
  if (quick()?.start(words) === true) return
  const all = await import("#layers/Cli.ts")
  all.start(words)
}

void start()
