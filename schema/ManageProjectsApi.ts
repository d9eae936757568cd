import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Schema from "effect/Schema"
import { ManagingCredential } from "./Authentication.ts"
import * as Errors from "./Errors.ts"
import { EnvironmentId, ProjectId, TeamId, UserId } from "./Ids.ts"
import { operation } from "./Operation.ts"
import { waitsExample, WaitsForSecondPerson } from "./WaitsForSecondPerson.ts"
import { Project, ProjectEnvironment } from "./ProjectsApi.ts"
import { BadBody, MayNotManageEnvironment, MayNotManageProject, MayNotManageTeam } from "./RouteErrors.ts"
import { Approvals, Changes, Readers, Visibility } from "./Scopes.ts"
import { atLeastOne, eachOnce, optional, strict } from "./Strict.ts"
import { boundedList, EnvironmentSlug, Name, ProjectSlug } from "./Values.ts"
import { answers, DeletedAck } from "./Wire.ts"

export const CreateEnvironment = strict(
  Schema.Struct({
    slug: EnvironmentSlug,
    name: optional(Name),
    protected: optional(Schema.Boolean),
    readers: optional(Readers),
    changes: optional(Changes)
  })
).annotations({ identifier: "CreateEnvironment" })
export type CreateEnvironment = typeof CreateEnvironment.Type

export const CreateProject = strict(
  Schema.Struct({
    name: Name,
    slug: optional(ProjectSlug),
    visibility: optional(Visibility),
    environments: optional(
      boundedList(CreateEnvironment, 0, 100).pipe(
        Schema.filter(
          (environments) => {
            const slugs = environments.map((environment) => environment.slug)
            const at = slugs.findIndex((slug, i) => slugs.indexOf(slug) < i)
            return at < 0 ? undefined : { path: [at, "slug"], message: "must not repeat an earlier slug" }
          },
          { jsonSchema: { uniqueItems: true } }
        )
      )
    )
  })
).annotations({
  identifier: "CreateProject",
  description:
    "slug: derived from the name by default. environments: by default development, staging and a protected production."
})
export type CreateProject = typeof CreateProject.Type

export const UpdateProject = strict(
  atLeastOne(
    Schema.Struct({ name: optional(Name), slug: optional(ProjectSlug), visibility: optional(Visibility) }),
    "name",
    "slug",
    "visibility"
  )
).annotations({ identifier: "UpdateProject" })
export type UpdateProject = typeof UpdateProject.Type

/** Limit of environments per project. */
const Position = Schema.Int.pipe(Schema.between(1, 100)).annotations({
  message: () => "must be a whole number from 1 to 100",
  jsonSchema: { type: "integer", minimum: 1, maximum: 100 }
})

export const UpdateEnvironment = strict(
  atLeastOne(
    Schema.Struct({
      name: optional(Name),
      protected: optional(Schema.Boolean),
      readers: optional(Readers),
      approvers: optional(eachOnce(boundedList(UserId, 0, 20), (id) => id, "must not repeat an earlier member")),
      approvals: optional(Approvals),
      changes: optional(Changes),
      position: optional(Position)
    }),
    "name",
    "position",
    "protected",
    "readers",
    "approvers",
    "approvals",
    "changes"
  )
).annotations({
  identifier: "UpdateEnvironment",
  description:
    "approvers: ids of members who decide beside owners and admins. approvals: applies while it is protected. changes: whether writes of roles below admin wait for an approval. position: its place in lists, from 1; larger numbers mean the last."
})
export type UpdateEnvironment = typeof UpdateEnvironment.Type

const ProjectPath = Schema.Struct({ projectId: ProjectId })
const EnvironmentPath = Schema.Struct({ envId: EnvironmentId })

