/**
 * The program `ampoule`. What is asked of it decides what is loaded: a version nothing, a page of the help that page,
 * `run`, `secrets get` and `secrets list` a small program of their own, everything else the commands.
 */
import * as module from "node:module"
import * as CompiledCode from "#src/cli/CompiledCode.ts"
import type * as Manual from "#src/cli/help/Manual.ts"
import { version } from "#src/cli/terminal/Version.ts"

const words = process.argv.slice(2)
const [first, second] = words
const isServer = first === "server" || first === "vault"

/** Not by processes that hold root keys and start once. */
const keepsCompiledCode = !isServer && process.env["NODE_DISABLE_COMPILE_CACHE"] === undefined

/** Of the large programs, by a Node that can (22.1). */
const keepCompiledCode = () => {
  if (!keepsCompiledCode || !("enableCompileCache" in module) || typeof module.enableCompileCache !== "function") return
  module.enableCompileCache(CompiledCode.folder())
}

/** Whether it may be answered by the pages of the help. */
const asksForHelp = (): boolean =>
  first !== "__complete" && (words.length <= 2 || first === "help" || words.includes("--help") || words.includes("-h"))

/** Written by the build: digests of the small programs. */
declare const digests: Readonly<Record<"get" | "manual" | "names" | "run", string>>

interface Program {
  /** False: the words are for the parser. `leave`: what is to be done before this process becomes another program. */
  readonly start: (words: ReadonlyArray<string>, leave: () => void) => boolean
}

/** A file beside this one, by its name in `src/bundle.mjs`. */
const beside = (name: keyof typeof digests, use: string = name) => {
  if (!keepsCompiledCode) return { exports: CompiledCode.compile(name), keep: () => {} }
  const loaded = CompiledCode.load(name, digests[name], use)
  process.once("exit", loaded.keep)
  return loaded
}

/** The program that may answer these words by itself. */
const quick = () => {
  if (first === "run") return beside("run")
  if (first === "secrets" && (second === "get" || second === "list")) return beside("get", second)
  return first === "__complete" ? beside("names") : undefined
}

const answer = (): string | undefined => {
  if (!asksForHelp()) return undefined
  // What the build put there.
  const manual = beside("manual").exports as typeof Manual
  return manual.textFor(words, version)
}

const start = async () => {
  if ((first === "--version" || first === "-v") && words.length === 1) return process.stdout.write(`${version}\n`)
  const text = answer()
  if (text !== undefined) {
    // The reader may have gone (`| head`).
    process.stdout.on("error", () => process.exit())
    return process.stdout.write(text)
  }
  // V8 comes to allocate Effect's objects in the old space, which makes every collection slow; set before they are
  // loaded. Not for a command that ends soon: Node compiles its own modules anew when a flag differs.
  if (isServer) process.getBuiltinModule("node:v8").setFlagsFromString("--no-allocation-site-pretenuring")
  const program = quick()
  // What the build put there.
  if (program !== undefined && (program.exports as Program).start(words, program.keep)) return
  keepCompiledCode()
  const all = await import("./Cli.ts")
  all.start(words)
}

void start()
