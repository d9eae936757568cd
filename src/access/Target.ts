/** What an action is done to, as `Access` found it visible. */
import type { EnvironmentId, ProjectId, TeamId } from "#schema/Ids.ts"
import type { Changes, Plan, Readers, Visibility } from "#schema/Scopes.ts"

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
export interface EnvironmentTarget {
  readonly type: "environment"
  readonly teamId: TeamId
  readonly plan: Plan
  readonly projectId: ProjectId
  readonly environmentId: EnvironmentId
  readonly slug: string
  readonly protected: boolean
  readonly revision: number
  /** How often what people say of its secrets was changed: no part of `revision`, since no value depends on it. */
  readonly described: number
  readonly readers: Readers
  readonly changes: Changes
  readonly visibility: Visibility
}
export type Target = TeamTarget | ProjectTarget | EnvironmentTarget
