/** Members of a team and the links that bring people in (decisions 9). */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { AnyApiError } from "#schema/ApiError.ts"
import { TeamId, UserId, uuidPattern } from "#schema/Ids.ts"
import { Role } from "#schema/Scopes.ts"
import { Invite, type Member, UpdateMember } from "#schema/TeamsApi.ts"
import { Invitations, type OpenInvitation } from "#src/projects/Invitations.ts"
import { Members } from "#src/projects/Members.ts"
import {
  Act,
  Ago,
  Badge,
  Callout,
  CheckBox,
  Confirm,
  exact,
  Once,
  ProblemNote,
  Select,
  Table,
  TextField,
  Until
} from "./Components.tsx"
import * as Form from "./Form.ts"
import * as Html from "./Html.ts"
import * as Icons from "./Icons.tsx"
import { Layout } from "./Layout.tsx"
import { withNotice } from "./Notices.ts"
import { attempt, type Pages, param, query, shown } from "./Pages.ts"
import * as Paths from "./Paths.ts"
import { may, type Visit } from "./Visit.ts"

const InvitationId = Schema.String.pipe(Schema.filter((s) => uuidPattern.test(s)))

const roleWords: Readonly<Record<Role, string>> = {
  owner: "Owner: everything, also owners and the plan",
  admin: "Admin: protected environments, projects, tokens, members",
  member: "Member: reads values, writes unprotected environments",
  viewer: "Viewer: names and metadata, no values"
}

interface Shown {
  readonly visit: Visit
  readonly members: ReadonlyArray<Member>
  readonly open: ReadonlyArray<OpenInvitation>
  readonly inviting?: boolean
  readonly email?: string
  readonly role?: string
  readonly problem?: AnyApiError | undefined
}

/** What the acting person may make of others, and so may take back. */
const rolesFor = (visit: Visit) =>
  Role.literals
    .filter((one) => visit.team?.role === "owner" || one !== "owner")
    .map((value) => ({ value, label: roleWords[value] }))

const InvitePanel = ({
  at,
  email = "",
  problem,
  role = "member",
  visit
}: Pick<Shown, "visit" | "email" | "role" | "problem"> & { readonly at: string }) => (
  <form method="post" action={`${at}/invite`} class="panel">
    <h2>Invite a person</h2>
    {problem?.field === "email" ? null : <ProblemNote problem={problem} />}
    <div class="fields">
      <TextField name="email" label="E-mail address" type="email" value={email} focus problem={problem} />
      <Select name="role" label="Role" choices={rolesFor(visit).reverse()} value={role} problem={problem} />
    </div>
    <p class="hint section-small">You get a link to hand over by whatever means. It works for a week, once.</p>
    <div class="buttons">
      <button class="button button-primary">Make the link</button>
      <a class="button button-plain" href={at}>
        Cancel
      </a>
    </div>
  </form>
)

const OpenInvitations = ({ at, open, visit }: Pick<Shown, "visit" | "open"> & { readonly at: string }) => (
  <section class="section">
    <h2>Open invitations</h2>
    {open.length === 0 ? (
      <p class="hint">Nobody is waiting: every invitation was accepted, taken back, or has ended.</p>
    ) : (
      <Table label="Open invitations" head={["Person", "Role", "Invited by", "Ends", ""]}>
        {open.map((one) => (
          <tr>
            <th scope="row">{one.email}</th>
            <td data-label="Role">{one.role}</td>
            <td data-label="Invited by" class="hint">
              {one.invitedBy}, <Ago at={one.createdAt} now={visit.now} />
            </td>
            <td data-label="Ends" class="hint">
              <Until at={one.expiresAt} now={visit.now} />
            </td>
            <td class="end">
              {one.role === "owner" && visit.team?.role !== "owner" ? (
                <span class="hint">an owner's to withdraw</span>
              ) : (
                <Confirm
                  action={`${at}/invitations/${one.id}/withdraw`}
                  label="Withdraw"
                  of={`the invitation of ${one.email}`}
                  quiet
                  verb="Withdraw the invitation"
                >
                  <p>
                    The link that <strong>{one.email}</strong> has stops working at once. You can make another one.
                  </p>
                </Confirm>
              )}
            </td>
          </tr>
        ))}
      </Table>
    )}
  </section>
)

