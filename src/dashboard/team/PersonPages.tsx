/**
 * Page of one person in a team: environments, credentials, their ends and last uses, and one action that ends them all.
 */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { UserId, uuidPattern } from "#schema/Ids.ts"
import { EndAccess, type HeldCredential, type MemberAuthenticator, type PersonAccess } from "#schema/PersonAccessApi.ts"
import { LastUse, wordsOf } from "#src/dashboard/requests/AccessViews.tsx"
import { DeactivateToo } from "#src/dashboard/frame/DeactivateToo.tsx"
import { WayOutFacts } from "#src/dashboard/frame/WayOutFacts.tsx"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import * as Form from "#src/dashboard/frame/Form.ts"
import { Layout } from "#src/dashboard/frame/Layout.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import {
  action,
  type AtTeam,
  type Attempt,
  button,
  page,
  screen,
  team,
  type TeamVisit,
  to,
  withIds
} from "#src/dashboard/frame/Routes.ts"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"

interface PersonProps {
  readonly visit: TeamVisit
  readonly access: PersonAccess
}

const Until = ({ at, none, now }: { readonly at: string | null; readonly none: string; readonly now: number }) =>
  at === null ? <>{none}</> : <Ui.Until at={at} now={now} />

const Environments = ({ access: { environments, member }, visit }: PersonProps) => (
  <section class="section">
    <h2>Environments</h2>
    {environments.length === 0 ? (
      <p class="hint">{member.active ? "None." : "None: the person is deactivated."}</p>
    ) : (
      <Ui.Table label="Environments that the person reaches" head={["Where", "May", "By", "Until", "Last read"]}>
        {environments.map((one) => (
          <tr>
            <th scope="row">
              <a href={`${Paths.environment({ projectId: one.projectId, slug: one.environment })}/access`}>
                <bdi>{one.project}</bdi> / {one.environment}
              </a>
            </th>
            <td data-label="May">{wordsOf(one.level)}</td>
            <td data-label="By" class="hint">
              {one.by === "grant" ? "a grant" : `the role ${member.role}`}
            </td>
            <td data-label="Until" class="hint">
              <Until at={one.until} now={visit.now} none={one.by === "grant" ? "no end" : "–"} />
            </td>
            <td data-label="Last read" class="hint">
              <LastUse at={one.lastReadAt} now={visit.now} />
            </td>
          </tr>
        ))}
      </Ui.Table>
    )}
  </section>
)

const kinds: ReadonlyMap<string, string> = new Map([
  ["session", "signed in with a browser"],
  ["cli_grant", "a login of the command line"],
  ["oauth_grant", "a connected agent"],
  ["api_token", "an API token that the person created"],
  ["machine_rule", "a trust rule that the person created"]
])

const CredentialName = ({
  of: { id, name, type },
  visit
}: {
  readonly of: HeldCredential
  readonly visit: TeamVisit
}) => {
  const label = name === "" ? (type === "session" ? "Session" : "unnamed") : name
  const base = type === "api_token" ? Paths.tokens(visit.team.id) : undefined
  return base === undefined ? <>{label}</> : <a href={`${base}/${id}`}>{label}</a>
}

const Credentials = ({ access: { credentials, endsSessions, member }, visit }: PersonProps) => (
  <section class="section">
    <h2>Credentials</h2>
    {credentials.length === 0 ? (
      <p class="hint">None.</p>
    ) : (
      <Ui.Table label="Credentials" head={["Name", "Kind", "Until", "Last use", ""]}>
        {credentials.map((one) => (
          <tr>
            <th scope="row">
              <CredentialName of={one} visit={visit} />
            </th>
            <td data-label="Kind" class="hint">
              {kinds.get(one.type) ?? one.type}
            </td>
            <td data-label="Until" class="hint">
              <Until at={one.expiresAt} now={visit.now} none="no end" />
            </td>
            <td data-label="Last use" class="hint">
              <LastUse at={one.lastUsedAt} now={visit.now} />
            </td>
            <td class="end">
              {one.type === "session" && !endsSessions && one.name === "" ? (
                <span class="hint">only the person can end it</span>
              ) : (
                <Ui.Confirm
                  action={`${Paths.member(visit.team.id, member.userId)}/credentials/${one.id}/end`}
                  label="End"
                  of={`${kinds.get(one.type) ?? one.type} ${one.name}`}
                  quiet
                  verb="End it"
                >
                  <p>
                    It stops working at once
                    {one.type === "cli_grant" || one.type === "oauth_grant" ? " for this team" : ""}.
                  </p>
                </Ui.Confirm>
              )}
            </td>
          </tr>
        ))}
      </Ui.Table>
    )}
  </section>
)

const authenticatorKinds: ReadonlyMap<string, string> = new Map([
  ["passkey", "a passkey"],
  ["app", "an authenticator app"],
  ["identity", "a linked sign-in"]
])

const stateOf = ({ opensTeam, waitsForOwner }: MemberAuthenticator) =>
  opensTeam
    ? waitsForOwner
      ? "opens this team for 30 days after the upgrade"
      : "opens this team"
    : waitsForOwner
      ? "waits for an owner"
      : "out of use until the person confirms it"

