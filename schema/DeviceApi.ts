import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as HttpApiSchema from "@effect/platform/HttpApiSchema"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Schema from "effect/Schema"
import { DeviceCodeCredential, GrantCredential, ManagementCredential, SessionCredential } from "./Authentication.ts"
import * as Errors from "./Errors.ts"
import { EnvironmentId, GrantId, GrantIdOut, InstallationId, ProjectId, TeamId, TeamIdOut } from "./Ids.ts"
import { GrantedTeam, PersonRef, RevokedAck } from "./IdentityApi.ts"
import { operation } from "./Operation.ts"
import { BadBody, MayNotDecide, MayNotReadTeam } from "./RouteErrors.ts"
import { CliScope } from "./Scopes.ts"
import { eachOnce, optional, strict } from "./Strict.ts"
import { boundedList, CredentialText, HostText, Timestamp, UserCode } from "./Values.ts"
import { answers, DeletedAck, openEnum, RestrictionsOut, Uuid } from "./Wire.ts"

export const CredentialProtection = Schema.Literal("os_keychain", "plaintext_local").annotations({
  identifier: "CredentialProtection",
  message: () => "must be os_keychain or plaintext_local",
  jsonSchema: { type: "string", enum: ["os_keychain", "plaintext_local"], default: "os_keychain" },
  description: "Storage of the credential on the client; os_keychain by default."
})
const DeviceHost = Schema.Struct({ hostname: optional(HostText), os: optional(HostText) }).annotations({
  identifier: "DeviceHost"
})

export const DeviceStart = strict(
  Schema.Struct({
    credentialProtection: optional(CredentialProtection),
    installationId: optional(InstallationId),
    machineCredential: optional(
      Schema.Literal("grant").annotations({
        message: () => "must be grant",
        description: "Asks for unattended use; the approver decides."
      })
    ),
    host: optional(DeviceHost)
  })
).annotations({ identifier: "DeviceStart" })
export type DeviceStart = typeof DeviceStart.Type

export const DeviceAuthorization = Schema.Struct({
  deviceCode: Schema.String.annotations({ jsonSchema: { type: "string", minLength: 1 } }),
  userCode: Schema.String.annotations({ jsonSchema: { type: "string", minLength: 1 } }),
  verificationUri: Schema.String.annotations({ jsonSchema: { type: "string", format: "uri" } }),
  verificationUriComplete: Schema.String.annotations({ jsonSchema: { type: "string", format: "uri" } }),
  expiresInSeconds: Schema.Number.annotations({ jsonSchema: { type: "integer", maximum: Number.MAX_SAFE_INTEGER } }),
  pollIntervalSeconds: Schema.Number.annotations({
    jsonSchema: { type: "integer", maximum: Number.MAX_SAFE_INTEGER }
  })
}).annotations({ identifier: "DeviceAuthorization" })
export type DeviceAuthorization = typeof DeviceAuthorization.Type

/** Request of a login to manage one team for some minutes (docs/contract/management.md). */
export const ManagementStart = strict(Schema.Struct({ teamId: TeamId, host: optional(DeviceHost) })).annotations({
  identifier: "ManagementStart"
})
export type ManagementStart = typeof ManagementStart.Type

const DeviceToken = strict(Schema.Struct({ deviceCode: CredentialText })).annotations({
  identifier: "DeviceToken"
})

/**
 * One struct for all four states, so that a client can read a state that it does not know (docs/contract/README.md).
 */
export const DevicePollResponse = Schema.Struct({
  status: openEnum("pending", "failed", "granted", "granted-machine"),
  reason: optional(openEnum("slow_down", "denied", "expired", "consumed", "unknown")),
  credential: optional(
    Schema.String.annotations({ description: "The CLI grant, or the management session, delivered exactly once." })
  ),
  grantId: optional(GrantIdOut),
  expiresAt: optional(Timestamp),
  user: optional(PersonRef),
  teams: optional(Schema.Array(GrantedTeam)),
  restrictions: optional(RestrictionsOut)
}).annotations({ identifier: "DevicePollResponse" })
export type DevicePollResponse = typeof DevicePollResponse.Type

