/** The program `ampoule`. `--version` answers before anything else is loaded. */
import * as module from "node:module"
import { join } from "node:path"
import { setFlagsFromString } from "node:v8"
import { cacheBase } from "./Home.ts"
import { version } from "./Version.ts"

/**
 * Compiled code is kept between two starts, by a Node that can (22.1). In a folder of this user's: the one for all
 * users would let another one say what is run here. Not by processes that hold root keys and start once.
 */
const keepCompiledCode = (command: string | undefined) => {
  if (command === "server" || command === "vault" || process.env["NODE_DISABLE_COMPILE_CACHE"] !== undefined) return
  if (!("enableCompileCache" in module) || typeof module.enableCompileCache !== "function") return
  module.enableCompileCache(join(cacheBase(), "ampoule", "compiled"))
}

const [first, ...rest] = process.argv.slice(2)
if ((first === "--version" || first === "-v") && rest.length === 0) {
  process.stdout.write(`${version}\n`)
} else {
  keepCompiledCode(first)
  // V8 comes to allocate Effect's objects in the old space, which makes every collection slow; set before they are
  // loaded.
  setFlagsFromString("--no-allocation-site-pretenuring")
  // Side by side: what is loaded later, in the middle of a run, costs more.
  const [{ launch }] = await Promise.all([
    import("#layers/Cli.ts"),
    first === "run" ? undefined : import("./Commands.ts")
  ])
  launch(process.argv)
}
