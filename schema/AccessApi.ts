/** Grants of projects and environments (docs/contract/access.md). */
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Schema from "effect/Schema"
import { SessionCredential } from "./Authentication.ts"
import * as Errors from "./Errors.ts"
import {
  AccessGrantId,
  AccessGrantIdOut,
  EnvironmentId,
  EnvironmentIdOut,
  ProjectId,
  ProjectIdOut,
  UserId,
  UserIdOut
} from "./Ids.ts"
import { PersonRef } from "./IdentityApi.ts"
import { operation } from "./Operation.ts"
import { waitsExample, WaitsForSecondPerson } from "./WaitsForSecondPerson.ts"
import { BadBody, MayNotManageEnvironment, MayNotManageProject } from "./RouteErrors.ts"
import { GrantLevel } from "./Scopes.ts"
import { optional, strict } from "./Strict.ts"
import { Instant, Reason, Timestamp } from "./Values.ts"
import { answers, DeletedAck, GrantLevelOut, Slug } from "./Wire.ts"

export const CreateAccessGrant = strict(
  Schema.Struct({
    userId: UserId,
    level: GrantLevel,
    until: optional(Schema.NullOr(Instant)),
    reason: optional(Reason)
  })
).annotations({
  identifier: "CreateAccessGrant",
  description: "until: the time at which it expires; null or absent: it does not expire."
})
export type CreateAccessGrant = typeof CreateAccessGrant.Type

export const AccessGrant = Schema.Struct({
  id: AccessGrantIdOut,
  userId: UserIdOut,
  email: Schema.String,
  projectId: ProjectIdOut,
  environmentId: Schema.NullOr(EnvironmentIdOut).annotations({ description: "null: the whole project." }),
  environment: Schema.NullOr(Slug),
  level: GrantLevelOut,
  until: Schema.NullOr(Timestamp),
  reason: Schema.NullOr(Schema.String),
  createdBy: PersonRef,
  createdAt: Timestamp
}).annotations({ identifier: "AccessGrant" })
export type AccessGrant = typeof AccessGrant.Type
const AccessGrantList = Schema.Struct({ items: Schema.Array(AccessGrant) }).annotations({
  identifier: "AccessGrantList"
})

const ProjectPath = Schema.Struct({ projectId: ProjectId })
const EnvironmentPath = Schema.Struct({ envId: EnvironmentId })

const userId = "01980a5d-11aa-7f00-b1c2-3d4e5f607182"
const grantBody = { userId, level: "values", until: "2026-11-21T12:00:00.000Z", reason: "Incident 42" }
const ofEnvironment = {
  id: "01980a5e-9f00-7a10-8b21-3c4d5e6f7081",
  ...grantBody,
  email: "grace@example.com",
  projectId: "01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7e",
  environmentId: "01980a5e-7c12-7000-8a1b-2c3d4e5f6071",
  environment: "production",
  createdBy: { id: "01980a5d-11aa-7f00-b1c2-3d4e5f607183", email: "ada@example.com" },
  createdAt: "2026-11-21T08:00:00.000Z"
}
const ofProject = { ...ofEnvironment, environmentId: null, environment: null }

/** Owners and admins create and end grants. */
export class AccessApi extends HttpApiGroup.make("access")
  .add(
    HttpApiEndpoint.get("listOfProject", "/projects/:projectId/grants")
      .setPath(ProjectPath)
      .addSuccess(answers(200, AccessGrantList))
      .addError(MayNotManageProject)
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "List the grants of a project",
          description: "Active grants of the project and of its environments.",
          response: { items: [ofProject, ofEnvironment] }
        })
      )
  )
  .add(
    HttpApiEndpoint.post("grantProject", "/projects/:projectId/grants")
      .setPath(ProjectPath)
      .setPayload(CreateAccessGrant)
      .addSuccess(answers(201, AccessGrant))
      .addSuccess(WaitsForSecondPerson)
      .addError(Schema.Union(MayNotManageProject, Errors.MemberNotFound, Errors.PlanLimitReached, BadBody))
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          accepted: waitsExample,
          summary: "Grant a person a project",
          description: "Covers all environments of the project, including later ones. Never exceeds the person's role.",
          request: grantBody,
          response: ofProject
        })
      )
  )
  .add(
    HttpApiEndpoint.get("listOfEnvironment", "/environments/:envId/grants")
      .setPath(EnvironmentPath)
      .addSuccess(answers(200, AccessGrantList))
      .addError(MayNotManageEnvironment)
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "List the grants of an environment",
          description: "Active grants of the environment and of its project.",
          response: { items: [ofEnvironment] }
        })
      )
  )
  .add(
    HttpApiEndpoint.post("grantEnvironment", "/environments/:envId/grants")
      .setPath(EnvironmentPath)
      .setPayload(CreateAccessGrant)
      .addSuccess(answers(201, AccessGrant))
      .addSuccess(WaitsForSecondPerson)
      .addError(Schema.Union(MayNotManageEnvironment, Errors.MemberNotFound, Errors.PlanLimitReached, BadBody))
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          accepted: waitsExample,
          summary: "Grant a person an environment",
          description: "Never exceeds the person's role.",
          request: grantBody,
          response: ofEnvironment
        })
      )
  )
  .add(
    HttpApiEndpoint.del("end", "/access-grants/:grantId")
      .setPath(Schema.Struct({ grantId: AccessGrantId }))
      .addSuccess(answers(200, DeletedAck))
      .addError(Schema.Union(Errors.GrantNotFound, Errors.Forbidden))
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "End a grant",
          description: "Takes effect with the next request, on all processes.",
          response: { deleted: true }
        })
      )
  )
  .annotateContext(OpenApi.annotations({ description: "Grants of projects and environments to people." })) {}
