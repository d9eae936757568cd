/** Writes that wait for an approval: their authors see and withdraw them, others decide (docs/contract/access.md). */
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Schema from "effect/Schema"
import { PersonCredential, SessionCredential } from "./Authentication.ts"
import * as Errors from "./Errors.ts"
import { ChangeRequestId, ChangeRequestIdOut, EnvironmentId, EnvironmentIdOut, ProjectIdOut, TeamIdOut } from "./Ids.ts"
import { PersonRef } from "./IdentityApi.ts"
import { operation } from "./Operation.ts"
import { BreaksTheEnvironment, MayNotWrite } from "./SecretRouteErrors.ts"
import { Timestamp } from "./Values.ts"
import { answers, DeletedAck, Key, openEnum, Slug } from "./Wire.ts"

const ProposedChange = Schema.Struct({
  key: Key,
  change: openEnum("create", "update", "delete", "restore"),
  conflict: Schema.Boolean.annotations({ description: "The secret has another version than when this was written." })
}).annotations({ identifier: "ProposedChange" })

export const ChangeRequest = Schema.Struct({
  id: ChangeRequestIdOut,
  teamId: TeamIdOut,
  projectId: ProjectIdOut,
  project: Schema.String,
  environmentId: EnvironmentIdOut,
  environment: Slug,
  user: PersonRef,
  changes: Schema.Array(ProposedChange).annotations({ description: "Names alone. Never a value." }),
  mayDecide: Schema.Boolean.annotations({ description: "Whether the person who asks for this record may decide." }),
  createdAt: Timestamp,
  expiresAt: Timestamp.annotations({ description: "Then it ends undecided." })
}).annotations({ identifier: "ChangeRequest", description: "A write that waits for an approval." })
export type ChangeRequest = typeof ChangeRequest.Type

const ChangeRequestList = Schema.Struct({ items: Schema.Array(ChangeRequest) }).annotations({
  identifier: "ChangeRequestList"
})

const ChangeDecision = Schema.Struct({ status: openEnum("approved", "denied") }).annotations({
  identifier: "ChangeDecision"
})

const EnvironmentPath = Schema.Struct({ envId: EnvironmentId })
const RequestPath = Schema.Struct({ requestId: ChangeRequestId })

export const changeRequestExample = {
  id: "01980a5e-9f00-7a10-8b21-3c4d5e6f7083",
  teamId: "01980a5d-0f3a-7c10-8e2b-9a7c6d5e4f30",
  projectId: "01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7e",
  project: "Shop",
  environmentId: "01980a5e-7c12-7000-8a1b-2c3d4e5f6071",
  environment: "production",
  user: { id: "01980a5d-11aa-7f00-b1c2-3d4e5f607182", email: "grace@example.com" },
  changes: [{ key: "DB_PASSWORD", change: "update", conflict: false }],
  mayDecide: false,
  createdAt: "2026-11-21T08:00:00.000Z",
  expiresAt: "2026-11-28T08:00:00.000Z"
}

/** What a person may do from anywhere: look, withdraw. No stored credential decides. */
export class ChangeRequestsApi extends HttpApiGroup.make("changeRequests")
  .add(
    HttpApiEndpoint.get("listOfEnvironment", "/environments/:envId/change-requests")
      .setPath(EnvironmentPath)
      .addSuccess(answers(200, ChangeRequestList))
      .addError(Errors.EnvironmentNotFound)
      .addError(Errors.Forbidden)
      .addError(Errors.ScopeMissing)
      .middleware(PersonCredential)
      .annotateContext(
        operation({
          scope: "secrets:read",
          summary: "List changes that wait in an environment",
          description: "All for owners, admins and approvers; their own for others. Names, never values.",
          response: { items: [changeRequestExample] }
        })
      )
  )
  .add(
    HttpApiEndpoint.get("list", "/change-requests")
      .addSuccess(answers(200, ChangeRequestList))
      .addError(Errors.ScopeMissing)
      .middleware(PersonCredential)
      .annotateContext(
        operation({
          scope: "secrets:read",
          summary: "List changes that wait for an approval",
          description: "Of all teams: the person's own, and those of environments where the person decides.",
          response: { items: [changeRequestExample] }
        })
      )
  )
  .add(
    HttpApiEndpoint.del("withdraw", "/change-requests/:requestId")
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
          summary: "Withdraw a change that waits",
          description: "Only its author can, while it is pending.",
          response: { deleted: true }
        })
      )
  )
  .annotateContext(OpenApi.annotations({ description: "Changes that wait for an approval." })) {}

/** Decisions need a signed-in person. */
export class ChangeDecisionsApi extends HttpApiGroup.make("changeDecisions")
  .add(
    HttpApiEndpoint.post("approve", "/change-requests/:requestId/approve")
      .setPath(RequestPath)
      .addSuccess(answers(200, ChangeDecision))
      .addError(Errors.GrantNotFound)
      .addError(MayNotWrite)
      .addError(BreaksTheEnvironment)
      .addError(Errors.SecretAlreadyExists)
      .addError(Errors.SecretNotFound)
      .addError(Errors.SecretVersionConflict)
      .addError(Errors.GrantAlreadyDecided)
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Approve a change that waits",
          description:
            "Writes it as the one who approves, in one transaction. A secret that has another version by now is a 409, and the change goes on waiting.",
          response: { status: "approved" }
        })
      )
  )
  .add(
    HttpApiEndpoint.post("deny", "/change-requests/:requestId/deny")
      .setPath(RequestPath)
      .addSuccess(answers(200, ChangeDecision))
      .addError(Errors.GrantNotFound)
      .addError(MayNotWrite)
      .addError(Errors.GrantAlreadyDecided)
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Deny a change that waits",
          description: "Ends it. What it held is removed.",
          response: { status: "denied" }
        })
      )
  )
  .annotateContext(OpenApi.annotations({ description: "Decisions about changes that wait." })) {}
