/** First program of an executable of a client, which Bun runs (`deploy/executables.mjs`). */
import { isatty } from "node:tty"
import * as BlockingStream from "#src/cli/terminal/BlockingStream.ts"

declare global {
  /** Files in the executable. Texts are read when they are needed; the library has a path. */
  var ampouleFiles: {
    readonly manual: () => string
    readonly licences: () => string
    readonly keyring: () => string
  }
}

/** Bun's loaders answer a text or a path, alone or as the default of a module. */
const content = (loaded: string | { readonly default: string }): string =>
  typeof loaded === "string" ? loaded : loaded.default

globalThis.ampouleFiles = {
  manual: () => content(require("./manual.txt")),
  licences: () => content(require("./licences.txt")),
  keyring: () => content(require("./keyring.library"))
}

for (const [name, fd] of [
  ["stdout", 1],
  ["stderr", 2]
] as const) {
  if (!isatty(fd)) Object.defineProperty(process, name, { value: BlockingStream.make(fd), configurable: true })
}

require("./ampoule.cjs")
