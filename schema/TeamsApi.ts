import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Schema from "effect/Schema"
import { ManagingCredential, SessionCredential } from "./Authentication.ts"
import * as Errors from "./Errors.ts"
import { TeamId, UserId, UserIdOut } from "./Ids.ts"
import { MyTeam } from "./IdentityApi.ts"
import { operation } from "./Operation.ts"
import { waitsExample, WaitsForSecondPerson } from "./WaitsForSecondPerson.ts"
import { BadBody, MayNotManageTeam } from "./RouteErrors.ts"
import { LeakRule, Plan, Role } from "./Scopes.ts"
import { SignedIn } from "./SessionApi.ts"
import { atLeastOne, optional, strict } from "./Strict.ts"
import {
  AddressRange,
  AllowedKey,
  boundedList,
  CredentialText,
  NewEmail,
  integer,
  Name,
  NewPassword,
  Timestamp
} from "./Values.ts"
import { EndedWays } from "./WaysIn.ts"
import { answers, Integer, LeakRuleOut, RoleOut, Uuid } from "./Wire.ts"

export const CreateTeam = strict(Schema.Struct({ name: Name })).annotations({ identifier: "CreateTeam" })
export const UpdateTeam = strict(
  atLeastOne(
    Schema.Struct({
      name: optional(Name),
      plan: optional(Plan),
      adminsNeedGrants: optional(Schema.Boolean),
      tokensFollowCreators: optional(Schema.Boolean),
      secondFactorRequired: optional(Schema.Boolean),
      stepUpMinutes: optional(
        integer(1, 1440, "Minutes, 1 to 1440, after which sensitive actions need another confirmation.")
      ),
      leakedCredentials: optional(LeakRule),
      sessionAddresses: optional(Schema.NullOr(boundedList(AddressRange, 1, 100))),
      secondPerson: optional(Schema.Boolean),
      allowedKeys: optional(Schema.NullOr(boundedList(AllowedKey, 1, 500)))
    }),
    "name",
    "plan",
    "adminsNeedGrants",
    "tokensFollowCreators",
    "secondFactorRequired",
    "stepUpMinutes",
    "leakedCredentials",
    "sessionAddresses",
    "secondPerson",
    "allowedKeys"
  )
).annotations({ identifier: "UpdateTeam" })
export type UpdateTeam = typeof UpdateTeam.Type

/** Team with the rules that its owners set (docs/contract/access.md). */
export const TeamRecord = Schema.Struct({
  ...MyTeam.fields,
  adminsNeedGrants: Schema.Boolean,
  tokensFollowCreators: Schema.Boolean,
  secondFactorRequired: Schema.Boolean,
  stepUpMinutes: Integer,
  leakedCredentials: LeakRuleOut,
  sessionAddresses: Schema.NullOr(Schema.Array(Schema.String)).annotations({
    description: "Addresses from which members may sign in; null: from anywhere."
  }),
  secondPerson: Schema.Boolean.annotations({
    description: "Whether what an owner or admin could give themselves waits for another one."
  }),
  allowedKeys: Schema.NullOr(Schema.Array(Schema.String)).annotations({
    description: "Keys that secrets may have, each as a key or a prefix with *; null: any."
  })
}).annotations({ identifier: "TeamRecord" })
export type TeamRecord = typeof TeamRecord.Type

const TeamPath = Schema.Struct({ teamId: TeamId })
const MemberPath = Schema.Struct({ teamId: TeamId, userId: UserId })

const teamId = "01980a5d-0f3a-7c10-8e2b-9a7c6d5e4f30"
const userId = "01980a5d-11aa-7f00-b1c2-3d4e5f607182"
const team = { id: teamId, name: "Platform", role: "owner", plan: "team" }

const EndedMembership = Schema.Struct({ deleted: Schema.Boolean, waysIn: EndedWays }).annotations({
  identifier: "EndedMembership"
})
const endedMembership = { deleted: true, waysIn: [{ way: "tokens", ending: "ended", count: 2 }] } as const

