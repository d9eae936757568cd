/** The rendered documentation: every link leads somewhere, and nothing of the catalogue is missing. */
import { assert, describe, it } from "@effect/vitest"
import MiniSearch from "minisearch"
import * as fs from "node:fs"
import * as Errors from "#schema/Errors.ts"
import * as OpenApi from "#schema/OpenApi.ts"
import type { ApiDocument } from "#src/docs/ApiReference.ts"
import * as Help from "#src/dashboard/frame/Help.ts"
import { siteOf } from "#src/docs/DocsSource.ts"
import { llmsText } from "#src/docs/LlmsText.ts"
import { searchOptions } from "#src/docs/SearchOptions.ts"
import { renderSite } from "#src/docs/SiteRenderer.ts"
import { authorizationServer, protectedResource } from "#src/oauth/Metadata.ts"

const site = siteOf(`${process.cwd()}/`)
const pages = new Map(site.pages.map((page) => [page.path, page]))
// The documents as the reference reads them.
const documents = [OpenApi.contractDocument, OpenApi.dashboardDocument] as unknown as ReadonlyArray<ApiDocument>

/** Addresses of the server that pages may lead to, besides their own. */
const others = /^\/(?:app|openapi\.json|dashboard\/openapi\.json|llms\.txt)$/

const idsIn = (html: string) => [...html.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id)

/** Undefined: the address leads to a page, a section of it, or a file. */
const faultOf = (from: string, address: string): string | undefined => {
  if (/^https?:|^mailto:/.test(address) || others.test(address)) return undefined
  const [path = "", anchor] = address.split("#")
  const page = pages.get(path === "" ? from : path)
  if (page === undefined) {
    return site.files.some((file) => file.path === path) ? undefined : `${from}: ${address} is no page`
  }
  return anchor === undefined || idsIn(page.html).includes(anchor) ? undefined : `${from}: ${address} has no section`
}

