/** The documents against the tables of docs/contract, typed here by hand. */
import * as HttpApi from "@effect/platform/HttpApi"
import { assert, describe, it } from "@effect/vitest"
import { Api } from "#schema/Api.ts"
import { DashboardApi } from "#schema/ServerApi.ts"
import * as Schema from "effect/Schema"
import { auditActions } from "#schema/Audit.ts"
import { DeviceApi, DeviceApprovalApi, MyGrantsApi } from "#schema/DeviceApi.ts"
import { MetadataApi } from "#schema/DiscoveryApi.ts"
import * as Errors from "#schema/Errors.ts"
import * as OpenApi from "#schema/OpenApi.ts"
import * as OpenApiComponents from "#schema/OpenApiComponents.ts"
import * as DocumentText from "#src/http/engine/DocumentText.ts"
import { optional } from "#schema/Strict.ts"
import { AnyObject, parsed, Texts } from "#test/support/Json.ts"

interface Row {
  readonly success: number
  readonly response: string
  /** Absent = no credential. */
  readonly credentials?: ReadonlyArray<string>
  readonly scope?: string
  readonly required?: ReadonlyArray<string>
  readonly optional?: ReadonlyArray<string>
  readonly body?: { readonly required: ReadonlyArray<string>; readonly optional: ReadonlyArray<string> }
  /** Beyond 400, 404, 429, 500 and, with a credential, 401 and 403. */
  readonly more?: ReadonlyArray<number>
}

const all = ["apiToken", "cliGrant", "session"]
const environment = ["projectId", "environment"]
const paging = ["page", "pageSize", "representation"]
const body = [413, 415]

