/** Documents of the built program, beside the declarations. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import * as OpenApi from "#schema/OpenApi.ts"
import { siteOf } from "#src/docs/DocsSource.ts"
import * as DocumentText from "#src/http/engine/DocumentText.ts"
import * as Release from "#test/support/Release.ts"

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(path.join(tmpdir(), "ampoule-documents-"))),
  (made) => Effect.sync(() => rmSync(made, { recursive: true, force: true }))
)

/** Lists of names are in the order of a module's exports, which is another one in a bundle. */
const read = (text: string): unknown =>
  JSON.parse(text, (_, value: unknown) =>
    Array.isArray(value) && value.every((item) => typeof item === "string") ? [...value].sort() : value
  )

describe("the built program", () => {
  it.scopedLive(
    "publishes the documents that derive from the declarations",
    () =>
      Effect.gen(function* () {
        const { url } = yield* Release.server(yield* Release.build, { AMPOULE_DATA_DIR: yield* folder })
        for (const [route, document] of [
          ["/openapi.json", OpenApi.contractDocument],
          ["/dashboard/openapi.json", OpenApi.dashboardDocument]
        ] as const) {
          const request = Effect.promise(async () => {
            const answer = await fetch(`${url}${route}`)
            return { type: answer.headers.get("content-type"), text: await answer.text() }
          })
          const [first, second] = yield* Effect.all([request, request], { concurrency: "unbounded" })
          assert.strictEqual(first.type, "application/json")
          assert.deepStrictEqual(read(first.text), read(DocumentText.at(url, DocumentText.textOf(document))))
          assert.deepStrictEqual(second, first)
        }
      }),
    120_000
  )

  it.scopedLive(
    "shows the documentation of its sources, as pages and as Markdown",
    () =>
      Effect.gen(function* () {
        const { url } = yield* Release.server(yield* Release.build, { AMPOULE_DATA_DIR: yield* folder })
        const site = siteOf(`${process.cwd()}/`)
        // Lists of names in the API reference are in another order, as above.
        const pages = site.pages.filter(({ path }) => !path.startsWith("/docs/api"))
        assert.isAbove(pages.length, 30)
        const ask = (path: string) => Effect.promise(async () => (await fetch(`${url}${path}`)).text())
        for (const { html, markdown, markdownPath, path } of pages) {
          assert.include(yield* ask(path), html, path)
          assert.strictEqual(yield* ask(markdownPath), markdown, path)
        }
        assert.include(yield* ask("/docs/api/secrets"), "<code>GET /secrets/inject\n</code>")
      }),
    120_000
  )
})