/** JSON of the `data:` line of the event stream (docs/contract/device-authorization.md). */
export const DeviceEvent = Schema.Struct({
  event: openEnum("connected", "approved", "denied"),
  email: optional(Schema.String)
}).annotations({ identifier: "DeviceEvent" })
export type DeviceEvent = typeof DeviceEvent.Type

const deviceCode = "amp_dc_<id>_<secret and checksum>"
const startedAt = "2026-11-21T08:00:00.000Z"
const teamId = "01980a5d-0f3a-7c10-8e2b-9a7c6d5e4f30"
const grantId = "01980a61-5c6d-7e8f-a0b1-c2d3e4f50617"

/** Device authorization: credentials for a command line or an unattended agent. */
export class DeviceApi extends HttpApiGroup.make("device")
  .add(
    HttpApiEndpoint.post("start", "/auth/cli/device")
      .setPayload(Schema.Union(DeviceStart, Schema.Null))
      .addSuccess(answers(201, DeviceAuthorization))
      .addError(BadBody)
      .annotateContext(
        operation({
          summary: "Start a device authorization",
          description: "A missing or empty body, null and {} are equivalent. The codes expire after 10 minutes.",
          request: { host: { hostname: "laptop", os: "linux" } },
          response: {
            deviceCode,
            userCode: "BCDF-GHJK",
            verificationUri: "https://ampoule.example.com/device",
            verificationUriComplete: "https://ampoule.example.com/device?code=BCDF-GHJK",
            expiresInSeconds: 600,
            pollIntervalSeconds: 5
          }
        })
      )
  )
  .add(
    HttpApiEndpoint.post("token", "/auth/cli/device/token")
      .setPayload(DeviceToken)
      .addSuccess(answers(201, DevicePollResponse))
      .addError(Schema.Union(Errors.CredentialInvalid, Errors.CrossSiteRequest, BadBody))
      .annotateContext(
        operation({
          summary: "Poll for the credential",
          description:
            "Every response is 201 with a status. The request body holds the device code. The credential is delivered exactly once.",
          request: { deviceCode },
          response: { status: "pending" }
        })
      )
  )
  .add(
    HttpApiEndpoint.get("events", "/auth/cli/device/events")
      .addSuccess(answers(200, HttpApiSchema.Text({ contentType: "text/event-stream" })))
      .middleware(DeviceCodeCredential)
      .annotateContext(
        operation({
          summary: "Wait for the decision",
          description:
            "Server-sent events connected, approved and denied, each with the JSON object {event, email?}. Closes after the decision.",
          response: 'event: connected\ndata: {"event":"connected"}\n\n'
        })
      )
  )
  .add(
    HttpApiEndpoint.post("startManagement", "/auth/cli/management")
      .setPayload(ManagementStart)
      .addSuccess(answers(201, DeviceAuthorization))
      .addError(Schema.Union(MayNotReadTeam, BadBody))
      .middleware(GrantCredential)
      .annotateContext(
        operation({
          scope: "identity:read",
          summary: "Request management of a team",
          description:
            "For a login of an owner or admin, which cannot manage anything itself. Its owner approves in the browser. The poll then delivers a session of 10 minutes that can only manage this team.",
          request: { teamId, host: { hostname: "laptop", os: "linux" } },
          response: {
            deviceCode,
            userCode: "BCDF-GHJK",
            verificationUri: "https://ampoule.example.com/device",
            verificationUriComplete: "https://ampoule.example.com/device?code=BCDF-GHJK",
            expiresInSeconds: 600,
            pollIntervalSeconds: 5
          }
        })
      )
  )
  .add(
    HttpApiEndpoint.del("endManagement", "/auth/cli/management")
      .addSuccess(answers(200, RevokedAck))
      .middleware(ManagementCredential)
      .annotateContext(
        operation({
          summary: "End the presented management session",
          description: "The command ends its session when it completes.",
          response: { revoked: true }
        })
      )
  )
  .add(
    HttpApiEndpoint.post("logout", "/auth/cli/logout")
      .addSuccess(answers(201, RevokedAck))
      .middleware(GrantCredential)
      .annotateContext(
        operation({
          scope: "none",
          summary: "Revoke the presented CLI grant",
          description: "Takes effect immediately.",
          response: { revoked: true }
        })
      )
  )
  .annotateContext(OpenApi.annotations({ description: "Device authorization and logout of a command line." })) {}

