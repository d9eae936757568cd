/** The use cases that pages call. */
import type { AuditTrail } from "#src/access/AuditTrail.ts"
import type { AppConfig } from "#src/AppConfig.ts"
import type { Authenticate } from "#src/credentials/Authenticate.ts"
import type { CliGrants } from "#src/credentials/CliGrants.ts"
import type { DeviceGrants } from "#src/credentials/DeviceGrants.ts"
import type { Sessions } from "#src/credentials/Sessions.ts"
import type { Setup } from "#src/credentials/Setup.ts"
import type { Tokens } from "#src/credentials/Tokens.ts"
import type { Rules } from "#src/machines/Rules.ts"
import type { Consent } from "#src/oauth/Consent.ts"
import type { OAuthGrants } from "#src/oauth/OAuthGrants.ts"
import type { Environments } from "#src/projects/Environments.ts"
import type { Invitations } from "#src/projects/Invitations.ts"
import type { Members } from "#src/projects/Members.ts"
import type { Projects } from "#src/projects/Projects.ts"
import type { SealingKeys } from "#src/projects/SealingKeys.ts"
import type { Teams } from "#src/projects/Teams.ts"
import type { SecretReads } from "#src/secrets/SecretReads.ts"
import type { SecretWrites } from "#src/secrets/SecretWrites.ts"
import type { ValueRequests } from "#src/secrets/ValueRequests.ts"
import type { Webhooks } from "#src/webhooks/Webhooks.ts"

export type Services =
  | AppConfig
  | AuditTrail
  | Authenticate
  | CliGrants
  | Consent
  | DeviceGrants
  | Environments
  | Invitations
  | Members
  | OAuthGrants
  | Projects
  | Rules
  | SealingKeys
  | SecretReads
  | SecretWrites
  | Sessions
  | Setup
  | Teams
  | Tokens
  | ValueRequests
  | Webhooks
