import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Schema from "effect/Schema"
import { operation } from "./Operation.ts"
import { answers, openEnum, ScopeOut } from "./Wire.ts"

const LivenessResponse = Schema.Struct({ status: openEnum("ok") }).annotations({
  identifier: "LivenessResponse"
})
type LivenessResponse = typeof LivenessResponse.Type

const Check = Schema.Struct({ status: openEnum("up", "down", "in-process") }).annotations({
  identifier: "ReadinessCheck"
})
const ReadinessChecks = Schema.Struct({ database: Check, cache: Check, vault: Check }).annotations({
  identifier: "ReadinessChecks"
})
type ReadinessChecks = typeof ReadinessChecks.Type

export const ReadinessResponse = Schema.Struct({
  status: openEnum("ready", "unavailable"),
  checks: ReadinessChecks
}).annotations({ identifier: "ReadinessResponse" })
export type ReadinessResponse = typeof ReadinessResponse.Type

/** Same body with status 503. A handler answers 200 when the status is "ready", else 503. */
const ReadinessUnavailable = Schema.Struct({
  status: openEnum("ready", "unavailable").pipe(
    Schema.filter((status) => status !== "ready", { jsonSchema: { type: "string", enum: ["ready", "unavailable"] } })
  ),
  checks: ReadinessChecks
}).annotations({ identifier: "ReadinessUnavailable" })

/** RFC 8414; only the members that this service sends. */
export const AuthorizationServerMetadata = Schema.Struct({
  issuer: Schema.String,
  authorization_endpoint: Schema.String,
  token_endpoint: Schema.String,
  registration_endpoint: Schema.String,
  revocation_endpoint: Schema.String,
  response_types_supported: Schema.Array(Schema.String),
  response_modes_supported: Schema.Array(Schema.String),
  grant_types_supported: Schema.Array(Schema.String),
  code_challenge_methods_supported: Schema.Array(Schema.String),
  token_endpoint_auth_methods_supported: Schema.Array(Schema.String),
  revocation_endpoint_auth_methods_supported: Schema.Array(Schema.String),
  scopes_supported: Schema.Array(ScopeOut),
  authorization_response_iss_parameter_supported: Schema.Boolean,
  client_id_metadata_document_supported: Schema.Boolean,
  protected_resources: Schema.Array(Schema.String),
  service_documentation: Schema.String
}).annotations({ identifier: "AuthorizationServerMetadata", description: "RFC 8414." })
export type AuthorizationServerMetadata = typeof AuthorizationServerMetadata.Type

/** RFC 9728; only the members that this service sends. */
export const ProtectedResourceMetadata = Schema.Struct({
  resource: Schema.String,
  authorization_servers: Schema.Array(Schema.String),
  bearer_methods_supported: Schema.Array(Schema.String),
  scopes_supported: Schema.Array(ScopeOut),
  resource_name: Schema.String,
  resource_documentation: Schema.String
}).annotations({ identifier: "ProtectedResourceMetadata", description: "RFC 9728." })
export type ProtectedResourceMetadata = typeof ProtectedResourceMetadata.Type

/** Opaque here, because the OpenAPI standard describes it. */
export const OpenApiDocument = Schema.Record({ key: Schema.String, value: Schema.Unknown }).annotations({
  jsonSchema: { type: "object" },
  description: "An OpenAPI 3.1.0 description."
})

const checks = { database: { status: "up" }, cache: { status: "in-process" }, vault: { status: "up" } }

/** Health and the description of the contract, without a credential. */
export class DiscoveryApi extends HttpApiGroup.make("discovery")
  .add(
    HttpApiEndpoint.get("live", "/health/live")
      .addSuccess(answers(200, LivenessResponse))
      .annotateContext(
        operation({
          summary: "Is the process alive?",
          description: "Checks no dependency.",
          response: { status: "ok" }
        })
      )
  )
  .add(
    HttpApiEndpoint.get("ready", "/health/ready")
      .addSuccess(answers(503, ReadinessUnavailable))
      .addSuccess(answers(200, ReadinessResponse))
      .annotateContext(
        operation({
          summary: "Can the service work?",
          description: "Checks database, cache and vault; answers within 2 seconds, 503 when one of them is down.",
          response: { status: "ready", checks }
        })
      )
  )
  .add(
    HttpApiEndpoint.get("openApi", "/openapi.json")
      .addSuccess(answers(200, OpenApiDocument))
      .annotateContext(
        operation({
          summary: "This description",
          description: "The OpenAPI 3.1.0 description of the programmatic contract.",
          response: { openapi: "3.1.0", info: { title: "Ampoule", version: "1.0.0" }, paths: {} }
        })
      )
  )
  .annotateContext(OpenApi.annotations({ description: "Health and description of the service." })) {}

const base = "https://ampoule.example.com"
const resourceExample = (resource: string) => ({
  resource,
  authorization_servers: [base],
  bearer_methods_supported: ["header"],
  scopes_supported: ["identity:read", "projects:read", "secrets:read", "secrets:write", "secrets:run"],
  resource_name: "Ampoule",
  resource_documentation: `${base}/docs/agents`
})

/** Metadata for MCP and OAuth clients, without a credential. */
export class MetadataApi extends HttpApiGroup.make("metadata")
  .add(
    HttpApiEndpoint.get("authorizationServer", "/.well-known/oauth-authorization-server")
      .addSuccess(answers(200, AuthorizationServerMetadata))
      .annotateContext(
        operation({
          summary: "Authorization server metadata",
          description: "Endpoints, grant types and scope vocabulary of the MCP endpoint (RFC 8414).",
          response: {
            issuer: base,
            authorization_endpoint: `${base}/oauth/authorize`,
            token_endpoint: `${base}/oauth/token`,
            registration_endpoint: `${base}/oauth/register`,
            revocation_endpoint: `${base}/oauth/revoke`,
            response_types_supported: ["code"],
            response_modes_supported: ["query"],
            grant_types_supported: ["authorization_code", "refresh_token"],
            code_challenge_methods_supported: ["S256"],
            token_endpoint_auth_methods_supported: ["none", "client_secret_basic", "client_secret_post"],
            revocation_endpoint_auth_methods_supported: ["none", "client_secret_basic", "client_secret_post"],
            scopes_supported: ["identity:read", "projects:read", "secrets:read", "secrets:write", "secrets:run"],
            authorization_response_iss_parameter_supported: true,
            client_id_metadata_document_supported: true,
            protected_resources: [`${base}/mcp`],
            service_documentation: `${base}/docs`
          }
        })
      )
  )
  .add(
    HttpApiEndpoint.get("protectedResource", "/.well-known/oauth-protected-resource")
      .addSuccess(answers(200, ProtectedResourceMetadata))
      .annotateContext(
        operation({
          summary: "Protected resource metadata",
          description: "Which authorization server this service trusts (RFC 9728).",
          response: resourceExample(base)
        })
      )
  )
  .add(
    HttpApiEndpoint.get("mcpProtectedResource", "/.well-known/oauth-protected-resource/mcp")
      .addSuccess(answers(200, ProtectedResourceMetadata))
      .annotateContext(
        operation({
          summary: "Protected resource metadata of the MCP endpoint",
          description: "MCP clients read it after a 401 (RFC 9728).",
          response: resourceExample(`${base}/mcp`)
        })
      )
  )
  .annotateContext(OpenApi.annotations({ description: "Metadata for OAuth and MCP clients." })) {}
