/** Reads the documentation that the build rendered, from `docs.br` beside the bundle. */
import * as Effect from "effect/Effect"
import { readFile } from "node:fs/promises"
import { promisify } from "node:util"
import { brotliDecompress } from "node:zlib"
import type { Site } from "./Site.ts"

const decompress = promisify(brotliDecompress)

export const load: Effect.Effect<Site> = Effect.promise(async () => {
  const text = (await decompress(await readFile(new URL("./docs.br", import.meta.url)))).toString()
  // The build of this release wrote the file.
  return JSON.parse(text) as Site
})
