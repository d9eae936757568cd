/** Reads the two OpenAPI documents that the build derived, from `openapi.br` beside the bundle. */
import * as Effect from "effect/Effect"
import { readFile } from "node:fs/promises"
import { promisify } from "node:util"
import { brotliDecompress } from "node:zlib"
import { type DocumentTexts, unpack } from "./DocumentText.ts"

const decompress = promisify(brotliDecompress)

export const load: Effect.Effect<DocumentTexts> = Effect.promise(async () =>
  unpack((await decompress(await readFile(new URL("./openapi.br", import.meta.url)))).toString())
)
