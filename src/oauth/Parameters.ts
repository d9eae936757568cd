/** Parameters of OAuth requests, cut to what this authorization server takes before the library sees them. */
import { allScopes } from "#schema/Scopes.ts"

/** What a client asks for that names no scope: names only. */
const defaultScopes = "projects:read secrets:read"

/** Aliases of the resource become the resource. Repeated parameters stay for the library to refuse. */
const withResource = (
  params: URLSearchParams,
  { issuer, resource }: { readonly issuer: string; readonly resource: string }
) => {
  const aliases = new Set([issuer, `${issuer}/`, resource, `${resource}/`])
  const resources = params.getAll("resource").filter((one) => one !== "")
  if (resources.length === 0) return
  params.delete("resource")
  const named = new Set(resources.map((uri) => (aliases.has(uri) ? resource : uri)))
  for (const one of named) params.append("resource", one)
}

/** Unknown scopes are dropped; `byDefault` is what no scope means, if anything. */
const withScope = (params: URLSearchParams, byDefault: string | undefined) => {
  const scopes = params.getAll("scope")
  if (scopes.length > 1) return
  const requested = (scopes[0] ?? "").split(" ")
  const known = allScopes.filter((scope) => requested.includes(scope)).join(" ")
  const scope = known === "" ? byDefault : known
  if (scope === undefined) params.delete("scope")
  else params.set("scope", scope)
}

/**
 * An authorization has these parameters here. The library also knows OpenID Connect's, which are unknown ones to us.
 */
const authorizationParameters: ReadonlySet<string> = new Set([
  "client_id",
  "code_challenge",
  "code_challenge_method",
  "prompt",
  "redirect_uri",
  "request",
  "request_uri",
  "resource",
  "response_mode",
  "response_type",
  "scope",
  "state"
])

interface Server {
  readonly issuer: string
  readonly resource: string
}

/** Unknown parameters are ignored, and empty ones are absent (OAuth 2.1 3.1). */
export const ofAuthorization = (given: URLSearchParams, server: Server): URLSearchParams => {
  const params = new URLSearchParams()
  for (const [name, value] of given) {
    if (authorizationParameters.has(name) && value !== "") params.append(name, value)
  }
  // The person is asked each time, whatever the client wishes. "none", which forbids asking, is for the library to
  // refuse.
  if (params.getAll("prompt").every((prompt) => !prompt.split(" ").includes("none"))) params.delete("prompt")
  const modes = params.getAll("response_mode")
  if (modes.length === 1 && modes[0] !== "query") params.set("response_mode", "unsupported")
  withResource(params, server)
  withScope(params, defaultScopes)
  return params
}

/** Parameters of a token or revocation request. */
export const ofForm = (given: URLSearchParams, server: Server): URLSearchParams => {
  const params = new URLSearchParams(given)
  withResource(params, server)
  withScope(params, undefined)
  return params
}
