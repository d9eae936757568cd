/**
 * What is known of a request before anybody answers it: its id, where it came from, and what authentication found out.
 */
import * as Context from "effect/Context"
import type { IncomingMessage } from "node:http"
import { BlockList, isIP } from "node:net"
import type { RequestOrigin, Via } from "#src/database/RequestInfo.ts"
import type { RateLimitState } from "#src/limits/RateLimiter.ts"

/**
 * One per request. `HttpApiMiddleware` runs before a handler and cannot touch its answer (docs/architecture.md, H4), so
 * what authentication finds out is written down here and read when the answer leaves.
 */
export class Exchange implements RequestOrigin {
  via: Via
  /** State of the credential's own bucket, for the `RateLimit-*` headers. */
  rateLimit: RateLimitState | undefined = undefined
  authenticated = false
  /** `Set-Cookie` lines, whatever the answer will be. */
  readonly cookies: Array<string> = []
  /** The browser is to forget what it kept of the pages. */
  forgets = false
  /** The template of the route that answers. */
  route = "none"
  /** The answer has no end of its own. */
  streams = false
  owner: string
  committed = false
  /** Something in it failed because of the database. */
  databaseFailed = false
  constructor(
    readonly id: string,
    readonly ip: string,
    readonly userAgent: string | null,
    readonly path: string
  ) {
    this.owner = ip
    this.via = userAgent?.startsWith("ampoule-cli/") === true ? "cli" : "rest"
  }
}

export class CurrentExchange extends Context.Reference<CurrentExchange>()("http/CurrentExchange", {
  defaultValue: () => new Exchange("system", "", null, "")
}) {}

const plainAddress = (address: string): string => (address.startsWith("::ffff:") ? address.slice(7) : address)

/** Addresses and CIDR blocks; whatever is neither is left out (the settings were checked when they were read). */
export const trustedProxies = (addresses: ReadonlyArray<string>): ((address: string) => boolean) => {
  if (addresses.length === 0) return () => false
  const list = new BlockList()
  for (const given of addresses) {
    const [address, prefix] = given.split("/")
    const family = isIP(address) === 6 ? "ipv6" : "ipv4"
    if (isIP(address) === 0) continue
    if (prefix === undefined) list.addAddress(address, family)
    else list.addSubnet(address, Number(prefix), family)
  }
  return (address) => {
    const version = isIP(address)
    return version !== 0 && list.check(address, version === 6 ? "ipv6" : "ipv4")
  }
}

/**
 * The rightmost address that no trusted proxy of ours reported of itself: everything left of it is the client's claim.
 */
export const clientAddress = (
  peer: string,
  forwardedFor: string | undefined,
  trusted: (address: string) => boolean
): string => {
  let client = plainAddress(peer)
  if (forwardedFor === undefined) return client
  const hops = forwardedFor.split(",")
  for (let i = hops.length - 1; i >= 0 && trusted(client); i--) {
    const hop = plainAddress(hops[i].trim())
    if (isIP(hop) === 0) break
    client = hop
  }
  return client
}

const maxUserAgent = 256

export const exchangeOf = (
  id: string,
  { headers, socket }: IncomingMessage,
  path: string,
  trusted: (address: string) => boolean
): Exchange => {
  const forwarded = headers["x-forwarded-for"]
  return new Exchange(
    id,
    // Node joins repeated lines of this header, so that it is one text.
    clientAddress(socket.remoteAddress ?? "", typeof forwarded === "string" ? forwarded : undefined, trusted),
    headers["user-agent"]?.slice(0, maxUserAgent) ?? null,
    path
  )
}
