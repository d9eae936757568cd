/**
 * A request of `node:http` as the platform's type, with bounded bodies (docs/contract/errors.md). The platform's reader
 * cuts the socket when a chunked body passes the limit. This one responds with 413 and discards the remaining bytes
 * until the server's request timeout.
 */
import * as Cookies from "@effect/platform/Cookies"
import type * as Headers from "@effect/platform/Headers"
import * as HttpIncomingMessage from "@effect/platform/HttpIncomingMessage"
import type { HttpMethod } from "@effect/platform/HttpMethod"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as UrlParams from "@effect/platform/UrlParams"
import * as Effect from "effect/Effect"
import * as Inspectable from "effect/Inspectable"
import * as Option from "effect/Option"
import type { IncomingMessage } from "node:http"
import { PayloadTooLarge, UnsupportedMediaType, ValidationFailed } from "#schema/Errors.ts"

// --- the shape of a body ---

/** Levels of a body; bodies of the contract have at most five. */
const maxDepth = 32

/** Entries and members of a body. Bodies of the contract have about 3,000; slightly larger ones get a precise error. */
const maxParts = 20_000

/**
 * Problem with the depth or the size of a JSON text, found before it is parsed; for other text it has no meaning. Parsing
 * and decoding 32 MiB of `{},{},…` would block all other requests for seconds. The formatter of refusals is recursive,
 * so the input must not decide its depth.
 */
export const shapeProblem = (text: string): "nested too deeply" | "made of too many parts" | undefined => {
  let depth = 0
  let parts = 0
  let quoted = false
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i)
    if (quoted) {
      if (c === 0x5c) i++
      else if (c === 0x22) quoted = false
    } else if (c === 0x22) {
      quoted = true
    } else if (c === 0x2c) {
      if (++parts > maxParts) return "made of too many parts"
    } else if (c === 0x5b || c === 0x7b) {
      if (++depth > maxDepth) return "nested too deeply"
      if (++parts > maxParts) return "made of too many parts"
    } else if (c === 0x5d || c === 0x7d) {
      depth--
    }
  }
  return undefined
}

// --- the bytes of a body ---

const MiB = 1024 * 1024

const changes = /^\/projects\/[^/]+\/changes$/

/** "over 1 MiB; `/secrets/bulk` and changes 32 MiB; sealed open 8 MiB" (docs/contract/errors.md). */
const limitOf = (path: string): number => {
  if (path === "/secrets/bulk" || changes.test(path)) return 32 * MiB
  if (path === "/auth/token-exchange") return MiB / 16
  if (path.endsWith("/sealed-values/open")) return 8 * MiB
  return MiB
}

/**
 * Paths with their own formats: OAuth (RFC 6749) and pages send forms, MCP has its own errors. All others take JSON.
 */
const readsAnything = (path: string): boolean =>
  path === "/reports/leaked-credentials" ||
  path.startsWith("/oauth/") ||
  path === "/auth/token-exchange" ||
  path.startsWith("/app/") ||
  path === "/mcp"

const read = (source: IncomingMessage, limit: number): Effect.Effect<Buffer, PayloadTooLarge | UnsupportedMediaType> =>
  Effect.async((resume) => {
    const encoding = source.headers["content-encoding"]
    // A small compressed body can be a large one, so none is unpacked (RFC 9110, 15.5.16).
    if (encoding !== undefined && encoding.toLowerCase() !== "identity") {
      return resume(new UnsupportedMediaType({ message: "Send the body without a content-encoding." }))
    }
    if (Number(source.headers["content-length"] ?? 0) > limit) return resume(new PayloadTooLarge())
    const chunks: Array<Buffer> = []
    let size = 0
    const onData = (chunk: Buffer) => {
      size += chunk.length
      if (size <= limit) chunks.push(chunk)
      else settle(new PayloadTooLarge())
    }
    const onEnd = () => settle(Effect.succeed(Buffer.concat(chunks, size)))
    // The client left or broke HTTP, so no response can reach it.
    const onError = () => settle(Effect.interrupt)
    const settle = (outcome: Effect.Effect<Buffer, PayloadTooLarge>) => {
      source.off("data", onData)
      source.off("end", onEnd)
      source.off("error", onError)
      source.off("close", onError)
      source.on("error", () => {})
      resume(outcome)
    }
    source.on("data", onData)
    source.on("end", onEnd)
    source.on("error", onError)
    source.on("close", onError)
  })

