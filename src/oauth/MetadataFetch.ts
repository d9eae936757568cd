/**
 * Fetching a client's metadata document (CIMD): the address comes from a stranger, so it must lead out into the public
 * internet and nowhere else. The name is resolved once, every address of it is looked at, and the connection goes to
 * exactly those.
 */
import * as Context from "effect/Context"
import * as Https from "node:https"
import { isIP } from "node:net"
import { hostOf } from "#src/net/Loopback.ts"
import { isPublicAddress } from "#src/outbound/Address.ts"
import { guardedLookup } from "#src/outbound/Outbound.ts"

/** Bytes of a document. */
const maxBytes = 64 * 1024

/** `https:` on its own port, by name, no redirects, bounded in size; time is bounded by the caller's signal. */
const fetchPublic = (address: string, signal: AbortSignal | undefined): Promise<Response> =>
  new Promise((resolve, reject) => {
    const url = new URL(address)
    // A literal address skips the look-up, and no client has a reason to be known by one.
    if (url.protocol !== "https:" || url.port !== "" || isIP(hostOf(url)) !== 0) {
      return reject(new Error("not a public name"))
    }
    const request = Https.request(
      url,
      {
        method: "GET",
        headers: { accept: "application/json", "user-agent": "ampoule" },
        lookup: guardedLookup(isPublicAddress),
        agent: false,
        ...(signal === undefined ? {} : { signal })
      },
      (response) => {
        const chunks: Array<Buffer> = []
        let size = 0
        response.on("data", (chunk: Buffer) => {
          size += chunk.length
          if (size <= maxBytes) chunks.push(chunk)
          else request.destroy(new Error("the document is too large"))
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
