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
import * as http from "node:http"
import * as https from "node:https"
import * as net from "node:net"
import type { Duplex } from "node:stream"
import * as tls from "node:tls"
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

const withoutBrackets = (host: string): string => host.replace(/^\[|\]$/g, "")

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

/** The proxy failed, not the server. `code` begins with PROXY_; `told` is a sentence of our own. */
export class ProxyError extends Error {
  override readonly name = "ProxyError"
  constructor(
    readonly code: string,
    readonly told: string
  ) {
    super(code)
  }
}

const unusable = ({ reason, variable }: Extract<Route, { _tag: "Unusable" }>) =>
  new ProxyError("PROXY_UNUSABLE", `${variable} cannot be used: ${reason}`)

const notReached = (proxy: Proxy, error: unknown) => {
  const code = error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "UNKNOWN"
  const why =
    code === "ECONNREFUSED"
      ? "nothing listens there"
      : code === "ENOTFOUND" || code === "EAI_AGAIN"
        ? "the host name is not known"
        : /CERT|SELF_SIGNED|UNABLE_TO|ALTNAME/.test(code)
          ? `its TLS certificate is not trusted (${code})`
          : "it does not answer"
  return new ProxyError(`PROXY_${code}`, `the proxy ${nameOf(proxy)} (${proxy.variable}) cannot be reached: ${why}`)
}

const refused = (proxy: Proxy, status: number) => {
  const why =
    status === 407
      ? proxy.authorization === undefined
        ? "it wants a user and password, as in http://user:password@host:port"
        : "it does not take the user and password of its address"
      : `it does not let this server be reached (status ${status})`
  return new ProxyError(`PROXY_${status}`, `the proxy ${nameOf(proxy)} (${proxy.variable}) refused: ${why}`)
}

/** Longest wait for the proxy to be reached and to answer CONNECT, in milliseconds. */
const patience = 15_000

type Made = (error: Error | null, socket: Duplex) => void
// The callback of an agent has no form for a failure alone; its socket is looked at only when there is no error.
const failed = (made: Made, error: Error) => made(error, new net.Socket())

const tunnel = (proxy: Proxy, authority: string, use: (socket: net.Socket) => void, fail: (error: Error) => void) => {
  const request = (proxy.secure ? https : http).request({
    host: proxy.host,
    port: proxy.port,
    method: "CONNECT",
    path: authority,
    headers: {
      host: authority,
      ...(proxy.authorization === undefined ? {} : { "proxy-authorization": Redacted.value(proxy.authorization) })
    },
    agent: false,
    timeout: patience
  })
  request.once("timeout", () => request.destroy(new Error()))
  request.once("error", (error) => fail(notReached(proxy, error)))
  request.once("response", (response) => {
    response.resume()
    fail(refused(proxy, response.statusCode ?? 0))
  })
  request.once("connect", (response, socket: net.Socket, head: Buffer) => {
    if (response.statusCode !== 200 || head.length > 0) {
      socket.destroy()
      return fail(refused(proxy, response.statusCode ?? 0))
    }
    socket.setTimeout(0)
    use(socket)
  })
  request.end()
}

const authority = (host: string, port: number | string): string => `${net.isIPv6(host) ? `[${host}]` : host}:${port}`

class TunnelAgent extends https.Agent {
  override createConnection(options: tls.ConnectionOptions, made: Made): Duplex | null | undefined {
    const host = withoutBrackets(options.host ?? "localhost")
    const at = authority(host, options.port ?? 443)
    const route = routeOf(new URL(`https://${at}`))
    if (route._tag === "Direct") return super.createConnection(options, made)
    const fail = (error: Error) => failed(made, error)
    if (route._tag === "Unusable") fail(unusable(route))
    else {
      tunnel(
        route.proxy,
        at,
        (socket) =>
          made(null, tls.connect({ ...options, socket, ...(net.isIP(host) === 0 ? { servername: host } : {}) })),
        fail
      )
    }
    // Nothing yet: `made` is called when there is a connection.
    return undefined
  }
}

class ForwardAgent extends http.Agent {
  // Where an agent sees the request before its first line is written; Node does not document it, and every proxy agent
  // uses it.
  addRequest(request: http.ClientRequest, options: { readonly host?: string; readonly port?: number }): void {
    const at = authority(withoutBrackets(options.host ?? "localhost"), options.port ?? 80)
    const route = routeOf(new URL(`http://${at}`))
    if (route._tag === "Proxied") {
      request.path = new URL(request.path, `http://${at}`).href
      const { authorization } = route.proxy
      if (authorization !== undefined) request.setHeader("proxy-authorization", Redacted.value(authorization))
    }
    const next: unknown = Reflect.get(http.Agent.prototype, "addRequest")
    if (typeof next === "function") Reflect.apply(next, this, [request, options])
  }

  override createConnection(options: net.NetConnectOpts, made: Made): Duplex | null | undefined {
    const { host, port } = { host: undefined, port: undefined, ...options }
    const route = routeOf(new URL(`http://${authority(withoutBrackets(host ?? "localhost"), port ?? 80)}`))
    if (route._tag === "Direct") return super.createConnection(options, made)
    if (route._tag === "Unusable") failed(made, unusable(route))
    else {
      const { proxy } = route
      const to = { host: proxy.host, port: proxy.port }
      const socket = proxy.secure
        ? tls.connect({ ...to, ...(net.isIP(to.host) === 0 ? { servername: to.host } : {}) })
        : net.connect(to)
      const onError = (error: Error) => failed(made, notReached(proxy, error))
      socket.setTimeout(patience, () => socket.destroy(new Error()))
      socket.once("error", onError)
      socket.once(proxy.secure ? "secureConnect" : "connect", () => {
        socket.off("error", onError)
        socket.setTimeout(0)
        made(null, socket)
      })
    }
    return undefined
  }
}

/** Agents that ask for each connection how it travels. */
export const agents = () => ({ http: new ForwardAgent(), https: new TunnelAgent() })
