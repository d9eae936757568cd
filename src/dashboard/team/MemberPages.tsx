/** Pages and forms of a team's members and invitations. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { ComponentChildren } from "preact"
import { UserId, uuidPattern } from "#schema/Ids.ts"
import { Role } from "#schema/Scopes.ts"
import { type Invitation, Invite, type Member, UpdateMember } from "#schema/TeamsApi.ts"
import type { OpenInvitation } from "#src/projects/Invitations.ts"
import { Beside } from "#src/dashboard/frame/Beside.tsx"
import { WayOutFacts } from "#src/dashboard/frame/WayOutFacts.tsx"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import * as CopyText from "#src/dashboard/frame/CopyText.tsx"
import * as Form from "#src/dashboard/frame/Form.ts"
import * as Html from "#src/dashboard/frame/Html.ts"
import { Layout } from "#src/dashboard/frame/Layout.tsx"
import { query } from "#src/dashboard/frame/Pages.ts"
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
import { may } from "#src/dashboard/frame/Visit.ts"

const roleWords: Readonly<Record<Role, string>> = {
  owner: "Owner: everything, including owners and the plan",
  admin: "Admin: protected environments, projects, tokens, members",
  member: "Member: reads values, writes unprotected environments",
  viewer: "Viewer: names and metadata, no values"
}

/** Roles that the current person may give and take. */
const rolesFor = (visit: TeamVisit) =>
  Role.literals
    .filter((one) => visit.team.role === "owner" || one !== "owner")
    .map((value) => ({ value, label: roleWords[value] }))

const InvitePanel = ({ form, problem, visit }: Attempt & { readonly visit: TeamVisit }) => {
  const at = Paths.members(visit.team.id)
  return (
    <Beside
      words={[
        ["The link", "You send it to the person yourself. It works once and expires after a week."],
        ["The role", "You can change it later. Only owners can make someone an owner."]
      ]}
    >
      <form method="post" action={`${at}/invite`} class="panel">
        <h2>Invite a person</h2>
        {problem?.field === "email" ? null : <Ui.ProblemNote problem={problem} />}
        <Ui.TextField
          name="email"
          label="E-mail address"
          type="email"
          value={form.text("email")}
          focus
          problem={problem}
        />
        <Ui.Select
          name="role"
          label="Role"
          choices={rolesFor(visit).reverse()}
          value={form.filled("role") ?? "member"}
          problem={problem}
        />
        <Ui.Submit cancel={at}>Create the link</Ui.Submit>
      </form>
    </Beside>
  )
}

