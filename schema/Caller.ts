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

/** One team a credential reaches. */
export interface CallerTeam {
  readonly id: TeamId
  readonly name: string
  readonly plan: Plan
  /** The person's role now; null for an API token over REST, whose scope decides (docs/contract/credentials.md). */
  readonly role: Role | null
  /** Scopes held in this team; null where the credential is not limited by scopes (session, API token over REST). */
  readonly scopes: ReadonlyArray<Scope> | null
  /** Owners and admins read granted environments by grant too. */
  readonly adminsNeedGrants: boolean
  /** Of a session whose person proved a second factor: too long ago for what asks for it again here. */
  readonly factorIsOld: boolean
}

/** A grant in force: of one environment, or of a whole project. */
export interface HeldGrant {
  readonly projectId: ProjectId
  readonly environmentId: EnvironmentId | null
  readonly level: GrantLevel
}

/**
 * What narrows a credential below its teams; null = not narrowed, an empty list = nothing
 * (docs/contract/api-tokens.md).
 */
export interface Restrictions {
  readonly projectIds: ReadonlyArray<ProjectId> | null
  readonly environmentIds: ReadonlyArray<EnvironmentId> | null
}

/**
 * The environment that the request's query names, read in the statement that verified the credential
 * (docs/architecture.md, "The hot path"). Not checked yet: only `access/Access.ts` turns it into a Permit.
 */
export interface NamedEnvironment {
  readonly teamId: TeamId
  readonly projectId: ProjectId
  readonly environmentId: EnvironmentId
  readonly slug: string
  readonly protected: boolean
  readonly revision: number
  /** How often what people say of its secrets was changed. */
  readonly described: number
  readonly readers: Readers
  readonly changes: Changes
  readonly visibility: Visibility
}

/** What we know about an authenticated credential, from its row, in the one statement that verified it. */
export interface Caller {
  readonly kind: CredentialKind
  /** Id of the credential's record (never its look-up id or secret). */
  readonly credentialId: string
  /** The token's or the client's name. */
  readonly name: string | null
  /** The person: holder of a session, grant or OAuth grant; null for an API token (its actions are its own). */
  readonly user: { readonly id: UserId; readonly email: string; readonly name: string } | null
  readonly teams: ReadonlyArray<CallerTeam>
  /** Of a session: teams of the person that it has nothing of until a second factor was added. */
  readonly withheld: ReadonlyArray<{ readonly id: TeamId; readonly name: string }>
  readonly accessLevel: AccessLevel | null
  readonly mcpScopes: ReadonlyArray<Scope>
  readonly restrictions: Restrictions
  /** What the person was granted, as of now; of an API token: its creator, where the creator bounds it. */
  readonly grants: ReadonlyArray<HeldGrant>
  readonly machine: boolean
  /** When the person last proved a second factor; null: not with this credential. */
  readonly factorAt: Date | null
  /** Of a session: which issuer signed the person in (OpenID Connect); null: a password did. */
  readonly issuer: string | null
  /** Of a session that a team's own issuer opened: it is good for this team alone. */
  readonly onlyTeam: TeamId | null
  readonly createdAt: Date
  readonly expiresAt: Date | null
  readonly lastUsedAt: Date | null
  readonly named: NamedEnvironment | null
}

export class CurrentCaller extends Context.Tag("schema/CurrentCaller")<CurrentCaller, Caller>() {}
