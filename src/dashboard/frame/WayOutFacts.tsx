/** The effect of a way out on each way in, from the one list of `WaysIn.ts`. */
import type { EndedWay, WayEnding } from "#schema/WaysIn.ts"
import { everythingThatOpens, type WayOut, waysOut } from "#src/credentials/WaysIn.ts"

type Way = keyof typeof everythingThatOpens

const words: Readonly<Record<Way, string>> = {
  links: "links",
  password: "the password",
  sessions: "sessions",
  tokens: "API tokens and trust rules",
  logins: "CLI logins",
  agents: "connected agents",
  devices: "known browsers",
  steps: "sign-ins under way",
  recoveryCodes: "recovery codes",
  passkeys: "passkeys",
  app: "the authenticator app",
  identities: "linked sign-ins"
}
const headings: Readonly<Record<WayEnding, string>> = {
  ended: "Ended for good",
  out_of_use: "Out of use until the person confirms them after a reset link",
  closed: "Open this team no more until an owner confirms them",
  kept: "Kept"
}
const isWay = (way: EndedWay["way"]): way is Way => way in words
const isEnding = (ending: string): ending is WayEnding => ending in headings

/** These set a new password, so the old one is neither kept nor ended. */
const setsPassword: ReadonlySet<WayOut> = new Set(["password_change", "reset_link"])

/** `here`: for an actor who manages the person in some of their teams only. */
export const WayOutFacts = ({ here = false, of }: { readonly of: WayOut; readonly here?: boolean }) => {
  const plan = here ? waysOut[of].here : waysOut[of].everywhere
  const ways = Object.entries(plan ?? {}).filter(([way]) => way !== "password" || !setsPassword.has(of))
  return (
    <>
      {Object.keys(headings)
        .filter(isEnding)
        .map((ending) => {
          const names = ways.flatMap(([way, one]) => (one === ending && isWay(way) ? [words[way]] : []))
          return names.length === 0 ? null : (
            <p class="hint">
              {headings[ending]}: {names.join(", ")}.
            </p>
          )
        })}
    </>
  )
}