export class TeamsApi extends HttpApiGroup.make("teams")
  .add(
    HttpApiEndpoint.post("create", "/teams")
      .setPayload(CreateTeam)
      .addSuccess(answers(201, MyTeam))
      .addError(Schema.Union(Errors.Forbidden, Errors.PlanLimitReached, BadBody))
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Create a team",
          description: "The person becomes its owner. The operator can restrict who creates teams.",
          request: { name: "Platform" },
          response: { ...team, plan: "developer" }
        })
      )
  )
  .add(
    HttpApiEndpoint.patch("update", "/teams/:teamId")
      .setPath(TeamPath)
      .setPayload(UpdateTeam)
      .addSuccess(answers(200, TeamRecord))
      .addSuccess(WaitsForSecondPerson)
      .addError(Schema.Union(MayNotManageTeam, BadBody))
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          accepted: waitsExample,
          summary: "Change a team",
          description:
            "Only owners change the plan and the rules: whether owners and admins need grants too, and whether API tokens are limited by their creators' present rights.",
          request: { plan: "team" },
          response: {
            ...team,
            adminsNeedGrants: false,
            tokensFollowCreators: false,
            secondFactorRequired: true,
            stepUpMinutes: 15,
            leakedCredentials: "revoke",
            sessionAddresses: null,
            allowedKeys: null,
            secondPerson: false
          }
        })
      )
  )
  .add(
    HttpApiEndpoint.post("leave", "/teams/:teamId/leave")
      .setPath(TeamPath)
      .addSuccess(answers(200, EndedMembership))
      .addError(MayNotManageTeam)
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Leave a team",
          description:
            "Revokes the API tokens that the person created. The last active owner cannot leave. `waysIn` says what happened to each way in.",
          response: endedMembership
        })
      )
  )
  .annotateContext(OpenApi.annotations({ description: "Teams." })) {}

export const Member = Schema.Struct({
  userId: UserIdOut,
  email: Schema.String,
  name: Schema.String,
  role: RoleOut,
  active: Schema.Boolean,
  secondFactor: optional(
    Schema.Boolean.annotations({
      description: "Whether the person has a second factor; only in the list of members, for their managers."
    })
  )
}).annotations({ identifier: "Member" })
export type Member = typeof Member.Type
const MemberList = Schema.Struct({ items: Schema.Array(Member) }).annotations({ identifier: "MemberList" })

export const Invite = strict(Schema.Struct({ email: NewEmail, role: Role })).annotations({ identifier: "Invite" })
export const Invitation = Schema.Struct({
  id: Uuid,
  inviteUrl: Schema.String.annotations({ jsonSchema: { type: "string", format: "uri" } }),
  expiresAt: Timestamp
}).annotations({ identifier: "Invitation", description: "The link is shown once." })
export type Invitation = typeof Invitation.Type

/**
 * Name and password are required for a new person, and ignored for a signed-in one (docs/contract/session-routes.md).
 */
export const AcceptInvitation = strict(
  Schema.Struct({ code: CredentialText, name: optional(Name), password: optional(NewPassword) })
).annotations({ identifier: "AcceptInvitation" })
export type AcceptInvitation = typeof AcceptInvitation.Type

export const UpdateMember = strict(
  atLeastOne(Schema.Struct({ role: optional(Role), active: optional(Schema.Boolean) }), "role", "active")
).annotations({ identifier: "UpdateMember" })
export type UpdateMember = typeof UpdateMember.Type

const PasswordResetLink = Schema.Struct({
  resetUrl: Schema.String.annotations({ jsonSchema: { type: "string", format: "uri" } })
}).annotations({ identifier: "PasswordResetLink", description: "The link is shown once." })

const member = { userId, email: "ada@example.com", name: "Ada", role: "owner", active: true }

