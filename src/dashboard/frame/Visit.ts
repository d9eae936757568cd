/** What every page knows about the request and its visitor. */
import type { Caller, CallerTeam } from "#schema/Caller.ts"
import type { Action } from "#src/access/Policy.ts"
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
  /** What the person chose; undefined: as their system has it. */
  readonly theme?: Theme | undefined
}

export interface Visitor {
  readonly ui: UiSettings
  readonly caller: Caller | null
  readonly path: string
  readonly now: number
  /** Name of a sentence about what was just done; see `Notices.ts`. */
  readonly notice: string
  /** What the notice is about: an id, a version, counts. Read by the pages that make something of it. */
  readonly about: string
}

/** A visitor who is signed in, and the team that the page is about. */
export interface Visit extends Visitor {
  readonly caller: Caller
  readonly user: NonNullable<Caller["user"]>
  readonly team: CallerTeam | null
  /** Requests for access and changes that wait for this person's decision, in all of their teams. */
  readonly waiting: number
}

export const isVisit = (who: Visitor): who is Visit => who.caller !== null && "user" in who

export const mayCreateTeam = ({ caller, ui }: Visit): boolean => Policy.mayCreateTeam(caller, ui.teamCreation)

/** Whether a page offers an action. The use cases decide; this only hides buttons that would not work. */
export const may = (visit: Visit, action: Action): boolean =>
  visit.team !== null && visit.team.role !== null && Policy.roleAllows(visit.team.role, action)
