/** The real server on a port of its own, and the system's Chromium in front of it. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as fs from "node:fs"
import { type Browser, type BrowserContext, type CDPSession, chromium, type Page } from "playwright-core"
import * as Server from "#layers/Server.ts"
import type { Settings } from "#src/AppConfig.ts"
import { freePort } from "#test/support/FreePort.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as Rooms from "./Rooms.ts"

export const executable = process.env["AMPOULE_TEST_CHROMIUM"] ?? "/usr/bin/chromium"

/** Where there is no browser, these tests say so and are left out; in CI they must run. */
export const available = fs.existsSync(executable) || process.env["CI"] !== undefined
// eslint-disable-next-line no-console
if (!available) console.warn(`No browser at ${executable}: the dashboard's tests in a browser are left out.`)

/** The browser compares origins: the public address has to be the one that it opens. */
export class Site extends Context.Tag("test/Site")<Site, { readonly baseUrl: string }>() {}

class Chromium extends Context.Tag("test/Chromium")<Chromium, Browser>() {}

const browser = Layer.scoped(
  Chromium,
  Effect.acquireRelease(
    Effect.promise(() =>
      chromium.launch({
        executablePath: executable,
        args: [
          "--no-sandbox",
          "--disable-gpu",
          "--disable-quic",
          "--no-first-run",
          "--disable-background-networking",
          "--disable-component-update",
          "--disable-sync"
        ]
      })
    ),
    (browser) => Effect.promise(() => browser.close())
  )
)

/** `setupCode`: an instance that nobody has set up yet. `host`: passkeys need a name, and `localhost` is one. */
export const layerWith = (
  setupCode?: string,
  host: "127.0.0.1" | "localhost" = "127.0.0.1",
  more: Partial<Settings> = {},
  backends: typeof TestApp.backends = TestApp.backends
) =>
  Layer.unwrapScoped(
    Effect.map(freePort, (port) => {
      const baseUrl = `http://${host}:${port}`
      const changes = { ...more, baseUrl, port, setupCode: Option.map(Option.fromNullable(setupCode), Redacted.make) }
      return Server.layer({ host: "127.0.0.1", port, traced: false }).pipe(
        Layer.provideMerge(Layer.merge(backends, TestApp.config(changes))),
        Layer.merge(Layer.succeed(Site, { baseUrl })),
        Layer.merge(browser)
      )
    })
  )

export interface Look {
  readonly width?: number
  readonly dark?: boolean
  readonly script?: boolean
}

/** A browser of its own: no cookie, no cache, nothing remembered. */
export const visitor = (look: Look = {}) =>
  Effect.gen(function* () {
    const browser = yield* Chromium
    const { baseUrl } = yield* Site
    const context: BrowserContext = yield* Effect.acquireRelease(
      Effect.promise(() =>
        browser.newContext({
          baseURL: baseUrl,
          viewport: { width: look.width ?? 1440, height: 900 },
          colorScheme: look.dark === true ? "dark" : "light",
          javaScriptEnabled: look.script ?? true,
          permissions: ["clipboard-read", "clipboard-write"],
          reducedMotion: "reduce"
        })
      ),
      (context) => Effect.promise(() => context.close())
    )
    context.setDefaultTimeout(30_000)
    return context
  })

export const signedIn = (session: { readonly text: string }, look: Look = {}) =>
  Effect.gen(function* () {
    const context = yield* visitor(look)
    const { baseUrl } = yield* Site
    yield* Effect.promise(() =>
      context.addCookies([
        { name: "ampoule_session", value: session.text, url: baseUrl, httpOnly: true, sameSite: "Lax" }
      ])
    )
    return context
  })

/** The furnished team, and its owner in front of a page. */
export const entered = (look: Look = {}) =>
  Effect.gen(function* () {
    const rooms = yield* Rooms.furnished
    const context = yield* signedIn(rooms.session, look)
    return { rooms, context, page: yield* Effect.promise(() => context.newPage()) }
  })

/** An answer that a page had: the path of its address, its method, its media type and its text. */
interface Answer {
  readonly path: string
  readonly method: string
  readonly type: string
  readonly text: string
}

/**
 * Answers of the server to a page from now on. A browser hands a text over some time after the page shows it, so a test
 * that
 * asks waits for all that arrived; the text of a stream or of a file, which it may never hand over, is waited for two
 * seconds.
 */
export const answersTo = (page: Page): (() => Promise<ReadonlyArray<Answer>>) => {
  const answers: Array<Promise<Answer>> = []
  page.on("response", (response) => {
    const text = response.text().catch(() => "")
    answers.push(
      text.then((text) => ({
        path: new URL(response.url()).pathname,
        method: response.request().method(),
        type: response.headers()["content-type"] ?? "",
        text
      }))
    )
  })
  return async () => {
    const late = new Promise<undefined>((resolve) => setTimeout(() => resolve(undefined), 2_000))
    const settled = await Promise.all(answers.map((answer) => Promise.race([answer, late])))
    return settled.filter((answer) => answer !== undefined)
  }
}

/** Steps in the browser. */
export const steps = <A>(work: () => Promise<A>) => Effect.promise(work)

export const button = (page: Page, name: string | RegExp) => page.getByRole("button", { name }).first()
/** The first row of a table that has this text. */
export const row = (page: Page, text: string) => page.getByRole("row").filter({ hasText: text }).first()

export type { CDPSession, Page }
