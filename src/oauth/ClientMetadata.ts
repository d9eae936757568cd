/** What a client says of itself (RFC 7591, client metadata documents), cut to what means something here. */
import { isPlainName } from "#schema/Values.ts"
import * as Redirects from "./Redirects.ts"

const maxClientName = 100
const maxRedirects = 20

/** Texts and addresses of a client that a person is shown, or a browser is sent to. */
export const problemOf = (metadata: {
  readonly client_name?: unknown
  readonly redirect_uris?: unknown
}): "invalid_redirect_uri" | "invalid_client_metadata" | undefined => {
  const { client_name: name, redirect_uris: uris } = metadata
  if (!Array.isArray(uris) || uris.length === 0 || uris.length > maxRedirects) return "invalid_redirect_uri"
  if (!uris.every((uri) => typeof uri === "string" && Redirects.isRegistrable(uri))) return "invalid_redirect_uri"
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
