/**
 * The library takes Node's request and response. For each request it gets a pair of its own, built from what we let
 * through; its response comes back as data and leaves through the server like every other one.
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

/** `origin`: scheme and authority of the service, as clients know it; nothing of the request says otherwise. */
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

/** A response that is never sent: `done` has what was written to it by its end. */
export const responseTo = (request: IncomingMessage) => {
  const chunks: Array<Buffer> = []
  const response = new ServerResponse(request)
  const keep = (chunk: unknown, encoding: unknown) => {
    if (typeof chunk === "string") chunks.push(Buffer.from(chunk, typeof encoding === "string" ? "utf8" : undefined))
    else if (chunk instanceof Uint8Array) chunks.push(Buffer.from(chunk))
  }
  const done = new Promise<LibraryResponse>((resolve) => {
    Object.assign(response, {
      write(chunk: unknown, encoding: unknown) {
        keep(chunk, encoding)
        return true
      },
      end(chunk: unknown, encoding: unknown) {
        keep(chunk, encoding)
        resolve({ status: response.statusCode, headers: response.getHeaders(), body: Buffer.concat(chunks) })
        response.emit("finish")
        return response
      }
    })
  })
  return { response, done }
}

const setCookies = (headers: OutgoingHttpHeaders): ReadonlyArray<string> => {
  const given = headers["set-cookie"]
  return given === undefined ? [] : Array.isArray(given) ? given : [String(given)]
}

/** The cookies of a response that `keep` names. */
export const cookiesOf = (headers: OutgoingHttpHeaders, keep: (name: string) => boolean): ReadonlyArray<string> =>
  setCookies(headers).filter((cookie) => keep(cookie.slice(0, cookie.indexOf("="))))

/** The `Cookie` header with the cookies that `keep` names. */
export const cookieHeader = (given: string | undefined, keep: (name: string) => boolean): string =>
  (given ?? "")
    .split(/;\s*/)
    .filter((cookie) => keep(cookie.slice(0, cookie.indexOf("="))))
    .join("; ")
