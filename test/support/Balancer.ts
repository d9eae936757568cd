/**
 * Round robin over processes of 127.0.0.1, as a balancer in front of the service does it: a connection that cannot be
 * made is tried at the next one, event streams are passed on as they come, `X-Forwarded-For` is the address of the
 * client and nothing else. For tests an answer says in `x-upstream` who gave it, and a request can name its process
 * there.
 */
import * as Effect from "effect/Effect"
import * as http from "node:http"

/** Nothing of the request was carried out, or it may be carried out twice. */
const mayMoveOn = (method: string | undefined, error: NodeJS.ErrnoException) =>
  error.code === "ECONNREFUSED" || ((method === "GET" || method === "HEAD") && error.code === "ECONNRESET")

export const make = (ports: ReadonlyArray<number>) =>
  Effect.acquireRelease(
    Effect.async<{ readonly url: string; readonly port: number; readonly close: () => void }>((resume) => {
      let turn = 0
      const forward = (
        request: http.IncomingMessage,
        response: http.ServerResponse,
        body: Buffer,
        at: number,
        left: number
      ) => {
        const upstream = http.request({
          host: "127.0.0.1",
          port: ports[at],
          method: request.method,
          path: request.url,
          agent: false,
          headers: { ...request.headers, "x-forwarded-for": request.socket.remoteAddress ?? "", connection: "close" }
        })
        upstream.once("response", (answer) => {
          response.writeHead(answer.statusCode ?? 502, { ...answer.headers, "x-upstream": String(at) })
          response.flushHeaders()
          answer.pipe(response)
          answer.once("error", () => response.destroy())
          answer.once("aborted", () => response.destroy())
        })
        upstream.once("error", (error: NodeJS.ErrnoException) => {
          if (!response.headersSent && left > 0 && mayMoveOn(request.method, error)) {
            return forward(request, response, body, (at + 1) % ports.length, left - 1)
          }
          if (response.headersSent) response.destroy()
          else response.writeHead(502, { "x-upstream": String(at) }).end()
        })
        response.once("close", () => upstream.destroy())
        upstream.end(body)
      }
      const server = http.createServer((request, response) => {
        const parts: Array<Buffer> = []
        request.on("data", (part: Buffer) => parts.push(part))
        request.once("error", () => response.destroy())
        request.once("end", () => {
          const named = request.headers["x-upstream"]
          const at = named === undefined ? turn++ % ports.length : Number(named)
          forward(request, response, Buffer.concat(parts), at, named === undefined ? ports.length - 1 : 0)
        })
      })
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        const port = typeof address === "object" && address !== null ? address.port : 0
        const close = () => {
          server.closeAllConnections()
          server.close()
        }
        resume(Effect.succeed({ url: `http://127.0.0.1:${port}`, port, close }))
      })
    }),
    ({ close }) => Effect.sync(close)
  )
