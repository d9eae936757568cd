/** Explains to a person why a team refuses their session, and how to sign in for it. */
import type { ClosedTeam } from "#src/openid/ClosedTeams.ts"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import { IssuerButtons } from "./IssuerButtons.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import type { Visit } from "#src/dashboard/frame/Visit.ts"

const either = (names: ReadonlyArray<string>) => names.join(" or ")

const Closed = ({ bySign, team }: { readonly team: ClosedTeam; readonly bySign: string }) => {
  const linked = team.issuers.filter((one) => one.linked)
  const others = team.issuers.filter((one) => !one.linked)
  return (
    <Ui.Callout
      tone="warning"
      title={`${team.name} accepts only sign-ins with ${either(team.issuers.map(({ name }) => name)) || "its issuers"}`}
    >
      <p>
        {bySign}{" "}
        {team.issuers.length === 0
          ? "The team's issuers are disabled. Ask one of its owners."
          : linked.length > 0
            ? "Sign in with an issuer that is linked to your account:"
            : "Link the issuer to your account first, then sign in with it. If you have no account there, ask an owner of the team."}
      </p>
      {linked.length > 0 ? (
        <IssuerButtons issuers={linked} next="" />
      ) : (
        <IssuerButtons issuers={others} next="" at={Paths.linkWith} verb="Link" />
      )}
    </Ui.Callout>
  )
}

export const ClosedTeams = ({ teams, visit }: { readonly teams: ReadonlyArray<ClosedTeam>; readonly visit: Visit }) => (
  <>
    {teams.map((team) => (
      <Closed
        team={team}
        bySign={
          visit.caller.issuer === null
            ? "You signed in with a password or a passkey."
            : "You signed in with another issuer."
        }
      />
    ))}
  </>
)
