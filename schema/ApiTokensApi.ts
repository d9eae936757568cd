import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Schema from "effect/Schema"
import { ManagingCredential } from "./Authentication.ts"
import * as Errors from "./Errors.ts"
import { ProjectId, TeamId, TeamIdOut, TokenId, TokenIdOut } from "./Ids.ts"
import { PersonRef, RevokedAck } from "./IdentityApi.ts"
import { operation } from "./Operation.ts"
import { EnvironmentRef, ProjectRef } from "./ProjectsApi.ts"
import { BadBody, MayNotManageTeam } from "./RouteErrors.ts"
import { AccessLevel, Scope } from "./Scopes.ts"
import { atLeastOne, optional, strict } from "./Strict.ts"
import { AddressRange, boundedList, EnvironmentSlug, Name, Timestamp } from "./Values.ts"
import { AccessLevelOut, answers, ScopeOut } from "./Wire.ts"

export const Lifetime = Schema.Literal("1d", "7d", "30d", "90d", "1y").annotations({
  identifier: "Lifetime",
  message: () => "must be 1d, 7d, 30d, 90d or 1y",
  description: "Limited by the plan; default: the plan's longest."
})
export type Lifetime = typeof Lifetime.Type

const tokenFields = {
  id: TokenIdOut,
  teamId: TeamIdOut,
  name: Schema.String,
  accessLevel: AccessLevelOut,
  projects: Schema.NullOr(Schema.Array(ProjectRef)),
  environments: Schema.NullOr(Schema.Array(EnvironmentRef)),
  mcpScopes: Schema.Array(ScopeOut),
  mcpOnly: Schema.Boolean.annotations({ description: "True: every route but /mcp refuses the token." }),
  addresses: Schema.NullOr(Schema.Array(Schema.String)).annotations({
    description: "Addresses from which the token is accepted; null: from anywhere."
  }),
  createdBy: PersonRef,
  createdAt: Timestamp,
  expiresAt: Schema.NullOr(Timestamp),
  lastUsedAt: Schema.NullOr(Timestamp),
  lastUsedIp: Schema.NullOr(Schema.String),
  lastUsedUserAgent: Schema.NullOr(Schema.String)
} as const

export const ApiToken = Schema.Struct(tokenFields).annotations({
  identifier: "ApiToken",
  description: "projects and environments: null = not restricted."
})
export type ApiToken = typeof ApiToken.Type

export const ApiTokenWithValue = Schema.Struct({
  ...tokenFields,
  value: Schema.String.annotations({ description: "Shown once." })
}).annotations({ identifier: "ApiTokenWithValue" })
export type ApiTokenWithValue = typeof ApiTokenWithValue.Type

const ApiTokenList = Schema.Struct({ items: Schema.Array(ApiToken) }).annotations({ identifier: "ApiTokenList" })

const McpScopes = boundedList(Scope.annotations({ message: () => "must be a scope", identifier: "Scope" }), 0, 7)

/** The access level limits the MCP scopes (docs/contract/api-tokens.md). */
const readOnlyWithoutWriteScope = (body: {
  readonly accessLevel?: AccessLevel
  readonly mcpScopes?: ReadonlyArray<Scope>
}): Schema.FilterIssue | undefined =>
  body.accessLevel !== "write" && body.mcpScopes?.includes("secrets:write") === true
    ? { path: ["mcpScopes"], message: "must not hold secrets:write when accessLevel is read" }
    : undefined

/** With `mcpOnly` and no MCP scope, no route would accept the token. */
const mcpOnlyNeedsScopes = (body: {
  readonly mcpOnly?: boolean
  readonly mcpScopes?: ReadonlyArray<Scope>
}): Schema.FilterIssue | undefined =>
  body.mcpOnly === true && (body.mcpScopes ?? []).length === 0
    ? { path: ["mcpOnly"], message: "must be false when mcpScopes is empty" }
    : undefined

export const CreateApiToken = strict(
  Schema.Struct({
    name: Name,
    accessLevel: optional(AccessLevel),
    projects: optional(boundedList(ProjectId, 1, 1_000)),
    environments: optional(boundedList(EnvironmentSlug, 1, 100)),
    lifetime: optional(Lifetime),
    mcpScopes: optional(McpScopes),
    addresses: optional(boundedList(AddressRange, 1, 100)),
    mcpOnly: optional(
      Schema.Boolean.annotations({
        message: () => "must be true or false",
        description: "True: every route but /mcp refuses the token, so its MCP scopes limit everything that it can do."
      })
    )
  }).pipe(
    Schema.filter(readOnlyWithoutWriteScope, { jsonSchema: {} }),
    Schema.filter(mcpOnlyNeedsScopes, {
      jsonSchema: {
        dependentSchemas: {
          mcpScopes: {
            if: { required: ["accessLevel"], properties: { accessLevel: { const: "write" } } },
            else: { properties: { mcpScopes: { not: { contains: { const: "secrets:write" } } } } }
          },
          mcpOnly: {
            if: { properties: { mcpOnly: { const: false } } },
            else: { required: ["mcpScopes"], properties: { mcpScopes: { minItems: 1 } } }
          }
        }
      }
    })
  )
).annotations({
  identifier: "CreateApiToken",
  description:
    "accessLevel: read by default. environments: resolved now; later environments with the same slug are not included. mcpScopes limit the token only at /mcp, unless mcpOnly is true. mcpOnly: false by default; needs mcpScopes."
})
export type CreateApiToken = typeof CreateApiToken.Type

/**
 * A token's access can only be narrowed: `accessLevel` may become read, and `mcpScopes` may lose members. Its addresses
 * may change as networks do (docs/contract/api-tokens.md).
 */