const Authenticators = ({ access: { authenticators, member }, visit }: PersonProps) => (
  <section class="section">
    <h2>Passkeys, apps and linked sign-ins</h2>
    {authenticators.length === 0 ? (
      <p class="hint">None: the password alone signs the person in.</p>
    ) : (
      <Ui.Table label="Passkeys, apps and linked sign-ins" head={["Name", "What", "Added", "Last use", "Here", ""]}>
        {authenticators.map((one) => (
          <tr>
            <th scope="row">
              <bdi>{one.name}</bdi>
              {one.address === null ? null : (
                <span class="hint">
                  {" "}
                  as <bdi>{one.address}</bdi>
                </span>
              )}
            </th>
            <td data-label="What" class="hint">
              {authenticatorKinds.get(one.type) ?? one.type}
            </td>
            <td data-label="Added" class="hint">
              <Ui.Ago at={one.addedAt} now={visit.now} />
            </td>
            <td data-label="Last use" class="hint">
              <LastUse at={one.lastUsedAt} now={visit.now} />
            </td>
            <td data-label="Here" class="hint">
              {stateOf(one)}
            </td>
            <td class="end">
              {one.waitsForOwner && visit.team.role === "owner" ? (
                <Ui.Confirm
                  action={`${Paths.member(visit.team.id, member.userId)}/authenticators/${one.id}/confirm`}
                  label="Confirm"
                  of={one.name}
                  quiet
                  tone="plain"
                  verb={`Confirm that it is ${member.name}'s`}
                >
                  <p>Ask the person first. From their next sign-in it opens this team.</p>
                </Ui.Confirm>
              ) : null}
            </td>
          </tr>
        ))}
      </Ui.Table>
    )}
  </section>
)

const EndAll = ({ access: { endsSessions, member }, problem, visit }: PersonProps & Pick<Attempt, "problem">) => (
  <section class="section">
    <h2>End all access</h2>
    <Ui.ProblemNote problem={problem} />
    <Ui.Confirm
      action={`${Paths.member(visit.team.id, member.userId)}/end`}
      label="End all access"
      of={`of ${member.email}`}
      verb={`End all access of ${member.name}`}
    >
      <p>
        The person's grants in this team end at once.{" "}
        {endsSessions
          ? "Make a password link for the person: with it they confirm what is theirs, and the rest is deleted."
          : "You do not manage the person in all of their teams, so they stay signed in there. Owners confirm on this page what opens this team again."}
      </p>
      <WayOutFacts of="end_access" here={!endsSessions} />
      {member.active ? <DeactivateToo /> : null}
    </Ui.Confirm>
  </section>
)

const PersonPage = ({ access, problem, visit }: PersonProps & Attempt) => {
  const { member } = access
  return (
    <Layout
      visit={visit}
      section="members"
      title={member.name}
      lead={`${member.email}, ${member.role}${member.active ? "" : ", deactivated"}`}
      crumbs={[{ href: Paths.members(visit.team.id), label: "Members" }]}
    >
      <Environments access={access} visit={visit} />
      <Credentials access={access} visit={visit} />
      <Authenticators access={access} visit={visit} />
      <p class="section">
        <Ui.LinkButton href={Paths.withQuery(`${Paths.incidents(visit.team.id)}/new`, { person: member.userId })}>
          Show the received values
        </Ui.LinkButton>
      </p>
      <EndAll access={access} visit={visit} problem={problem} />
    </Layout>
  )
}

const CredentialId = Schema.String.pipe(Schema.filter((text) => uuidPattern.test(text)))
const member = withIds(team, Schema.Struct({ userId: UserId }))
interface AtMember extends AtTeam {
  readonly userId: UserId
}

const details = screen(
  ({ teamId, userId }: AtMember) => Effect.map(UseCases.personAccess.show(teamId, userId), (access) => ({ access })),
  PersonPage
)

const end = action(member, {
  decode: (form) => Form.decode(EndAccess)({ deactivate: form.has("deactivate") }),
  run: (input, { teamId, userId }) => UseCases.members.endAccess(teamId, userId, input),
  done: (_, { teamId, userId }, { deactivate }) =>
    to(Paths.member(teamId, userId), deactivate === true ? "member-shut-out" : "member-access-ended"),
  again: details
})

const endOne = button(withIds(team, Schema.Struct({ userId: UserId, credentialId: CredentialId })), {
  run: ({ credentialId, teamId, userId }) => UseCases.members.endCredential(teamId, userId, credentialId),
  done: (_, { teamId, userId }) => to(Paths.member(teamId, userId), "credential-ended")
})

const confirm = button(withIds(team, Schema.Struct({ userId: UserId, authenticatorId: CredentialId })), {
  run: ({ authenticatorId, teamId, userId }) => UseCases.memberAuthenticators.confirm(teamId, userId, authenticatorId),
  done: (_, { teamId, userId }) => to(Paths.member(teamId, userId), "authenticator-confirmed")
})

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get("/app/teams/:teamId/members/:userId", page(member, details)),
  HttpRouter.post("/app/teams/:teamId/members/:userId/end", end),
  HttpRouter.post("/app/teams/:teamId/members/:userId/authenticators/:authenticatorId/confirm", confirm),
  HttpRouter.post("/app/teams/:teamId/members/:userId/credentials/:credentialId/end", endOne)
)
