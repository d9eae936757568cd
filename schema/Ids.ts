import { identity } from "effect/Function"
import * as Schema from "effect/Schema"
import * as Text from "effect/String"
import * as Patterns from "./Patterns.ts"

export const uuidPattern = Patterns.uuid

const jsonSchema = { type: "string", format: "uuid", pattern: uuidPattern.source } as const

/** Incoming uuid: checked against the pattern, and folded to lower case like the database's output. */
const uuid = <B extends string>(brand: B, description: string) =>
  Schema.transform(
    Schema.String.pipe(Schema.pattern(uuidPattern, { message: () => "must be a uuid", jsonSchema, description })),
    Schema.String,
    { strict: true, decode: Text.toLowerCase, encode: identity }
  )
    .pipe(Schema.brand(brand))
    .annotations({ jsonSchema, description })

export const TeamId = uuid("TeamId", "Id of a team.")
export type TeamId = typeof TeamId.Type
export const UserId = uuid("UserId", "Id of a person.")
export type UserId = typeof UserId.Type
export const ProjectId = uuid("ProjectId", "Id of a project.")
export type ProjectId = typeof ProjectId.Type
export const EnvironmentId = uuid("EnvironmentId", "Id of an environment.")
export type EnvironmentId = typeof EnvironmentId.Type
export const SecretId = uuid("SecretId", "Id of a secret.")
export type SecretId = typeof SecretId.Type
export const TokenId = uuid("TokenId", "Id of an API token.")
export type TokenId = typeof TokenId.Type
export const GrantId = uuid("GrantId", "Id of a CLI grant.")
export type GrantId = typeof GrantId.Type
export const AccessGrantId = uuid("AccessGrantId", "Id of a grant of a project or an environment.")
export type AccessGrantId = typeof AccessGrantId.Type
export const AccessRequestId = uuid("AccessRequestId", "Id of a request for access.")
export type AccessRequestId = typeof AccessRequestId.Type
export const ChangeRequestId = uuid("ChangeRequestId", "Id of a change that waits for an approval.")
export type ChangeRequestId = typeof ChangeRequestId.Type
export const SecondPersonRequestId = uuid("SecondPersonRequestId", "Id of an action that waits for a second person.")
export type SecondPersonRequestId = typeof SecondPersonRequestId.Type
export const RuleId = uuid("RuleId", "Id of a trust rule.")
export type RuleId = typeof RuleId.Type
export const IncidentId = uuid("IncidentId", "Id of an incident.")
export type IncidentId = typeof IncidentId.Type
export const RunPlanId = uuid("RunPlanId", "Id of a planned run.")
export type RunPlanId = typeof RunPlanId.Type
export const WebhookId = uuid("WebhookId", "Id of a webhook.")
export type WebhookId = typeof WebhookId.Type
export const InstallationId = uuid("InstallationId", "Id that a client stores for its installation.")
export type InstallationId = typeof InstallationId.Type

/**
 * Outgoing ids have their type in the document, but no refinement in the program (docs/architecture.md, "The hot
 * path").
 */
const out = <B extends string>(brand: B) =>
  Schema.String.pipe(Schema.brand(brand)).annotations({ jsonSchema: { type: "string", format: "uuid" } })
export const TeamIdOut = out("TeamId")
export const UserIdOut = out("UserId")
export const ProjectIdOut = out("ProjectId")
export const EnvironmentIdOut = out("EnvironmentId")
export const SecretIdOut = out("SecretId")
export const TokenIdOut = out("TokenId")
export const GrantIdOut = out("GrantId")
export const AccessGrantIdOut = out("AccessGrantId")
export const AccessRequestIdOut = out("AccessRequestId")
export const ChangeRequestIdOut = out("ChangeRequestId")
export const SecondPersonRequestIdOut = out("SecondPersonRequestId")
export const RuleIdOut = out("RuleId")
export const IncidentIdOut = out("IncidentId")
export const WebhookIdOut = out("WebhookId")
