/** Parameters of OAuth requests, reduced to the accepted ones before the library sees them. */
import { allScopes } from "#schema/Scopes.ts"

/** Scopes of a request without any: they show names only. */
const defaultScopes = "projects:read secrets:read"

/** Replaces aliases of the resource. The library refuses repeated parameters itself. */
const withResource = (
  params: URLSearchParams,
  { issuer, resource }: { readonly issuer: string; readonly resource: string }
) => {
  const aliases = new Set([issuer, `${issuer}/`, resource, `${resource}/`])
  const resources = params.getAll("resource").filter((one) => one !== "")
  if (resources.length === 0) return
  params.delete("resource")
  const uris = new Set(resources.map((uri) => (aliases.has(uri) ? resource : uri)))
  for (const one of uris) params.append("resource", one)
}

/** Drops unknown scopes. `byDefault`: the scopes of an empty request, if any. */
const withScope = (params: URLSearchParams, byDefault: string | undefined) => {
  const scopes = params.getAll("scope")
  if (scopes.length > 1) return
  const requested = (scopes[0] ?? "").split(" ")
  const accepted = allScopes.filter((scope) => requested.includes(scope)).join(" ")
  const scope = accepted === "" ? byDefault : accepted
  if (scope === undefined) params.delete("scope")
  else params.set("scope", scope)
}

/** Accepted parameters of an authorization. The library also knows OpenID Connect's, which we do not support. */
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

/** Ignores unknown and empty parameters (OAuth 2.1 3.1). */
export const ofAuthorization = (given: URLSearchParams, server: Server): URLSearchParams => {
  const params = new URLSearchParams()
  for (const [name, value] of given) {
    if (authorizationParameters.has(name) && value !== "") params.append(name, value)
  }
  // The person always decides, so other prompts are dropped. The library refuses "none", which forbids a page.
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