const MembersPage = ({ email, inviting = false, members, open, problem, role, visit }: Shown) => {
  const team = visit.team
  if (team === null) return null
  const manages = may(visit, "members:manage")
  const roles = rolesFor(visit)
  const at = Paths.members(team.id)
  return (
    <Layout
      visit={visit}
      section="members"
      title="Members"
      lead={`${members.length} in ${team.name}.`}
      actions={
        manages && !inviting ? (
          <a class="button button-primary" href={`${at}?panel=invite`}>
            <Icons.Plus /> Invite a person
          </a>
        ) : undefined
      }
    >
      {manages && inviting ? (
        <InvitePanel
          at={at}
          visit={visit}
          problem={problem}
          {...(email === undefined ? {} : { email })}
          {...(role === undefined ? {} : { role })}
        />
      ) : null}
      <section class={inviting ? "section" : undefined} aria-label="People">
        <Table label="Members" head={["Person", "Role", "State", ""]}>
          {members.map((member) => {
            const self = member.userId === visit.user.id
            const manageable = manages && (team.role === "owner" || member.role !== "owner")
            return (
              <tr>
                <th scope="row">
                  {member.name} {self ? <Badge>you</Badge> : null}
                  <span class="refs hint">{member.email}</span>
                </th>
                <td data-label="Role">{member.role}</td>
                <td data-label="State">
                  {member.active ? <Badge tone="ok">active</Badge> : <Badge tone="danger">deactivated</Badge>}
                </td>
                <td class="end">
                  {manageable ? (
                    <details>
                      <summary class="button button-quiet">
                        Change<span class="hidden"> {member.name}</span>
                      </summary>
                      <div class="stack panel row-panel">
                        <form method="post" action={`${at}/${member.userId}`}>
                          <Select
                            id={`role-${member.userId}`}
                            name="role"
                            label="Role"
                            choices={roles}
                            value={member.role}
                          />
                          <CheckBox
                            name="active"
                            checked={member.active}
                            hint="Off: the person loses this team at once; tokens they made work for 7 more days."
                          >
                            Active
                          </CheckBox>
                          <p class="hint">A change of role revokes the API tokens that the person created.</p>
                          <div class="buttons">
                            <button class="button button-primary">Save</button>
                          </div>
                        </form>
                        <Act action={`${at}/${member.userId}/reset`}>Make a password link</Act>
                        {self ? null : (
                          <Confirm
                            action={`${at}/${member.userId}/remove`}
                            label="Remove"
                            verb={`Remove ${member.name}`}
                          >
                            <p>The person loses the team at once, and tokens they created are revoked.</p>
                          </Confirm>
                        )}
                      </div>
                    </details>
                  ) : null}
                </td>
              </tr>
            )
          })}
        </Table>
      </section>
      {manages ? <OpenInvitations at={at} open={open} visit={visit} /> : null}
      <section class="section">
        <Confirm action={`${Paths.team(team.id)}/leave`} label="Leave the team" verb={`Leave ${team.name}`}>
          <p>You lose the team at once, and API tokens that you created in it are revoked.</p>
        </Confirm>
      </section>
    </Layout>
  )
}

const LinkPage = ({
  children,
  label,
  link,
  title,
  visit
}: {
  readonly visit: Visit
  readonly title: string
  readonly label: string
  readonly link: string
  readonly children: string
}) => (
  <Layout
    visit={visit}
    section="members"
    title={title}
    crumbs={visit.team === null ? [] : [{ href: Paths.members(visit.team.id), label: "Members" }]}
  >
    <div class="narrow stack">
      <Once label={label} text={link} />
      <Callout>{children}</Callout>
      {visit.team === null ? null : (
        <p>
          <a class="button button-plain" href={Paths.members(visit.team.id)}>
            Back to the members
          </a>
        </p>
      )}
    </div>
  </Layout>
)

