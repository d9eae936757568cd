import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Schema from "effect/Schema"
import { AnyCredential } from "./Authentication.ts"
import * as Errors from "./Errors.ts"
import { EnvironmentIdOut, ProjectId, ProjectIdOut, TeamIdOut, UserIdOut } from "./Ids.ts"
import { operation } from "./Operation.ts"
import { MayNotReadProject } from "./RouteErrors.ts"
import { optional } from "./Strict.ts"
import { Timestamp } from "./Values.ts"
import { answers, ChangesOut, Integer, ReadersOut, Slug, VisibilityOut } from "./Wire.ts"

export const Project = Schema.Struct({
  id: ProjectIdOut,
  teamId: TeamIdOut,
  name: Schema.String,
  slug: Schema.String,
  /** Optional, because older servers do not send it; this one always does. */
  visibility: optional(VisibilityOut),
  createdAt: Timestamp,
  updatedAt: Timestamp
}).annotations({ identifier: "Project" })
export type Project = typeof Project.Type

/** Reference to a project or an environment in another record. */
export const ProjectRef = Schema.Struct({ id: ProjectIdOut, name: Schema.String }).annotations({
  identifier: "ProjectRef"
})
export const EnvironmentRef = Schema.Struct({ id: EnvironmentIdOut, slug: Slug, projectId: ProjectIdOut }).annotations({
  identifier: "EnvironmentRef"
})

export const ProjectList = Schema.Struct({ items: Schema.Array(Project) }).annotations({ identifier: "ProjectList" })
export type ProjectList = typeof ProjectList.Type

export const ProjectEnvironment = Schema.Struct({
  id: EnvironmentIdOut,
  slug: Slug,
  name: Schema.String,
  protected: Schema.Boolean,
  /** Optional, like `visibility` of a project. */
  readers: optional(ReadersOut),
  approvers: optional(Schema.Array(UserIdOut)),
  approvals: optional(Integer),
  changes: optional(ChangesOut),
  createdAt: Timestamp
}).annotations({ identifier: "ProjectEnvironment" })
export type ProjectEnvironment = typeof ProjectEnvironment.Type

export const ProjectEnvironmentList = Schema.Struct({
  projectId: ProjectIdOut,
  items: Schema.Array(ProjectEnvironment)
}).annotations({ identifier: "ProjectEnvironmentList" })
export type ProjectEnvironmentList = typeof ProjectEnvironmentList.Type

const at = "2026-11-21T08:00:00.000Z"
const projectId = "01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7e"

/** Projects and environments that a credential can see. */
export class ProjectsApi extends HttpApiGroup.make("projects")
  .add(
    HttpApiEndpoint.get("list", "/projects")
      .addSuccess(answers(200, ProjectList))
      .addError(Errors.ScopeMissing)
      .middleware(AnyCredential)
      .annotateContext(
        operation({
          scope: "projects:read",
          summary: "List projects",
          description:
            "Projects visible across all teams granted to the credential. A credential narrowed to some projects sees only those.",
          response: {
            items: [
              {
                id: projectId,
                teamId: "01980a5d-0f3a-7c10-8e2b-9a7c6d5e4f30",
                name: "Shop",
                slug: "shop",
                visibility: "team",
                createdAt: at,
                updatedAt: at
              }
            ]
          }
        })
      )
  )
  .add(
    HttpApiEndpoint.get("listEnvironments", "/projects/:projectId/environments")
      .setPath(Schema.Struct({ projectId: ProjectId }))
      .addSuccess(answers(200, ProjectEnvironmentList))
      .addError(MayNotReadProject)
      .middleware(AnyCredential)
      .annotateContext(
        operation({
          scope: "projects:read",
          summary: "List the environments of a project",
          description: "Environments of the project that the credential reaches.",
          response: {
            projectId,
            items: [
              {
                id: "01980a5e-7c12-7000-8a1b-2c3d4e5f6071",
                slug: "development",
                name: "Development",
                protected: false,
                readers: "team",
                createdAt: at
              }
            ]
          }
        })
      )
  )
  .annotateContext(OpenApi.annotations({ description: "Projects and their environments." })) {}