export class MembersApi extends HttpApiGroup.make("members")
  .add(
    HttpApiEndpoint.get("list", "/teams/:teamId/members")
      .setPath(TeamPath)
      .addSuccess(answers(200, MemberList))
      .addError(MayNotManageTeam)
      .middleware(ManagingCredential)
      .annotateContext(
        operation({ summary: "List members", description: "Members of a team.", response: { items: [member] } })
      )
  )
  .add(
    HttpApiEndpoint.post("invite", "/teams/:teamId/invitations")
      .setPath(TeamPath)
      .setPayload(Invite)
      .addSuccess(answers(201, Invitation))
      .addSuccess(WaitsForSecondPerson)
      .addError(Schema.Union(MayNotManageTeam, Errors.PlanLimitReached, Errors.NameTaken, BadBody))
      .middleware(ManagingCredential)
      .annotateContext(
        operation({
          accepted: waitsExample,
          summary: "Invite a person",
          description: "Returns a link to give to the person. Only owners invite owners.",
          request: { email: "grace@example.com", role: "member" },
          response: {
            id: "01980a62-6d7e-7f80-91a2-b3c4d5e6f708",
            inviteUrl: "https://ampoule.example.com/invite?code=amp_iv_EXAMPLE",
            expiresAt: "2026-11-28T08:00:00.000Z"
          }
        })
      )
  )
  .add(
    HttpApiEndpoint.post("acceptInvitation", "/invitations/accept")
      .setPayload(AcceptInvitation)
      .addSuccess(answers(200, SignedIn))
      .addError(
        Schema.Union(
          Errors.Unauthenticated,
          Errors.CredentialInvalid,
          Errors.CredentialExpired,
          Errors.CredentialRevoked,
          Errors.Forbidden,
          Errors.CrossSiteRequest,
          BadBody
        )
      )
      .annotateContext(
        operation({
          summary: "Accept an invitation",
          description:
            "A new person sends name and password and is signed in. An existing person signs in first; then name and password are ignored.",
          request: {
            code: "amp_iv_<id>_<secret and checksum>",
            name: "Grace",
            password: "seven green lamps over a quiet harbour"
          },
          response: {
            user: { id: userId, email: "grace@example.com", name: "Grace" },
            teams: [{ ...team, role: "member" }]
          }
        })
      )
  )
  .add(
    HttpApiEndpoint.patch("update", "/teams/:teamId/members/:userId")
      .setPath(MemberPath)
      .setPayload(UpdateMember)
      .addSuccess(answers(200, Member))
      .addSuccess(WaitsForSecondPerson)
      .addError(Schema.Union(MayNotManageTeam, Errors.MemberNotFound, BadBody))
      .middleware(ManagingCredential)
      .annotateContext(
        operation({
          accepted: waitsExample,
          summary: "Change a member",
          description:
            "A change of the role revokes the API tokens that the person created. active: false removes access at once; API tokens keep working for 7 days.",
          request: { role: "admin" },
          response: { ...member, role: "admin" }
        })
      )
  )
  .add(
    HttpApiEndpoint.del("remove", "/teams/:teamId/members/:userId")
      .setPath(MemberPath)
      .addSuccess(answers(200, EndedMembership))
      .addError(Schema.Union(MayNotManageTeam, Errors.MemberNotFound))
      .middleware(ManagingCredential)
      .annotateContext(
        operation({
          summary: "Remove a member",
          description: "Revokes the API tokens that the person created. `waysIn` says what happened to each way in.",
          response: endedMembership
        })
      )
  )
  .add(
    HttpApiEndpoint.post("passwordReset", "/teams/:teamId/members/:userId/password-reset")
      .setPath(MemberPath)
      .addSuccess(answers(201, PasswordResetLink))
      .addSuccess(WaitsForSecondPerson)
      .addError(Schema.Union(MayNotManageTeam, Errors.MemberNotFound))
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          accepted: waitsExample,
          summary: "Create a password reset link",
          description: "Returns a link to give to the person.",
          response: { resetUrl: "https://ampoule.example.com/reset?code=amp_pr_EXAMPLE" }
        })
      )
  )
  .annotateContext(OpenApi.annotations({ description: "Members and invitations." })) {}
