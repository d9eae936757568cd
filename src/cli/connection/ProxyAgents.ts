/**
 * Connections through a proxy. Loaded only when a proxy is configured, and by the HTTP client of the client library.
 */
import * as Redacted from "effect/Redacted"
import * as http from "node:http"
import * as https from "node:https"
import * as net from "node:net"
import type { Duplex } from "node:stream"
import * as tls from "node:tls"
import { nameOf, type Proxy, ProxyError, type Route, routeOf, withoutBrackets } from "./Proxy.ts"

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
        ? "it requires a user and password, as in http://user:password@host:port"
        : "it rejects the user and password of its address"
      : `it does not allow connections to this server (status ${status})`
  return new ProxyError(`PROXY_${status}`, `the proxy ${nameOf(proxy)} (${proxy.variable}) refused: ${why}`)
}

/** Milliseconds to connect to the proxy and to receive its answer to CONNECT. */
const proxyTimeout = 15_000

type OnSocket = (error: Error | null, socket: Duplex) => void
// The agent's callback requires a socket even for a failure, and ignores it when an error is given.
const failSocket = (onSocket: OnSocket, error: Error) => onSocket(error, new net.Socket())

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
    timeout: proxyTimeout
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
  override createConnection(options: tls.ConnectionOptions, onSocket: OnSocket): Duplex | null | undefined {
    const host = withoutBrackets(options.host ?? "localhost")
    const at = authority(host, options.port ?? 443)
    const route = routeOf(new URL(`https://${at}`))
    if (route._tag === "Direct") return super.createConnection(options, onSocket)
    const fail = (error: Error) => failSocket(onSocket, error)
    if (route._tag === "Unusable") fail(unusable(route))
    else {
      tunnel(
        route.proxy,
        at,
        (socket) =>
          onSocket(null, tls.connect({ ...options, socket, ...(net.isIP(host) === 0 ? { servername: host } : {}) })),
        fail
      )
    }
    // No socket yet: the tunnel calls `onSocket` once it is open.
    return undefined
  }
}

class ForwardAgent extends http.Agent {
  // Hook before the agent writes the request line. Node does not document it, but every proxy agent relies on it.
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

  override createConnection(options: net.NetConnectOpts, onSocket: OnSocket): Duplex | null | undefined {
    const { host, port } = { host: undefined, port: undefined, ...options }
    const route = routeOf(new URL(`http://${authority(withoutBrackets(host ?? "localhost"), port ?? 80)}`))
    if (route._tag === "Direct") return super.createConnection(options, onSocket)
    if (route._tag === "Unusable") failSocket(onSocket, unusable(route))
    else {
      const { proxy } = route
      const to = { host: proxy.host, port: proxy.port }
      const socket = proxy.secure
        ? tls.connect({ ...to, ...(net.isIP(to.host) === 0 ? { servername: to.host } : {}) })
        : net.connect(to)
      const onError = (error: Error) => failSocket(onSocket, notReached(proxy, error))
      socket.setTimeout(proxyTimeout, () => socket.destroy(new Error()))
      socket.once("error", onError)
      socket.once(proxy.secure ? "secureConnect" : "connect", () => {
        socket.off("error", onError)
        socket.setTimeout(0)
        onSocket(null, socket)
      })
    }
    return undefined
  }
}

/** Agents that choose the route for each connection. */
export const agents = () => ({ http: new ForwardAgent(), https: new TunnelAgent() })
