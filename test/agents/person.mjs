// @ts-check
/**
 * The person of the drivers: an address of this machine that takes an authorization URL, signs in, ticks what was asked
 * for, and answers the URL that the browser would be sent back to. Drivers of any language open it instead of a browser.
 */
import { once } from "node:events"
import { createServer } from "node:http"

/** A browser's cookies, by path. */
class Jar {
  /** @type {Map<string, { value: string, path: string }>} */
  #kept = new Map()
  /** @param {string} session */
  constructor(session) {
    const cut = session.indexOf("=")
    this.#kept.set(session.slice(0, cut), { value: session.slice(cut + 1), path: "/" })
  }
  /** @param {string} url @param {ReadonlyArray<readonly [string, string]>} [form] */
  async go(url, form) {
    const { origin, pathname } = new URL(url)
    const cookie = [...this.#kept]
      .filter(([, { path }]) => pathname === path || pathname.startsWith(path.endsWith("/") ? path : `${path}/`))
      .map(([name, { value }]) => `${name}=${value}`)
      .join("; ")
    const response = await fetch(url, {
      redirect: "manual",
      headers: { cookie, ...(form && { origin, "content-type": "application/x-www-form-urlencoded" }) },
      ...(form && { method: "POST", body: new URLSearchParams(form.map(([k, v]) => [k, v])).toString() })
    })
    for (const line of response.headers.getSetCookie()) {
      const [pair = "", ...attributes] = line.split(/;\s*/)
      const cut = pair.indexOf("=")
      const path = attributes.find((one) => /^path=/i.test(one))?.slice(5) ?? "/"
      const gone = attributes.some((one) => /^(?:max-age=0|expires=Thu, 01 Jan 1970)/i.test(one))
      if (gone) this.#kept.delete(pair.slice(0, cut))
      else this.#kept.set(pair.slice(0, cut), { value: pair.slice(cut + 1), path })
    }
    return response
  }
}

/** @param {string} base @param {string} session the cookie of a person who is signed in @param {string} teamId */
export const start = async (base, session, teamId) => {
  let consents = 0
  const approve = async (/** @type {string} */ authorization) => {
    const jar = new Jar(session)
    const at = async (/** @type {Response} */ response) => {
      const location = response.headers.get("location")
      if (location === null) throw new Error(`no redirect but ${response.status} ${await response.text()}`)
      return new URL(location, base).href
    }
    const page = await at(await jar.go(authorization))
    await jar.go(page)
    const scopes = (new URL(authorization).searchParams.get("scope") ?? "").split(" ").filter(Boolean)
    const form = [
      ...scopes.map((scope) => /** @type {const} */ (["scopes", scope])),
      /** @type {const} */ (["teamIds", teamId]),
      /** @type {const} */ (["everywhere", "yes"])
    ]
    const back = await at(await jar.go(`${page}/approve`, form))
    consents += 1
    return at(await jar.go(back))
  }
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? "/", "http://127.0.0.1")
    if (url.pathname === "/consents") return void response.end(String(consents))
    approve(url.searchParams.get("url") ?? "").then(
      (callback) => void response.end(callback),
      (error) => void response.writeHead(500).end(String(error))
    )
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  if (address === null || typeof address === "string") throw new Error("no port")
  return { url: `http://127.0.0.1:${address.port}`, stop: () => new Promise((resolve) => void server.close(resolve)) }
}
