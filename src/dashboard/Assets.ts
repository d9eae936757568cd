/** The two files of our own that pages load: one stylesheet, one script. Their names carry a hash, so they are kept for a year. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import { createHash } from "node:crypto"
import { fileURLToPath } from "node:url"

export interface Asset {
  /** Path on the server. */
  readonly href: string
  readonly response: HttpServerResponse.HttpServerResponse
}

/** Beside this module, or beside the bundle it became part of. */
const asset = Effect.fnUntraced(function* (name: "app.css" | "app.js", contentType: string) {
  const fs = yield* FileSystem.FileSystem
  const bytes = yield* fs.readFile(fileURLToPath(new URL(`./assets/${name}`, import.meta.url)))
  const hash = createHash("sha256").update(bytes).digest("hex").slice(0, 12)
  const made: Asset = {
    href: `/app/assets/${name.replace(".", `.${hash}.`)}`,
    response: HttpServerResponse.uint8Array(bytes, {
      contentType,
      headers: { "cache-control": "public, max-age=31536000, immutable", "x-content-type-options": "nosniff" }
    })
  }
  return made
})

export const load = Effect.all({
  style: asset("app.css", "text/css; charset=utf-8"),
  script: asset("app.js", "text/javascript; charset=utf-8")
}).pipe(Effect.orDie)
