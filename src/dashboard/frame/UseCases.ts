/** Use cases of pages, such as `UseCases.tokens.list(teamId)`, which requires its service. */
import * as Effect from "effect/Effect"
import { AuditTrail } from "#src/trail-use/AuditTrail.ts"
import { Exposure } from "#src/trail-use/Exposure.ts"
import type { AppConfig } from "#src/AppConfig.ts"
import type { Authenticate } from "#src/credentials/Authenticate.ts"
import { AddressConfirmation } from "#src/credentials/AddressConfirmation.ts"
import { AccountNotices } from "#src/credentials/AccountNotices.ts"
import { CliGrants } from "#src/credentials/CliGrants.ts"
import { DeviceGrants } from "#src/credentials/DeviceGrants.ts"
import { EmailAddress } from "#src/credentials/EmailAddress.ts"
import { OwnSessions } from "#src/credentials/OwnSessions.ts"
import { Passkeys } from "#src/credentials/Passkeys.ts"
import { Profile } from "#src/credentials/Profile.ts"
import { Recovery } from "#src/credentials/Recovery.ts"
import { SecondFactor } from "#src/credentials/SecondFactor.ts"
import { Sessions } from "#src/credentials/Sessions.ts"
import { Setup } from "#src/credentials/Setup.ts"
import { Tokens } from "#src/credentials/Tokens.ts"
import { LeakReports } from "#src/machines/LeakReports.ts"
import { Rules } from "#src/machines/Rules.ts"
import { ClosedTeams } from "#src/openid/ClosedTeams.ts"
import { Identities } from "#src/openid/Identities.ts"
import { SignInIssuers } from "#src/openid/IssuerRows.ts"
import { SignIn } from "#src/openid/SignIn.ts"
import { TeamSignIn } from "#src/openid/TeamSignIn.ts"
import { Consent } from "#src/oauth/Consent.ts"
import { OAuthGrants } from "#src/oauth/OAuthGrants.ts"
import { AccessGrants } from "#src/projects/AccessGrants.ts"
import { AccessRequests } from "#src/projects/AccessRequests.ts"
import { EnvironmentAccess } from "#src/projects/EnvironmentAccess.ts"
import { Environments } from "#src/projects/Environments.ts"
import { FirstSteps } from "#src/projects/FirstSteps.ts"
import { Invitations } from "#src/projects/Invitations.ts"
import { MemberAuthenticators } from "#src/projects/MemberAuthenticators.ts"
import { Members } from "#src/projects/Members.ts"
import { PersonAccess } from "#src/projects/PersonAccess.ts"
import { Projects } from "#src/projects/Projects.ts"
import { SealingKeys } from "#src/projects/SealingKeys.ts"
import { Teams } from "#src/projects/Teams.ts"
import { ChangeRequests } from "#src/secrets/ChangeRequests.ts"
import { Incidents } from "#src/secrets/Incidents.ts"
import { SecondPersonRequests } from "#src/secrets/SecondPersonRequests.ts"
import { Gaps } from "#src/secrets/Gaps.ts"
import { Search } from "#src/secrets/Search.ts"
import { SecretStore } from "#src/secrets/SecretStore.ts"
import { ValueRequests } from "#src/secrets/ValueRequests.ts"
import { Webhooks } from "#src/webhooks/Webhooks.ts"

export type Services =
  | AddressConfirmation
  | AccountNotices
  | AccessGrants
  | AccessRequests
  | AppConfig
  | AuditTrail
  | Authenticate
  | ChangeRequests
  | CliGrants
  | ClosedTeams
  | Consent
  | DeviceGrants
  | EmailAddress
  | EnvironmentAccess
  | Environments
  | Gaps
  | Exposure
  | FirstSteps
  | Identities
  | Incidents
  | LeakReports
  | Invitations
  | MemberAuthenticators
  | Members
  | OAuthGrants
  | Passkeys
  | PersonAccess
  | Profile
  | Projects
  | Recovery
  | Rules
  | SealingKeys
  | OwnSessions
  | Search
  | SecondFactor
  | SecretStore
  | Sessions
  | Setup
  | SignIn
  | SignInIssuers
  | TeamSignIn
  | Teams
  | SecondPersonRequests
  | Tokens
  | ValueRequests
  | Webhooks

export const accountNotices = Effect.serviceFunctions(AccountNotices)
export const accessGrants = Effect.serviceFunctions(AccessGrants)
export const accessRequests = Effect.serviceFunctions(AccessRequests)
export const secondPerson = Effect.serviceFunctions(SecondPersonRequests)
export const changeRequests = Effect.serviceFunctions(ChangeRequests)
export const auditTrail = Effect.serviceFunctions(AuditTrail)
export const cliGrants = Effect.serviceFunctions(CliGrants)
export const closedTeams = Effect.serviceFunctions(ClosedTeams)
export const deviceGrants = Effect.serviceFunctions(DeviceGrants)
export const ownSessions = Effect.serviceFunctions(OwnSessions)
export const passkeys = Effect.serviceFunctions(Passkeys)
export const addressConfirmation = Effect.serviceFunctions(AddressConfirmation)
export const emailAddress = Effect.serviceFunctions(EmailAddress)
export const profile = Effect.serviceFunctions(Profile)
export const secondFactor = Effect.serviceFunctions(SecondFactor)
export const identities = Effect.serviceFunctions(Identities)
export const signInIssuers = Effect.serviceFunctions(SignInIssuers)
export const signIn = Effect.serviceFunctions(SignIn)
export const teamSignIn = Effect.serviceFunctions(TeamSignIn)
export const sessions = Effect.serviceFunctions(Sessions)
export const setup = Effect.serviceFunctions(Setup)
export const tokens = Effect.serviceFunctions(Tokens)
export const recovery = Effect.serviceFunctions(Recovery)
export const rules = Effect.serviceFunctions(Rules)
export const consent = Effect.serviceFunctions(Consent)
export const oauthGrants = Effect.serviceFunctions(OAuthGrants)
export const environmentAccess = Effect.serviceFunctions(EnvironmentAccess)
export const environments = Effect.serviceFunctions(Environments)
export const exposure = Effect.serviceFunctions(Exposure)
export const firstSteps = Effect.serviceFunctions(FirstSteps)
export const incidents = Effect.serviceFunctions(Incidents)
export const leakReports = Effect.serviceFunctions(LeakReports)
export const invitations = Effect.serviceFunctions(Invitations)
export const memberAuthenticators = Effect.serviceFunctions(MemberAuthenticators)
export const members = Effect.serviceFunctions(Members)
export const personAccess = Effect.serviceFunctions(PersonAccess)
export const projects = Effect.serviceFunctions(Projects)
export const sealingKeys = Effect.serviceFunctions(SealingKeys)
export const teams = Effect.serviceFunctions(Teams)
export const gaps = Effect.serviceFunctions(Gaps)
export const search = Effect.serviceFunctions(Search)
export const secretReads = Effect.serviceFunctions(Effect.map(SecretStore, ({ reads }) => reads))
export const secretWrites = Effect.serviceFunctions(Effect.map(SecretStore, ({ writes }) => writes))
export const valueRequests = Effect.serviceFunctions(ValueRequests)
export const webhooks = Effect.serviceFunctions(Webhooks)