/** As claimed by the client; not verified. */
const ClaimedHost = Schema.Struct({ hostname: optional(Schema.String), os: optional(Schema.String) }).annotations({
  identifier: "ClaimedHost",
  description: "As claimed by the client; not verified."
})

/** Absent or null for a login or a browser, which manages no team. */
export const ManagedTeam = Schema.Struct({ id: TeamIdOut, name: Schema.String }).annotations({
  identifier: "ManagedTeam",
  description: "Team that a command line manages, or requests to manage."
})

export const DeviceRequest = Schema.Struct({
  userCode: Schema.String,
  createdAt: Timestamp,
  expiresAt: Timestamp,
  ip: Schema.String.annotations({ description: "Address of the request." }),
  host: Schema.NullOr(ClaimedHost),
  credentialProtection: openEnum("os_keychain", "plaintext_local"),
  machineRequested: Schema.Boolean,
  status: openEnum("pending", "approved", "denied", "expired"),
  manages: optional(ManagedTeam)
}).annotations({ identifier: "DeviceRequest" })
export type DeviceRequest = typeof DeviceRequest.Type

const DeviceDecision = Schema.Struct({ status: openEnum("approved", "denied") }).annotations({
  identifier: "DeviceDecision"
})

const TeamApproval = Schema.Struct({ teamId: TeamId, scopes: boundedList(CliScope, 1, 6) }).annotations({
  identifier: "TeamApproval"
})

export const ApproveDevice = strict(
  Schema.Struct({
    teams: eachOnce(
      boundedList(TeamApproval, 1, 100),
      ({ teamId }) => teamId,
      "must not repeat an earlier team",
      "teamId"
    ),
    projectIds: optional(boundedList(ProjectId, 1, 1_000)),
    environmentIds: optional(boundedList(EnvironmentId, 1, 1_000)),
    machine: optional(Schema.Boolean)
  })
).annotations({ identifier: "ApproveDevice" })
export type ApproveDevice = typeof ApproveDevice.Type

const UserCodePath = Schema.Struct({ userCode: UserCode })

/**
 * Decisions about device requests: a signed-in person and a POST; a GET never approves
 * (docs/contract/device-authorization.md).
 */
