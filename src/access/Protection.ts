/** The settings that protect an environment, and whether a change lowers one of them. */
import type { UserId } from "#schema/Ids.ts"
import type { Approvals, Changes, Readers } from "#schema/Scopes.ts"

export interface Protection {
  readonly protected: boolean
  readonly readers: Readers
  readonly approvers: ReadonlyArray<UserId>
  readonly approvals: Approvals
  readonly changes: Changes
}
type Lowers<Value> = (before: Value, after: Value) => boolean

/** One answer for each setting: the type demands it. */
const lowers: { readonly [Name in keyof Protection]: Lowers<Protection[Name]> } = {
  protected: (before, after) => before && !after,
  readers: (before, after) => before === "granted" && after === "team",
  /** Each new approver opens the environment to others. */
  approvers: (before, after) => after.some((id) => !before.includes(id)),
  approvals: (before, after) => after < before,
  changes: (before, after) => before === "proposed" && after === "direct"
}

const lowersOne = <Name extends keyof Protection>(name: Name, before: Protection, after: Partial<Protection>) => {
  const value: Protection[Name] | undefined = after[name]
  return value !== undefined && lowers[name](before[name], value)
}

/** Whether the change gives somebody more than before, whatever else it does. */
export const isLowered = (before: Protection, after: Partial<Protection>): boolean =>
  lowersOne("protected", before, after) ||
  lowersOne("readers", before, after) ||
  lowersOne("approvers", before, after) ||
  lowersOne("approvals", before, after) ||
  lowersOne("changes", before, after)
