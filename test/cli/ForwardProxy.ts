/**
 * A forward proxy on 127.0.0.1, as networks have them: CONNECT and absolute form. Every host name leads to `target`.
 */
import * as Effect from "effect/Effect"
import * as http from "node:http"
import * as net from "node:net"

interface Asked {
  readonly method: string
  readonly target: string
  readonly headers: http.IncomingHttpHeaders
}

export interface ForwardProxy {
  readonly port: number
  readonly asked: ReadonlyArray<Asked>
  /** Bytes of the client's tunnels, as they were on the wire. */
  readonly tunnelled: () => string
}

export interface Options {
  /** Of `Proxy-Authorization`; without it every request is refused with 407. */
  readonly authorization?: string
  /** Answers CONNECT with this status instead of connecting. */
  readonly refuse?: number
}

export const make = (target: string, { authorization, refuse }: Options = {}) =>
  Effect.acquireRelease(
    Effect.async<ForwardProxy & { readonly close: () => void }>((resume) => {
      const requests: Array<Asked> = []
      const sockets = new Set<net.Socket>()
      const to = { host: "127.0.0.1", port: Number(new URL(target).port) }
      let tunnelled = ""
      const remember = ({ headers, method = "", url = "" }: http.IncomingMessage) => {
        requests.push({ method, target: url, headers })
        return authorization === undefined || headers["proxy-authorization"] === authorization
      }
      const server = http.createServer((request, response) => {
        if (!remember(request)) {
          response.writeHead(407, { "proxy-authenticate": "Basic" })
          return response.end()
        }
        const { pathname, search } = new URL(request.url ?? "")
        const { "proxy-authorization": _, ...headers } = request.headers
        const onward = http.request({ ...to, method: request.method, path: pathname + search, headers }, (answer) => {
          response.writeHead(answer.statusCode ?? 502, answer.headers)
          answer.pipe(response)
        })
        onward.on("error", () => response.destroy())
        request.pipe(onward)
      })
      server.on("connect", (request: http.IncomingMessage, client: net.Socket) => {
        const status = remember(request) ? refuse : 407
        client.on("error", () => {})
        if (status !== undefined) return client.end(`HTTP/1.1 ${status} No\r\ncontent-length: 0\r\n\r\n`)
        const upstream = net.connect(to, () => {
          client.write("HTTP/1.1 200 Connection Established\r\n\r\n")
          client.on("data", (bytes: Buffer) => (tunnelled += bytes.toString("latin1")))
          client.pipe(upstream).pipe(client)
        })
        upstream.on("error", () => client.destroy())
        for (const socket of [client, upstream]) sockets.add(socket)
      })
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        const port = typeof address === "object" && address !== null ? address.port : 0
        const close = () => {
          for (const socket of sockets) socket.destroy()
          server.closeAllConnections()
          server.close()
        }
        resume(Effect.succeed({ port, asked: requests, tunnelled: () => tunnelled, close }))
      })
    }),
    ({ close }) => Effect.sync(close)
  )
