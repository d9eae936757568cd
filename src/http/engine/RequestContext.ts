/** Facts about a request: its id, its origin, its path, and the results of authentication. */
import * as Context from "effect/Context"
import type { IncomingMessage } from "node:http"
import { BlockList, isIP } from "node:net"
import type { RequestOrigin, Via } from "#src/database/RequestInfo.ts"
import type { RateLimitState } from "#src/limits/RateLimiter.ts"
import { forwardedNodes, nodeAddress, toIpv4, unknownAddress } from "#src/net/ForwardedFor.ts"

/**
 * One per request. `HttpApiMiddleware` runs before a handler and cannot change its response (docs/architecture.md, H4).
 * Authentication therefore stores its results here, and the response reads them when it leaves.
 */
export class Exchange implements RequestOrigin {
  via: Via
  /** State of the credential's bucket, for the `RateLimit-*` headers. */
  rateLimit: RateLimitState | undefined = undefined
  authenticated = false
  /** `Set-Cookie` lines, sent with any response. */
  readonly cookies: Array<string> = []
  /** True when the browser must clear its stored pages. */
  forgets = false
  /** The environment of a page, whose forms work there alone: its address and id. */
  pagePlace = { path: "", id: "" }
  /** Ids of environments that the sent form was shown for. */
  readonly formPlaces: Array<string> = []
  /** Template of the matched route. */
  route = "none"
  /** True for a streamed response. */
  streams = false
  owner: string
  committed = false
  /** True when the database caused a failure of this request. */
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

/** The path of a request's target (RFC 9112 3.2.1). */
export const pathOf = (target: string): string => {
  const mark = target.indexOf("?")
  return mark === -1 ? target : target.slice(0, mark)
}

/** The part after the `?`, or an empty text. */
export const queryOf = (target: string): string => {
  const mark = target.indexOf("?")
  return mark === -1 ? "" : target.slice(mark + 1)
}

/** Takes addresses and CIDR blocks. Skips other text, which the settings already refuse. */
export const trustedProxies = (addresses: ReadonlyArray<string>): ((address: string) => boolean) => {
  if (addresses.length === 0) return () => false
  const list = new BlockList()
  for (const entry of addresses) {
    const [address, prefix] = entry.split("/")
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
 * The rightmost address that is not a trusted proxy; addresses left of it are claims of the client. `unknownAddress`
 * where a trusted proxy wrote an element that cannot be read: its own address would admit every client behind it.
 */
export const clientAddress = (
  peer: string,
  nodes: ReadonlyArray<string>,
  trusted: (address: string) => boolean
): string => {
  let client = peer.includes(":") ? toIpv4(peer) : peer
  for (let i = nodes.length - 1; i >= 0 && trusted(client); i--) {
    const node = nodeAddress(nodes[i])
    if (node === undefined) return unknownAddress
    client = toIpv4(node)
  }
  return client
}

const noNodes: ReadonlyArray<string> = []

/** `Forwarded` counts where no proxy wrote `X-Forwarded-For` (docs/operations/balancer.md). Node joins repeated lines of both. */
const forwardedFor = (headers: IncomingMessage["headers"]): ReadonlyArray<string> => {
  const listed = headers["x-forwarded-for"]
  if (typeof listed === "string" && listed.trim() !== "") return listed.split(",")
  const forwarded = headers["forwarded"]
  return forwarded === undefined ? noNodes : forwardedNodes(forwarded)
}

const maxUserAgent = 256

export const exchangeOf = (
  id: string,
  { headers, socket }: IncomingMessage,
  path: string,
  trusted: (address: string) => boolean
): Exchange =>
  new Exchange(
    id,
    clientAddress(socket.remoteAddress ?? "", forwardedFor(headers), trusted),
    headers["user-agent"]?.slice(0, maxUserAgent) ?? null,
    path
  )
