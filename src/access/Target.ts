/** The target of an action, after `Access` found it visible. */
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
  /** Counts changes of the descriptions of its secrets. Not part of `revision`, because no value depends on them. */
  readonly described: number
  readonly readers: Readers
  readonly changes: Changes
  readonly visibility: Visibility
}
export type Target = TeamTarget | ProjectTarget | EnvironmentTarget
