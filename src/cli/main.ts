/** The program `ampoule`. `--version` answers before anything else is loaded. */
import { setFlagsFromString } from "node:v8"
import { version } from "./Version.ts"

const [first, ...rest] = process.argv.slice(2)
if ((first === "--version" || first === "-v") && rest.length === 0) {
  process.stdout.write(`${version}\n`)
} else {
  // V8 comes to allocate Effect's objects in the old space, which makes every collection slow; set before they are loaded.
  setFlagsFromString("--no-allocation-site-pretenuring")
  const { launch } = await import("#layers/Cli.ts")
  launch(process.argv)
}
