/**
 * Fetching a client's metadata document (CIMD): the address comes from a stranger, so it must lead out into the public
 * internet and nowhere else. The name is resolved once, every address of it is looked at, and the connection goes to
 * exactly those.
 */
import * as Context from "effect/Context"
import { lookup } from "node:dns"
import * as Https from "node:https"
import { BlockList, isIP, type LookupFunction } from "node:net"

/** Bytes of a document. */
const maxBytes = 64 * 1024

const special = new BlockList()
for (const block of [
  "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.31.196.0/24",
  "192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/3"
].flatMap((line) => line.split(" "))) {
  const [network, prefix] = block.split("/")
  special.addSubnet(network, Number(prefix), "ipv4")
}
const global6 = new BlockList()
global6.addSubnet("2000::", 3, "ipv6")
const special6 = new BlockList()
for (const block of ["2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"]) {
  const [network, prefix] = block.split("/")
  special6.addSubnet(network, Number(prefix), "ipv6")
}

/** Whether an address is one of the public internet (RFC 6890 registries). IPv4 in IPv6 is not. */
export const isPublicAddress = (address: string): boolean => {
  switch (isIP(address)) {
    case 4:
      return !special.check(address, "ipv4")
    case 6:
      return global6.check(address, "ipv6") && !special6.check(address, "ipv6")
    default:
      return false
  }
}

export class AddressRefused extends Error {
  override readonly name = "AddressRefused"
}

/** For `http(s).request`: resolves, and refuses a name of which any address is not public. */
export const publicLookup: LookupFunction = (hostname, options, callback) => {
  lookup(hostname, { all: true }, (error, addresses) => {
    if (error !== null) return callback(error, [])
    if (addresses.length === 0 || !addresses.every(({ address }) => isPublicAddress(address))) {
      return callback(new AddressRefused("not a public address"), [])
    }
    if (options.all === true) return callback(null, addresses)
    return callback(null, addresses[0].address, addresses[0].family)
  })
}

/** `https:` on its own port, by name, no redirects, bounded in size; time is bounded by the caller's signal. */
export const fetchPublic = (address: string, signal: AbortSignal | undefined): Promise<Response> =>
  new Promise((resolve, reject) => {
    const url = new URL(address)
    const bare = url.hostname.replace(/^\[|\]$/g, "")
    // A literal address skips the look-up, and no client has a reason to be known by one.
    if (url.protocol !== "https:" || url.port !== "" || isIP(bare) !== 0) {
      return reject(new AddressRefused("not a public name"))
    }
    const request = Https.request(
      url,
      {
        method: "GET",
        headers: { accept: "application/json", "user-agent": "ampoule" },
        lookup: publicLookup,
        agent: false,
        ...(signal === undefined ? {} : { signal })
      },
      (response) => {
        const chunks: Array<Buffer> = []
        let size = 0
        response.on("data", (chunk: Buffer) => {
          size += chunk.length
          if (size <= maxBytes) chunks.push(chunk)
          else request.destroy(new AddressRefused("the document is too large"))
        })
        response.on("error", reject)
        response.on("end", () => {
          const headers = new Headers()
          for (const name of ["content-type", "cache-control", "expires"]) {
            const value = response.headers[name]
            if (typeof value === "string") headers.set(name, value)
          }
          const status = response.statusCode ?? 500
          // A status that Response refuses to have with a body, or a redirect: not a document, whatever it says.
          resolve(
            new Response(status === 200 ? Buffer.concat(chunks) : null, { status: status === 200 ? 200 : 502, headers })
          )
        })
      }
    )
    request.on("error", reject)
    request.end()
  })

/** How documents are fetched; a test has its own. */
export class MetadataFetch extends Context.Reference<MetadataFetch>()("oauth/MetadataFetch", {
  defaultValue: () => fetchPublic
}) {}
