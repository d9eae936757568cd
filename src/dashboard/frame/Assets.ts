/**
 * Files that pages load: a stylesheet, a script, an icon, the islands (parts that a script draws) and, for pasted or
 * dropped files, the readers of file formats. `src/buildIslands.mjs` bundles the last two. All names carry a hash, so
 * browsers cache the files for a year.
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import { createHash } from "node:crypto"
import { fileURLToPath } from "node:url"

interface Asset {
  /** Path on the server. */
  readonly href: string
  readonly response: HttpServerResponse.HttpServerResponse
}

/** Parts of the stylesheet, in the order of the cascade. */
const style = [
  "roles",
  "ground",
  "frame",
  "cards",
  "buttons",
  "forms",
  "parts",
  "tabs",
  "projects",
  "tables",
  "matrix",
  "sheet",
  "graph",
  "device",
  "screens"
].map((subject) => `style/${subject}.css`)

/** Parts of the stylesheet of the documentation (`src/docs`). */
const docsStyle = ["roles", "ground", "frame", "docs"].map((subject) => `style/${subject}.css`)

/** One file of the parts, which are beside this module, or beside the bundle that it became part of. */
const asset = Effect.fnUntraced(function* (
  extension: "css" | "js" | "svg",
  contentType: string,
  parts: ReadonlyArray<string>,
  name = "app"
) {
  const fs = yield* FileSystem.FileSystem
  const texts = yield* Effect.forEach(parts, (part) =>
    fs.readFileString(fileURLToPath(new URL(`./assets/${part}`, import.meta.url)))
  )
  const text = texts.join("\n")
  const hash = createHash("sha256").update(text).digest("hex").slice(0, 12)
  const loaded: Asset = {
    href: `/app/assets/${name}.${hash}.${extension}`,
    response: HttpServerResponse.text(text, {
      contentType,
      headers: { "cache-control": "public, max-age=31536000, immutable", "x-content-type-options": "nosniff" }
    })
  }
  return loaded
})

const bundled = (name: string) => asset("js", "text/javascript; charset=utf-8", [`built/${name}.js`], name)

export const load = Effect.all({
  style: asset("css", "text/css; charset=utf-8", style),
  script: asset("js", "text/javascript; charset=utf-8", ["passkeys.js", "app.js"]),
  islands: bundled("islands"),
  formats: bundled("formats"),
  docsStyle: asset("css", "text/css; charset=utf-8", docsStyle, "docs"),
  docs: bundled("docs"),
  icon: asset("svg", "image/svg+xml", ["icon.svg"])
}).pipe(Effect.orDie)