const contract: Record<string, Row> = {
  "GET /.well-known/oauth-authorization-server": { success: 200, response: "AuthorizationServerMetadata" },
  "GET /.well-known/oauth-protected-resource": { success: 200, response: "ProtectedResourceMetadata" },
  "GET /.well-known/oauth-protected-resource/mcp": { success: 200, response: "ProtectedResourceMetadata" },
  "GET /health/live": { success: 200, response: "LivenessResponse" },
  "GET /health/ready": { success: 200, response: "ReadinessResponse", more: [503] },
  "GET /openapi.json": { success: 200, response: "object" },

  "GET /me/verify": { success: 200, response: "VerifyAuthResponse", credentials: all, scope: "identity:read" },
  "DELETE /me/token": { success: 200, response: "RevokedAck", credentials: ["apiToken", "session"] },
  "GET /me": { success: 200, response: "MeResponse", credentials: ["cliGrant", "session"], scope: "identity:read" },
  "GET /me/cli": { success: 200, response: "CliWhoamiResponse", credentials: ["cliGrant"], scope: "identity:read" },
  "POST /auth/cli/device": {
    success: 201,
    response: "DeviceAuthorization",
    body: { required: [], optional: ["credentialProtection", "installationId", "machineCredential", "host"] },
    more: body
  },
  // The device code is in the body, so no scheme; 401 and 403 belong to the credential all the same.
  "POST /auth/cli/device/token": {
    success: 201,
    response: "DevicePollResponse",
    body: { required: ["deviceCode"], optional: [] },
    more: [401, 403, ...body]
  },
  "GET /auth/cli/device/events": { success: 200, response: "text/event-stream", credentials: ["deviceCode"] },
  "DELETE /auth/cli/management": { success: 200, response: "RevokedAck", credentials: ["management"] },
  "POST /auth/cli/management": {
    success: 201,
    response: "DeviceAuthorization",
    credentials: ["cliGrant"],
    scope: "identity:read",
    body: { required: ["teamId"], optional: ["host"] },
    more: body
  },
  "POST /auth/cli/logout": { success: 201, response: "RevokedAck", credentials: ["cliGrant"], scope: "none" },

  "GET /projects": { success: 200, response: "ProjectList", credentials: all, scope: "projects:read" },
  "GET /projects/{projectId}/environments": {
    success: 200,
    response: "ProjectEnvironmentList",
    credentials: all,
    scope: "projects:read",
    required: ["projectId"]
  },
  "GET /projects/{projectId}/exposure": {
    success: 200,
    response: "ExposurePage",
    credentials: all,
    scope: "secrets:read",
    required: ["projectId"],
    optional: ["by", "token", "since", "page", "pageSize"]
  },
  "GET /secrets/exposure": {
    success: 200,
    response: "SecretExposure",
    credentials: all,
    scope: "secrets:read",
    required: ["projectId", "environment", "key"],
    optional: ["by", "token", "since", "page", "pageSize"]
  },
  "GET /projects/{projectId}/activity": {
    success: 200,
    response: "AuditPage",
    credentials: all,
    scope: "secrets:read",
    required: ["projectId"],
    optional: ["cursor", "limit", "action", "actor", "environment", "key", "since", "until"]
  },
  "GET /secrets/{secretId}/exposure": {
    success: 200,
    response: "SecretExposure",
    credentials: all,
    scope: "secrets:read",
    required: ["secretId"],
    optional: ["by", "token", "since", "page", "pageSize"]
  },
  "GET /environments/{envId}/keypair": {
    success: 200,
    response: "EnvironmentKeypair",
    credentials: all,
    scope: "secrets:read",
    required: ["envId"]
  },
  "POST /environments/{envId}/sealed-values/open": {
    success: 200,
    response: "OpenedSealedValues",
    credentials: all,
    scope: "secrets:run",
    required: ["envId"],
    body: { required: ["keyId", "entries"], optional: [] },
    more: body
  },
  "POST /environments/{envId}/sealed-values/export": {
    success: 200,
    response: "ExportedSealedValues",
    credentials: all,
    scope: "secrets:run",
    required: ["envId"],
    body: { required: [], optional: ["keys"] },
    more: body
  },

  "GET /environments/{envId}/access": {
    success: 200,
    response: "EnvironmentAccess",
    credentials: ["cliGrant", "session"],
    scope: "secrets:read",
    required: ["envId"]
  },
  "POST /environments/{envId}/access-requests": {
    success: 201,
    response: "AccessRequest",
    credentials: ["cliGrant", "session"],
    scope: "secrets:read",
    required: ["envId"],
    body: { required: ["level", "hours", "reason"], optional: [] },
    more: body
  },
  "GET /environments/{envId}/access-requests": {
    success: 200,
    response: "AccessRequestList",
    credentials: ["cliGrant", "session"],
    scope: "secrets:read",
    required: ["envId"]
  },
  "GET /access-requests": {
    success: 200,
    response: "AccessRequestList",
    credentials: ["cliGrant", "session"],
    scope: "secrets:read"
  },
  "POST /reports/leaked-credentials": {
    success: 200,
    response: "array",
    optional: ["Github-Public-Key-Identifier", "Github-Public-Key-Signature"],
    body: { required: [], optional: [] },
    more: [401, 413]
  },
  "GET /teams/{teamId}/leaked-credentials": {
    success: 200,
    response: "LeakedCredentials",
    credentials: ["cliGrant", "session"],
    scope: "secrets:read",
    required: ["teamId"]
  },
  "GET /teams/{teamId}/incident-report": {
    success: 200,
    response: "IncidentReport",
    credentials: ["cliGrant", "session"],
    scope: "secrets:read",
    required: ["teamId"],
    optional: ["person", "token", "grant", "since"]
  },
  "GET /teams/{teamId}/incidents": {
    success: 200,
    response: "IncidentList",
    credentials: ["cliGrant", "session"],
    scope: "secrets:read",
    required: ["teamId"]
  },
  "GET /teams/{teamId}/incidents/{incidentId}": {
    success: 200,
    response: "Incident",
    credentials: ["cliGrant", "session"],
    scope: "secrets:read",
    required: ["teamId", "incidentId"]
  },
  "GET /teams/{teamId}/incidents/{incidentId}/note": {
    success: 200,
    response: "IncidentNote",
    credentials: ["cliGrant", "session"],
    scope: "secrets:read",
    required: ["teamId", "incidentId"]
  },
  "DELETE /access-requests/{requestId}": {
    success: 200,
    response: "DeletedAck",
    credentials: ["cliGrant", "session"],
    scope: "secrets:read",
    required: ["requestId"],
    more: [409]
  },
  "GET /me/sessions": {
    success: 200,
    response: "MySessionList",
    credentials: ["cliGrant", "session"],
    scope: "identity:read"
  },
  "DELETE /me/sessions/{sessionId}": {
    success: 200,
    response: "DeletedAck",
    credentials: ["cliGrant", "session"],
    scope: "identity:read",
    required: ["sessionId"]
  },
  "GET /environments/{envId}/change-requests": {
    success: 200,
    response: "ChangeRequestList",
    credentials: ["cliGrant", "session"],
    scope: "secrets:read",
    required: ["envId"]
  },
  "GET /change-requests": {
    success: 200,
    response: "ChangeRequestList",
    credentials: ["cliGrant", "session"],
    scope: "secrets:read"
  },
  "DELETE /change-requests/{requestId}": {
    success: 200,
    response: "DeletedAck",
    credentials: ["cliGrant", "session"],
    scope: "secrets:read",
    required: ["requestId"],
    more: [409]
  },

  "POST /secrets": {
    success: 201,
    response: "SecretRef",
    credentials: all,
    scope: "secrets:write",
    optional: ["Idempotency-Key"],
    body: { required: ["projectId", "environment", "key"], optional: ["kind", "value", "source", "expectedVersion"] },
    more: [202, 409, ...body]
  },
  "GET /secrets": {
    success: 200,
    response: "ListSecretsResponse",
    credentials: all,
    scope: "secrets:read",
    required: environment,
    optional: [...paging, "lastRead"]
  },
  "POST /secrets/bulk": {
    success: 201,
    response: "BulkCreateResult",
    credentials: all,
    scope: "secrets:write",
    optional: ["Idempotency-Key"],
    body: { required: ["projectId", "environment", "secrets"], optional: [] },
    more: [202, 409, ...body]
  },
  "GET /secrets/with-values": {
    success: 200,
    response: "SecretWithValueList",
    credentials: all,
    scope: "secrets:read_values",
    required: environment,
    optional: paging
  },
  "GET /secrets/value": {
    success: 200,
    response: "SecretWithValue",
    credentials: all,
    scope: "secrets:read_values",
    required: [...environment, "key"],
    optional: ["representation"]
  },
  "GET /secrets/inject": {
    success: 200,
    response: "InjectedSecrets",
    credentials: all,
    scope: "secrets:run",
    required: environment,
    optional: ["If-None-Match", ...paging, "keys", "plan"],
    more: [304]
  },
  "POST /secrets/run-results": {
    success: 201,
    response: "RunReported",
    credentials: all,
    scope: "secrets:run",
    body: { required: ["projectId", "environment", "plan", "exitCode", "durationMillis"], optional: ["output"] },
    more: body
  },
  "GET /secrets/diff": {
    success: 200,
    response: "SecretDiff",
    credentials: all,
    scope: "secrets:read",
    required: ["projectId", "sourceEnv", "targetEnv"]
  },
  "DELETE /secrets/{secretId}": {
    success: 200,
    response: "DeleteSecretResult",
    credentials: all,
    scope: "secrets:write",
    required: ["secretId"],
    optional: ["disposition"],
    more: [202, 409]
  },
  "POST /secrets/delete-bulk": {
    success: 201,
    response: "BulkDeleteResult",
    credentials: all,
    scope: "secrets:write",
    optional: ["Idempotency-Key"],
    body: { required: ["ids", "projectId", "environment"], optional: [] },
    more: [202, 409, ...body]
  },
  "GET /secrets/composition": {
    success: 200,
    response: "SecretCompositionGraph",
    credentials: all,
    scope: "secrets:read",
    required: environment
  },

  // docs/contract/secrets.md
  "PATCH /secrets/{secretId}": {
    success: 200,
    response: "SecretRef",
    credentials: all,
    scope: "secrets:write",
    required: ["secretId"],
    body: { required: [], optional: ["kind", "value", "source", "expectedVersion"] },
    more: [202, 409, ...body]
  },
  "POST /secrets/{secretId}/rollback": {
    success: 200,
    response: "SecretRef",
    credentials: all,
    scope: "secrets:write",
    required: ["secretId"],
    body: { required: ["version"], optional: ["expectedVersion"] },
    more: [202, 409, ...body]
  },
  "POST /secrets/{secretId}/restore": {
    success: 200,
    response: "SecretRef",
    credentials: all,
    scope: "secrets:write",
    required: ["secretId"],
    more: [202, 409]
  },
  "GET /secrets/{secretId}/versions": {
    success: 200,
    response: "SecretVersionList",
    credentials: all,
    scope: "secrets:read",
    required: ["secretId"]
  },
  "POST /environments/{envId}/restore": {
    success: 200,
    response: "EnvironmentRestoration",
    credentials: all,
    scope: "secrets:write",
    required: ["envId"],
    body: { required: ["at"], optional: ["preview", "expectedRevision"] },
    more: [202, 409, ...body]
  },
  "POST /secrets/{secretId}/rename": {
    success: 200,
    response: "RenamedSecret",
    credentials: all,
    scope: "secrets:write",
    required: ["secretId"],
    body: { required: ["key"], optional: ["references", "expectedVersion"] },
    more: [409, ...body]
  },
  "GET /secrets/{secretId}/metadata": {
    success: 200,
    response: "DescribedSecret",
    credentials: all,
    scope: "secrets:read",
    required: ["secretId"]
  },
  "PATCH /secrets/{secretId}/metadata": {
    success: 200,
    response: "DescribedSecret",
    credentials: all,
    scope: "secrets:write",
    required: ["secretId"],
    body: { required: [], optional: ["owner", "note", "rotateBy", "alias", "tags"] },
    more: body
  },
  "GET /secrets/deleted": {
    success: 200,
    response: "DeletedSecretList",
    credentials: all,
    scope: "secrets:read",
    required: environment
  },
  "POST /projects/{projectId}/changes": {
    success: 200,
    response: "SecretsChangedResult",
    credentials: all,
    scope: "secrets:write",
    required: ["projectId"],
    body: { required: ["entries"], optional: ["reason"] },
    more: [409, ...body]
  },

  "GET /capabilities": { success: 200, response: "Capabilities", credentials: all, scope: "none" }
}

