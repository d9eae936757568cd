/**
 * The server at its own address: OAuth compares addresses as texts, so the public one is where the port really is.
 * Beside it, what a browser does: a cookie jar, forms, redirects that are followed by hand.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Settings } from "#src/AppConfig.ts"
import * as Server from "#layers/Server.ts"
import { Listening } from "#src/http/engine/Server.ts"
import { RateLimits } from "#src/limits/RateLimiter.ts"
import { freePort } from "#test/support/FreePort.ts"
import * as MovableClock from "#test/support/MovableClock.ts"
import * as Shared from "#test/support/Shared.ts"
import * as TestApp from "#test/support/TestApp.ts"

interface Options {
  readonly settings?: Partial<Settings>
  /** Off, unless a test is about them: all tests come from one address. */
  readonly limits?: "on" | "off"
}

const at = (port: number, { limits = "off", settings = {} }: Options) =>
  Server.layer({ host: "127.0.0.1", port, traced: false }).pipe(
    Layer.provide(Layer.succeed(RateLimits, limits)),
    Layer.provideMerge(TestApp.config({ baseUrl: `http://127.0.0.1:${port}`, ...settings }))
  )

export const layerWith = (options: Options = {}) =>
  Layer.unwrapEffect(
    Effect.map(freePort, (port) => {
      const app = at(port, options).pipe(Layer.provideMerge(TestApp.backends))
      // With limits, time stops: a slow machine must not be given a new window meanwhile.
      return options.limits === "on" ? Layer.provide(app, MovableClock.layer) : app
    })
  )
export const layer = layerWith()

/** The one that the files of a process share, as it is: what is provided to it comes too late. */
export const shared = Shared.perProcess(layer)

/** A second process of the same service: same database, vault and public address, everything else its own. */
export const otherProcess = Effect.gen(function* () {
  const address = yield* base
  const process = Server.layer({ host: "127.0.0.1", port: 0, traced: false }).pipe(
    Layer.provide(Layer.succeed(RateLimits, "off")),
    Layer.provide(TestApp.config({ baseUrl: address }))
  )
  const context = yield* Layer.build(Layer.fresh(process))
  return `http://127.0.0.1:${Context.get(context, Listening).port}`
})

export const base = Effect.map(Listening, ({ port }) => `http://127.0.0.1:${port}`)

export class Browser {
  readonly #jar = new Map<string, { readonly value: string; readonly path: string }>()
  constructor(session?: string, device?: string) {
    if (session !== undefined) this.#jar.set("ampoule_session", { value: session, path: "/" })
    if (device !== undefined) this.#jar.set("ampoule_device", { value: device, path: "/" })
  }
  /** `origin`: of the page that the form is on, where that is not where it goes. */
  async go(
    url: string,
    form?: ReadonlyArray<readonly [string, string]>,
    origin = new URL(url).origin
  ): Promise<Response> {
    const { pathname } = new URL(url)
    const cookie = [...this.#jar]
      .filter(([, { path }]) => pathname === path || pathname.startsWith(path.endsWith("/") ? path : `${path}/`))
      .map(([name, { value }]) => `${name}=${value}`)
      .join("; ")
    const response = await fetch(url, {
      redirect: "manual",
      headers: {
        cookie,
        ...(form === undefined ? {} : { origin, "content-type": "application/x-www-form-urlencoded" })
      },
      ...(form === undefined
        ? {}
        : { method: "POST", body: new URLSearchParams(form.map(([k, v]) => [k, v])).toString() })
    })
    for (const line of response.headers.getSetCookie()) {
      const [pair, ...attributes] = line.split(/;\s*/)
      const cut = pair.indexOf("=")
      const path = attributes.find((one) => /^path=/i.test(one))?.slice(5) ?? "/"
      const gone = attributes.some((one) => /^(?:max-age=0|expires=Thu, 01 Jan 1970)/i.test(one))
      if (gone) this.#jar.delete(pair.slice(0, cut))
      else this.#jar.set(pair.slice(0, cut), { value: pair.slice(cut + 1), path })
    }
    return response
  }
}

export interface Choice {
  readonly scopes: ReadonlyArray<string>
  readonly teams: ReadonlyArray<{ readonly id: string }>
  readonly projects?: ReadonlyArray<{ readonly id: string }>
  readonly environments?: ReadonlyArray<{ readonly id: string }>
  /** The person says that the client runs on another machine. */
  readonly another?: boolean
}

/** From the authorization address to the client's callback, as a person who is signed in and decides. */
export const decide = async (
  browser: Browser,
  authorizationUrl: string,
  choice: Choice | "refuse"
): Promise<{ readonly page: string; readonly callback: URL }> => {
  const origin = new URL(authorizationUrl).origin
  const started = await browser.go(authorizationUrl)
  const place = started.headers.get("location")
  if (place === null) throw new Error(`no redirect but ${started.status} ${await started.text()}`)
  const response = await browser.go(new URL(place, origin).href)
  const page = await response.text()
  if (response.status !== 200) throw new Error(`the consent page answers ${response.status} ${page}`)
  const path = new URL(place, origin).pathname
  const decided =
    choice === "refuse"
      ? await browser.go(`${origin}${path}/deny`, [])
      : await browser.go(`${origin}${path}/approve`, [
          ...choice.scopes.map((scope) => ["scopes", scope] as const),
          ...choice.teams.map(({ id }) => ["teamIds", id] as const),
          ...(choice.projects ?? []).map(({ id }) => ["projectIds", id] as const),
          ...(choice.environments ?? []).map(({ id }) => ["environmentIds", id] as const),
          ...(choice.projects === undefined && choice.environments === undefined
            ? [["everywhere", "yes"] as const]
            : []),
          ...(choice.another === true ? [["another", "yes"] as const] : [])
        ])
  const back = decided.headers.get("location")
  if (decided.status !== 303 || back === null) throw new Error(`the decision answers ${decided.status}`)
  const resumed = await browser.go(new URL(back, origin).href)
  const callback = resumed.headers.get("location")
  if (callback === null) throw new Error(`resuming answers ${resumed.status} ${await resumed.text()}`)
  return { page, callback: new URL(callback) }
}
