/** What a person is told whose session a team does not take: by what it is opened, and how they get that. */
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
      title={`${team.name} is opened by ${either(team.issuers.map(({ name }) => name)) || "its issuers"} alone`}
    >
      <p>
        {bySign} The team does not take that.{" "}
        {team.issuers.length === 0
          ? "Its issuers are disabled now: ask one of its owners."
          : linked.length > 0
            ? "Sign in with what is linked to your account:"
            : "Link the sign-in to your account first; it opens the team from then on. If you have no account there, ask an owner of the team."}
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
            : "You signed in by another issuer."
        }
      />
    ))}
  </>
)
