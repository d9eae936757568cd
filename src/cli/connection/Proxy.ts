/**
 * Proxy between this command and the server. HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY have the meaning they have
 * in curl and Go; AMPOULE_PROXY is for this program alone. Requests to https use a tunnel (CONNECT, RFC 9110 9.3.6), so
 * the proxy sees no credential. Requests to plain http use the absolute form (RFC 9112 3.2.2).
 *
 * The EnvHttpProxyAgent of undici 7.30 does not serve here. It knows neither ALL_PROXY nor address blocks in NO_PROXY,
 * and its errors name no variable. It also brings a second HTTP client: 1.0 MB, and 45 ms of CPU to load, where Node
 * itself starts in 65.
 */
import * as Redacted from "effect/Redacted"
import * as net from "node:net"
import { isLoopbackHost } from "#src/net/Loopback.ts"

export interface Proxy {
  readonly secure: boolean
  readonly host: string
  readonly port: number
  /** Content of `Proxy-Authorization`. */
  readonly authorization: Redacted.Redacted | undefined
  /** Variable that names the proxy. */
  readonly variable: string
}

export type Route =
  | { readonly _tag: "Direct"; readonly why: string | undefined }
  | { readonly _tag: "Proxied"; readonly proxy: Proxy }
  | { readonly _tag: "Unusable"; readonly variable: string; readonly reason: string }

type Variables = Readonly<Record<string, string | undefined>>

/** Lower case takes precedence, as in curl. An empty variable counts as unset. */
const variable = (env: Variables, ...names: ReadonlyArray<string>) => {
  for (const name of names.flatMap((name) => (name.startsWith("AMPOULE_") ? [name] : [name.toLowerCase(), name]))) {
    const value = env[name]?.trim()
    if (value !== undefined && value !== "") return { name, value }
  }
  return undefined
}

export const withoutBrackets = (host: string): string => host.replace(/^\[|\]$/g, "")

const inBlock = (host: string, block: string): boolean => {
  const [address = "", bits = ""] = block.split("/")
  const kind = (text: string): net.IPVersion | undefined =>
    net.isIPv4(text) ? "ipv4" : net.isIPv6(text) ? "ipv6" : undefined
  const [ours, theirs] = [kind(host), kind(address)]
  if (ours === undefined || theirs === undefined || ours !== theirs || !/^\d{1,3}$/.test(bits)) return false
  if (Number(bits) > (theirs === "ipv4" ? 32 : 128)) return false
  const list = new net.BlockList()
  list.addSubnet(address, Number(bits), theirs)
  return list.check(host, ours)
}

/**
 * Matches `*`, a host with its subdomains (`example.com`, `.example.com`, `*.example.com`), an address or a block, each
 * also with a port.
 */
const isExempt = (target: { readonly host: string; readonly port: string }, list: string): boolean =>
  list
    .toLowerCase()
    .split(/[\s,]+/)
    .filter((item) => item !== "")
    .some((item) => {
      if (item === "*") return true
      if (item.includes("/")) return inBlock(target.host, item)
      const withPort = /^(\[[^\]]+\]|[^:]+):(\d+)$/.exec(item)
      if (withPort !== null && withPort[2] !== target.port) return false
      const name = withoutBrackets(withPort?.[1] ?? item).replace(/^\*?\./, "")
      return target.host === name || (net.isIP(target.host) === 0 && target.host.endsWith(`.${name}`))
    })

const parse = (name: string, value: string): Route => {
  const unusable = (reason: string): Route => ({ _tag: "Unusable", variable: name, reason })
  const text = /^[a-z][a-z0-9+.-]*:\/\//i.test(value) ? value : `http://${value}`
  if (!URL.canParse(text)) return unusable("it is not the address of a proxy, like http://proxy.example.com:3128")
  const url = new URL(text)
  if (url.protocol.startsWith("socks")) return unusable("SOCKS proxies are not supported, only HTTP ones")
  if ((url.protocol !== "http:" && url.protocol !== "https:") || url.hostname === "") {
    return unusable("it is not the address of a proxy, like http://proxy.example.com:3128")
  }
  let authorization: Redacted.Redacted | undefined
  if (url.username !== "" || url.password !== "") {
    if (/%(?![0-9a-f]{2})/i.test(url.username + url.password)) {
      return unusable("write a % in its user or password as %25")
    }
    // Bytes, because percent-encoded text need not be UTF-8.
    const bytes = (part: string) =>
      Buffer.from(
        part.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(parseInt(hex, 16))),
        "latin1"
      )
    const pair = Buffer.concat([bytes(url.username), Buffer.from(":"), bytes(url.password)])
    authorization = Redacted.make(`Basic ${pair.toString("base64")}`)
  }
  const secure = url.protocol === "https:"
  return {
    _tag: "Proxied",
    proxy: {
      secure,
      host: withoutBrackets(url.hostname),
      port: url.port === "" ? (secure ? 443 : 80) : Number(url.port),
      authorization,
      variable: name
    }
  }
}

/** Route of a request to this address. Loopback addresses are reached directly, unless AMPOULE_PROXY says otherwise. */
export const routeOf = (target: URL, env: Variables = process.env): Route => {
  const override = variable(env, "AMPOULE_PROXY")
  if (override !== undefined) {
    return /^(off|none)$/i.test(override.value)
      ? { _tag: "Direct", why: override.name }
      : parse(override.name, override.value)
  }
  // Under CGI, HTTP_PROXY is the client's `Proxy:` header (CVE-2016-5385); the lower-case name is safe.
  const isCgi = env["REQUEST_METHOD"] !== undefined
  const scheme = target.protocol === "https:" ? "HTTPS_PROXY" : "HTTP_PROXY"
  const configured =
    isCgi && scheme === "HTTP_PROXY" && env["http_proxy"] === undefined
      ? variable(env, "ALL_PROXY")
      : variable(env, scheme, "ALL_PROXY")
  if (configured === undefined) return { _tag: "Direct", why: undefined }
  if (isLoopbackHost(target.hostname)) return { _tag: "Direct", why: "a loopback address" }
  const exempt = variable(env, "NO_PROXY")
  const port = target.port === "" ? (target.protocol === "https:" ? "443" : "80") : target.port
  if (exempt !== undefined && isExempt({ host: withoutBrackets(target.hostname), port }, exempt.value)) {
    return { _tag: "Direct", why: exempt.name }
  }
  return parse(configured.name, configured.value)
}

/** Host and port, without the user and password of its address. */
export const nameOf = ({ host, port }: Proxy): string => `${net.isIPv6(host) ? `[${host}]` : host}:${port}`

const proxyErrorName = "ProxyError"

/** Compared by name: the agents are bundled separately, with a class of their own. */
export const isProxyError = (error: unknown): error is ProxyError =>
  error instanceof Error && error.name === proxyErrorName && "reason" in error

/** Failure of the proxy, not of the server. `code` begins with PROXY_; `reason` is a sentence of our own. */
export class ProxyError extends Error {
  override readonly name = proxyErrorName
  constructor(
    readonly code: string,
    readonly reason: string
  ) {
    super(code)
  }
}
