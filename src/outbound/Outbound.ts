/**
 * Requests to addresses that users chose (issuers of CI, webhooks). The address is checked during the connection, so
 * that a name cannot change in between (DNS rebinding). Redirects are not followed; size and time are bounded. Errors
 * have one word, which reveals nothing about the network behind the server.
 */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as dns from "node:dns"
import * as Http from "node:http"
import * as Https from "node:https"
import { isIP, type LookupFunction } from "node:net"
import { AppConfig } from "#src/AppConfig.ts"
import { hostOf, isLoopbackAddress, isLoopbackHost } from "#src/net/Loopback.ts"
import { isAllowedForOperator, isAllowedUrl, isPublicAddress } from "./Address.ts"

class OutboundFailed extends Data.TaggedError("OutboundFailed")<{
  /** The address is not allowed, no connection or response came, it took too long, or the response was too large. */
  readonly reason: "address" | "connection" | "timeout" | "size"
}> {}

interface OutboundRequest {
  readonly method: "GET" | "POST"
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  /** Time limit of the whole exchange. */
  readonly millis: number
  /** Limit of the response body; a larger one is a failure. */
  readonly maxBytes: number
  /** Only the status matters: the body is not read. */
  readonly statusOnly?: boolean
  /** The operator of this server entered the address: it may be in the operator's own network, with TLS. */
  readonly byOperator?: boolean
}
interface OutboundResponse {
  readonly status: number
  readonly contentType: string | null
  readonly text: string
}

export const refusedAddress = "AMPOULE_ADDRESS"

/** Fails if any address of a name is forbidden: a name that is partly internal is not trusted at all. */
export const guardedLookup =
  (allowed: (address: string) => boolean): LookupFunction =>
  (hostname, options, callback) => {
    dns.lookup(hostname, { ...options, all: true }, (error, addresses) => {
      if (error !== null) return callback(error, "", 0)
      if (addresses.length === 0 || !addresses.every(({ address }) => allowed(address))) {
        return callback(Object.assign(new Error("address refused"), { code: refusedAddress }), "", 0)
      }
      return options.all === true
        ? callback(null, addresses)
        : callback(null, addresses[0].address, addresses[0].family)
    })
  }

export class Outbound extends Effect.Service<Outbound>()("outbound/Outbound", {
  effect: Effect.gen(function* () {
    const { baseUrl, host } = yield* AppConfig
    /** A server that only its own machine can reach may call that machine, for trials and tests. */
    const local = isLoopbackHost(host) && isLoopbackHost(hostOf(new URL(baseUrl)))
    const allowedAddress = (address: string) => isPublicAddress(address) || (local && isLoopbackAddress(address))
    const lookup = guardedLookup(allowedAddress)

    /** Whether a user may enter this address. */
    const allows = (url: string): boolean => isAllowedUrl(url, local)
    /** Whether the operator of this server may enter this address. */
    const allowsOperator = (url: string): boolean => allows(url) || isAllowedForOperator(url)

    const send = (options: OutboundRequest): Effect.Effect<OutboundResponse, OutboundFailed> =>
      Effect.suspend(() => {
        const { body, byOperator = false, headers, maxBytes, method, millis, statusOnly } = options
        if (!(byOperator ? allowsOperator : allows)(options.url)) return new OutboundFailed({ reason: "address" })
        const url = new URL(options.url)
        const host = hostOf(url)
        // Literal addresses skip the look-up, so only this check sees them.
        if (!byOperator && isIP(host) !== 0 && !allowedAddress(host)) return new OutboundFailed({ reason: "address" })
        return Effect.async<OutboundResponse, OutboundFailed>((resume) => {
          const bytes = body === undefined ? undefined : Buffer.from(body)
          const request = (url.protocol === "https:" ? Https : Http).request(url, {
            method,
            ...(byOperator ? {} : { lookup }),
            // A separate connection: a kept one would skip the look-up.
            agent: false,
            headers: {
              ...headers,
              "user-agent": "Ampoule",
              connection: "close",
              ...(bytes === undefined ? {} : { "content-length": String(bytes.length) })
            }
          })
          let isSettled = false
          const settle = (outcome: Effect.Effect<OutboundResponse, OutboundFailed>) => {
            if (isSettled) return
            isSettled = true
            clearTimeout(timer)
            request.destroy()
            resume(outcome)
          }
          const timer = setTimeout(() => settle(new OutboundFailed({ reason: "timeout" })), millis)
          request.on("error", (error: NodeJS.ErrnoException) =>
            settle(new OutboundFailed({ reason: error.code === refusedAddress ? "address" : "connection" }))
          )
          request.on("response", (response) => {
            const succeed = (text: string) =>
              settle(
                Effect.succeed({
                  status: response.statusCode ?? 0,
                  contentType: response.headers["content-type"] ?? null,
                  text
                })
              )
            if (statusOnly === true) return succeed("")
            const chunks: Array<Buffer> = []
            let size = 0
            response.on("data", (chunk: Buffer) => {
              size += chunk.length
              if (size > maxBytes) settle(new OutboundFailed({ reason: "size" }))
              else chunks.push(chunk)
            })
            response.on("end", () => succeed(Buffer.concat(chunks).toString("utf8")))
            response.on("error", () => settle(new OutboundFailed({ reason: "connection" })))
            response.on("aborted", () => settle(new OutboundFailed({ reason: "connection" })))
          })
          request.end(bytes)
          return Effect.sync(() => {
            isSettled = true
            clearTimeout(timer)
            request.destroy()
          })
        })
      })

    return { allows, allowsOperator, send } as const
  })
}) {}