export const routes = (pages: Pages["Type"]) =>
  Effect.gen(function* () {
    const members = yield* Members
    const invitations = yield* Invitations
    const userParam = param("userId", UserId)

    const load = Effect.fnUntraced(function* (teamId: TeamId, visit: Visit) {
      return {
        visit,
        members: yield* members.list(teamId),
        open: may(visit, "members:manage") ? yield* invitations.list(teamId) : []
      }
    })

    const list = pages.team((teamId, visit) =>
      Effect.gen(function* () {
        const inviting = (yield* query).text("panel") === "invite"
        return Html.page(<MembersPage {...yield* load(teamId, visit)} inviting={inviting} />)
      })
    )
    const invite = pages.team((teamId, visit) =>
      Effect.gen(function* () {
        const form = yield* Form.read
        const [email, role] = [form.text("email"), form.text("role")]
        const made = yield* attempt(
          Effect.gen(function* () {
            const input = yield* Form.decode(Invite)({ email, role })
            return yield* invitations.invite(teamId, input)
          })
        )
        return Either.isRight(made)
          ? Html.page(
              <LinkPage
                visit={visit}
                title="The invitation is made"
                label="The link: this is the only time it is shown"
                link={made.right.inviteUrl}
              >
                {`Hand it to ${email}. It works once, until ${exact(made.right.expiresAt)}.`}
              </LinkPage>
            )
          : shown(
              <MembersPage {...yield* load(teamId, visit)} inviting email={email} role={role} problem={made.left} />,
              made.left
            )
      })
    )
    const withdraw = pages.team((teamId) =>
      Effect.gen(function* () {
        yield* invitations.withdraw(teamId, yield* param("invitationId", InvitationId))
        return Html.seeOther(withNotice(Paths.members(teamId), "invitation-withdrawn"))
      })
    )
    const update = pages.team((teamId) =>
      Effect.gen(function* () {
        const userId = yield* userParam
        const form = yield* Form.read
        const input = yield* Form.decode(UpdateMember)({ role: form.text("role"), active: form.has("active") })
        yield* members.update(teamId, userId, input)
        return Html.seeOther(withNotice(Paths.members(teamId), "member-changed"))
      })
    )
    const remove = pages.team((teamId) =>
      Effect.gen(function* () {
        yield* members.remove(teamId, yield* userParam)
        return Html.seeOther(withNotice(Paths.members(teamId), "member-removed"))
      })
    )
    const reset = pages.team((teamId, visit) =>
      Effect.gen(function* () {
        const link = yield* members.passwordResetLink(teamId, yield* userParam)
        return Html.page(
          <LinkPage
            visit={visit}
            title="The password link is made"
            label="The link: this is the only time it is shown"
            link={Redacted.value(link)}
          >
            Whoever has it can take over the account: hand it to the person alone. Earlier links stopped working.
          </LinkPage>
        )
      })
    )
    const leave = pages.team((teamId) =>
      Effect.gen(function* () {
        yield* members.leave(teamId)
        return Html.seeOther(withNotice(Paths.home, "team-left"))
      })
    )

    return HttpRouter.empty.pipe(
      HttpRouter.get("/app/teams/:teamId/members", list),
      HttpRouter.post("/app/teams/:teamId/members/invite", invite),
      HttpRouter.post("/app/teams/:teamId/members/invitations/:invitationId/withdraw", withdraw),
      HttpRouter.post("/app/teams/:teamId/members/:userId", update),
      HttpRouter.post("/app/teams/:teamId/members/:userId/remove", remove),
      HttpRouter.post("/app/teams/:teamId/members/:userId/reset", reset),
      HttpRouter.post("/app/teams/:teamId/leave", leave)
    )
  })