describe("the documentation", () => {
  it("has no dead link, no dead anchor and no dead picture", () => {
    const addresses = site.pages.flatMap(({ html, path }) =>
      [...html.matchAll(/ (?:href|src)="([^"]*)"/g)].map(([, address]) => [path, address] as const)
    )
    assert.isAbove(addresses.length, 1_000)
    assert.deepStrictEqual(
      addresses.map(([from, address]) => faultOf(from, address)).filter((fault) => fault !== undefined),
      []
    )
  })

  it("has every page that the dashboard leads to", () => {
    assert.isAbove(Help.allPages.length, 15)
    assert.deepStrictEqual(
      Help.allPages.map((address) => faultOf("the dashboard", address)).filter((fault) => fault !== undefined),
      []
    )
    for (const { code } of Object.values(Errors)) assert.isUndefined(faultOf("a problem", Help.pageOfCode(code)))
  })

  it("has the pages that the metadata for OAuth and MCP clients names", () => {
    const base = "https://ampoule.test"
    const named = [
      authorizationServer(base).service_documentation,
      protectedResource(base, `${base}/mcp`).resource_documentation
    ].map((address) => address.slice(base.length))
    assert.deepStrictEqual(
      named.filter((path) => !pages.has(path)),
      []
    )
  })

  it("has no dead link in its Markdown", () => {
    const byMarkdown = new Map(site.pages.map((page) => [page.markdownPath, page.path]))
    const addresses = site.pages.flatMap(({ markdown, markdownPath, path }) =>
      [...markdown.matchAll(/\]\(([^()\s]+)\)/g)].map(([, address]) => {
        if (address.startsWith("http")) return undefined
        const url = new URL(address, `http://docs.test${markdownPath}`)
        const target = byMarkdown.get(url.pathname) ?? url.pathname
        return faultOf(path, `${target}${url.hash}`)
      })
    )
    assert.deepStrictEqual(
      addresses.filter((fault) => fault !== undefined),
      []
    )
  })

  it("gives each page, Markdown text and file an address of its own", () => {
    const paths = [
      ...site.pages.flatMap(({ markdownPath, path }) => [path, markdownPath]),
      ...site.files.map(({ path }) => path),
      site.searchPath
    ]
    assert.deepStrictEqual(paths.toSorted(), [...new Set(paths)].toSorted())
    for (const path of paths) assert.match(path, /^\/docs(?:\/[\w.-]+)*$/)
    for (const { html, path } of site.pages) assert.deepStrictEqual(idsIn(html), [...new Set(idsIn(html))], path)
  })

  it("has nothing that the policy of pages refuses, and no HTML of the source", () => {
    for (const { html, markdown, path } of site.pages) {
      assert.notMatch(html, / style=|<script|<iframe| on\w+="|javascript:/, path)
      assert.notInclude(markdown, "<!--", path)
      // Text that looks like a tag is in code alone.
      const outside = html.replaceAll(/<code>[^<]*<\/code>/g, "")
      assert.notMatch(outside, /&lt;\/?(?:a|p|br|img|div|span|table|details|summary|picture|sub|kbd)\b/, path)
    }
  })

  it("has one first heading in each page, and no level is left out", () => {
    for (const { headings, path } of site.pages) {
      assert.deepStrictEqual([headings[0].level, headings.filter(({ level }) => level === 1).length], [1, 1], path)
      for (const [index, { id, level }] of headings.entries()) {
        assert.isAtMost(level, (headings[index - 1]?.level ?? 0) + 1, `${path}#${id}`)
      }
    }
  })

  it("shows every route, its error codes and every schema of both OpenAPI documents", () => {
    const html = site.pages.filter(({ path }) => path.startsWith("/docs/api/")).map((page) => page.html)
    const missing = documents.flatMap(({ components, paths }) => [
      ...Object.entries(paths).flatMap(([path, methods]) =>
        Object.keys(methods)
          .map((method) => `<code>${method.toUpperCase()} ${path}\n</code>`)
          .filter((call) => !html.some((text) => text.includes(call)))
      ),
      ...Object.keys(components.schemas).filter(
        (name) => !html.some((text) => text.includes(`<h2 id="${name.toLowerCase()}">`))
      )
    ])
    assert.deepStrictEqual(missing, [])
    const secrets = pages.get("/docs/api/secrets")?.html ?? ""
    assert.include(secrets, '<a href="/docs/errors#SECRET_ALREADY_EXISTS"><code>SECRET_ALREADY_EXISTS</code></a>')
  })

  it("finds the section of an error code first, and the page of a word that is mistyped", () => {
    const index = MiniSearch.loadJSON(site.search, searchOptions)
    for (const { code } of Object.values(Errors)) {
      assert.strictEqual(String(index.search(code)[0]?.id), `/docs/errors#${code}`)
    }
    assert.isTrue(index.search("glosary").some(({ id }) => id === "/docs/glossary"))
    assert.deepStrictEqual(index.search("qwertzuiop"), [])
  })

  it("lists every page for language models, as Markdown under the server's address", () => {
    const text = llmsText(site, "https://ampoule.test")
    assert.match(text, /^# Ampoule\n\n> \S/)
    const listed = [...text.matchAll(/^- \[[^\]]+\]\(https:\/\/ampoule\.test(\/docs\/[^)]+\.md)\): \S/gm)]
    const expected = site.groups.flatMap(({ paths }) => paths.map((path) => pages.get(path)?.markdownPath))
    assert.deepStrictEqual(listed.map(([, path]) => path).toSorted(), expected.toSorted())
    const optional = text.slice(text.indexOf("\n## Optional\n"))
    for (const page of ["architecture", "api/dashboard-schemas"]) assert.include(optional, `/docs/${page}.md)`)
    assert.notInclude(optional, "/docs/quick-start.md)")
  })

  it("is built from files that the image's build has too", () => {
    const copied = [...fs.readFileSync("deploy/Dockerfile", "utf8").matchAll(/^COPY ((?:[\w./-]+ )+)\.\//gm)].flatMap(
      ([, sources]) => sources.trim().split(" ")
    )
    const reads = new Set<string>()
    const read = (file: string) => {
      if (!fs.statSync(file, { throwIfNoEntry: false })?.isFile()) return undefined
      reads.add(file)
      return fs.readFileSync(file)
    }
    renderSite({ read, contract: documents[0], dashboard: documents[1] })
    assert.isAbove(reads.size, 40)
    assert.deepStrictEqual(
      [...reads].filter((file) => !copied.some((source) => file === source || file.startsWith(`${source}/`))),
      []
    )
  })

  it("keeps the text of a page: a word of each paragraph of the source is in the HTML", () => {
    const source = fs.readFileSync("docs/glossary.md", "utf8")
    const html = pages.get("/docs/glossary")?.html ?? ""
    const rows = [...source.matchAll(/^\| ([a-z][\w -]*) \|/gm)].map(([, word]) => word)
    assert.isAbove(rows.length, 30)
    for (const word of rows.slice(1)) assert.include(html, `<td>${word}</td>`)
  })
})