const session = ["session"]
const sessionRoute = (success: number, response: string, row: Omit<Row, "success" | "response"> = {}): Row => ({
  success,
  response,
  credentials: session,
  ...row
})
const members = (required: ReadonlyArray<string>, optional: ReadonlyArray<string> = []) => ({ required, optional })

/** Actions that a command line may also take for some minutes after an approval. */
const managingRoute = (...of: Parameters<typeof sessionRoute>): Row => ({
  ...sessionRoute(...of),
  credentials: ["session", "management"]
})

const dashboard: Record<string, Row> = {
  "GET /dashboard/openapi.json": { success: 200, response: "object" },
  "POST /setup": {
    success: 201,
    response: "SetupResult",
    body: members(["setupCode", "email", "name", "password", "teamName"]),
    more: [401, 403, 409, ...body]
  },
  "POST /auth/session": {
    success: 200,
    response: "SignedIn",
    body: members(["email", "password"], ["code"]),
    more: [401, 403, ...body]
  },
  "DELETE /auth/session": sessionRoute(200, "DeletedAck"),
  "PATCH /me": sessionRoute(200, "Person", { body: members(["name"]), more: body }),
  "POST /me/email": sessionRoute(200, "Person", { body: members(["email", "currentPassword"]), more: [409, ...body] }),
  "POST /me/password": sessionRoute(200, "PasswordAck", {
    body: members(["currentPassword", "newPassword"]),
    more: body
  }),
  "POST /password-reset": {
    success: 200,
    response: "PasswordAck",
    body: members(["code", "newPassword"]),
    more: [401, 403, ...body]
  },
  "POST /teams": sessionRoute(201, "MyTeam", { body: members(["name"]), more: body }),
  "PATCH /teams/{teamId}": sessionRoute(200, "TeamRecord", {
    required: ["teamId"],
    body: members(
      [],
      [
        "name",
        "plan",
        "adminsNeedGrants",
        "tokensFollowCreators",
        "secondFactorRequired",
        "stepUpMinutes",
        "leakedCredentials",
        "sessionAddresses",
        "secondPerson",
        "allowedKeys"
      ]
    ),
    more: [202, ...body]
  }),
  "POST /teams/{teamId}/leave": sessionRoute(200, "EndedMembership", { required: ["teamId"] }),
  "GET /teams/{teamId}/members": managingRoute(200, "MemberList", { required: ["teamId"] }),
  "POST /teams/{teamId}/invitations": managingRoute(201, "Invitation", {
    required: ["teamId"],
    body: members(["email", "role"]),
    more: [202, 409, ...body]
  }),
  "POST /invitations/accept": {
    success: 200,
    response: "SignedIn",
    body: members(["code"], ["name", "password"]),
    more: [401, 403, ...body]
  },
  "PATCH /teams/{teamId}/members/{userId}": managingRoute(200, "Member", {
    required: ["teamId", "userId"],
    body: members([], ["role", "active"]),
    more: [202, ...body]
  }),
  "DELETE /teams/{teamId}/members/{userId}": managingRoute(200, "EndedMembership", { required: ["teamId", "userId"] }),
  "POST /teams/{teamId}/members/{userId}/password-reset": sessionRoute(201, "PasswordResetLink", {
    required: ["teamId", "userId"],
    more: [202]
  }),
  "GET /teams/{teamId}/members/{userId}/access": managingRoute(200, "PersonAccess", {
    required: ["teamId", "userId"]
  }),
  "POST /teams/{teamId}/members/{userId}/end-access": sessionRoute(200, "EndedAccess", {
    required: ["teamId", "userId"],
    body: members([], ["deactivate"]),
    more: body
  }),
  "DELETE /teams/{teamId}/members/{userId}/credentials/{credentialId}": managingRoute(200, "DeletedAck", {
    required: ["teamId", "userId", "credentialId"]
  }),
  "POST /teams/{teamId}/members/{userId}/authenticators/{authenticatorId}/confirm": sessionRoute(200, "ConfirmedAck", {
    required: ["teamId", "userId", "authenticatorId"]
  }),
  "POST /teams/{teamId}/incidents": sessionRoute(201, "Incident", {
    required: ["teamId"],
    body: members([], ["person", "token", "grant", "since", "deactivate"]),
    more: body
  }),
  "POST /teams/{teamId}/incidents/{incidentId}/replace": sessionRoute(200, "Incident", {
    required: ["teamId", "incidentId"],
    body: members(["secretId"], ["length"]),
    more: [409, ...body]
  }),
  "POST /teams/{teamId}/incidents/{incidentId}/ask": sessionRoute(201, "AskedFor", {
    required: ["teamId", "incidentId"],
    body: members(["secretId", "userId"]),
    more: [409, ...body]
  }),
  "POST /teams/{teamId}/projects": managingRoute(201, "Project", {
    required: ["teamId"],
    body: members(["name"], ["slug", "visibility", "environments"]),
    more: [409, ...body]
  }),
  "PATCH /projects/{projectId}": managingRoute(200, "Project", {
    required: ["projectId"],
    body: members([], ["name", "slug", "visibility"]),
    more: [202, 409, ...body]
  }),
  "DELETE /projects/{projectId}": managingRoute(200, "DeletedAck", { required: ["projectId"] }),
  "POST /projects/{projectId}/environments": managingRoute(201, "ProjectEnvironment", {
    required: ["projectId"],
    body: members(["slug"], ["name", "protected", "readers", "changes"]),
    more: [409, ...body]
  }),
  "PATCH /environments/{envId}": managingRoute(200, "ProjectEnvironment", {
    required: ["envId"],
    body: members([], ["name", "protected", "readers", "approvers", "approvals", "changes", "position"]),
    more: [202, ...body]
  }),
  "DELETE /environments/{envId}": managingRoute(200, "DeletedAck", { required: ["envId"] }),
  "GET /projects/{projectId}/grants": sessionRoute(200, "AccessGrantList", { required: ["projectId"] }),
  "POST /projects/{projectId}/grants": sessionRoute(201, "AccessGrant", {
    required: ["projectId"],
    body: members(["userId", "level"], ["until", "reason"]),
    more: [202, ...body]
  }),
  "GET /environments/{envId}/grants": sessionRoute(200, "AccessGrantList", { required: ["envId"] }),
  "POST /environments/{envId}/grants": sessionRoute(201, "AccessGrant", {
    required: ["envId"],
    body: members(["userId", "level"], ["until", "reason"]),
    more: [202, ...body]
  }),
  "DELETE /access-grants/{grantId}": sessionRoute(200, "DeletedAck", { required: ["grantId"] }),
  "GET /teams/{teamId}/second-person": managingRoute(200, "SecondPersonRequestList", { required: ["teamId"] }),
  "POST /second-person/{requestId}/approve": sessionRoute(200, "SecondPersonDecision", {
    required: ["requestId"],
    more: [409]
  }),
  "POST /second-person/{requestId}/deny": sessionRoute(200, "SecondPersonDecision", {
    required: ["requestId"],
    more: [409]
  }),
  "POST /second-person/{requestId}/link": managingRoute(200, "SecondPersonLink", {
    required: ["requestId"],
    more: [409]
  }),
  "POST /access-requests/{requestId}/approve": sessionRoute(200, "AccessDecision", {
    required: ["requestId"],
    more: [202, 409]
  }),
  "POST /access-requests/{requestId}/deny": sessionRoute(200, "AccessDecision", {
    required: ["requestId"],
    more: [409]
  }),
  "POST /change-requests/{requestId}/reveal": sessionRoute(200, "RevealedChanges", {
    required: ["requestId"],
    more: [409]
  }),
  "POST /change-requests/{requestId}/approve": sessionRoute(200, "ChangeDecision", {
    required: ["requestId"],
    body: members([], ["digest"]),
    more: [202, ...body, 409]
  }),
  "POST /change-requests/{requestId}/deny": sessionRoute(200, "ChangeDecision", {
    required: ["requestId"],
    more: [409]
  }),
  "POST /teams/{teamId}/api-tokens": managingRoute(201, "ApiTokenWithValue", {
    required: ["teamId"],
    body: members(
      ["name"],
      ["accessLevel", "projects", "environments", "lifetime", "mcpOnly", "mcpScopes", "addresses"]
    ),
    more: body
  }),
  "GET /teams/{teamId}/api-tokens": managingRoute(200, "ApiTokenList", { required: ["teamId"] }),
  "PATCH /teams/{teamId}/api-tokens/{tokenId}": managingRoute(200, "ApiToken", {
    required: ["teamId", "tokenId"],
    body: members([], ["name", "accessLevel", "mcpScopes", "addresses"]),
    more: body
  }),
  "POST /teams/{teamId}/api-tokens/{tokenId}/rotate": managingRoute(200, "ApiTokenWithValue", {
    required: ["teamId", "tokenId"]
  }),
  "POST /teams/{teamId}/api-tokens/{tokenId}/revoke": managingRoute(200, "RevokedAck", {
    required: ["teamId", "tokenId"]
  }),
  "DELETE /teams/{teamId}/api-tokens/{tokenId}": managingRoute(200, "RevokedAck", { required: ["teamId", "tokenId"] }),
  "POST /teams/{teamId}/machine-rules": sessionRoute(201, "MachineRule", {
    required: ["teamId"],
    body: members(
      ["name", "issuer", "claims"],
      ["audience", "accessLevel", "projects", "environments", "lifetimeSeconds"]
    ),
    more: body
  }),
  "GET /teams/{teamId}/machine-rules": sessionRoute(200, "MachineRuleList", { required: ["teamId"] }),
  "DELETE /teams/{teamId}/machine-rules/{ruleId}": sessionRoute(200, "DeletedAck", { required: ["teamId", "ruleId"] }),
  "GET /teams/{teamId}/sign-in": sessionRoute(200, "TeamSignIn", { required: ["teamId"] }),
  "PATCH /teams/{teamId}/sign-in": sessionRoute(200, "TeamSignIn", {
    required: ["teamId"],
    body: members(["only", "breakGlass"]),
    more: body
  }),
  "POST /teams/{teamId}/sign-in/issuers": sessionRoute(201, "SignInIssuer", {
    required: ["teamId"],
    body: members(["name", "issuer", "clientId"], ["clientSecret", "scopes", "factors"]),
    more: body
  }),
  "PATCH /teams/{teamId}/sign-in/issuers/{issuerId}": sessionRoute(200, "SignInIssuer", {
    required: ["teamId", "issuerId"],
    body: members([], ["name", "clientSecret", "factors", "enabled"]),
    more: body
  }),
  "DELETE /teams/{teamId}/sign-in/issuers/{issuerId}": sessionRoute(200, "DeletedAck", {
    required: ["teamId", "issuerId"]
  }),
  "POST /teams/{teamId}/sign-in/rules": sessionRoute(201, "SignInRule", {
    required: ["teamId"],
    body: members(["issuer", "claim", "value", "role"]),
    more: body
  }),
  "DELETE /teams/{teamId}/sign-in/rules/{ruleId}": sessionRoute(200, "DeletedAck", { required: ["teamId", "ruleId"] }),
  "GET /me/sign-ins": sessionRoute(200, "MySignInList"),
  "DELETE /me/sign-ins/{signInId}": sessionRoute(200, "DeletedAck", { required: ["signInId"] }),
  "POST /teams/{teamId}/webhooks": sessionRoute(201, "WebhookWithSecret", {
    required: ["teamId"],
    body: members(["name", "url"], ["events", "format"]),
    more: body
  }),
  "GET /teams/{teamId}/webhooks": sessionRoute(200, "WebhookList", { required: ["teamId"] }),
  "PATCH /teams/{teamId}/webhooks/{webhookId}": sessionRoute(200, "Webhook", {
    required: ["teamId", "webhookId"],
    body: members([], ["name", "url", "events", "format", "enabled"]),
    more: body
  }),
  "POST /teams/{teamId}/webhooks/{webhookId}/rotate": sessionRoute(200, "WebhookWithSecret", {
    required: ["teamId", "webhookId"]
  }),
  "POST /teams/{teamId}/webhooks/{webhookId}/test": sessionRoute(201, "WebhookDelivery", {
    required: ["teamId", "webhookId"]
  }),
  "GET /teams/{teamId}/webhooks/{webhookId}/deliveries": sessionRoute(200, "WebhookDeliveryList", {
    required: ["teamId", "webhookId"]
  }),
  "DELETE /teams/{teamId}/webhooks/{webhookId}": sessionRoute(200, "DeletedAck", { required: ["teamId", "webhookId"] }),
  "GET /teams/{teamId}/audit": sessionRoute(200, "AuditPage", {
    required: ["teamId"],
    optional: ["cursor", "limit", "action", "actor", "projectId", "environment", "key", "since", "until"]
  }),
  "GET /auth/cli/device/requests/{userCode}": sessionRoute(200, "DeviceRequest", { required: ["userCode"] }),
  "POST /auth/cli/device/requests/{userCode}/approve": sessionRoute(200, "DeviceDecision", {
    required: ["userCode"],
    body: members(["teams"], ["projectIds", "environmentIds", "machine"]),
    more: [409, ...body]
  }),
  "POST /auth/cli/device/requests/{userCode}/approve-management": sessionRoute(200, "DeviceDecision", {
    required: ["userCode"],
    more: [409]
  }),
  "POST /auth/cli/device/requests/{userCode}/deny": sessionRoute(200, "DeviceDecision", {
    required: ["userCode"],
    more: [409]
  }),
  "GET /me/cli-grants": sessionRoute(200, "CliGrantList"),
  "DELETE /me/cli-grants/{grantId}": sessionRoute(200, "DeletedAck", { required: ["grantId"] }),
  "POST /environments/{envId}/keypair/rotate": sessionRoute(200, "EnvironmentKeypair", { required: ["envId"] }),
  "POST /environments/{envId}/keypair/{keyId}/retire": sessionRoute(200, "EnvironmentKeypair", {
    required: ["envId", "keyId"]
  })
}

