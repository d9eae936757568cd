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
import { BadBody, BreaksTheEnvironment, MayNotWrite } from "./RouteErrors.ts"
import { optional, strict } from "./Strict.ts"
import { waitsExample, WaitsForSecondPerson } from "./WaitsForSecondPerson.ts"
import { answers, Key, KindOut, openEnum } from "./Wire.ts"

const ProposedChange = Schema.Struct({
  key: Key,
  change: openEnum("create", "update", "delete", "restore"),
  kind: Schema.NullOr(KindOut).annotations({
    description: "Kind of the proposed text. Null: a deletion, or a change that an earlier release stored."
  }),
  references: Schema.Array(Key).annotations({ description: "Keys that the proposed text refers to." }),
  warnings: Schema.Array(Schema.String).annotations({
    description: "Variables that the change sets and that decide which code programs run, each with the reason."
  }),
  conflict: Schema.Boolean.annotations({ description: "True when the secret has changed since the request." })
}).annotations({ identifier: "ProposedChange" })

export const ChangeRequest = Schema.Struct({
  id: ChangeRequestIdOut,
  ...ApprovalRequests.placeFields,
  reason: Schema.NullOr(Schema.String).annotations({ description: "The author's reason, where one was given." }),
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

const RevealedChange = Schema.Struct({
  key: Key,
  before: Schema.NullOr(Schema.String).annotations({
    description: "The current text, as it was written. Null: no such secret."
  }),
  after: Schema.NullOr(Schema.String).annotations({
    description: "The proposed text, as it was written. Null: the secret is deleted."
  })
}).annotations({ identifier: "RevealedChange" })

export const RevealedChanges = Schema.Struct({
  changes: Schema.Array(RevealedChange),
  digest: Schema.String.annotations({
    description: "Goes back with the approval, which then writes this and nothing else."
  })
}).annotations({ identifier: "RevealedChanges" })
export type RevealedChanges = typeof RevealedChanges.Type

export const ApproveChange = strict(
  Schema.Struct({
    digest: optional(
      Schema.String.pipe(
        Schema.pattern(/^[A-Za-z0-9_-]{43}$/, { message: () => "must be the digest of a revealed change" })
      ).annotations({ description: "From the reveal. Other content is 409 CHANGES_DIFFER." })
    )
  })
).annotations({ identifier: "ApproveChange" })

const RequestPath = Schema.Struct({ requestId: ChangeRequestId })

export const changeRequestExample = {
  id: "01980a5e-9f00-7a10-8b21-3c4d5e6f7083",
  ...ApprovalRequests.placeExample,
  reason: "the vendor replaced the password",
  changes: [{ key: "DB_PASSWORD", change: "update", kind: "literal", references: [], warnings: [], conflict: false }],
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

const digest = "n4bQgYhMfWWaL-qgxVrQFaO_TxsrC4Is0V1sFbDwCgg"

/** Decisions need a signed-in person. */
export class ChangeDecisionsApi extends HttpApiGroup.make("changeDecisions")
  .add(
    HttpApiEndpoint.post("reveal", "/change-requests/:requestId/reveal")
      .setPath(RequestPath)
      .addSuccess(answers(200, RevealedChanges))
      .addError(
        Schema.Union(
          Errors.GrantNotFound,
          MayNotWrite,
          Errors.IntegrityFailure,
          Errors.SecretAlreadyExists,
          Errors.SecretNotFound,
          Errors.GrantAlreadyDecided
        )
      )
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Reveal a pending change",
          description:
            "The texts before and after, for a person who may decide. The trail records it as a read before the answer leaves.",
          response: { changes: [{ key: "DB_PASSWORD", before: "old-value", after: "new-value" }], digest }
        })
      )
  )
  .add(
    HttpApiEndpoint.post("approve", "/change-requests/:requestId/approve")
      .setPath(RequestPath)
      .setPayload(Schema.Union(ApproveChange, Schema.Null))
      .addSuccess(answers(200, ChangeDecision))
      .addSuccess(WaitsForSecondPerson)
      .addError(
        Schema.Union(
          Errors.GrantNotFound,
          MayNotWrite,
          BreaksTheEnvironment,
          Errors.SecretAlreadyExists,
          Errors.SecretNotFound,
          Errors.SecretVersionConflict,
          Errors.ChangesDiffer,
          Errors.GrantAlreadyDecided,
          BadBody
        )
      )
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Approve a pending change",
          description:
            "Writes the change in the name of the approver, in one transaction. A secret that has changed since is a 409, and the change stays pending. A digest of other content is 409 CHANGES_DIFFER.",
          request: { digest },
          response: { status: "approved" },
          accepted: waitsExample
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
