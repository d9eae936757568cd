/**
 * Proof that the rules passed. `Access` alone issues permits (docs/architecture.md); test/architecture.test.ts checks
 * that.
 */
import type { AuditAction } from "#schema/Audit.ts"
import type { Caller } from "#schema/Caller.ts"
import type { AuditEvent } from "#src/trail/Entry.ts"
import { Forbidden, type StepUpRequired } from "#schema/Errors.ts"
import type { Action } from "./Actions.ts"
import * as Policy from "./Policy.ts"
import type { EnvironmentTarget, Target, TeamTarget } from "./Target.ts"

/** Members of an entry beside actor, action and target. */
type Details = Pick<
  AuditEvent,
  "keys" | "versions" | "contains" | "revision" | "compared" | "target" | "reason" | "digest"
>

/** The event of an action by `caller` on `target`. It sets every member, so that all events share one hidden class. */
export const eventOf = (
  caller: Caller,
  target: Target,
  action: AuditAction,
  outcome: AuditEvent["outcome"],
  details: Details
): AuditEvent => {
  const environment = target.type === "environment" ? target : undefined
  return {
    actor: caller,
    action,
    outcome,
    teamId: target.teamId,
    projectId: target.type === "team" ? undefined : target.projectId,
    environmentId: environment?.environmentId,
    environment: environment?.slug,
    keys: details.keys,
    versions: details.versions,
    contains: details.contains,
    revision: details.revision,
    compared: details.compared,
    target: details.target,
    reason: details.reason,
    typed: undefined,
    earlier: undefined,
    digest: details.digest
  }
}

export class Permit<out A extends Action, out T extends Target> {
  readonly #action: A
  private constructor(
    action: A,
    readonly caller: Caller,
    readonly target: T,
    /** The audit action for the use of this permit. */
    readonly audit: AuditAction
  ) {
    this.#action = action
  }
  get action(): A {
    return this.#action
  }

  /** Whether a write with this permit waits for an approval. */
  get proposes(): boolean {
    const team = Policy.teamOf(this.caller, this.target.teamId)
    return team !== undefined && Policy.proposes(this.caller, team, this.target)
  }

  /**
   * The refusal of another action here, for a use case that learns under its locks that it needs that too. `change`
   * records it.
   */
  refusalOf<B extends Action>(action: B): Policy.DenialOf<B> | Forbidden | StepUpRequired | undefined {
    const team = Policy.teamOf(this.caller, this.target.teamId)
    const request = team === undefined ? undefined : { caller: this.caller, team, target: this.target, action }
    return request === undefined ? new Forbidden() : (Policy.decide(request) ?? Policy.needsStepUp(request))
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

  /** The audit entry for the use of this permit on these keys. */
  event(details: Details & { readonly audit?: AuditAction } = {}): AuditEvent {
    return eventOf(this.caller, this.target, details.audit ?? this.audit, "allowed", details)
  }
}

export type EnvironmentPermit<A extends Action> = Permit<A, EnvironmentTarget>
export type TeamPermit<A extends Action> = Permit<A, TeamTarget>
