/** One sign-in button per issuer. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { TeamId } from "#schema/Ids.ts"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"
import type { Visit } from "#src/dashboard/frame/Visit.ts"

export interface OfferedIssuer {
  readonly key: string
  readonly name: string
}

const decodeTeam = Schema.decodeOption(TeamId)

/**
 * Issuers of the installation and, with a team's id, that team's own. `alone` means that the team accepts only these
 * sign-ins.
 */
export const offeredIssuers = (team: string) =>
  Effect.map(UseCases.signInIssuers.listForPage(Option.getOrNull(decodeTeam(team))), ({ issuers, only }) => ({
    issuers: issuers.filter(({ key }) => only === null || only.includes(key)),
    alone: only !== null
  }))

/** The issuer of the current session, with which the person can confirm an action. */
export const linkedIssuers = ({ caller }: Visit) =>
  Effect.map(UseCases.signInIssuers.listForPage(caller.onlyTeam), ({ issuers }) =>
    issuers.filter(({ key }) => key === caller.issuer)
  )

/** `at` gives the address of the button by the issuer's key. */
export const IssuerButtons = ({
  at = Paths.signInWith,
  issuers,
  next,
  primary = false,
  verb = "Sign in with"
}: {
  readonly primary?: boolean
  readonly issuers: ReadonlyArray<OfferedIssuer>
  readonly next: string
  readonly at?: (issuer: string) => string
  readonly verb?: string
}) =>
  issuers.length === 0 ? null : (
    <div class="buttons issuers">
      {issuers.map(({ key, name }) => (
        <form method="post" action={at(key)} class="act">
          <input type="hidden" name="next" value={next} />
          <button class={primary ? "button button-primary" : "button button-plain"}>
            {verb} {name}
          </button>
        </form>
      ))}
    </div>
  )