/** Served beside the HttpApi, in shapes of their own. */
const mcp = ["POST /mcp", "GET /mcp", "DELETE /mcp"]

// --- reading a document ---

interface SchemaObject {
  readonly description?: string
  readonly $ref?: string
  readonly type?: string
  readonly anyOf?: ReadonlyArray<SchemaObject>
  readonly required?: ReadonlyArray<string>
  readonly properties?: { readonly [name: string]: SchemaObject }
  readonly items?: SchemaObject
  readonly additionalProperties?: boolean | SchemaObject
  readonly enum?: ReadonlyArray<string | number>
  readonly "x-extensible-enum"?: ReadonlyArray<string>
  readonly allOf?: ReadonlyArray<SchemaObject>
  readonly minimum?: number
  readonly maximum?: number
}
const named = <A, I>(value: Schema.Schema<A, I>) => Schema.Record({ key: Schema.String, value })
const SchemaObject: Schema.Schema<SchemaObject> = Schema.Struct({
  description: optional(Schema.String),
  $ref: optional(Schema.String),
  type: optional(Schema.String),
  anyOf: optional(Schema.Array(Schema.suspend(() => SchemaObject))),
  required: optional(Texts),
  properties: optional(named(Schema.suspend(() => SchemaObject))),
  items: optional(Schema.suspend(() => SchemaObject)),
  additionalProperties: optional(
    Schema.Union(
      Schema.Boolean,
      Schema.suspend(() => SchemaObject)
    )
  ),
  enum: optional(Schema.Array(Schema.Union(Schema.String, Schema.Number))),
  "x-extensible-enum": optional(Texts),
  allOf: optional(Schema.Array(Schema.suspend(() => SchemaObject))),
  minimum: optional(Schema.Number),
  maximum: optional(Schema.Number)
})
const Content = named(Schema.Struct({ schema: SchemaObject, example: optional(Schema.Unknown) }))
const Operation = Schema.Struct({
  operationId: Schema.String,
  summary: optional(Schema.String),
  description: optional(Schema.String),
  security: Schema.Array(named(Texts)),
  "x-cli-scope": optional(Schema.String),
  parameters: optional(
    Schema.Array(
      Schema.Struct({ name: Schema.String, in: Schema.String, required: Schema.Boolean, schema: SchemaObject })
    )
  ),
  requestBody: optional(Schema.Struct({ content: Content })),
  responses: named(
    Schema.Struct({
      description: Schema.String,
      headers: optional(AnyObject),
      content: optional(Content),
      "x-error-codes": optional(Texts)
    })
  )
})
type Operation = typeof Operation.Type
const Document = Schema.Struct({
  openapi: Schema.String,
  "x-audit-actions": Texts,
  info: Schema.Struct({ title: Schema.String, version: Schema.String, description: Schema.String }),
  paths: named(named(Operation)),
  components: Schema.Struct({ schemas: named(SchemaObject), headers: AnyObject, securitySchemes: AnyObject })
})
type Document = typeof Document.Type

