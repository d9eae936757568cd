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
  description: "hours: how long the grant lasts, from the approval on."
})
export type CreateAccessRequest = typeof CreateAccessRequest.Type

export const AccessRequest = Schema.Struct({
  id: AccessRequestIdOut,
  ...ApprovalRequests.placeFields,
  level: GrantLevelOut,
  hours: Integer,
  reason: Schema.String,
  approvals: Integer.annotations({ description: "How many people have to approve it." }),
  approvedBy: Schema.NullOr(PersonRef).annotations({ description: "The first of two who approved it." }),
  mayDecide: Schema.Boolean.annotations({ description: "Whether the person who asks for this list may decide." }),
  ...ApprovalRequests.timeFields
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

const RequestPath = Schema.Struct({ requestId: AccessRequestId })
const asked = { level: "values", hours: 2, reason: "Incident 42" }
const request = {
  id: "01980a5e-9f00-7a10-8b21-3c4d5e6f7082",
  ...ApprovalRequests.placeExample,
  ...asked,
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
      description: "All for owners, admins and approvers; their own for others."
    },
    list: {
      summary: "List pending requests for access",
      description: "Of all teams: the person's own, and those of environments where the person decides."
    },
    withdraw: {
      summary: "Withdraw a request for access",
      description: "Only the person who asked can, while it is pending."
    }
  }
})

/** What a person may do from anywhere: ask, look, withdraw. No stored credential decides. */
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
          summary: "Ask for access to an environment",
          description:
            "Owners, admins and the environment's approvers decide; never the person who asks. It ends undecided after 7 days.",
          request: asked,
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
