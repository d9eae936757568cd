/** Limits of each plan, and limits of every plan (docs/contract/limits.md). */
import type { Plan } from "#schema/Scopes.ts"
import { days } from "#src/Days.ts"

/** Lifetime choices of an API token in milliseconds; a year is 365 days. */
export const lifetimes = { "1d": days(1), "7d": days(7), "30d": days(30), "90d": days(90), "1y": days(365) } as const
type Lifetime = keyof typeof lifetimes

interface PlanLimits {
  readonly longestLifetime: Lifetime
  /** "The active-token cap is an abuse limit, not a pricing tier." */
  readonly activeTokens: number
  /** Whether earlier versions of secrets are kept. */
  readonly versions: boolean
}

export const plans: Record<Plan, PlanLimits> = {
  developer: { longestLifetime: "90d", activeTokens: 500, versions: false },
  team: { longestLifetime: "1y", activeTokens: 2_000, versions: true }
}

export const lifetimeAllowed = (plan: Plan, lifetime: Lifetime): boolean =>
  lifetimes[lifetime] <= lifetimes[plans[plan].longestLifetime]

export const environmentsPerProject = 100
export const projectsPerTeam = 1_000
/** Limits against abuse, which bound lists without pages. Open invitations count as members. */
export const membersPerTeam = 1_000
export const teamsPerPerson = 100
