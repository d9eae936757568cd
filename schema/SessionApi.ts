import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Schema from "effect/Schema"
import { OwnSessionCredential } from "./Authentication.ts"
import * as Errors from "./Errors.ts"
import { MyTeam, Person } from "./IdentityApi.ts"
import { operation } from "./Operation.ts"
import { BadBody } from "./RouteErrors.ts"
import { optional, strict } from "./Strict.ts"
import { CredentialText, Email, Name, NewEmail, NewPassword, Password } from "./Values.ts"
import { EndedWays } from "./WaysIn.ts"
import { answers, DeletedAck } from "./Wire.ts"

const BadCode = Schema.Union(Errors.CredentialInvalid, Errors.CredentialExpired, Errors.CredentialRevoked)

export const Setup = strict(
  Schema.Struct({ setupCode: CredentialText, email: NewEmail, name: Name, password: NewPassword, teamName: Name })
).annotations({ identifier: "Setup" })
export type Setup = typeof Setup.Type

export const SetupResult = Schema.Struct({ user: Person, team: MyTeam }).annotations({ identifier: "SetupResult" })
export type SetupResult = typeof SetupResult.Type

export const SignIn = strict(
  Schema.Struct({
    email: Email,
    password: Password,
    code: optional(CredentialText.annotations({ description: "Code of the second factor, or a recovery code." }))
  })
).annotations({ identifier: "SignIn" })
export type SignIn = typeof SignIn.Type

export const SignedIn = Schema.Struct({ user: Person, teams: Schema.Array(MyTeam) }).annotations({
  identifier: "SignedIn"
})
export type SignedIn = typeof SignedIn.Type

export const ChangeMe = strict(Schema.Struct({ name: Name })).annotations({ identifier: "ChangeMe" })
export type ChangeMe = typeof ChangeMe.Type

export const ChangeEmail = strict(Schema.Struct({ email: NewEmail, currentPassword: Password })).annotations({
  identifier: "ChangeEmail"
})
export type ChangeEmail = typeof ChangeEmail.Type

export const ChangePassword = strict(
  Schema.Struct({ currentPassword: Password, newPassword: NewPassword })
).annotations({ identifier: "ChangePassword" })
export type ChangePassword = typeof ChangePassword.Type

export const ResetPassword = strict(Schema.Struct({ code: CredentialText, newPassword: NewPassword })).annotations({
  identifier: "ResetPassword"
})
export type ResetPassword = typeof ResetPassword.Type

const PasswordAck = Schema.Struct({
  changed: Schema.Boolean,
  waysIn: EndedWays
}).annotations({ identifier: "PasswordAck" })

const user = { id: "01980a5d-11aa-7f00-b1c2-3d4e5f607182", email: "ada@example.com", name: "Ada" }
const team = { id: "01980a5d-0f3a-7c10-8e2b-9a7c6d5e4f30", name: "Platform", role: "owner", plan: "team" }

/** First owner of an instance. */
export class SetupApi extends HttpApiGroup.make("setup")
  .add(
    HttpApiEndpoint.post("complete", "/setup")
      .setPayload(Setup)
      .addSuccess(answers(201, SetupResult))
      .addError(Schema.Union(BadCode, Errors.SetupAlreadyDone, Errors.CrossSiteRequest, BadBody))
      .annotateContext(
        operation({
          summary: "Set up the instance",
          description: "Once, with the code that the server printed at its first start. Signs the first owner in.",
          request: {
            setupCode: "amp_su_<id>_<secret and checksum>",
            email: "ada@example.com",
            name: "Ada",
            password: "seven green lamps over a quiet harbour",
            teamName: "Platform"
          },
          response: { user, team }
        })
      )
  )
  .annotateContext(OpenApi.annotations({ description: "First start." })) {}

