/**
 * Routes of the documentation: `/docs` and all below it, and `/llms.txt` (https://llmstxt.org). Pages hold nothing private,
 * so they need no session. They pass the guard of open pages, which counts the address.
 */
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { createHash } from "node:crypto"
import type { VNode } from "preact"
import { render } from "preact-render-to-string"
import { AppConfig } from "#src/AppConfig.ts"
import * as Html from "#src/dashboard/frame/Html.ts"
import * as Pages from "#src/dashboard/frame/Pages.ts"
import type { Visitor } from "#src/dashboard/frame/Visit.ts"
import * as DocsSource from "./DocsSource.ts"
import { DocsPage, type FrameAssets, MissingPage } from "./Frame.tsx"
import { llmsText } from "./LlmsText.ts"
import { root, type Site } from "./Site.ts"

type Response = HttpServerResponse.HttpServerResponse

const html = "text/html; charset=utf-8"
/** A copy may be kept, and is compared with the server before each use. */
const compared = "private, no-cache"
const aYear = "public, max-age=31536000, immutable"

const matches = (header: string | undefined, tag: string): boolean =>
  (header ?? "").split(",").some((one) => one.trim().replace(/^W\//, "") === tag || one.trim() === "*")

interface Content {
  readonly contentType: string
  readonly body: string | Uint8Array
  readonly status?: number
  readonly cacheControl?: string
}

/** The response with its entity tag; 304 without a body for a reader that has the same text. */
const responseOf = ({ body, cacheControl = compared, contentType, status = 200 }: Content) =>
  Effect.map(HttpServerRequest.HttpServerRequest, (request): Response => {
    const tag = `"${createHash("sha256").update(body).digest("base64url").slice(0, 22)}"`
    // Weak, since the compressed response has the same tag.
    const headers = { ...Html.headers, "cache-control": cacheControl, etag: `W/${tag}` }
    if (status === 200 && matches(request.headers["if-none-match"], tag)) {
      return HttpServerResponse.empty({ status: 304, headers })
    }
    return typeof body === "string"
      ? HttpServerResponse.text(body, { status, contentType, headers })
      : HttpServerResponse.uint8Array(body, { status, contentType, headers })
  })

const pageText = (node: VNode) => `<!doctype html>${render(node)}`

/** Contents by path. Pages are rendered for the visitor, everything else as the build left it. */
const contentsOf = (site: Site, assets: FrameAssets, baseUrl: string) => {
  const fixed = new Map<string, Content>([
    ...site.pages.map(
      ({ markdown, markdownPath }) =>
        [markdownPath, { contentType: "text/markdown; charset=utf-8", body: markdown }] as const
    ),
    ...site.files.map(
      ({ content, contentType, path }) =>
        [
          path,
          { contentType, body: contentType.startsWith("text/") ? content : Buffer.from(content, "base64") }
        ] as const
    ),
    [site.searchPath, { contentType: "application/json", body: site.search, cacheControl: aYear }],
    [`${root}/llms.txt`, { contentType: "text/plain; charset=utf-8", body: llmsText(site, baseUrl) }]
  ])
  const pages = new Map(site.pages.map((page) => [page.path, page]))
  return {
    /** Undefined: no page has this path. */
    find: (path: string, { ui: { theme } }: Visitor): Content | undefined => {
      const page = pages.get(path)
      return page === undefined
        ? fixed.get(path)
        : { contentType: html, body: pageText(DocsPage({ assets, page, site, theme })) }
    },
    missing: ({ ui: { theme } }: Visitor): Content => ({
      contentType: html,
      status: 404,
      body: pageText(MissingPage({ assets, site, theme }))
    })
  }
}

/** Paths of the routes. */
export const paths = { contents: "/docs", below: "/docs/*", models: "/llms.txt" } as const

const routes = Effect.gen(function* () {
  const { anyone, assets } = yield* Pages.Pages
  const { baseUrl } = yield* AppConfig
  const frame = { style: assets.docsStyle.href, script: assets.docs.href, icon: assets.icon.href }
  // Read at the first request, and kept from then on.
  const contents = yield* Effect.cached(Effect.map(DocsSource.load, (site) => contentsOf(site, frame, baseUrl)))
  const answer = (path: string, visitor: Visitor) =>
    Effect.flatMap(contents, ({ find, missing }) => {
      const content = find(path, visitor)
      if (content !== undefined) return responseOf(content)
      const shorter = path.slice(0, -1)
      return path.endsWith("/") && find(shorter, visitor) !== undefined
        ? Effect.succeed(HttpServerResponse.empty({ status: 308, headers: { ...Html.headers, location: shorter } }))
        : responseOf(missing(visitor))
    })
  const pageRoute = Effect.flatMap(
    anyone((visitor) => answer(visitor.path, visitor)),
    Html.compressed
  )
  const modelsRoute = Effect.flatMap(
    anyone((visitor) => answer(`${root}/llms.txt`, visitor)),
    Html.compressed
  )
  return HttpRouter.empty.pipe(
    HttpRouter.get(paths.contents, pageRoute),
    HttpRouter.get(paths.below, pageRoute),
    HttpRouter.get(paths.models, modelsRoute)
  )
})

export const layer = HttpApiBuilder.Router.use((router) => Effect.flatMap(routes, (docs) => router.concat(docs))).pipe(
  Layer.provide(Pages.layer)
)