export const UpdateApiToken = strict(
  atLeastOne(
    Schema.Struct({
      name: optional(Name),
      accessLevel: optional(
        Schema.Literal("read").annotations({ message: () => "must be read: a token cannot be widened" })
      ),
      mcpScopes: optional(McpScopes),
      addresses: optional(Schema.NullOr(boundedList(AddressRange, 1, 100))).annotations({
        description: "Addresses from which the token is accepted; null: from anywhere."
      })
    }),
    "name",
    "accessLevel",
    "mcpScopes",
    "addresses"
  )
).annotations({ identifier: "UpdateApiToken" })
export type UpdateApiToken = typeof UpdateApiToken.Type

const TeamPath = Schema.Struct({ teamId: TeamId })
const TokenPath = Schema.Struct({ teamId: TeamId, tokenId: TokenId })

const token = {
  id: "01980a60-4b5c-7d6e-9f70-8192a3b4c5d6",
  teamId: "01980a5d-0f3a-7c10-8e2b-9a7c6d5e4f30",
  name: "ci",
  accessLevel: "read",
  projects: [{ id: "01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7e", name: "Shop" }],
  environments: null,
  mcpScopes: [],
  mcpOnly: false,
  addresses: null,
  createdBy: { id: "01980a5d-11aa-7f00-b1c2-3d4e5f607182", email: "ada@example.com" },
  createdAt: "2026-11-21T08:00:00.000Z",
  expiresAt: "2027-02-19T08:00:00.000Z",
  lastUsedAt: null,
  lastUsedIp: null,
  lastUsedUserAgent: null
}
const tokenWithValue = { ...token, value: "amp_at_<id>_<secret and checksum>" }

/** API tokens of a team, for owners and admins in a session (docs/contract/endpoints.md). */
export class ApiTokensApi extends HttpApiGroup.make("apiTokens")
  .add(
    HttpApiEndpoint.post("create", "/teams/:teamId/api-tokens")
      .setPath(TeamPath)
      .setPayload(CreateApiToken)
      .addSuccess(answers(201, ApiTokenWithValue))
      .addError(
        Schema.Union(
          MayNotManageTeam,
          Errors.ProjectNotFound,
          Errors.EnvironmentNotGranted,
          Errors.PlanLimitReached,
          BadBody
        )
      )
      .middleware(ManagingCredential)
      .annotateContext(
        operation({
          summary: "Create an API token",
          description: "The value is shown once, in this response.",
          request: {
            name: "ci",
            accessLevel: "read",
            projects: ["01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7e"],
            lifetime: "90d"
          },
          response: tokenWithValue
        })
      )
  )
  .add(
    HttpApiEndpoint.get("list", "/teams/:teamId/api-tokens")
      .setPath(TeamPath)
      .addSuccess(answers(200, ApiTokenList))
      .addError(MayNotManageTeam)
      .middleware(ManagingCredential)
      .annotateContext(
        operation({
          summary: "List API tokens",
          description: "Includes the creator and the last use. Revoked tokens are not listed.",
          response: { items: [token] }
        })
      )
  )
  .add(
    HttpApiEndpoint.patch("update", "/teams/:teamId/api-tokens/:tokenId")
      .setPath(TokenPath)
      .setPayload(UpdateApiToken)
      .addSuccess(answers(200, ApiToken))
      .addError(Schema.Union(MayNotManageTeam, Errors.TokenNotFound, BadBody))
      .middleware(ManagingCredential)
      .annotateContext(
        operation({
          summary: "Rename or narrow an API token, or change its addresses",
          description:
            "accessLevel can become read, and MCP scopes can be removed; neither can be widened. A change of addresses needs the second factor again, like a new token.",
          request: { accessLevel: "read" },
          response: token
        })
      )
  )
  .add(
    HttpApiEndpoint.post("rotate", "/teams/:teamId/api-tokens/:tokenId/rotate")
      .setPath(TokenPath)
      .addSuccess(answers(200, ApiTokenWithValue))
      .addError(Schema.Union(MayNotManageTeam, Errors.TokenNotFound, Errors.EnvironmentNotGranted))
      .middleware(ManagingCredential)
      .annotateContext(
        operation({
          summary: "Rotate an API token",
          description:
            "Replaces the token by a new one with the same name, access, level, MCP scopes, mcpOnly and expiry. The person who rotates it becomes its creator.",
          response: tokenWithValue
        })
      )
  )
  .add(
    HttpApiEndpoint.post("revoke", "/teams/:teamId/api-tokens/:tokenId/revoke")
      .setPath(TokenPath)
      .addSuccess(answers(200, RevokedAck))
      .addError(Schema.Union(MayNotManageTeam, Errors.TokenNotFound))
      .middleware(ManagingCredential)
      .annotateContext(
        operation({
          summary: "Revoke an API token",
          description: "Permanent; takes effect with the next request.",
          response: { revoked: true }
        })
      )
  )
  .add(
    HttpApiEndpoint.del("remove", "/teams/:teamId/api-tokens/:tokenId")
      .setPath(TokenPath)
      .addSuccess(answers(200, RevokedAck))
      .addError(Schema.Union(MayNotManageTeam, Errors.TokenNotFound))
      .middleware(ManagingCredential)
      .annotateContext(
        operation({
          summary: "Delete an API token",
          description: "Revokes the token and removes its record. The audit trail still names it.",
          response: { revoked: true }
        })
      )
  )
  .annotateContext(OpenApi.annotations({ description: "API tokens of a team." })) {}