const read = (document: OpenApiComponents.JsonObject) => parsed(Document)(JSON.stringify(document))

const operations = (document: Document): ReadonlyArray<readonly [string, Operation]> =>
  Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => [`${method.toUpperCase()} ${path}`, operation] as const)
  )

const nameOf = (ref: string | undefined) => ref?.replace("#/components/schemas/", "")

const resolve = (document: Document, schema: SchemaObject): SchemaObject =>
  schema.$ref === undefined ? schema : document.components.schemas[nameOf(schema.$ref) ?? ""]

/** The object of a request body; the device start also takes null. */
const bodyOf = (document: Document, operation: Operation): SchemaObject => {
  const schema = operation.requestBody?.content["application/json"]?.schema ?? {}
  const member = schema.anyOf?.find((one) => one.$ref !== undefined) ?? schema
  return resolve(document, member)
}

const info = { title: "All", description: "" }
const whole = {
  contract: read(
    OpenApi.describe(HttpApi.make("contract").addHttpApi(Api).add(DeviceApi).add(MetadataApi), info, true)
  ),
  dashboard: read(
    OpenApi.describe(
      HttpApi.make("dashboard").addHttpApi(DashboardApi).add(DeviceApprovalApi).add(MyGrantsApi),
      info,
      false
    )
  )
}
const served = { contract: read(OpenApi.contractDocument), dashboard: read(OpenApi.dashboardDocument) }

