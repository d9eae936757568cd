/**
 * Reads request bodies up to a limit (docs/contract/errors.md). The platform's reader cuts the socket when a chunked
 * body passes the limit. This one responds with 413 and discards the remaining bytes until the server's request
 * timeout.
 */
import * as UrlParams from "@effect/platform/UrlParams"
import * as Effect from "effect/Effect"
import type { IncomingMessage } from "node:http"
import { PayloadTooLarge, UnsupportedMediaType, ValidationFailed } from "#schema/Errors.ts"
import { shapeProblem } from "./BodyShape.ts"

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

const read = (source: IncomingMessage, limit: number): Effect.Effect<Buffer, PayloadTooLarge> =>
  Effect.async((resume) => {
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
export const readersOf = (source: IncomingMessage, path: string) => {
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
