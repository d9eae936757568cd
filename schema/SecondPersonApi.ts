/** Actions of owners and admins that wait for another owner or admin (docs/contract/second-person.md). */
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Schema from "effect/Schema"
import { ManagingCredential, SessionCredential } from "./Authentication.ts"
import { PersonRef } from "./IdentityApi.ts"
import { SecondPersonRequestId, SecondPersonRequestIdOut, TeamId, TeamIdOut } from "./Ids.ts"
import { operation } from "./Operation.ts"
import { MayNotDecide, MayNotManageTeam } from "./RouteErrors.ts"
import { Timestamp } from "./Values.ts"
import { answers, openEnum } from "./Wire.ts"

export const SecondPersonRequest = Schema.Struct({
  id: SecondPersonRequestIdOut,
  teamId: TeamIdOut,
  user: PersonRef,
  kind: openEnum(
    "project_grant",
    "environment_grant",
    "environment",
    "project",
    "member",
    "invitation",
    "password",
    "team",
    "access_request",
    "change_request"
  ),
  about: Schema.String.annotations({
    description: "The action with its place and each changed field, in a line. Never a value."
  }),
  status: openEnum("pending", "approved").annotations({
    description: "approved: the author makes the link of the invitation or of the new password."
  }),
  mayDecide: Schema.Boolean.annotations({ description: "Whether the caller may decide." }),
  hasLink: Schema.Boolean.annotations({ description: "Whether the caller may make the link now." }),
  createdAt: Timestamp,
  expiresAt: Timestamp
}).annotations({ identifier: "SecondPersonRequest" })
export type SecondPersonRequest = typeof SecondPersonRequest.Type

const SecondPersonRequestList = Schema.Struct({ items: Schema.Array(SecondPersonRequest) }).annotations({
  identifier: "SecondPersonRequestList"
})
const SecondPersonDecision = Schema.Struct({ status: openEnum("approved", "denied") }).annotations({
  identifier: "SecondPersonDecision"
})
const SecondPersonLink = Schema.Struct({
  url: Schema.String.annotations({
    description: "The link of the invitation or of the new password. It is shown once."
  })
}).annotations({ identifier: "SecondPersonLink" })

const requestId = "01980a5e-9f00-7a10-8b21-3c4d5e6f7082"
const request = {
  id: requestId,
  teamId: "01980a5d-0f3a-7c10-8e2b-9a7c6d5e4f30",
  user: { id: "01980a5d-11aa-7f00-b1c2-3d4e5f607182", email: "ada@example.com" },
  kind: "environment_grant",
  about: "a grant of values to oneself in shop/production (until: none)",
  status: "pending",
  mayDecide: true,
  hasLink: false,
  createdAt: "2026-11-21T08:00:00.000Z",
  expiresAt: "2026-11-28T08:00:00.000Z"
}
const decision = <const Name extends "approve" | "deny">(name: Name, summary: string, description: string) =>
  HttpApiEndpoint.post(name, `/second-person/:requestId/${name}`)
    .setPath(Schema.Struct({ requestId: SecondPersonRequestId }))
    .addSuccess(answers(200, SecondPersonDecision))
    .addError(MayNotDecide)
    .middleware(SessionCredential)
    .annotateContext(
      operation({
        summary,
        description,
        response: { status: name === "approve" ? "approved" : "denied" }
      })
    )

/** Decisions need a signed-in person; the list and a link are for a management session, too. */
export class SecondPersonApi extends HttpApiGroup.make("secondPerson")
  .add(
    HttpApiEndpoint.get("list", "/teams/:teamId/second-person")
      .setPath(Schema.Struct({ teamId: TeamId }))
      .addSuccess(answers(200, SecondPersonRequestList))
      .addError(MayNotManageTeam)
      .middleware(ManagingCredential)
      .annotateContext(
        operation({
          summary: "List what waits for a second person",
          description:
            "Pending requests of the team, and approved ones whose link its author has not made yet; newest first. For owners and admins.",
          response: { items: [request] }
        })
      )
  )
  .add(
    decision(
      "approve",
      "Approve as the second person",
      "The action happens with the rights that its author has now, in one transaction with the approval; its author makes a link within 24 hours. Not for the author, and not for a person who became owner or admin, or was reset, less than 24 hours ago."
    )
  )
  .add(decision("deny", "Deny as the second person", "Ends the request. Its author takes it back with it."))
  .add(
    HttpApiEndpoint.post("link", "/second-person/:requestId/link")
      .setPath(Schema.Struct({ requestId: SecondPersonRequestId }))
      .addSuccess(answers(200, SecondPersonLink))
      .addError(MayNotDecide)
      .middleware(ManagingCredential)
      .annotateContext(
        operation({
          summary: "Make an approved link",
          description: "Once, within 24 hours of the approval, for the author of the request alone.",
          response: { url: "https://ampoule.example.com/invite?code=amp_iv_<id>_<secret and checksum>" }
        })
      )
  )
  .annotateContext(OpenApi.annotations({ description: "Actions that wait for a second owner or admin." })) {}
