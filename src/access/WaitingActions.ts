/** Actions that can wait for a second person, each with the input that its approval runs with. */
import * as Schema from "effect/Schema"
import { CreateAccessGrant } from "#schema/AccessApi.ts"
import { AccessRequestId, ChangeRequestId, EnvironmentId, ProjectId, UserId } from "#schema/Ids.ts"
import { UpdateEnvironment, UpdateProject } from "#schema/ManageProjectsApi.ts"
import { optional } from "#schema/Strict.ts"
import { Invite, UpdateMember, UpdateTeam } from "#schema/TeamsApi.ts"

const kind = <const Kind extends string, Fields extends Schema.Struct.Fields>(kind: Kind, fields: Fields) =>
  Schema.Struct({ kind: Schema.Literal(kind), ...fields })

/** Every action that can wait, with its input. */
export const Waiting = Schema.Union(
  kind("project_grant", { projectId: ProjectId, input: CreateAccessGrant }),
  kind("environment_grant", { environmentId: EnvironmentId, input: CreateAccessGrant }),
  kind("environment", { environmentId: EnvironmentId, input: UpdateEnvironment }),
  kind("project", { projectId: ProjectId, input: UpdateProject }),
  kind("member", { userId: UserId, input: UpdateMember }),
  kind("invitation", { input: Invite }),
  kind("password", { userId: UserId }),
  kind("team", { input: UpdateTeam }),
  kind("access_request", { requestId: AccessRequestId }),
  kind("change_request", { requestId: ChangeRequestId, digest: optional(Schema.String) })
)
export type Waiting = typeof Waiting.Type
