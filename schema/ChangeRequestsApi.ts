/** Writes that wait for an approval: their authors see and withdraw them, others decide (docs/contract/access.md). */
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Schema from "effect/Schema"
import * as ApprovalRequests from "./ApprovalRequests.ts"
import { SessionCredential } from "./Authentication.ts"
import * as Errors from "./Errors.ts"
import { ChangeRequestId, ChangeRequestIdOut } from "./Ids.ts"
import { operation } from "./Operation.ts"
import { BreaksTheEnvironment, MayNotWrite } from "./RouteErrors.ts"
import { answers, Key, openEnum } from "./Wire.ts"

const ProposedChange = Schema.Struct({
  key: Key,
  change: openEnum("create", "update", "delete", "restore"),
  conflict: Schema.Boolean.annotations({ description: "True when the secret has changed since the request." })
}).annotations({ identifier: "ProposedChange" })

export const ChangeRequest = Schema.Struct({
  id: ChangeRequestIdOut,
  ...ApprovalRequests.placeFields,
  changes: Schema.Array(ProposedChange).annotations({ description: "Names only, never values." }),
  mayDecide: Schema.Boolean.annotations({ description: "Whether the caller may decide." }),
  ...ApprovalRequests.timeFields
}).annotations({ identifier: "ChangeRequest", description: "A write that waits for an approval." })
export type ChangeRequest = typeof ChangeRequest.Type

const ChangeRequestList = Schema.Struct({ items: Schema.Array(ChangeRequest) }).annotations({
  identifier: "ChangeRequestList"
})

const ChangeDecision = Schema.Struct({ status: openEnum("approved", "denied") }).annotations({
  identifier: "ChangeDecision"
})

const RequestPath = Schema.Struct({ requestId: ChangeRequestId })

export const changeRequestExample = {
  id: "01980a5e-9f00-7a10-8b21-3c4d5e6f7083",
  ...ApprovalRequests.placeExample,
  changes: [{ key: "DB_PASSWORD", change: "update", conflict: false }],
  mayDecide: false,
  ...ApprovalRequests.timeExample
}

const { list, listOfEnvironment, withdraw } = ApprovalRequests.routes({
  name: "change-requests",
  Id: ChangeRequestId,
  List: ChangeRequestList,
  example: changeRequestExample,
  texts: {
    listOfEnvironment: {
      summary: "List pending changes of an environment",
      description: "All for owners, admins and approvers; only their own for others. Names, never values."
    },
    list: {
      summary: "List pending changes",
      description: "In all teams: the person's own, and those that the person decides."
    },
    withdraw: {
      summary: "Withdraw a pending change",
      description: "Only its author can, while it is pending."
    }
  }
})

/** Routes for any credential of a person: list, withdraw. No stored credential may decide. */
export class ChangeRequestsApi extends HttpApiGroup.make("changeRequests")
  .add(listOfEnvironment)
  .add(list)
  .add(withdraw)
  .annotateContext(OpenApi.annotations({ description: "Changes that wait for an approval." })) {}

/** Decisions need a signed-in person. */
export class ChangeDecisionsApi extends HttpApiGroup.make("changeDecisions")
  .add(
    HttpApiEndpoint.post("approve", "/change-requests/:requestId/approve")
      .setPath(RequestPath)
      .addSuccess(answers(200, ChangeDecision))
      .addError(
        Schema.Union(
          Errors.GrantNotFound,
          MayNotWrite,
          BreaksTheEnvironment,
          Errors.SecretAlreadyExists,
          Errors.SecretNotFound,
          Errors.SecretVersionConflict,
          Errors.GrantAlreadyDecided
        )
      )
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Approve a pending change",
          description:
            "Writes the change in the name of the approver, in one transaction. A secret that has changed since is a 409, and the change stays pending.",
          response: { status: "approved" }
        })
      )
  )
  .add(
    HttpApiEndpoint.post("deny", "/change-requests/:requestId/deny")
      .setPath(RequestPath)
      .addSuccess(answers(200, ChangeDecision))
      .addError(Schema.Union(Errors.GrantNotFound, MayNotWrite, Errors.GrantAlreadyDecided))
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Deny a pending change",
          description: "Ends the request and removes its content.",
          response: { status: "denied" }
        })
      )
  )
  .annotateContext(OpenApi.annotations({ description: "Decisions about pending changes." })) {}
