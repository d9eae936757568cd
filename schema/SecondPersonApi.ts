/** Actions of owners and admins that wait for another owner or admin (docs/contract/second-person.md). */
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Schema from "effect/Schema"
import { SessionCredential } from "./Authentication.ts"
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
  about: Schema.String.annotations({ description: "The action, in a line. Never a value." }),
  mayDecide: Schema.Boolean.annotations({ description: "Whether the caller may decide." }),
  createdAt: Timestamp,
  expiresAt: Timestamp
}).annotations({ identifier: "SecondPersonRequest" })
export type SecondPersonRequest = typeof SecondPersonRequest.Type

const SecondPersonRequestList = Schema.Struct({ items: Schema.Array(SecondPersonRequest) }).annotations({
  identifier: "SecondPersonRequestList"
})
const SecondPersonDecision = Schema.Struct({
  status: openEnum("approved", "denied"),
  url: Schema.NullOr(Schema.String).annotations({
    description: "The link of an approved invitation or of a new password, for the approver to pass on. Else null."
  })
}).annotations({ identifier: "SecondPersonDecision" })

const requestId = "01980a5e-9f00-7a10-8b21-3c4d5e6f7082"
const request = {
  id: requestId,
  teamId: "01980a5d-0f3a-7c10-8e2b-9a7c6d5e4f30",
  user: { id: "01980a5d-11aa-7f00-b1c2-3d4e5f607182", email: "ada@example.com" },
  about: "grant values in production to oneself",
  mayDecide: true,
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
        response: { status: name === "approve" ? "approved" : "denied", url: null }
      })
    )

/** Lists and decisions need a signed-in person. */
export class SecondPersonApi extends HttpApiGroup.make("secondPerson")
  .add(
    HttpApiEndpoint.get("list", "/teams/:teamId/second-person")
      .setPath(Schema.Struct({ teamId: TeamId }))
      .addSuccess(answers(200, SecondPersonRequestList))
      .addError(MayNotManageTeam)
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "List what waits for a second person",
          description: "Pending requests of the team, newest first. For owners and admins.",
          response: { items: [request] }
        })
      )
  )
  .add(
    decision(
      "approve",
      "Approve as the second person",
      "The action happens with the rights that its author has now. Not for the author, and not for a person who became owner or admin, or was reset, less than 24 hours ago."
    )
  )
  .add(decision("deny", "Deny as the second person", "Ends the request."))
  .annotateContext(OpenApi.annotations({ description: "Actions that wait for a second owner or admin." })) {}