const sorted = (names: ReadonlyArray<string>) => [...names].sort()

describe("the served documents", () => {
  it("list exactly the routes of the tables", () => {
    const expected = [...Object.keys(contract), ...Object.keys(dashboard), ...mcp]
    const listed = [...operations(served.contract), ...operations(served.dashboard)].map(([route]) => route)
    assert.deepStrictEqual(sorted(listed), sorted(expected))
  })

  it("are OpenAPI 3.1.0 with contract version 1.0.0 and send AI agents to /mcp", () => {
    for (const document of Object.values(served)) {
      assert.strictEqual(document.openapi, "3.1.0")
      assert.strictEqual(document.info.version, "1.0.0")
      assert.match(document.info.description, /\/mcp` in preference to/)
    }
    assert.strictEqual(served.contract.info.title, "Ampoule")
  })

  it("carry the server's own address when published", () => {
    const { openapi, info, ...rest } = OpenApi.contractDocument
    const published = DocumentText.at("https://vault.example", DocumentText.textOf(OpenApi.contractDocument))
    const servers = [{ url: "https://vault.example" }]
    const externalDocs = { url: "https://vault.example/docs/api" }
    assert.strictEqual(published, JSON.stringify({ openapi, info, servers, externalDocs, ...rest }))
  })
})

for (const [name, document, table] of [
  ["contract", whole.contract, contract],
  ["dashboard", whole.dashboard, dashboard]
] as const) {
  const rows = operations(document).filter(([route]) => !route.endsWith(" /mcp"))

  describe(`every operation of the ${name}`, () => {
    it("is a row of the table, and every row is an operation", () => {
      assert.deepStrictEqual(sorted(rows.map(([route]) => route)), sorted(Object.keys(table)))
    })

    for (const [route, operation] of rows) {
      const row = table[route]

      it(`${route}: success, failures, credentials and scope`, () => {
        const withCredential = row.credentials === undefined ? [] : [401, 403]
        const failures = [400, 404, 429, 500, ...withCredential, ...(row.more ?? [])].map(String)
        assert.deepStrictEqual(
          sorted(Object.keys(operation.responses)),
          sorted([...new Set([String(row.success), ...failures])])
        )
        assert.deepStrictEqual(
          operation.security.flatMap((requirement) => Object.keys(requirement)),
          [...(row.credentials ?? [])]
        )
        assert.strictEqual(operation["x-cli-scope"], row.scope)
        const success = Object.entries(operation.responses[row.success].content ?? {})[0]
        const response =
          nameOf(success[1].schema.$ref) ?? (success[0] === "application/json" ? success[1].schema.type : success[0])
        assert.strictEqual(response, row.response)
      })

      it(`${route}: parameters and body`, () => {
        const parameters = operation.parameters ?? []
        const names = (required: boolean) =>
          sorted(parameters.filter((p) => p.required === required).map((p) => p.name))
        assert.deepStrictEqual(names(true), sorted(row.required ?? []))
        assert.deepStrictEqual(names(false), sorted(row.optional ?? []))
        if (row.body === undefined) {
          assert.isUndefined(operation.requestBody)
        } else {
          const schema = bodyOf(document, operation)
          assert.deepStrictEqual(sorted(schema.required ?? []), sorted(row.body.required))
          assert.deepStrictEqual(
            sorted(Object.keys(schema.properties ?? {})),
            sorted([...row.body.required, ...row.body.optional])
          )
        }
      })

      it(`${route}: the error of each status, with the codes that its failures can have`, () => {
        for (const [status, response] of Object.entries(operation.responses)) {
          assert.isDefined(response.headers?.["X-Request-Id"], status)
          if (Number(status) < 400) continue
          const schema = response.content?.["application/json"].schema
          if (status === "503") {
            assert.deepStrictEqual(schema, { $ref: "#/components/schemas/ReadinessResponse" })
            continue
          }
          const [base, own] = resolve(document, schema ?? {}).allOf ?? []
          assert.deepStrictEqual(base, { $ref: "#/components/schemas/ErrorResponse" })
          assert.deepStrictEqual(own.properties?.["statusCode"].enum, [Number(status)])
          const codes = response["x-error-codes"] ?? []
          assert.isNotEmpty(codes)
          assert.includeMembers([...(own.properties?.["code"]["x-extensible-enum"] ?? [])], [...codes])
          for (const code of codes) {
            assert.strictEqual(
              OpenApiComponents.errorCodes.find((known) => known.code === code)?.status,
              Number(status)
            )
            assert.include(response.description, `\`${code}\``)
          }
        }
        assert.isDefined(operation.responses["429"].headers?.["Retry-After"])
      })

      it(`${route}: a summary, a description and an example`, () => {
        assert.isNotEmpty(operation.summary)
        assert.isNotEmpty(operation.description)
        const [media] = Object.values(operation.responses[row.success].content ?? {})
        assert.isDefined(media.example)
        if (operation.requestBody !== undefined) {
          assert.isDefined(operation.requestBody.content["application/json"].example)
        }
      })
    }

    it("closes every object of a request and none of a response", () => {
      const closed = (schema: SchemaObject, expected: boolean, at: string): void => {
        if (schema.$ref !== undefined) return closed(resolve(document, schema), expected, nameOf(schema.$ref) ?? at)
        if (schema.properties !== undefined) {
          assert.strictEqual(schema.additionalProperties === false, expected, at)
        }
        for (const [member, inner] of Object.entries(schema.properties ?? {}))
          closed(inner, expected, `${at}.${member}`)
        for (const inner of schema.anyOf ?? []) closed(inner, expected, at)
        if (schema.items !== undefined) closed(schema.items, expected, at)
      }
      for (const [route, operation] of rows) {
        for (const media of Object.values(operation.requestBody?.content ?? {})) closed(media.schema, true, route)
        for (const response of Object.values(operation.responses)) {
          for (const media of Object.values(response.content ?? {})) closed(media.schema, false, route)
        }
      }
    })

    it("describes every member that an error can have, and says with which code it comes", () => {
      const { ErrorResponse, ...others } = document.components.schemas
      assert.sameMembers(Object.keys(ErrorResponse.properties ?? {}), ["statusCode", "code", "message", "field"])
      const errorMembers = Object.values(others).flatMap(({ allOf }) => {
        const { code, statusCode: _, ...members } = allOf?.[1]?.properties ?? {}
        return Object.entries(members).map(([name, member]) => {
          assert.include(["string", "integer", "array"], member.type)
          const [, owner = ""] = /^With ([A-Z_]+)[.:]/.exec(String(member.description)) ?? []
          assert.include([...(code["x-extensible-enum"] ?? [])], owner)
          return `${owner} ${name}`
        })
      })
      const statuses = new Set(
        Object.values(document.paths).flatMap((path) =>
          Object.values(path).flatMap(({ responses }) => Object.keys(responses))
        )
      )
      const extras = Object.values(Errors)
        .filter(({ status }) => statuses.has(String(status)))
        .flatMap(({ code, extra }) => Object.keys(extra).map((name) => `${code} ${name}`))
      assert.isAbove(extras.length, 5)
      assert.sameMembers(errorMembers, extras)
    })

    it("leaves nothing of the framework", () => {
      const text = JSON.stringify(document)
      for (const leftover of ["HttpApiDecodeError", "PropertyKey", "maxLength(", "minLength(", "a string matching"]) {
        assert.notInclude(text, leftover)
      }
      for (const schema of ["Issue", "Int", "UUID", "ReadinessUnavailable"]) {
        assert.notProperty(document.components.schemas, schema)
      }
      for (const { code } of OpenApiComponents.errorCodes) assert.notProperty(document.components.schemas, code)
      assert.notInclude(text, '"title":"a')
    })

    it("refers only to existing parts, and has nothing unused", () => {
      const text = JSON.stringify(document)
      for (const [kind, names] of Object.entries(document.components)) {
        const used = [...text.matchAll(new RegExp(`"#/components/${kind}/([^"]+)"`, "g"))].map(([, found]) => found)
        for (const found of used) assert.property(names, found)
        if (kind !== "securitySchemes") {
          assert.deepStrictEqual(sorted([...new Set(used)]), sorted(Object.keys(names)))
        }
      }
    })
  })
}

