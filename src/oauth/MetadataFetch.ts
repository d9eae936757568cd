/**
 * Fetches a client's metadata document (CIMD). A stranger chooses the address, so it must lead to the public internet.
 * The name is resolved once, every address is checked, and the connection uses only those.
 */
import * as Context from "effect/Context"
import * as Https from "node:https"
import { isIP } from "node:net"
import { hostOf } from "#src/net/Loopback.ts"
import { isPublicAddress } from "#src/outbound/Address.ts"
import { guardedLookup } from "#src/outbound/Outbound.ts"

/** Maximum size of a document, in bytes. */
const maxBytes = 64 * 1024

/** `https:` on the default port, by name, without redirects, bounded in size. The caller's signal bounds the time. */
const fetchPublic = (address: string, signal: AbortSignal | undefined): Promise<Response> =>
  new Promise((resolve, reject) => {
    const url = new URL(address)
    // A literal address would skip the look-up, and no client needs one.
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
          // Any status but 200 is a failure; Response refuses a body for some.
          resolve(
            new Response(status === 200 ? Buffer.concat(chunks) : null, { status: status === 200 ? 200 : 502, headers })
          )
        })
      }
    )
    request.on("error", reject)
    request.end()
  })

/** The fetch of documents; tests replace it. */
export class MetadataFetch extends Context.Reference<MetadataFetch>()("oauth/MetadataFetch", {
  defaultValue: () => fetchPublic
}) {}
