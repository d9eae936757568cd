/** Requests for access to an environment: people ask, others decide (docs/contract/access.md). */
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Schema from "effect/Schema"
import * as ApprovalRequests from "./ApprovalRequests.ts"
import { PersonCredential, SessionCredential } from "./Authentication.ts"
import * as Errors from "./Errors.ts"
import { AccessRequestId, AccessRequestIdOut } from "./Ids.ts"
import { PersonRef } from "./IdentityApi.ts"
import { waitsExample, WaitsForSecondPerson } from "./WaitsForSecondPerson.ts"
import { operation } from "./Operation.ts"
import { BadBody, MayNotDecide, MayNotReadEnvironment } from "./RouteErrors.ts"
import { GrantLevel } from "./Scopes.ts"
import { strict } from "./Strict.ts"
import { Reason } from "./Values.ts"
import { answers, GrantLevelOut, Integer, openEnum } from "./Wire.ts"

const maxHours = 168
const Hours = Schema.Number.pipe(
  Schema.filter((n) => (Number.isInteger(n) && n >= 1 && n <= maxHours) || `must be an integer from 1 to ${maxHours}`)
).annotations({ jsonSchema: { type: "integer", minimum: 1, maximum: maxHours } })

export const CreateAccessRequest = strict(
  Schema.Struct({ level: GrantLevel, hours: Hours, reason: Reason })
).annotations({
  identifier: "CreateAccessRequest",
  description: "hours: duration of the grant, from the approval on."
})
export type CreateAccessRequest = typeof CreateAccessRequest.Type

export const AccessRequest = Schema.Struct({
  id: AccessRequestIdOut,
  ...ApprovalRequests.placeFields,
  level: GrantLevelOut,
  hours: Integer,
  reason: Schema.String,
  approvals: Integer.annotations({ description: "Number of people who must approve it." }),
  approvedBy: Schema.NullOr(PersonRef).annotations({ description: "The first of two who approved it." }),
  mayDecide: Schema.Boolean.annotations({ description: "Whether the caller may decide." }),
  ...ApprovalRequests.timeFields
}).annotations({ identifier: "AccessRequest" })
export type AccessRequest = typeof AccessRequest.Type

const AccessRequestList = Schema.Struct({ items: Schema.Array(AccessRequest) }).annotations({
  identifier: "AccessRequestList"
})

const AccessDecision = Schema.Struct({
  status: openEnum("pending", "approved", "denied").annotations({
    description: "pending: approved by one person, waits for a second."
  })
}).annotations({ identifier: "AccessDecision" })

const RequestPath = Schema.Struct({ requestId: AccessRequestId })
const body = { level: "values", hours: 2, reason: "Incident 42" }
const request = {
  id: "01980a5e-9f00-7a10-8b21-3c4d5e6f7082",
  ...ApprovalRequests.placeExample,
  ...body,
  approvals: 1,
  approvedBy: null,
  mayDecide: false,
  ...ApprovalRequests.timeExample
}

const { list, listOfEnvironment, withdraw } = ApprovalRequests.routes({
  name: "access-requests",
  Id: AccessRequestId,
  List: AccessRequestList,
  example: request,
  texts: {
    listOfEnvironment: {
      summary: "List pending requests for an environment",
      description: "All for owners, admins and approvers; only their own for others."
    },
    list: {
      summary: "List pending requests for access",
      description: "In all teams: the person's own, and those that the person decides."
    },
    withdraw: {
      summary: "Withdraw a request for access",
      description: "Only for its author, while it is pending."
    }
  }
})

/** Routes for any credential of a person: request, list, withdraw. No stored credential may decide. */
export class AccessRequestsApi extends HttpApiGroup.make("accessRequests")
  .add(
    HttpApiEndpoint.post("create", "/environments/:envId/access-requests")
      .setPath(ApprovalRequests.EnvironmentPath)
      .setPayload(CreateAccessRequest)
      .addSuccess(answers(201, AccessRequest))
      .addError(Schema.Union(MayNotReadEnvironment, Errors.PlanLimitReached, BadBody))
      .middleware(PersonCredential)
      .annotateContext(
        operation({
          scope: "secrets:read",
          summary: "Request access to an environment",
          description:
            "Owners, admins and the environment's approvers decide, but never the requester. It expires undecided after 7 days.",
          request: body,
          response: request
        })
      )
  )
  .add(listOfEnvironment)
  .add(list)
  .add(withdraw)
  .annotateContext(OpenApi.annotations({ description: "Requests for access to environments." })) {}

const decision = <const Name extends "approve" | "deny">(name: Name, summary: string, description: string) =>
  HttpApiEndpoint.post(name, `/access-requests/:requestId/${name}`)
    .setPath(RequestPath)
    .addSuccess(answers(200, AccessDecision))
    .addError(Schema.Union(MayNotDecide, Errors.PlanLimitReached))
    .middleware(SessionCredential)
    .annotateContext(
      operation({
        summary,
        description,
        response: { status: name === "approve" ? "approved" : "denied" },
        ...(name === "approve" ? { accepted: waitsExample } : {})
      })
    )

/** Decisions need a signed-in person. */
export class AccessDecisionsApi extends HttpApiGroup.make("accessDecisions")
  .add(
    decision(
      "approve",
      "Approve a request for access",
      "Creates a grant for the requested hours. If the environment needs two approvals, the first returns pending."
    ).addSuccess(WaitsForSecondPerson)
  )
  .add(decision("deny", "Deny a request for access", "Ends it."))
  .annotateContext(OpenApi.annotations({ description: "Decisions about requests for access." })) {}
