/** Members of a team and the links that bring people in: pages and forms. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { UserId, uuidPattern } from "#schema/Ids.ts"
import { Invite, UpdateMember } from "#schema/TeamsApi.ts"
import * as Form from "./Form.ts"
import * as Html from "./Html.ts"
import { InvitationLink, MembersPage, PasswordLink } from "./MemberViews.tsx"
import { query } from "./Pages.ts"
import * as Paths from "./Paths.ts"
import { action, type AtTeam, button, page, screen, team, to, withIds } from "./Routes.ts"
import { may } from "./Visit.ts"
import * as UseCases from "./UseCases.ts"

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
  (shown) => <MembersPage {...shown} inviting={shown.panel === "invite"} />
)

const invite = action(team, {
  decode: (form) => Form.decode(Invite)({ email: form.text("email"), role: form.text("role") }),
  run: (input, { teamId }) => UseCases.invitations.invite(teamId, input),
  done: (invitation, { visit }, { email }) =>
    Html.page(<InvitationLink visit={visit} email={email} invitation={invitation} />),
  again: screen(load, (shown) => <MembersPage {...shown} inviting />)
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
