/**
 * The proxy of the network between this command and the server: HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY as curl
 * and Go read them, and AMPOULE_PROXY for this program alone. Requests to https go through a tunnel (CONNECT, RFC 9110
 * 9.3.6), so the proxy sees no credential; those to plain http in absolute form (RFC 9112 3.2.2).
 *
 * Not the EnvHttpProxyAgent of undici 7.30: it knows neither ALL_PROXY nor address blocks in NO_PROXY, needs a second
 * HTTP client in the bundle (1.0 MB, and 45 ms of CPU to load where Node itself starts in 65), and its errors name no
 * variable.
 */
import * as Redacted from "effect/Redacted"
import * as net from "node:net"
import { isLoopbackHost } from "#src/net/Loopback.ts"

export interface Proxy {
  readonly secure: boolean
  readonly host: string
  readonly port: number
  /** Of `Proxy-Authorization`. */
  readonly authorization: Redacted.Redacted | undefined
  /** The variable that names it. */
  readonly variable: string
}

export type Route =
  | { readonly _tag: "Direct"; readonly why: string | undefined }
  | { readonly _tag: "Proxied"; readonly proxy: Proxy }
  | { readonly _tag: "Unusable"; readonly variable: string; readonly reason: string }

type Variables = Readonly<Record<string, string | undefined>>

/** Lower case goes first, as in curl; an empty variable counts as not set. */
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
 * `*`, a host with all below it (`example.com`, `.example.com`, `*.example.com`), an address, a block; each also with a
 * port.
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
      return unusable("a % in its user or password is written %25")
    }
    // Bytes, not text: what is percent-encoded need not be UTF-8.
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

/**
 * How a request to this address travels. Loopback addresses are reached directly unless AMPOULE_PROXY says otherwise.
 */
export const routeOf = (target: URL, env: Variables = process.env): Route => {
  const own = variable(env, "AMPOULE_PROXY")
  if (own !== undefined) {
    return /^(off|none)$/i.test(own.value) ? { _tag: "Direct", why: own.name } : parse(own.name, own.value)
  }
  // Under CGI, HTTP_PROXY is the `Proxy:` header of whoever asks (CVE-2016-5385); the lower-case name is not.
  const isCgi = env["REQUEST_METHOD"] !== undefined
  const scheme = target.protocol === "https:" ? "HTTPS_PROXY" : "HTTP_PROXY"
  const found =
    isCgi && scheme === "HTTP_PROXY" && env["http_proxy"] === undefined
      ? variable(env, "ALL_PROXY")
      : variable(env, scheme, "ALL_PROXY")
  if (found === undefined) return { _tag: "Direct", why: undefined }
  if (isLoopbackHost(target.hostname)) return { _tag: "Direct", why: "a loopback address" }
  const exempt = variable(env, "NO_PROXY")
  const port = target.port === "" ? (target.protocol === "https:" ? "443" : "80") : target.port
  if (exempt !== undefined && isExempt({ host: withoutBrackets(target.hostname), port }, exempt.value)) {
    return { _tag: "Direct", why: exempt.name }
  }
  return parse(found.name, found.value)
}

/** Without the user and password that may stand in its address. */
export const nameOf = ({ host, port }: Proxy): string => `${net.isIPv6(host) ? `[${host}]` : host}:${port}`

const proxyErrorName = "ProxyError"

/** By its name: the agents are bundled apart, with a class of their own. */
export const isProxyError = (error: unknown): error is ProxyError =>
  error instanceof Error && error.name === proxyErrorName && "told" in error

/** The proxy failed, not the server. `code` begins with PROXY_; `told` is a sentence of our own. */
export class ProxyError extends Error {
  override readonly name = proxyErrorName
  constructor(
    readonly code: string,
    readonly told: string
  ) {
    super(code)
  }
}