describe("the contract document", () => {
  it("publishes every error code of the contract and every audit action", () => {
    const codes = served.contract.components.schemas["ErrorCode"]["x-extensible-enum"]
    const expected = `
      VALIDATION_FAILED TEMPLATE_INVALID TEMPLATE_REFERENCE_MISSING TEMPLATE_TOO_DEEP VALUE_TOO_LARGE
      SEALED_VALUE_INVALID SEALING_KEY_EXPIRED UNAUTHENTICATED CREDENTIAL_INVALID CREDENTIAL_EXPIRED
      CREDENTIAL_REVOKED SIGN_IN_FAILED SECOND_FACTOR_REQUIRED SECOND_FACTOR_FAILED PASSKEY_COPIED
      SECOND_FACTOR_MISSING STEP_UP_REQUIRED FORBIDDEN SCOPE_MISSING API_TOKEN_READ_ONLY
      API_TOKEN_NOT_SCOPED_TO_PROTECTED_ENVIRONMENT RUN_NOT_PLANNED ENVIRONMENT_NOT_GRANTED CREDENTIAL_KIND_NOT_ACCEPTED CROSS_SITE_REQUEST
      PLAN_LIMIT_REACHED ROUTE_NOT_FOUND TEAM_NOT_FOUND PROJECT_NOT_FOUND ENVIRONMENT_NOT_FOUND
      SECRET_NOT_FOUND SECRET_VERSION_NOT_FOUND SEALING_KEY_NOT_FOUND TOKEN_NOT_FOUND GRANT_NOT_FOUND
      MEMBER_NOT_FOUND SECRET_ALREADY_EXISTS SECRET_VERSION_CONFLICT SECRETS_CHANGED CHANGES_DIFFER SECRET_HAS_DEPENDENTS
      TEMPLATE_CYCLE NAME_TAKEN SETUP_ALREADY_DONE GRANT_ALREADY_DECIDED IDEMPOTENCY_KEY_REUSED PAYLOAD_TOO_LARGE
      UNSUPPORTED_MEDIA_TYPE RATE_LIMITED SERVER_BUSY INTERNAL_ERROR DEPENDENCY_UNAVAILABLE INTEGRITY_FAILURE`
    assert.deepStrictEqual(codes, expected.trim().split(/\s+/))
    for (const document of Object.values(served)) {
      assert.deepStrictEqual(document["x-audit-actions"], [...auditActions])
    }
  })

  it("says page and pageSize as integers with their bounds", () => {
    for (const path of ["/secrets", "/secrets/with-values", "/secrets/inject"]) {
      const parameters = served.contract.paths[path]["get"].parameters ?? []
      const bounds = (name: string) => {
        const { type, minimum, maximum } = parameters.find((one) => one.name === name)?.schema ?? {}
        return [type, minimum, maximum]
      }
      assert.deepStrictEqual(bounds("page"), ["integer", 1, 10_000])
      assert.deepStrictEqual(bounds("pageSize"), ["integer", 1, 500])
    }
  })

  it("shows ETag and 304 on inject, and both error shapes of /mcp when it is listed", () => {
    const inject = served.contract.paths["/secrets/inject"]["get"]
    assert.property(inject.responses["200"].headers, "ETag")
    assert.property(inject.responses["304"].headers, "ETag")
    assert.deepStrictEqual(Object.keys(whole.contract.paths["/mcp"]), ["post", "get", "delete"])
    for (const operation of Object.values(whole.contract.paths["/mcp"])) {
      assert.includeMembers(Object.keys(operation.responses), ["200", "400", "401", "403", "404", "429", "500"])
      assert.isNotEmpty(operation.summary)
    }
    assert.property(whole.contract.components.schemas, "OAuthErrorResponse")
    assert.property(whole.contract.components.schemas, "JsonRpcErrorResponse")
  })

  it("names no operation twice", () => {
    for (const document of Object.values(whole)) {
      const ids = operations(document).map(([, operation]) => operation.operationId)
      assert.strictEqual(new Set(ids).size, ids.length)
    }
  })
})

it("groups declare credentials and errors at their endpoints: what a group itself has is lost when the server closes it", () => {
  for (const api of [Api, DashboardApi]) {
    const { groups } = api as unknown as HttpApi.HttpApi.AnyWithProps
    for (const group of Object.values(groups)) {
      assert.strictEqual(group.middlewares.size, 0, group.identifier)
      assert.strictEqual(group.errorSchema.ast._tag, "NeverKeyword", group.identifier)
    }
  }
})
