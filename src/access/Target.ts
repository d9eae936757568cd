/** The target of an action, after `Access` found it visible. */
import type { NamedEnvironment } from "#schema/Caller.ts"
import type { ProjectId, TeamId } from "#schema/Ids.ts"
import type { Plan, Visibility } from "#schema/Scopes.ts"

export interface TeamTarget {
  readonly type: "team"
  readonly teamId: TeamId
  readonly plan: Plan
}
export interface ProjectTarget {
  readonly type: "project"
  readonly teamId: TeamId
  readonly plan: Plan
  readonly projectId: ProjectId
  readonly visibility: Visibility
}
export interface EnvironmentTarget extends NamedEnvironment {
  readonly type: "environment"
  readonly plan: Plan
}
export type Target = TeamTarget | ProjectTarget | EnvironmentTarget
