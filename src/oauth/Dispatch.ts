/**
 * The library needs Node's request and response objects. Each request gets its own pair, with the members that we
 * allow. The library's response becomes data, and leaves through the server like every other one.
 */
import { IncomingMessage, type IncomingHttpHeaders, type OutgoingHttpHeaders, ServerResponse } from "node:http"
import { Socket } from "node:net"

export interface LibraryRequest {
  readonly method: string
  /** Path and query. */
  readonly url: string
  readonly headers: IncomingHttpHeaders
  readonly body?: Buffer
}

export interface LibraryResponse {
  readonly status: number
  readonly headers: OutgoingHttpHeaders
  readonly body: Buffer
}

/** `origin`: scheme and authority of the service as clients know it, never from the request. */
export const requestOf = (origin: string, { body, headers, method, url }: LibraryRequest): IncomingMessage => {
  const { host, protocol } = new URL(origin)
  const request = new IncomingMessage(new Socket())
  request.method = method
  request.url = url
  request.headers = {
    ...headers,
    host,
    "x-forwarded-proto": protocol.slice(0, -1),
    ...(body === undefined ? {} : { "content-length": String(body.length) })
  }
  if (body !== undefined) request.push(body)
  request.push(null)
  request.complete = true
  return request
}

/** A response that is never sent: `done` resolves to the written data at its end. */
export const responseTo = (request: IncomingMessage) => {
  const chunks: Array<Buffer> = []
  const response = new ServerResponse(request)
  const collect = (chunk: unknown, encoding: unknown) => {
    if (typeof chunk === "string") chunks.push(Buffer.from(chunk, typeof encoding === "string" ? "utf8" : undefined))
    else if (chunk instanceof Uint8Array) chunks.push(Buffer.from(chunk))
  }
  const done = new Promise<LibraryResponse>((resolve) => {
    Object.assign(response, {
      write(chunk: unknown, encoding: unknown) {
        collect(chunk, encoding)
        return true
      },
      end(chunk: unknown, encoding: unknown) {
        collect(chunk, encoding)
        resolve({ status: response.statusCode, headers: response.getHeaders(), body: Buffer.concat(chunks) })
        response.emit("finish")
        return response
      }
    })
  })
  return { response, done }
}

const setCookies = (headers: OutgoingHttpHeaders): ReadonlyArray<string> => {
  const value = headers["set-cookie"]
  return value === undefined ? [] : Array.isArray(value) ? value : [String(value)]
}

/** Cookies of a response whose name passes `keep`. */
export const cookiesOf = (headers: OutgoingHttpHeaders, keep: (name: string) => boolean): ReadonlyArray<string> =>
  setCookies(headers).filter((cookie) => keep(cookie.slice(0, cookie.indexOf("="))))

/** `Cookie` header of the cookies whose name passes `keep`. */
export const cookieHeader = (header: string | undefined, keep: (name: string) => boolean): string =>
  (header ?? "")
    .split(/;\s*/)
    .filter((cookie) => keep(cookie.slice(0, cookie.indexOf("="))))
    .join("; ")
