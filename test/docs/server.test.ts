/** The documentation as a server sends it: to each reader, signed in or not, with tags, policy and counts. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { Listening } from "#src/http/engine/Server.ts"
import { freshAddress } from "#test/support/FreshAddress.ts"
import { parsed } from "#test/support/Json.ts"
import * as TestApp from "#test/support/TestApp.ts"

const ask = (path: string, init: RequestInit = {}) =>
  Effect.flatMap(Listening, ({ port }) =>
    Effect.promise(async () => {
      const response = await fetch(`http://127.0.0.1:${port}${path}`, { redirect: "manual", ...init })
      return { status: response.status, headers: response.headers, text: await response.text() }
    })
  )

const indexIn = parsed(Schema.Struct({ documentCount: Schema.Number }))

const app = TestApp.server.pipe(
  Layer.provideMerge(Layer.merge(TestApp.backends, TestApp.config({ trustedProxies: ["127.0.0.0/8"] })))
)

layer(app, { excludeTestServices: true, timeout: "60 seconds" })("the documentation of a server", (it) => {
  it.effect("is read without a session, under the policy of pages, and loads nothing from elsewhere", () =>
    Effect.gen(function* () {
      const { headers, status, text } = yield* ask("/docs")
      assert.strictEqual(status, 200)
      assert.strictEqual(headers.get("content-type"), "text/html; charset=utf-8")
      const policy = headers.get("content-security-policy") ?? ""
      for (const rule of ["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"]) {
        assert.include(policy, rule)
      }
      const loaded = [...text.matchAll(/<(?:script|link|img)[^>]* (?:src|href)="([^"]+)"/g)].map(
        ([, address]) => address
      )
      assert.isAbove(loaded.length, 2)
      for (const address of loaded) {
        assert.match(address, /^\/(?:app|docs)\//)
        assert.strictEqual((yield* ask(address)).status, 200, address)
      }
    })
  )

  it.effect("is compared by a tag: the same text is sent once, a reader's colours make another text", () =>
    Effect.gen(function* () {
      const first = yield* ask("/docs/errors")
      assert.strictEqual(first.headers.get("cache-control"), "private, no-cache")
      const tag = first.headers.get("etag") ?? ""
      assert.match(tag, /^W\/"[\w-]+"$/)
      const again = yield* ask("/docs/errors", { headers: { "if-none-match": `"other", ${tag}` } })
      assert.deepStrictEqual([again.status, again.text], [304, ""])
      assert.strictEqual(again.headers.get("etag"), tag)
      const dark = yield* ask("/docs/errors", { headers: { "if-none-match": tag, cookie: "ampoule_theme=dark" } })
      assert.strictEqual(dark.status, 200)
      assert.include(dark.text, 'data-theme="dark"')
      assert.notInclude(first.text, "data-theme")
    })
  )

  it.effect("answers HEAD with the headers of GET, and other methods as every unknown route", () =>
    Effect.gen(function* () {
      const get = yield* ask("/docs/glossary", { headers: { "accept-encoding": "identity" } })
      const head = yield* ask("/docs/glossary", { method: "HEAD", headers: { "accept-encoding": "identity" } })
      assert.deepStrictEqual([head.status, head.text], [200, ""])
      for (const name of ["etag", "content-type", "content-length", "content-security-policy"]) {
        assert.strictEqual(head.headers.get(name), get.headers.get(name), name)
        assert.isNotNull(head.headers.get(name), name)
      }
      const post = yield* ask("/docs", { method: "POST" })
      assert.strictEqual(post.status, 404)
      assert.include(post.text, "ROUTE_NOT_FOUND")
    })
  )

  it.effect("has a page of its own for an address without one, and leads on from a trailing slash", () =>
    Effect.gen(function* () {
      for (const path of ["/docs/nothing", "/docs/errors/nothing", "/docs/__proto__", "/docs/errors//"]) {
        const { headers, status, text } = yield* ask(path)
        assert.strictEqual(status, 404, path)
        if (path.endsWith("//")) continue
        assert.include(text, "No such page")
        assert.include(headers.get("content-type") ?? "", "text/html")
        assert.notInclude(text, "nothing", "the page repeats nothing of the address")
      }
      const slash = yield* ask("/docs/errors/")
      assert.deepStrictEqual([slash.status, slash.headers.get("location")], [308, "/docs/errors"])
      const folder = yield* ask("/docs/")
      assert.deepStrictEqual([folder.status, folder.headers.get("location")], [308, "/docs"])
    })
  )

  it.effect("has each page as Markdown too, and lists them for language models", () =>
    Effect.gen(function* () {
      const markdown = yield* ask("/docs/glossary.md")
      assert.strictEqual(markdown.headers.get("content-type"), "text/markdown; charset=utf-8")
      assert.match(markdown.text, /^# Glossary\n/)
      const lists = yield* Effect.all([ask("/llms.txt"), ask("/docs/llms.txt")])
      assert.strictEqual(lists[0].text, lists[1].text)
      assert.include(lists[0].text, `(${TestApp.baseUrl}/docs/glossary.md)`)
      const link = /<link rel="alternate" type="text\/markdown" href="([^"]+)"/.exec((yield* ask("/docs/errors")).text)
      assert.strictEqual((yield* ask(link?.[1] ?? "")).status, 200)
    })
  )

  it.effect("sends the search index once: its address changes with its text", () =>
    Effect.gen(function* () {
      const { text } = yield* ask("/docs")
      const address = / data-index="([^"]+)"/.exec(text)?.[1] ?? ""
      const index = yield* ask(address)
      assert.strictEqual(index.headers.get("cache-control"), "public, max-age=31536000, immutable")
      assert.strictEqual(index.headers.get("content-type"), "application/json")
      assert.isAbove(indexIn(index.text).documentCount, 300)
      assert.strictEqual(index.headers.get("content-encoding"), "gzip")
    })
  )

  it.effect("is what every failure names: a page with a section about its code", () =>
    Effect.gen(function* () {
      const page = yield* ask("/docs/errors")
      for (const [path, init, code] of [
        ["/nothing", {}, "ROUTE_NOT_FOUND"],
        ["/me/verify", {}, "UNAUTHENTICATED"],
        ["/me/verify", { headers: { authorization: "Bearer amp_at_x" } }, "CREDENTIAL_INVALID"],
        ["/me/verify?nothing=1", { headers: { "x-large": "x".repeat(20_000) } }, "PAYLOAD_TOO_LARGE"]
      ] as const) {
        const { headers } = yield* ask(path, init)
        assert.strictEqual(headers.get("link"), `</docs/errors#${code}>; rel="help"`)
        assert.include(page.text, `<h3 id="${code}">`)
      }
    })
  )

  it.effect("counts readers by their address, as every route without a credential", () =>
    Effect.gen(function* () {
      const headers = { "x-forwarded-for": freshAddress() }
      const statuses = new Map<number, number>()
      for (let n = 0; n < 302; n++) {
        const { status } = yield* ask("/docs/glossary.md", { method: "HEAD", headers })
        statuses.set(status, (statuses.get(status) ?? 0) + 1)
      }
      assert.deepStrictEqual(
        [...statuses],
        [
          [200, 300],
          [429, 2]
        ]
      )
    })
  )
})
