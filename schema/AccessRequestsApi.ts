/** Requests for access to an environment: people ask, others decide (docs/contract/access.md). */
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Schema from "effect/Schema"
import { PersonCredential, SessionCredential } from "./Authentication.ts"
import * as Errors from "./Errors.ts"
import { AccessRequestId, AccessRequestIdOut, EnvironmentId, EnvironmentIdOut, ProjectIdOut, TeamIdOut } from "./Ids.ts"
import { PersonRef } from "./IdentityApi.ts"
import { operation } from "./Operation.ts"
import { GrantLevel } from "./Scopes.ts"
import { strict } from "./Strict.ts"
import { Reason, Timestamp } from "./Values.ts"
import { answers, DeletedAck, GrantLevelOut, Integer, openEnum, Slug } from "./Wire.ts"

const maxHours = 168
const Hours = Schema.Number.pipe(
  Schema.filter((n) => (Number.isInteger(n) && n >= 1 && n <= maxHours) || `must be an integer from 1 to ${maxHours}`)
).annotations({ jsonSchema: { type: "integer", minimum: 1, maximum: maxHours } })

export const CreateAccessRequest = strict(
  Schema.Struct({ level: GrantLevel, hours: Hours, reason: Reason })
).annotations({
  identifier: "CreateAccessRequest",
  description: "hours: how long the grant lasts, from the approval on."
})
export type CreateAccessRequest = typeof CreateAccessRequest.Type

export const AccessRequest = Schema.Struct({
  id: AccessRequestIdOut,
  teamId: TeamIdOut,
  projectId: ProjectIdOut,
  project: Schema.String,
  environmentId: EnvironmentIdOut,
  environment: Slug,
  user: PersonRef,
  level: GrantLevelOut,
  hours: Integer,
  reason: Schema.String,
  approvals: Integer.annotations({ description: "How many people have to approve it." }),
  approvedBy: Schema.NullOr(PersonRef).annotations({ description: "The first of two who approved it." }),
  mayDecide: Schema.Boolean.annotations({ description: "Whether the person who asks for this list may decide." }),
  createdAt: Timestamp,
  expiresAt: Timestamp.annotations({ description: "Then it ends undecided." })
}).annotations({ identifier: "AccessRequest" })
export type AccessRequest = typeof AccessRequest.Type

const AccessRequestList = Schema.Struct({ items: Schema.Array(AccessRequest) }).annotations({
  identifier: "AccessRequestList"
})

const AccessDecision = Schema.Struct({
  status: openEnum("pending", "approved", "denied").annotations({
    description: "pending: approved by one, waits for the other."
  })
}).annotations({ identifier: "AccessDecision" })

const EnvironmentPath = Schema.Struct({ envId: EnvironmentId })
const RequestPath = Schema.Struct({ requestId: AccessRequestId })
const BadBody = Schema.Union(Errors.PayloadTooLarge, Errors.UnsupportedMediaType)

const asked = { level: "values", hours: 2, reason: "Incident 42" }
const request = {
  id: "01980a5e-9f00-7a10-8b21-3c4d5e6f7082",
  teamId: "01980a5d-0f3a-7c10-8e2b-9a7c6d5e4f30",
  projectId: "01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7e",
  project: "Shop",
  environmentId: "01980a5e-7c12-7000-8a1b-2c3d4e5f6071",
  environment: "production",
  user: { id: "01980a5d-11aa-7f00-b1c2-3d4e5f607182", email: "grace@example.com" },
  ...asked,
  approvals: 1,
  approvedBy: null,
  mayDecide: false,
  createdAt: "2026-11-21T08:00:00.000Z",
  expiresAt: "2026-11-28T08:00:00.000Z"
}

/** What a person may do from anywhere: ask, look, withdraw. No stored credential decides. */
export class AccessRequestsApi extends HttpApiGroup.make("accessRequests")
  .add(
    HttpApiEndpoint.post("create", "/environments/:envId/access-requests")
      .setPath(EnvironmentPath)
      .setPayload(CreateAccessRequest)
      .addSuccess(answers(201, AccessRequest))
      .addError(Errors.EnvironmentNotFound)
      .addError(Errors.Forbidden)
      .addError(Errors.ScopeMissing)
      .addError(Errors.PlanLimitReached)
      .addError(BadBody)
      .middleware(PersonCredential)
      .annotateContext(
        operation({
          scope: "secrets:read",
          summary: "Ask for access to an environment",
          description:
            "Owners, admins and the environment's approvers decide; never the person who asks. It ends undecided after 7 days.",
          request: asked,
          response: request
        })
      )
  )
  .add(
    HttpApiEndpoint.get("listOfEnvironment", "/environments/:envId/access-requests")
      .setPath(EnvironmentPath)
      .addSuccess(answers(200, AccessRequestList))
      .addError(Errors.EnvironmentNotFound)
      .addError(Errors.Forbidden)
      .addError(Errors.ScopeMissing)
      .middleware(PersonCredential)
      .annotateContext(
        operation({
          scope: "secrets:read",
          summary: "List pending requests for an environment",
          description: "All for owners, admins and approvers; their own for others.",
          response: { items: [request] }
        })
      )
  )
  .add(
    HttpApiEndpoint.get("list", "/access-requests")
      .addSuccess(answers(200, AccessRequestList))
      .addError(Errors.ScopeMissing)
      .middleware(PersonCredential)
      .annotateContext(
        operation({
          scope: "secrets:read",
          summary: "List pending requests for access",
          description: "Of all teams: the person's own, and those of environments where the person decides.",
          response: { items: [request] }
        })
      )
  )
  .add(
    HttpApiEndpoint.del("withdraw", "/access-requests/:requestId")
      .setPath(RequestPath)
      .addSuccess(answers(200, DeletedAck))
      .addError(Errors.GrantNotFound)
      .addError(Errors.Forbidden)
      .addError(Errors.ScopeMissing)
      .addError(Errors.GrantAlreadyDecided)
      .middleware(PersonCredential)
      .annotateContext(
        operation({
          scope: "secrets:read",
          summary: "Withdraw a request for access",
          description: "Only the person who asked can, while it is pending.",
          response: { deleted: true }
        })
      )
  )
  .annotateContext(OpenApi.annotations({ description: "Requests for access to environments." })) {}

const decision = <const Name extends "approve" | "deny">(name: Name, summary: string, description: string) =>
  HttpApiEndpoint.post(name, `/access-requests/:requestId/${name}`)
    .setPath(RequestPath)
    .addSuccess(answers(200, AccessDecision))
    .addError(Errors.GrantNotFound)
    .addError(Errors.Forbidden)
    .addError(Errors.PlanLimitReached)
    .addError(Errors.GrantAlreadyDecided)
    .middleware(SessionCredential)
    .annotateContext(
      operation({ summary, description, response: { status: name === "approve" ? "approved" : "denied" } })
    )

/** Decisions need a signed-in person. */
export class AccessDecisionsApi extends HttpApiGroup.make("accessDecisions")
  .add(
    decision(
      "approve",
      "Approve a request for access",
      "Makes a grant that ends after the hours asked for. An environment that wants two approvals answers pending to the first."
    )
  )
  .add(decision("deny", "Deny a request for access", "Ends it."))
  .annotateContext(OpenApi.annotations({ description: "Decisions about requests for access." })) {}