const at = "2026-11-21T08:00:00.000Z"
const project = {
  id: "01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7e",
  teamId: "01980a5d-0f3a-7c10-8e2b-9a7c6d5e4f30",
  name: "Shop",
  slug: "shop",
  visibility: "team",
  createdAt: at,
  updatedAt: at
}
const environment = {
  id: "01980a5e-7c12-7000-8a1b-2c3d4e5f6071",
  slug: "preview",
  name: "Preview",
  protected: false,
  readers: "team",
  createdAt: at
}

/** Owners and admins manage projects and environments (docs/contract/session-routes.md). */
export class ManageProjectsApi extends HttpApiGroup.make("manageProjects")
  .add(
    HttpApiEndpoint.post("create", "/teams/:teamId/projects")
      .setPath(Schema.Struct({ teamId: TeamId }))
      .setPayload(CreateProject)
      .addSuccess(answers(201, Project))
      .addError(Schema.Union(MayNotManageTeam, Errors.PlanLimitReached, Errors.NameTaken, BadBody))
      .middleware(ManagingCredential)
      .annotateContext(
        operation({
          summary: "Create a project",
          description: "Includes its environments: by default development, staging and a protected production.",
          request: { name: "Shop" },
          response: project
        })
      )
  )
  .add(
    HttpApiEndpoint.patch("update", "/projects/:projectId")
      .setPath(ProjectPath)
      .setPayload(UpdateProject)
      .addSuccess(answers(200, Project))
      .addSuccess(WaitsForSecondPerson)
      .addError(Schema.Union(MayNotManageProject, Errors.NameTaken, BadBody))
      .middleware(ManagingCredential)
      .annotateContext(
        operation({
          accepted: waitsExample,
          summary: "Change a project",
          description: "Name, slug and visibility.",
          request: { name: "Shop" },
          response: project
        })
      )
  )
  .add(
    HttpApiEndpoint.del("remove", "/projects/:projectId")
      .setPath(ProjectPath)
      .addSuccess(answers(200, DeletedAck))
      .addError(MayNotManageProject)
      .middleware(ManagingCredential)
      .annotateContext(
        operation({
          summary: "Delete a project",
          description: "Deletes everything in it too. It need not be empty. The deletion is audited.",
          response: { deleted: true }
        })
      )
  )
  .add(
    HttpApiEndpoint.post("createEnvironment", "/projects/:projectId/environments")
      .setPath(ProjectPath)
      .setPayload(CreateEnvironment)
      .addSuccess(answers(201, ProjectEnvironment))
      .addError(Schema.Union(MayNotManageProject, Errors.PlanLimitReached, Errors.NameTaken, BadBody))
      .middleware(ManagingCredential)
      .annotateContext(
        operation({
          summary: "Create an environment",
          description:
            "Slugs are unique among the live environments of a project. A protected one starts with readers set to granted.",
          request: { slug: "preview", name: "Preview" },
          response: environment
        })
      )
  )
  .add(
    HttpApiEndpoint.patch("updateEnvironment", "/environments/:envId")
      .setPath(EnvironmentPath)
      .setPayload(UpdateEnvironment)
      .addSuccess(answers(200, ProjectEnvironment))
      .addSuccess(WaitsForSecondPerson)
      .addError(Schema.Union(MayNotManageEnvironment, BadBody))
      .middleware(ManagingCredential)
      .annotateContext(
        operation({
          accepted: waitsExample,
          summary: "Change an environment",
          description: "Name, protection, readers, approvers of access requests, and position.",
          request: { protected: true },
          response: { ...environment, protected: true }
        })
      )
  )
  .add(
    HttpApiEndpoint.del("removeEnvironment", "/environments/:envId")
      .setPath(EnvironmentPath)
      .addSuccess(answers(200, DeletedAck))
      .addError(MayNotManageEnvironment)
      .middleware(ManagingCredential)
      .annotateContext(
        operation({
          summary: "Delete an environment",
          description: "Deletes its secrets too. It need not be empty. The deletion is audited.",
          response: { deleted: true }
        })
      )
  )
  .annotateContext(OpenApi.annotations({ description: "Managing projects and environments." })) {}