/** Signing in and out, the user's own name and address, and passwords. */
export class SessionApi extends HttpApiGroup.make("session")
  .add(
    HttpApiEndpoint.post("signIn", "/auth/session")
      .setPayload(SignIn)
      .addSuccess(answers(200, SignedIn))
      .addError(
        Schema.Union(
          Errors.SignInFailed,
          Errors.SecondFactorRequired,
          Errors.SecondFactorFailed,
          Errors.CrossSiteRequest,
          BadBody
        )
      )
      .annotateContext(
        operation({
          summary: "Sign in",
          description:
            "Sets the session cookie. An account with a second factor needs `code` too: 401 SECOND_FACTOR_REQUIRED without it.",
          request: { email: "ada@example.com", password: "seven green lamps over a quiet harbour" },
          response: { user, teams: [team] }
        })
      )
  )
  .add(
    HttpApiEndpoint.del("signOut", "/auth/session")
      .addSuccess(answers(200, DeletedAck))
      .middleware(OwnSessionCredential)
      .annotateContext(
        operation({ summary: "Sign out", description: "Ends the session.", response: { deleted: true } })
      )
  )
  .add(
    HttpApiEndpoint.patch("changeMe", "/me")
      .setPayload(ChangeMe)
      .addSuccess(answers(200, Person))
      .addError(Schema.Union(Errors.Forbidden, Errors.ScopeMissing, BadBody))
      .middleware(OwnSessionCredential)
      .annotateContext(
        operation({
          summary: "Change your name",
          description:
            "All teams of the person see it. Not allowed with a session that one team's issuer opened, if the person has several teams.",
          request: { name: "Ada Lovelace" },
          response: { ...user, name: "Ada Lovelace" }
        })
      )
  )
  .add(
    HttpApiEndpoint.post("changeEmail", "/me/email")
      .setPayload(ChangeEmail)
      .addSuccess(answers(200, Person))
      .addError(
        Schema.Union(
          Errors.SignInFailed,
          Errors.Forbidden,
          Errors.ScopeMissing,
          Errors.StepUpRequired,
          Errors.NameTaken,
          BadBody
        )
      )
      .middleware(OwnSessionCredential)
      .annotateContext(
        operation({
          summary: "Change your e-mail address",
          description:
            "The person signs in with the new address. Ends the person's other sessions; the session receives a new cookie. The old address receives a notice, and each team's trail an entry. With a second factor, it needs a recent confirmation. Not allowed with a session that one of the person's teams does not accept, or without a password.",
          request: { email: "ada.lovelace@example.com", currentPassword: "seven green lamps over a quiet harbour" },
          response: { ...user, email: "ada.lovelace@example.com" }
        })
      )
  )
  .add(
    HttpApiEndpoint.post("changePassword", "/me/password")
      .setPayload(ChangePassword)
      .addSuccess(answers(200, PasswordAck))
      .addError(Schema.Union(Errors.SignInFailed, BadBody))
      .middleware(OwnSessionCredential)
      .annotateContext(
        operation({
          summary: "Change your password",
          description:
            "Ends the person's other sessions, known devices, CLI and OAuth grants, recovery codes, and device approvals that were not fetched yet. Revokes the API tokens that they created. Passkeys, the authenticator app and linked sign-ins stay, for the person to keep or to remove. `waysIn` says what happened to each. The session receives a new cookie.",
          request: {
            currentPassword: "seven green lamps over a quiet harbour",
            newPassword: "eight green lamps over a quiet harbour"
          },
          response: { changed: true, waysIn: [{ way: "sessions", ending: "ended", count: 2 }] }
        })
      )
  )
  .add(
    HttpApiEndpoint.post("resetPassword", "/password-reset")
      .setPayload(ResetPassword)
      .addSuccess(answers(200, PasswordAck))
      .addError(Schema.Union(BadCode, Errors.CrossSiteRequest, BadBody))
      .annotateContext(
        operation({
          summary: "Set a password with a reset code",
          description:
            "Ends the person's sessions, known devices, grants and recovery codes, and revokes the API tokens that they created. Passkeys, the authenticator app and linked sign-ins are out of use: the next sign-in with the new password is good for nothing but confirming them one by one, and the rest are deleted.",
          request: { code: "amp_pr_<id>_<secret and checksum>", newPassword: "eight green lamps over a quiet harbour" },
          response: { changed: true, waysIn: [{ way: "sessions", ending: "ended", count: 2 }] }
        })
      )
  )
  .annotateContext(OpenApi.annotations({ description: "Sessions and passwords." })) {}
