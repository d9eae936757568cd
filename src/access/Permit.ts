/** Proof that the rules passed. `Access` alone issues permits (architecture rule 7; test/architecture.test.ts holds it). */
import type { AuditAction } from "#schema/Audit.ts"
import type { Caller } from "#schema/Caller.ts"
import type { EnvironmentId, ProjectId, TeamId } from "#schema/Ids.ts"
import type { Plan } from "#schema/Scopes.ts"
import type { AuditEvent } from "./Audit.ts"
import type { Action } from "./Policy.ts"

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
}
export type Target = TeamTarget | ProjectTarget | EnvironmentTarget

export class Permit<out A extends Action, out T extends Target> {
  readonly #action: A
  private constructor(
    action: A,
    readonly caller: Caller,
    readonly target: T,
    /** What the audit trail calls the use of this permit. */
    readonly audit: AuditAction
  ) {
    this.#action = action
  }
  get action(): A {
    return this.#action
  }

  /** For `Access` only. */
  static issue<A extends Action, T extends Target>(
    action: A,
    caller: Caller,
    target: T,
    audit: AuditAction
  ): Permit<A, T> {
    return new Permit(action, caller, target, audit)
  }

  /** The entry that says this permit was used on these keys. */
  event(details: Pick<AuditEvent, "keys" | "target"> & { readonly audit?: AuditAction } = {}): AuditEvent {
    return {
      actor: this.caller,
      action: details.audit ?? this.audit,
      outcome: "allowed",
      teamId: this.target.teamId,
      ...("projectId" in this.target ? { projectId: this.target.projectId } : {}),
      ...("environmentId" in this.target
        ? { environmentId: this.target.environmentId, environment: this.target.slug }
        : {}),
      ...(details.keys === undefined ? {} : { keys: details.keys }),
      ...(details.target === undefined ? {} : { target: details.target })
    }
  }
}

export type EnvironmentPermit<A extends Action> = Permit<A, EnvironmentTarget>
export type ProjectPermit<A extends Action> = Permit<A, ProjectTarget>
export type TeamPermit<A extends Action> = Permit<A, TeamTarget>
