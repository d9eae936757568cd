/**
 * Requests to addresses that somebody else chose (issuers of CI, webhooks). The address is looked at when the
 * connection is made, not before, so that a name cannot point elsewhere in between (DNS rebinding); nothing is
 * redirected; size and time are bounded; what went wrong is said in one word, which tells nothing about the network
 * behind the server.
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

export class OutboundFailed extends Data.TaggedError("OutboundFailed")<{
  /** The address is not one to be called; nobody answered; the answer took too long; it was too large. */
  readonly reason: "address" | "connection" | "timeout" | "size"
}> {}

interface OutboundRequest {
  readonly method: "GET" | "POST"
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  /** For the whole exchange. */
  readonly millis: number
  /** Of the answer's body; more is a failure. */
  readonly maxBytes: number
  /** The status is all that is asked for: the body is not read. */
  readonly statusOnly?: boolean
  /** The operator of this server wrote the address down: it may be in a network of its own, with TLS. */
  readonly byOperator?: boolean
}
interface OutboundAnswer {
  readonly status: number
  readonly contentType: string | null
  readonly text: string
}

export const refusedAddress = "AMPOULE_ADDRESS"

/**
 * Fails when one of a name's addresses is not allowed: a name that is half inside is not to be trusted with the rest.
 */
export const guardedLookup =
  (allowed: (address: string) => boolean): LookupFunction =>
  (hostname, options, callback) => {
    dns.lookup(hostname, { ...options, all: true }, (error, found) => {
      if (error !== null) return callback(error, "", 0)
      if (found.length === 0 || !found.every(({ address }) => allowed(address))) {
        return callback(Object.assign(new Error("address refused"), { code: refusedAddress }), "", 0)
      }
      return options.all === true ? callback(null, found) : callback(null, found[0].address, found[0].family)
    })
  }

export class Outbound extends Effect.Service<Outbound>()("outbound/Outbound", {
  effect: Effect.gen(function* () {
    const { baseUrl, host } = yield* AppConfig
    /** A server that only its own machine reaches may call its own machine: for a trial, and for tests. */
    const local = isLoopbackHost(host) && isLoopbackHost(hostOf(new URL(baseUrl)))
    const allowedAddress = (address: string) => isPublicAddress(address) || (local && isLoopbackAddress(address))
    const lookup = guardedLookup(allowedAddress)

    /** Whether this address may be written down at all. */
    const allows = (url: string): boolean => isAllowedUrl(url, local)
    /** The same of an address that the operator of this server wrote down. */
    const allowsOperator = (url: string): boolean => allows(url) || isAllowedForOperator(url)

    const send = (asked: OutboundRequest): Effect.Effect<OutboundAnswer, OutboundFailed> =>
      Effect.suspend(() => {
        const { body, byOperator = false, headers, maxBytes, method, millis, statusOnly } = asked
        if (!(byOperator ? allowsOperator : allows)(asked.url)) return new OutboundFailed({ reason: "address" })
        const url = new URL(asked.url)
        const host = hostOf(url)
        // Literals are not looked up, so the guard above is the only one that sees them.
        if (!byOperator && isIP(host) !== 0 && !allowedAddress(host)) return new OutboundFailed({ reason: "address" })
        return Effect.async<OutboundAnswer, OutboundFailed>((resume) => {
          const bytes = body === undefined ? undefined : Buffer.from(body)
          const request = (url.protocol === "https:" ? Https : Http).request(url, {
            method,
            ...(byOperator ? {} : { lookup }),
            // A connection of its own: one that is kept would skip the look-up.
            agent: false,
            headers: {
              ...headers,
              "user-agent": "Ampoule",
              connection: "close",
              ...(bytes === undefined ? {} : { "content-length": String(bytes.length) })
            }
          })
          let settled = false
          const settle = (outcome: Effect.Effect<OutboundAnswer, OutboundFailed>) => {
            if (settled) return
            settled = true
            clearTimeout(timer)
            request.destroy()
            resume(outcome)
          }
          const timer = setTimeout(() => settle(new OutboundFailed({ reason: "timeout" })), millis)
          request.on("error", (error: NodeJS.ErrnoException) =>
            settle(new OutboundFailed({ reason: error.code === refusedAddress ? "address" : "connection" }))
          )
          request.on("response", (response) => {
            const answered = (text: string) =>
              settle(
                Effect.succeed({
                  status: response.statusCode ?? 0,
                  contentType: response.headers["content-type"] ?? null,
                  text
                })
              )
            if (statusOnly === true) return answered("")
            const chunks: Array<Buffer> = []
            let size = 0
            response.on("data", (chunk: Buffer) => {
              size += chunk.length
              if (size > maxBytes) settle(new OutboundFailed({ reason: "size" }))
              else chunks.push(chunk)
            })
            response.on("end", () => answered(Buffer.concat(chunks).toString("utf8")))
            response.on("error", () => settle(new OutboundFailed({ reason: "connection" })))
            response.on("aborted", () => settle(new OutboundFailed({ reason: "connection" })))
          })
          request.end(bytes)
          return Effect.sync(() => {
            settled = true
            clearTimeout(timer)
            request.destroy()
          })
        })
      })

    return { allows, allowsOperator, send } as const
  })
}) {}
