import * as Context from "effect/Context"
import * as Schema from "effect/Schema"

/** Scopes of credentials (docs/contract/credentials.md). */
export const Scope = Schema.Literal(
  "identity:read",
  "projects:read",
  "secrets:read",
  "secrets:read_values",
  "secrets:write",
  "secrets:run",
  "audit:read"
).annotations({ identifier: "Scope" })
export type Scope = typeof Scope.Type
export const allScopes: ReadonlyArray<Scope> = Scope.literals

/** `audit:read` is for MCP credentials only (docs/contract/secrets.md). */
export const cliScopes: ReadonlyArray<Scope> = allScopes.filter((s) => s !== "audit:read")
export const CliScope = Scope.pipe(
  Schema.pickLiteral(
    "identity:read",
    "projects:read",
    "secrets:read",
    "secrets:read_values",
    "secrets:write",
    "secrets:run"
  )
).annotations({ message: () => "must be a scope that a CLI grant can hold", identifier: "CliScope" })

/** Preselected for the approval of a device request (docs/contract/device-authorization.md). */
export const preselectedScopes: ReadonlyArray<Scope> = ["identity:read", "projects:read", "secrets:read", "secrets:run"]

export const AccessLevel = Schema.Literal("read", "write").annotations({
  message: () => "must be read or write",
  identifier: "AccessLevel"
})
export type AccessLevel = typeof AccessLevel.Type

export const Role = Schema.Literal("owner", "admin", "member", "viewer").annotations({
  message: () => "must be owner, admin, member or viewer",
  identifier: "Role"
})
export type Role = typeof Role.Type

/**
 * Level of a grant at an environment, each including those before it: names, running programs, reading values, writing
 * (docs/contract/access.md).
 */
export const GrantLevel = Schema.Literal("names", "run", "values", "write").annotations({
  message: () => "must be names, run, values or write",
  identifier: "GrantLevel"
})
export type GrantLevel = typeof GrantLevel.Type

/** Readers of an environment's values: the team by role, or people with a grant. */
export const Readers = Schema.Literal("team", "granted").annotations({
  message: () => "must be team or granted",
  identifier: "Readers"
})
export type Readers = typeof Readers.Type

/** Number of people who must approve an access request for a protected environment. */
export const Approvals = Schema.Int.pipe(Schema.between(1, 2)).annotations({
  message: () => "must be 1 or 2",
  identifier: "Approvals",
  jsonSchema: { type: "integer", minimum: 1, maximum: 2 }
})
export type Approvals = typeof Approvals.Type

/** Effect of a write by a role below admin: immediate, or after an approval (docs/contract/access.md). */
export const Changes = Schema.Literal("direct", "proposed").annotations({
  message: () => "must be direct or proposed",
  identifier: "Changes"
})
export type Changes = typeof Changes.Type

/** Effect of a report of a leaked credential: revoke the credential, or only notify the team. */
export const LeakRule = Schema.Literal("revoke", "notify").annotations({
  message: () => "must be revoke or notify",
  identifier: "LeakRule"
})
export type LeakRule = typeof LeakRule.Type

/** Visibility of a project: the team, or people with a grant in it. */
export const Visibility = Schema.Literal("team", "granted").annotations({
  message: () => "must be team or granted",
  identifier: "Visibility"
})
export type Visibility = typeof Visibility.Type

export const Plan = Schema.Literal("developer", "team").annotations({
  message: () => "must be developer or team",
  identifier: "Plan"
})
export type Plan = typeof Plan.Type

export const CredentialKind = Schema.Literal("api_token", "cli_grant", "session", "management", "oauth_token")
export type CredentialKind = typeof CredentialKind.Type

/** CLI scope of an endpoint, printed as `x-cli-scope` and read by the scope tests. "none": the caller itself. */
export class RequiredScope extends Context.Tag("schema/RequiredScope")<RequiredScope, Scope | "none">() {}
