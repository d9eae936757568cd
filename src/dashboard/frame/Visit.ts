/** Facts about the request and its visitor, for every page. */
import type { Caller, CallerTeam } from "#schema/Caller.ts"
import type { Action } from "#src/access/Actions.ts"
import * as Actions from "#src/access/Actions.ts"
import * as Policy from "#src/access/Policy.ts"
import type { TeamCreation } from "#src/AppConfig.ts"

export type Theme = "light" | "dark"

export interface UiSettings {
  readonly baseUrl: string
  readonly origin: string
  readonly style: string
  readonly script: string
  readonly islands: string
  readonly icon: string
  readonly teamCreation: TeamCreation
  /** The person's choice; undefined for the system's theme. */
  readonly theme?: Theme | undefined
}

export interface Visitor {
  readonly ui: UiSettings
  readonly caller: Caller | null
  readonly path: string
  readonly now: number
  /** Name of a notice; see `Notices.ts`. */
  readonly notice: string
  /** Subject of the notice: an id, a version or counts, for pages that need it. */
  readonly about: string
}

/** A signed-in visitor, and the page's team. */
export interface Visit extends Visitor {
  readonly caller: Caller
  readonly user: NonNullable<Caller["user"]>
  readonly team: CallerTeam | null
  /** Number of requests that wait for this person's decision, in all of their teams. */
  readonly waiting: number
}

export const isVisit = (visitor: Visitor): visitor is Visit => visitor.caller !== null && "user" in visitor

export const mayCreateTeam = ({ caller, ui }: Visit): boolean => Policy.mayCreateTeam(caller, ui.teamCreation)

/** True if a page offers an action. The use cases decide; this only hides useless buttons. */
export const may = (visit: Visit, action: Action): boolean =>
  visit.team !== null && visit.team.role !== null && Actions.byRole[visit.team.role].has(action)