export class DeviceApprovalApi extends HttpApiGroup.make("deviceApproval")
  .add(
    HttpApiEndpoint.get("show", "/auth/cli/device/requests/:userCode")
      .setPath(UserCodePath)
      .addSuccess(answers(200, DeviceRequest))
      .addError(Errors.GrantNotFound)
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Show a device request",
          description: "Client, time and address of the request.",
          response: {
            userCode: "BCDF-GHJK",
            createdAt: startedAt,
            expiresAt: "2026-11-21T08:10:00.000Z",
            ip: "203.0.113.7",
            host: { hostname: "laptop", os: "linux" },
            credentialProtection: "os_keychain",
            machineRequested: false,
            status: "pending"
          }
        })
      )
  )
  .add(
    HttpApiEndpoint.post("approve", "/auth/cli/device/requests/:userCode/approve")
      .setPath(UserCodePath)
      .setPayload(ApproveDevice)
      .addSuccess(answers(200, DeviceDecision))
      .addError(
        Schema.Union(MayNotDecide, Errors.TeamNotFound, Errors.ProjectNotFound, Errors.EnvironmentNotFound, BadBody)
      )
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Approve a device request",
          description: "Selects teams, scopes per team, and an optional restriction to projects or environments.",
          request: { teams: [{ teamId, scopes: ["identity:read", "projects:read", "secrets:read", "secrets:run"] }] },
          response: { status: "approved" }
        })
      )
  )
  .add(
    HttpApiEndpoint.post("approveManagement", "/auth/cli/device/requests/:userCode/approve-management")
      .setPath(UserCodePath)
      .addSuccess(answers(200, DeviceDecision))
      .addError(Schema.Union(MayNotDecide, Errors.TeamNotFound))
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Approve management from the command line",
          description:
            "For the person behind the login, with a confirmation at most 15 minutes old (STEP_UP_REQUIRED). The session expires 10 minutes after the poll that delivers it.",
          response: { status: "approved" }
        })
      )
  )
  .add(
    HttpApiEndpoint.post("deny", "/auth/cli/device/requests/:userCode/deny")
      .setPath(UserCodePath)
      .addSuccess(answers(200, DeviceDecision))
      .addError(Schema.Union(Errors.GrantNotFound, Errors.GrantAlreadyDecided))
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Deny a device request",
          description: "The client receives the denial, and has to start again.",
          response: { status: "denied" }
        })
      )
  )
  .annotateContext(OpenApi.annotations({ description: "Decisions about device requests." })) {}

export const CliGrant = Schema.Struct({
  id: GrantIdOut,
  machine: Schema.Boolean,
  teams: Schema.Array(GrantedTeam),
  restrictions: RestrictionsOut,
  host: Schema.NullOr(ClaimedHost),
  installationId: Schema.NullOr(Uuid),
  credentialProtection: openEnum("os_keychain", "plaintext_local"),
  createdAt: Timestamp,
  expiresAt: Timestamp,
  lastUsedAt: Schema.NullOr(Timestamp),
  lastUsedIp: Schema.NullOr(Schema.String),
  lastUsedUserAgent: Schema.NullOr(Schema.String)
}).annotations({ identifier: "CliGrant" })
export type CliGrant = typeof CliGrant.Type

const CliGrantList = Schema.Struct({ items: Schema.Array(CliGrant) }).annotations({ identifier: "CliGrantList" })

/** CLI grants of the signed-in person. */
export class MyGrantsApi extends HttpApiGroup.make("myGrants")
  .add(
    HttpApiEndpoint.get("list", "/me/cli-grants")
      .addSuccess(answers(200, CliGrantList))
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "List own CLI grants",
          description: "Grants of the signed-in person that still work.",
          response: {
            items: [
              {
                id: grantId,
                machine: false,
                teams: [{ id: teamId, name: "Platform", scopes: ["identity:read", "secrets:run"] }],
                restrictions: { projectIds: null, environmentIds: null },
                host: { hostname: "laptop", os: "linux" },
                installationId: null,
                credentialProtection: "os_keychain",
                createdAt: startedAt,
                expiresAt: "2027-05-20T08:00:00.000Z",
                lastUsedAt: null,
                lastUsedIp: null,
                lastUsedUserAgent: null
              }
            ]
          }
        })
      )
  )
  .add(
    HttpApiEndpoint.del("revoke", "/me/cli-grants/:grantId")
      .setPath(Schema.Struct({ grantId: GrantId }))
      .addSuccess(answers(200, DeletedAck))
      .addError(Errors.GrantNotFound)
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Revoke an own CLI grant",
          description: "Takes effect with the next request.",
          response: { deleted: true }
        })
      )
  )
  .annotateContext(OpenApi.annotations({ description: "CLI grants of the signed-in person." })) {}
