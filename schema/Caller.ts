import * as Context from "effect/Context"
import type { EnvironmentId, ProjectId, TeamId, UserId } from "./Ids.ts"
import type {
  AccessLevel,
  Changes,
  CredentialKind,
  GrantLevel,
  Plan,
  Readers,
  Role,
  Scope,
  Visibility
} from "./Scopes.ts"

/** Team that a credential reaches. */
export interface CallerTeam {
  readonly id: TeamId
  readonly name: string
  readonly plan: Plan
  /**
   * The person's present role; null for an API token over REST, which its scope limits instead
   * (docs/contract/credentials.md).
   */
  readonly role: Role | null
  /** Scopes in this team; null for credentials without scopes (session, API token over REST). */
  readonly scopes: ReadonlyArray<Scope> | null
  /** True when owners and admins need grants too for granted environments. */
  readonly adminsNeedGrants: boolean
  /** For a session with a second factor: true when it was confirmed too long ago for this team. */
  readonly factorIsOld: boolean
  /** Keys that the team's secrets may have (`src/formats/AllowedKeys.ts`); null: any. */
  readonly allowedKeys: ReadonlyArray<string> | null
}

/** Active grant of one environment, or of a whole project. */
export interface ActiveGrant {
  readonly projectId: ProjectId
  readonly environmentId: EnvironmentId | null
  readonly level: GrantLevel
}

/**
 * Limits of a credential within its teams; null = unrestricted, an empty list = nothing (docs/contract/api-tokens.md).
 */
export interface Restrictions {
  readonly projectIds: ReadonlyArray<ProjectId> | null
  readonly environmentIds: ReadonlyArray<EnvironmentId> | null
}

/**
 * Environment named in the request's query, read by the statement that verifies the credential (docs/architecture.md,
 * "The hot path"). Not checked yet: only `access/Access.ts` turns it into a Permit.
 */
export interface NamedEnvironment {
  readonly teamId: TeamId
  readonly projectId: ProjectId
  readonly environmentId: EnvironmentId
  readonly slug: string
  readonly protected: boolean
  readonly revision: number
  /** Counts changes of the descriptions of its secrets. Not part of `revision`, because no value depends on them. */
  readonly described: number
  readonly readers: Readers
  readonly changes: Changes
  readonly visibility: Visibility
}

/** An authenticated credential, from the one statement that verified its row. */
export interface Caller {
  readonly kind: CredentialKind
  /** Id of the credential's record, never its look-up id or secret. */
  readonly credentialId: string
  /** Name of the token or the client. */
  readonly name: string | null
  /** Person behind a session, CLI grant or OAuth grant; null for an API token, which acts for itself. */
  readonly user: { readonly id: UserId; readonly email: string; readonly name: string } | null
  readonly teams: ReadonlyArray<CallerTeam>
  /** For a session: teams that the person cannot reach before adding a second factor. */
  readonly withheld: ReadonlyArray<{ readonly id: TeamId; readonly name: string }>
  readonly accessLevel: AccessLevel | null
  readonly mcpScopes: ReadonlyArray<Scope>
  readonly restrictions: Restrictions
  /** Present grants of the person. For an API token, those of its creator, if the creator's rights limit it. */
  readonly grants: ReadonlyArray<ActiveGrant>
  readonly machine: boolean
  /** Time of the last confirmed second factor; null: not with this credential. */
  readonly factorAt: Date | null
  /**
   * For a session: last proof that counts where a second one is required, if it is not `factorAt`: that factor was
   * younger than a day.
   */
  readonly provedAt: Date | null
  /** For a session: issuer that signed the person in (OpenID Connect); null: a password. */
  readonly issuer: string | null
  /** For a session of a team's own issuer: the only team that it reaches. */
  readonly onlyTeam: TeamId | null
  /** For a session: teams that its authenticator or identity does not open until an owner confirms it. */
  readonly closedTeams: ReadonlyArray<TeamId> | null
  /** For a session of an issuer: the only teams that require this issuer and that it opens; null: all of them. */
  readonly confirmedTeams: ReadonlyArray<TeamId> | null
  readonly createdAt: Date
  readonly expiresAt: Date | null
  readonly lastUsedAt: Date | null
  readonly named: NamedEnvironment | null
}

export class CurrentCaller extends Context.Tag("schema/CurrentCaller")<CurrentCaller, Caller>() {}
