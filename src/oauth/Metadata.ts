/** RFC 8414 and RFC 9728 documents, with one text for the issuer everywhere (docs/architecture.md, "MCP"). */
import type { AuthorizationServerMetadata, ProtectedResourceMetadata } from "#schema/DiscoveryApi.ts"
import { allScopes, type Scope } from "#schema/Scopes.ts"

const authMethods = ["none", "client_secret_basic", "client_secret_post"]
/**
 * Scopes for a client's first request: all that show no value, since clients of 2025-11-25 cannot request more later
 * (they refresh instead). `offline_access` is not supported; refresh tokens need no scope.
 */
export const startScopes: ReadonlyArray<Scope> = [
  "identity:read",
  "projects:read",
  "secrets:read",
  "secrets:write",
  "secrets:run"
]

export const authorizationServer = (baseUrl: string): AuthorizationServerMetadata => {
  const issuer = new URL(baseUrl).origin
  return {
    issuer,
    authorization_endpoint: `${issuer}/oauth/authorize`,
    token_endpoint: `${issuer}/oauth/token`,
    registration_endpoint: `${issuer}/oauth/register`,
    revocation_endpoint: `${issuer}/oauth/revoke`,
    response_types_supported: ["code"],
    response_modes_supported: ["query"],
    grant_types_supported: ["authorization_code", "refresh_token"],
    code_challenge_methods_supported: ["S256"],
    token_endpoint_auth_methods_supported: authMethods,
    revocation_endpoint_auth_methods_supported: authMethods,
    scopes_supported: allScopes,
    authorization_response_iss_parameter_supported: true,
    client_id_metadata_document_supported: true,
    protected_resources: [`${baseUrl}/mcp`],
    service_documentation: `${baseUrl}/docs`
  }
}

export const protectedResource = (baseUrl: string, resource: string): ProtectedResourceMetadata => ({
  resource,
  authorization_servers: [new URL(baseUrl).origin],
  bearer_methods_supported: ["header"],
  scopes_supported: startScopes,
  resource_name: "Ampoule MCP",
  resource_documentation: `${baseUrl}/docs/agents`
})
