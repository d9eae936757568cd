/** Requests as bytes on a socket of node:http, which lets more through than `fetch`, and answers as they come. */
import * as http from "node:http"
import * as net from "node:net"
import type { Request } from "./Inputs.ts"

export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | ReadonlyArray<string> | undefined>>
  readonly text: string
}
export interface Trouble {
  readonly trouble: "no answer" | "connection" | "not HTTP to begin with"
  readonly code?: string
}

/** Millis without an answer that count as never: far beyond what a loaded machine needs. */
const patience = 30_000
/** Of an event stream the beginning is read. */
const streamMillis = 100

export const agent = () => new http.Agent({ keepAlive: true, maxSockets: 16 })

export const target = ({ path, query, search }: Request): string => {
  const text = search ?? query.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&")
  return text === "" ? path : `${path}?${text}`
}

export const send = (agent: http.Agent, port: number, request: Request): Promise<Answer | Trouble> =>
  new Promise((resolve) => {
    let outgoing: http.ClientRequest
    try {
      outgoing = http.request({
        agent,
        host: "127.0.0.1",
        port,
        method: request.method,
        path: target(request),
        headers: request.headers
      })
    } catch {
      return resolve({ trouble: "not HTTP to begin with" })
    }
    const late = setTimeout(() => {
      outgoing.destroy()
      resolve({ trouble: "no answer" })
    }, patience)
    const settle = (outcome: Answer | Trouble) => {
      clearTimeout(late)
      resolve(outcome)
    }
    outgoing.on("error", (error: NodeJS.ErrnoException) =>
      settle({ trouble: "connection", ...(error.code === undefined ? {} : { code: error.code }) })
    )
    outgoing.on("response", (incoming) => {
      const chunks: Array<Buffer> = []
      const end = () =>
        settle({
          status: incoming.statusCode ?? 0,
          headers: incoming.headers,
          text: Buffer.concat(chunks).toString()
        })
      incoming.on("data", (chunk: Buffer) => chunks.push(chunk))
      incoming.on("end", end)
      incoming.on("error", end)
      if (incoming.headers["content-type"]?.startsWith("text/event-stream") === true) {
        setTimeout(() => {
          end()
          incoming.destroy()
        }, streamMillis).unref()
      }
    })
    if (request.headers["expect"] !== undefined) outgoing.flushHeaders()
    outgoing.end(request.body)
  })

/** Bytes that need not be HTTP. Answers what came back until the server closed, or fell silent for a moment. */
export const sendBytes = (port: number, bytes: Buffer): Promise<string | Trouble> =>
  new Promise((resolve) => {
    const chunks: Array<Buffer> = []
    const socket = net.connect(port, "127.0.0.1", () => socket.write(bytes))
    const settle = () => {
      clearTimeout(late)
      resolve(Buffer.concat(chunks).toString("latin1"))
      socket.destroy()
    }
    // A head that is not complete is waited for by the server too: silence is an answer here.
    const late = setTimeout(settle, 300)
    socket.on("data", (chunk) => {
      chunks.push(chunk)
      if (Buffer.concat(chunks).includes("\r\n\r\n")) setTimeout(settle, 20)
    })
    socket.on("close", settle)
    socket.on("error", settle)
  })