const utf8 = new TextDecoder("utf-8", { fatal: true })
const decode = (bytes: Buffer) =>
  Effect.try({
    try: () => utf8.decode(bytes),
    catch: () => new ValidationFailed({ message: "The body is not UTF-8." })
  })

/** Replaces V8's message, which would quote the text. */
const parse = (text: string) =>
  Effect.suspend(() => {
    if (text === "") return Effect.succeed(null)
    const problem = shapeProblem(text)
    if (problem !== undefined) return new ValidationFailed({ message: `The body is ${problem}.` })
    return Effect.try({
      try: (): unknown => JSON.parse(text),
      catch: () => new ValidationFailed({ message: "The body is not JSON." })
    })
  })

const mediaType = /^\s*application\/json\s*(?:;\s*(?:charset\s*=\s*"?utf-8"?\s*(?:;\s*)?)?)?$/i

/** Readers of a request's body by kind. They fail with errors of the contract. */
const readersOf = (source: IncomingMessage, path: string) => {
  const contentType = source.headers["content-type"]
  let cached: Buffer | undefined
  const bytes = Effect.suspend(() =>
    cached === undefined
      ? Effect.tap(read(source, limitOf(path)), (read) => Effect.sync(() => (cached = read)))
      : Effect.succeed(cached)
  )
  const text = Effect.flatMap(bytes, decode)
  const empty = source.headers["transfer-encoding"] === undefined && Number(source.headers["content-length"] ?? 0) === 0
  // Decoders see an empty body as null, whatever its declared type (docs/architecture.md, H10).
  const json = empty
    ? Effect.succeed(null)
    : contentType === undefined || mediaType.test(contentType)
      ? Effect.flatMap(text, parse)
      : new UnsupportedMediaType()
  return readsAnything(path)
    ? {
        json,
        text,
        arrayBuffer: Effect.map(bytes, (bytes) => Uint8Array.from(bytes).buffer),
        urlParamsBody: Effect.map(text, (text) => UrlParams.fromInput(new URLSearchParams(text)))
      }
    : { json, text: json, arrayBuffer: json, urlParamsBody: json }
}

// --- the request ---

class NodeRequest extends Inspectable.Class {
  readonly [HttpServerRequest.TypeId] = HttpServerRequest.TypeId
  readonly [HttpIncomingMessage.TypeId] = HttpIncomingMessage.TypeId
  readonly method: HttpMethod
  readonly url: string
  readonly originalUrl: string
  #cookies: Readonly<Record<string, string>> | undefined
  #body: ReturnType<typeof readersOf> | undefined
  constructor(
    readonly source: IncomingMessage,
    readonly path: string
  ) {
    super()
    // Node's parser accepts methods in capitals alone; the router refuses those without a route.
    this.method = source.method as HttpMethod
    this.url = source.url ?? ""
    this.originalUrl = this.url
  }
  get headers(): Headers.Headers {
    // Node gives names in lower case, as the platform expects.
    return this.source.headers as Headers.Headers
  }
  get cookies() {
    return (this.#cookies ??= Cookies.parseHeader(this.headers["cookie"] ?? ""))
  }
  get remoteAddress() {
    return Option.fromNullable(this.source.socket.remoteAddress)
  }
  get #readers() {
    return (this.#body ??= readersOf(this.source, this.path))
  }
  get json() {
    return this.#readers.json
  }
  get text() {
    return this.#readers.text
  }
  get arrayBuffer() {
    return this.#readers.arrayBuffer
  }
  get urlParamsBody() {
    return this.#readers.urlParamsBody
  }
  /** No route takes files, so a multipart body fails as a body that is not JSON. */
  get multipart() {
    return this.#readers.json
  }
  override toJSON() {
    return { _id: "@effect/platform/HttpServerRequest", method: this.method, path: this.path }
  }
}

/**
 * Needs the cast for two reasons. Faults of a body are errors of the contract here, where the platform has one error.
 * And the members for streams and upgrades are missing, because no route uses them.
 */
export const make = (source: IncomingMessage, path: string): HttpServerRequest.HttpServerRequest =>
  new NodeRequest(source, path) as unknown as HttpServerRequest.HttpServerRequest