const OpenInvitations = ({
  invitations,
  visit
}: {
  readonly visit: TeamVisit
  readonly invitations: ReadonlyArray<OpenInvitation>
}) => (
  <section class="section">
    <h2>Open invitations</h2>
    {invitations.length === 0 ? (
      <p class="hint">There are no open invitations.</p>
    ) : (
      <Ui.Table label="Open invitations" head={["Person", "Role", "Invited by", "Expires", ""]}>
        {invitations.map((one) => (
          <tr>
            <th scope="row">{one.email}</th>
            <td data-label="Role">{one.role}</td>
            <td data-label="Invited by" class="hint">
              {one.invitedBy}, <Ui.Ago at={one.createdAt} now={visit.now} />
            </td>
            <td data-label="Expires" class="hint">
              <Ui.Until at={one.expiresAt} now={visit.now} />
            </td>
            <td class="end">
              {one.role === "owner" && visit.team.role !== "owner" ? (
                <span class="hint">only an owner can withdraw it</span>
              ) : (
                <Ui.Confirm
                  action={`${Paths.members(visit.team.id)}/invitations/${one.id}/withdraw`}
                  label="Withdraw"
                  of={`the invitation of ${one.email}`}
                  quiet
                  verb="Withdraw the invitation"
                >
                  <p>
                    The link for <strong>{one.email}</strong> stops working at once. You can create another one.
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

const MemberPanel = ({ member, visit }: { readonly visit: TeamVisit; readonly member: Member }) => {
  const here = `${Paths.members(visit.team.id)}/${member.userId}`
  return (
    <details>
      <summary class="button button-quiet">
        Edit<span class="hidden"> {member.name}</span>
      </summary>
      <div class="stack panel row-panel">
        <form method="post" action={here}>
          <Ui.Select
            id={`role-${member.userId}`}
            name="role"
            label="Role"
            choices={rolesFor(visit)}
            value={member.role}
          />
          <Ui.CheckBox
            name="active"
            checked={member.active}
            hint="If you switch this off, the person loses access to this team at once. Their API tokens work for 7 more days."
          >
            Active
          </Ui.CheckBox>
          <p class="hint">Changing the role revokes the API tokens that the person created.</p>
          <Ui.Submit>Save</Ui.Submit>
        </form>
        <Ui.Act action={`${here}/reset`}>Create a password link</Ui.Act>
        {member.userId === visit.user.id ? null : (
          <Ui.Confirm action={`${here}/remove`} label="Remove" verb={`Remove ${member.name}`}>
            <p>The person loses access to the team at once. The list is about this team alone.</p>
            <WayOutFacts of="removal" here />
          </Ui.Confirm>
        )}
      </div>
    </details>
  )
}

const MemberRow = ({ member, visit }: { readonly visit: TeamVisit; readonly member: Member }) => (
  <tr>
    <th scope="row">
      {may(visit, "members:manage") ? (
        <a href={Paths.member(visit.team.id, member.userId)}>{member.name}</a>
      ) : (
        member.name
      )}{" "}
      {member.userId === visit.user.id ? <Ui.Badge>you</Ui.Badge> : null}
      <span class="refs hint">{member.email}</span>
    </th>
    <td data-label="Role">{member.role}</td>
    <td data-label="State">
      {member.active ? <Ui.Badge tone="ok">active</Ui.Badge> : <Ui.Badge tone="danger">deactivated</Ui.Badge>}{" "}
      {member.secondFactor === false ? <Ui.Badge tone="amber">no second factor</Ui.Badge> : null}
    </td>
    <td class="end">
      {may(visit, "members:manage") && (visit.team.role === "owner" || member.role !== "owner") ? (
        <MemberPanel visit={visit} member={member} />
      ) : null}
    </td>
  </tr>
)

const MembersPage = ({
  form,
  invitations,
  inviting,
  members,
  problem,
  visit
}: Attempt & {
  readonly visit: TeamVisit
  readonly members: ReadonlyArray<Member>
  readonly invitations: ReadonlyArray<OpenInvitation>
  readonly inviting: boolean
}) => {
  const { team } = visit
  const manages = may(visit, "members:manage")
  return (
    <Layout
      visit={visit}
      section="members"
      title="Members"
      lead={`${members.length} ${members.length === 1 ? "person" : "people"} in ${team.name}.`}
      actions={
        manages && !inviting ? (
          <>
            <Ui.LinkButton href={Paths.incidents(team.id)}>Incidents</Ui.LinkButton>
            <Ui.AddButton href={`${Paths.members(team.id)}?panel=invite`}>Invite a person</Ui.AddButton>
          </>
        ) : undefined
      }
    >
      {manages && inviting ? <InvitePanel visit={visit} form={form} problem={problem} /> : null}
      <section class={inviting ? "section" : undefined} aria-label="People">
        <Ui.Table label="Members" head={["Person", "Role", "State", ""]}>
          {members.map((member) => (
            <MemberRow visit={visit} member={member} />
          ))}
        </Ui.Table>
      </section>
      {manages ? <OpenInvitations visit={visit} invitations={invitations} /> : null}
      <section class="section">
        <Ui.Confirm action={`${Paths.team(team.id)}/leave`} label="Leave the team" verb={`Leave ${team.name}`}>
          <p>You lose access to the team at once. The list is about this team alone.</p>
          <WayOutFacts of="removal" here />
        </Ui.Confirm>
      </section>
    </Layout>
  )
}

const LinkPage = ({
  children,
  link,
  title,
  visit
}: {
  readonly visit: TeamVisit
  readonly title: string
  readonly link: string
  readonly children: ComponentChildren
}) => {
  const members = Paths.members(visit.team.id)
  return (
    <Layout visit={visit} section="members" title={title} crumbs={[{ href: members, label: "Members" }]}>
      <div class="narrow stack">
        <CopyText.Once label="The link, which is shown only once" text={link} />
        <Ui.Callout>{children}</Ui.Callout>
        <p>
          <Ui.LinkButton href={members}>Back to the members</Ui.LinkButton>
        </p>
      </div>
    </Layout>
  )
}

const InvitationLink = ({
  email,
  invitation,
  visit
}: {
  readonly visit: TeamVisit
  readonly email: string
  readonly invitation: Invitation
}) => (
  <LinkPage visit={visit} title="The invitation link is ready" link={invitation.inviteUrl}>
    Send it to {email}. It works once, until {Ui.exact(invitation.expiresAt)}.
  </LinkPage>
)

const PasswordLink = ({ link, visit }: { readonly visit: TeamVisit; readonly link: string }) => (
  <LinkPage visit={visit} title="The password link is ready" link={link}>
    Anyone with this link can take over the account. Send it only to the person. Earlier links no longer work.
  </LinkPage>
)

const InvitationId = Schema.String.pipe(Schema.filter((s) => uuidPattern.test(s)))

const member = withIds(team, Schema.Struct({ userId: UserId }))
const invitation = withIds(team, Schema.Struct({ invitationId: InvitationId }))

const load = ({ teamId, visit }: AtTeam) =>
  Effect.all({
    members: UseCases.members.list(teamId),
    invitations: may(visit, "members:manage") ? UseCases.invitations.list(teamId) : Effect.succeed([])
  })

const list = screen(
  (at: AtTeam) => Effect.zipWith(load(at), query, (loaded, query) => ({ ...loaded, panel: query.text("panel") })),
  (props) => <MembersPage {...props} inviting={props.panel === "invite"} />
)

const invite = action(team, {
  decode: (form) => Form.decode(Invite)({ email: form.text("email"), role: form.text("role") }),
  run: (input, { teamId }) => UseCases.invitations.invite(teamId, input),
  done: (invitation, { visit }, { email }) =>
    Html.page(<InvitationLink visit={visit} email={email} invitation={invitation} />),
  again: screen(load, (props) => <MembersPage {...props} inviting />)
})

const withdraw = button(invitation, {
  run: ({ invitationId, teamId }) => UseCases.invitations.withdraw(teamId, invitationId),
  done: (_, { teamId }) => to(Paths.members(teamId), "invitation-withdrawn")
})

const update = action(member, {
  decode: (form) => Form.decode(UpdateMember)({ role: form.text("role"), active: form.has("active") }),
  run: (input, { teamId, userId }) => UseCases.members.update(teamId, userId, input),
  done: (_, { teamId }) => to(Paths.members(teamId), "member-changed")
})

const remove = button(member, {
  run: ({ teamId, userId }) => UseCases.members.remove(teamId, userId),
  done: (_, { teamId }) => to(Paths.members(teamId), "member-removed")
})

const reset = button(member, {
  run: ({ teamId, userId }) => UseCases.members.passwordResetLink(teamId, userId),
  done: (link, { visit }) => Html.page(<PasswordLink visit={visit} link={Redacted.value(link)} />)
})

const leave = button(team, {
  run: ({ teamId }) => UseCases.members.leave(teamId),
  done: () => to(Paths.home, "team-left")
})

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get("/app/teams/:teamId/members", page(team, list)),
  HttpRouter.post("/app/teams/:teamId/members/invite", invite),
  HttpRouter.post("/app/teams/:teamId/members/invitations/:invitationId/withdraw", withdraw),
  HttpRouter.post("/app/teams/:teamId/members/:userId", update),
  HttpRouter.post("/app/teams/:teamId/members/:userId/remove", remove),
  HttpRouter.post("/app/teams/:teamId/members/:userId/reset", reset),
  HttpRouter.post("/app/teams/:teamId/leave", leave)
)
