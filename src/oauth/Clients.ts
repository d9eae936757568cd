/**
 * Clients of the authorization server: allowed redirect addresses, client metadata (RFC 7591, metadata documents) cut
 * to the members that count here, and client secrets.
 */
import { timingSafeEqual } from "node:crypto"
import { isPlainName } from "#schema/Values.ts"
import { sha256 } from "#src/crypto/Crypto.ts"

// --- redirects ---

// Accepts https anywhere, and http on this machine (OAuth 2.1 8.4, RFC 8252 7.3). Refuses an application's private
// scheme (RFC 8252 7.1): any program can claim one, and MCP demands localhost or https.

const loopback = /^(http:\/\/(?:127\.0\.0\.1|\[::1\]|localhost))(?::(\d{1,5}))?(\/[^#]*)?$/

const loopbackParts = (uri: string): { readonly host: string; readonly rest: string } | undefined => {
  const match = loopback.exec(uri)
  if (match === null || (match[2] !== undefined && Number(match[2]) > 65_535)) return undefined
  return { host: match[1], rest: match[3] ?? "" }
}

export const isLoopback = (uri: string): boolean => loopbackParts(uri) !== undefined

/** Whether a client may register the address. */
const isRegistrable = (uri: string): boolean => {
  // An address that two parsers could read differently is refused.
  if (uri.length > 2_000 || !/^[\x21-\x7e]+$/.test(uri) || /[\\#]/.test(uri) || !URL.canParse(uri)) return false
  const { hash, hostname, password, protocol, username } = new URL(uri)
  if (hash !== "" || username !== "" || password !== "" || hostname === "") return false
  return protocol === "https:" || isLoopback(uri)
}

/** Exact match, except for the port of a loopback address: a client's listener gets another port each time. */
export const isRegistered = (registered: ReadonlyArray<string>, uri: string): boolean => {
  if (registered.includes(uri)) return isRegistrable(uri)
  const requested = loopbackParts(uri)
  if (requested === undefined || !isRegistrable(uri)) return false
  return registered.some((one) => {
    const allowed = loopbackParts(one)
    return allowed !== undefined && allowed.host === requested.host && allowed.rest === requested.rest
  })
}

/** Host that the consent page shows. */
export const hostOf = (uri: string): string => new URL(uri).host

/**
 * Whether the client's id is the address of its metadata document, equal for every installation. Other clients register
 * themselves.
 */
export const isDocumented = (clientId: string): boolean => clientId.startsWith("https://")

// --- metadata ---

const maxClientName = 100
const maxRedirects = 20

/** Checks the texts that a person sees, and the addresses that a browser is sent to. */
export const problemOf = (metadata: {
  readonly client_name?: unknown
  readonly redirect_uris?: unknown
}): "invalid_redirect_uri" | "invalid_client_metadata" | undefined => {
  const { client_name: name, redirect_uris: uris } = metadata
  if (!Array.isArray(uris) || uris.length === 0 || uris.length > maxRedirects) return "invalid_redirect_uri"
  if (!uris.every((uri) => typeof uri === "string" && isRegistrable(uri))) return "invalid_redirect_uri"
  if (name === undefined) return undefined
  return typeof name === "string" && name.length <= maxClientName && isPlainName(name)
    ? undefined
    : "invalid_client_metadata"
}

/**
 * Members that are stored. Not `scope`: a client's first request must not limit later ones (docs/architecture.md,
 * "MCP").
 */
const storedMembers: ReadonlySet<string> = new Set([
  "redirect_uris",
  "client_name",
  "client_uri",
  "token_endpoint_auth_method",
  "software_id",
  "software_version"
])
const ourGrants: ReadonlySet<unknown> = new Set(["authorization_code", "refresh_token"])

/** Undefined for anything but an object. `also`: further members to keep. */
export const cut = (body: unknown, also: ReadonlyArray<string> = []): Readonly<Record<string, unknown>> | undefined => {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return undefined
  const members: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(body))
    if (storedMembers.has(name) || also.includes(name)) members[name] = value
  const requestedGrants: unknown = "grant_types" in body ? body.grant_types : undefined
  const grantTypes = Array.isArray(requestedGrants) ? requestedGrants.filter((one) => ourGrants.has(one)) : []
  return {
    ...members,
    grant_types: grantTypes.includes("authorization_code") ? grantTypes : ["authorization_code", ...grantTypes],
    response_types: ["code"],
    // `isRegistered` matches loopback ports; the library's checks for `native` refuse no client that passed it.
    application_type: "native"
  }
}

/** The document as the library reads it. Members that the library must refuse (secrets, another id) stay. */
export const cutDocument = async (response: Response): Promise<Response> => {
  if (response.status !== 200) return response
  const metadata = cut(JSON.parse(await response.text()), ["client_id", "client_secret", "client_secret_expires_at"])
  const headers = new Headers(response.headers)
  headers.delete("content-length")
  return Response.json({ token_endpoint_auth_method: "none", ...metadata }, { headers })
}

// --- secrets ---

// The library compares the stored text, so the store has hashes.

const hashPrefix = "sha256:"

export const secretHash = (secret: string): string => hashPrefix + sha256(secret).toString("base64url")

/** Constant-time comparison. */
export const secretMatches = (stored: string | undefined, secret: string): boolean => {
  const a = Buffer.from(stored ?? "")
  const b = Buffer.from(secretHash(secret))
  return stored?.startsWith(hashPrefix) === true && a.length === b.length && timingSafeEqual(a, b)
}
