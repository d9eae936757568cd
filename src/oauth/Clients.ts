/**
 * Clients of the authorization server: where an authorization of theirs may lead, what they say of themselves (RFC 7591,
 * client metadata documents), cut to what means something here, and their secrets.
 */
import { timingSafeEqual } from "node:crypto"
import { isPlainName } from "#schema/Values.ts"
import { sha256 } from "#src/crypto/Crypto.ts"

// --- redirects ---

// https anywhere, http on this machine; nothing else (OAuth 2.1 8.4, RFC 8252 7.3). Not to schemes of an application's
// own (RFC 8252 7.1): any program can claim one, and MCP demands localhost or https.

const loopback = /^(http:\/\/(?:127\.0\.0\.1|\[::1\]|localhost))(?::(\d{1,5}))?(\/[^#]*)?$/

const parts = (uri: string): { readonly host: string; readonly rest: string } | undefined => {
  const match = loopback.exec(uri)
  if (match === null || (match[2] !== undefined && Number(match[2]) > 65_535)) return undefined
  return { host: match[1], rest: match[3] ?? "" }
}

export const isLoopback = (uri: string): boolean => parts(uri) !== undefined

/** What a client may register. */
const isRegistrable = (uri: string): boolean => {
  // What two readers could read differently is none.
  if (uri.length > 2_000 || !/^[\x21-\x7e]+$/.test(uri) || /[\\#]/.test(uri) || !URL.canParse(uri)) return false
  const { hash, hostname, password, protocol, username } = new URL(uri)
  if (hash !== "" || username !== "" || password !== "" || hostname === "") return false
  return protocol === "https:" || isLoopback(uri)
}

/** Exact, but for the port of a loopback address: the client's listener gets another one each time. */
export const isRegistered = (registered: ReadonlyArray<string>, given: string): boolean => {
  if (registered.includes(given)) return isRegistrable(given)
  const asked = parts(given)
  if (asked === undefined || !isRegistrable(given)) return false
  return registered.some((uri) => {
    const known = parts(uri)
    return known !== undefined && known.host === asked.host && known.rest === asked.rest
  })
}

/** What a person is shown of it. */
export const hostOf = (uri: string): string => new URL(uri).host

/** Known by the address of a document, which is the same for every installation; else registered by one of them. */
export const isDocumented = (clientId: string): boolean => clientId.startsWith("https://")

// --- metadata ---

const maxClientName = 100
const maxRedirects = 20

/** Texts and addresses of a client that a person is shown, or a browser is sent to. */
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

/** `scope` is not among them: a client's wish of today is no ceiling for tomorrow (docs/architecture.md, "MCP"). */
const known: ReadonlySet<string> = new Set([
  "redirect_uris",
  "client_name",
  "client_uri",
  "token_endpoint_auth_method",
  "software_id",
  "software_version"
])
const ourGrants: ReadonlySet<unknown> = new Set(["authorization_code", "refresh_token"])

/** Undefined for anything that is not an object. `also`: further members to keep. */
export const cut = (body: unknown, also: ReadonlyArray<string> = []): Readonly<Record<string, unknown>> | undefined => {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return undefined
  const given: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(body)) if (known.has(name) || also.includes(name)) given[name] = value
  const asked: unknown = "grant_types" in body ? body.grant_types : undefined
  const grantTypes = Array.isArray(asked) ? asked.filter((one) => ourGrants.has(one)) : []
  return {
    ...given,
    grant_types: grantTypes.includes("authorization_code") ? grantTypes : ["authorization_code", ...grantTypes],
    response_types: ["code"],
    // Loopback ports are matched by us; the library's rules for either type hold no client back that passed ours.
    application_type: "native"
  }
}

/** A document as the library reads it. What it must refuse (secrets, another's id) stays for it to see. */
export const cutDocument = async (response: Response): Promise<Response> => {
  if (response.status !== 200) return response
  const metadata = cut(JSON.parse(await response.text()), ["client_id", "client_secret", "client_secret_expires_at"])
  const headers = new Headers(response.headers)
  headers.delete("content-length")
  return Response.json({ token_endpoint_auth_method: "none", ...metadata }, { headers })
}

// --- secrets ---

// The library compares what it finds in the store, so the store has their hashes.

const hashPrefix = "sha256:"

export const secretHash = (secret: string): string => hashPrefix + sha256(secret).toString("base64url")

/** In constant time. */
export const secretMatches = (stored: string | undefined, given: string): boolean => {
  const a = Buffer.from(stored ?? "")
  const b = Buffer.from(secretHash(given))
  return stored?.startsWith(hashPrefix) === true && a.length === b.length && timingSafeEqual(a, b)
}
