/** All services of `src`, with open backends: SqlClient, Vault, RateLimitStore, EventBus, AppConfig, FileSystem. */
import * as MailSmtp from "#layers/MailSmtp.ts"
import * as Layer from "effect/Layer"
import { Access } from "#src/access/Access.ts"
import { Audit } from "#src/trail/Audit.ts"
import { Probe } from "#src/trail/Probe.ts"
import { Seal } from "#src/trail/Seal.ts"
import { AuditTrail } from "#src/trail-use/AuditTrail.ts"
import { Exposure } from "#src/trail-use/Exposure.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { Authenticate } from "#src/credentials/Authenticate.ts"
import { CliGrants } from "#src/credentials/CliGrants.ts"
import { DeviceGrants } from "#src/credentials/DeviceGrants.ts"
import * as ServiceKeyRotation from "#src/trail/ServiceKeyRotation.ts"
import * as EndedCredentials from "#src/credentials/EndedCredentials.ts"
import { Identity } from "#src/credentials/Identity.ts"
import { LastUse } from "#src/credentials/LastUse.ts"
import { Passwords } from "#src/credentials/Passwords.ts"
import { AddressConfirmation } from "#src/credentials/AddressConfirmation.ts"
import { EmailAddress } from "#src/credentials/EmailAddress.ts"
import { Profile } from "#src/credentials/Profile.ts"
import { Recovery } from "#src/credentials/Recovery.ts"
import { Revocation } from "#src/credentials/Revocation.ts"
import { OwnSessions } from "#src/credentials/OwnSessions.ts"
import * as AccountNotices from "#src/credentials/AccountNotices.ts"
import { Passkeys } from "#src/credentials/Passkeys.ts"
import { SecondFactor } from "#src/credentials/SecondFactor.ts"
import { Sessions } from "#src/credentials/Sessions.ts"
import { Setup } from "#src/credentials/Setup.ts"
import { Tokens } from "#src/credentials/Tokens.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { DataKeys } from "#src/crypto/DataKeys.ts"
import { SnapshotCipher } from "#src/crypto/SnapshotCipher.ts"
import { Rotation } from "#src/crypto/Rotation.ts"
import { ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import { RateLimiter } from "#src/limits/RateLimiter.ts"
import { Changes } from "#src/mcp/Changes.ts"
import { Credentials } from "#src/mcp/Credentials.ts"
import { Protocol } from "#src/mcp/Protocol.ts"
import { Sessions as McpSessions } from "#src/mcp/Sessions.ts"
import { Incidents } from "#src/secrets/Incidents.ts"
import { RunPlans } from "#src/secrets/RunPlans.ts"
import { ValueRequests } from "#src/secrets/ValueRequests.ts"
import { Consent } from "#src/oauth/Consent.ts"
import { OAuthGrants } from "#src/oauth/OAuthGrants.ts"
import { AuthorizationServer } from "#src/oauth/Provider.ts"
import { AccessGrants } from "#src/projects/AccessGrants.ts"
import { AccessRequests } from "#src/projects/AccessRequests.ts"
import { ChangeRequests } from "#src/secrets/ChangeRequests.ts"
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
import { SecondPersonRequests } from "#src/secrets/SecondPersonRequests.ts"
import { SecondPerson } from "#src/access/SecondPerson.ts"
import { Idempotency } from "#src/secrets/Idempotency.ts"
import { Maintenance } from "#src/secrets/Maintenance.ts"
import { Exchange } from "#src/machines/Exchange.ts"
import { Issuers } from "#src/machines/Issuers.ts"
import { LeakReports } from "#src/machines/LeakReports.ts"
import { ReportKeys } from "#src/machines/ReportKeys.ts"
import { Rules } from "#src/machines/Rules.ts"
import { Outbound } from "#src/outbound/Outbound.ts"
import { Gaps } from "#src/secrets/Gaps.ts"
import { Search } from "#src/secrets/Search.ts"
import { SecretStore } from "#src/secrets/SecretStore.ts"
import { Snapshots } from "#src/secrets/Snapshots.ts"
import { Identities } from "#src/openid/Identities.ts"
import { ClosedTeams } from "#src/openid/ClosedTeams.ts"
import { SignInIssuers } from "#src/openid/IssuerRows.ts"
import { Protocol as OpenIdProtocol } from "#src/openid/Protocol.ts"
import { SignIn } from "#src/openid/SignIn.ts"
import { TeamSignIn } from "#src/openid/TeamSignIn.ts"
import { Dispatcher } from "#src/webhooks/Dispatcher.ts"
import { Webhooks } from "#src/webhooks/Webhooks.ts"
import { WebhookSecrets } from "#src/webhooks/WebhookSecrets.ts"

const crypto = Layer.mergeAll(Rotation.Default, SnapshotCipher.Default).pipe(
  Layer.provideMerge(DataKeys.Default),
  Layer.provideMerge(ServiceKeys.Default)
)
const access = Layer.mergeAll(
  Probe.Default,
  Seal.Default,
  AuditTrail.Default,
  Exposure.Default,
  RateLimiter.Default
).pipe(
  Layer.provideMerge(Layer.merge(Access.Default, SecondPerson.Default)),
  Layer.provideMerge(Layer.merge(Audit.Default, RowSeal.Default))
)
const credentials = Layer.mergeAll(
  AccountNotices.AccountNotices.Default,
  Layer.provide(AccountNotices.layer, MailSmtp.layer),
  Layer.provide(AddressConfirmation.Default, MailSmtp.layer),
  Authenticate.Default,
  DeviceGrants.Default,
  EndedCredentials.layer,
  ServiceKeyRotation.layer,
  Identity.Default,
  OwnSessions.Default,
  EmailAddress.Default,
  Profile.Default,
  Passkeys.Default,
  Recovery.Default,
  SecondFactor.Default,
  Setup.Default,
  Tokens.Default
).pipe(
  Layer.provideMerge(Layer.mergeAll(CliGrants.Default, LastUse.Default, Sessions.Default)),
  Layer.provideMerge(Layer.mergeAll(Passwords.Default, Revocation.Default))
)
const projects = Layer.mergeAll(
  PersonAccess.Default,
  MemberAuthenticators.Default,
  EnvironmentAccess.Default,
  FirstSteps.Default
).pipe(
  Layer.provideMerge(
    Layer.mergeAll(
      Environments.Default,
      Invitations.Default,
      Members.Default,
      AccessGrants.Default,
      AccessRequests.Default,
      Projects.Default,
      SealingKeys.Default,
      Teams.Default
    )
  )
)
const secrets = Layer.mergeAll(
  Layer.provideMerge(SecondPersonRequests.Default, ChangeRequests.Default),
  Incidents.Default,
  RunPlans.Default,
  Maintenance.Default,
  Gaps.Default,
  Search.Default
).pipe(
  Layer.provideMerge(ValueRequests.Default),
  Layer.provideMerge(SecretStore.Default),
  Layer.provideMerge(Layer.mergeAll(projects, Snapshots.Default, Idempotency.Default))
)
const oauth = Consent.Default.pipe(
  Layer.provideMerge(OAuthGrants.Default),
  Layer.provideMerge(AuthorizationServer.Default)
)
const openid = Layer.mergeAll(ClosedTeams.Default, Identities.Default, SignIn.Default, TeamSignIn.Default).pipe(
  Layer.provideMerge(Layer.merge(OpenIdProtocol.Default, SignInIssuers.Default))
)
const outward = Layer.mergeAll(
  Dispatcher.Default,
  Exchange.Default,
  LeakReports.Default,
  openid,
  Rules.Default,
  Webhooks.Default
).pipe(
  Layer.provideMerge(Layer.mergeAll(Issuers.Default, ReportKeys.Default, WebhookSecrets.Default)),
  Layer.provideMerge(Outbound.Default)
)
const mcp = Layer.mergeAll(Changes.Default, McpSessions.Default, Protocol.Default).pipe(
  Layer.provideMerge(Credentials.Default)
)

export const layer = Layer.mergeAll(mcp, oauth, outward).pipe(
  Layer.provideMerge(secrets),
  Layer.provideMerge(credentials),
  Layer.provideMerge(access),
  Layer.provideMerge(crypto),
  Layer.provideMerge(Crypto.Default)
)
