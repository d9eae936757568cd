// @ts-check
/** The server with a token on every request, for the conformance suite, which can send none. */
import { once } from "node:events"
import { createServer, request as send } from "node:http"

/** @param {string} target @param {string} token */
export const start = async (target, token) => {
  const to = new URL(target)
  let own = ""
  const server = createServer((incoming, response) => {
    // This address in a header becomes the server's; any other goes on, for the server to refuse.
    const named = (/** @type {string | undefined} */ text) => text?.replace(own, to.host)
    const { host, origin, ...headers } = incoming.headers
    const outgoing = send(
      new URL(incoming.url ?? "/", to),
      {
        method: incoming.method ?? "GET",
        headers: {
          authorization: `Bearer ${token}`,
          ...headers,
          host: named(host) ?? to.host,
          ...(origin === undefined ? {} : { origin: named(origin) })
        }
      },
      (answer) => {
        response.writeHead(answer.statusCode ?? 500, answer.headers)
        response.flushHeaders()
        answer.pipe(response)
      }
    )
    outgoing.on("error", () => response.destroy())
    response.on("close", () => outgoing.destroy())
    incoming.pipe(outgoing)
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  if (address === null || typeof address === "string") throw new Error("no port")
  own = `127.0.0.1:${address.port}`
  const stop = () => {
    server.closeAllConnections()
    return new Promise((resolve) => void server.close(resolve))
  }
  return { url: `http://${own}`, stop }
}
