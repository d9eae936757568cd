/**
 * Expected answer of each caller, from the sentences of docs/contract. Pure and independent:
 * it imports no rule of the server.
 */
import type { AccessLevel, GrantLevel, Role, Scope } from "#schema/Scopes.ts"
import type { Asked } from "#test/support/TestApp.ts"

export type Kind = "api_token" | "cli_grant" | "session" | "management" | "device_code" | "oauth_token"
export type TeamKey = "T" | "U" | "V"
/** Status and, of a failure, its code. */
export type Outcome = readonly [status: number, code?: string]

/** Somewhere in the world, by its address; a key that is null names nothing that is there now. */
export interface Place {
  readonly name: string
  readonly team: TeamKey | null
  readonly project: string | null
  /** `<project>/<slug>` */
  readonly environment: string | null
  readonly protected: boolean
  /** Readers of its values, and viewers of its project: the team, or holders of a grant. */
  readonly readers: "team" | "granted"
  readonly visibility: "team" | "granted"
  /** Absent: people write directly. */
  readonly changes?: "proposed"
  readonly secret: "live" | "deleted" | null
  readonly ids: {
    readonly teamId: string
    readonly projectId: string
    readonly environmentId: string
    readonly slug: string
    readonly secretId: string
  }
}

/** Grant of a person. `environment`: null for all of the project. `until`: null, or milliseconds since 1970. */
export interface Held {
  readonly project: string
  readonly environment: string | null
  readonly level: GrantLevel
  readonly until: number | null
}

export interface Credential {
  readonly name: string
  /** Content of the request, before any right is checked. */
  readonly presents: "nothing" | "garbage" | "credential"
  readonly life: "live" | "expired" | "revoked"
  readonly kind: Kind
  readonly teams: {
    readonly [K in TeamKey]?: {
      /** Of the person, or of the creator of an API token that its creator bounds; null: the token's own reach. */
      readonly role: Role | null
      readonly scopes: ReadonlyArray<Scope> | null
      readonly adminsNeedGrants?: true
      readonly secondPerson?: true
    }
  }
  /** Of the same person; ended ones too. */
  readonly grants: ReadonlyArray<Held>
  readonly level: AccessLevel | null
  /** Of an API token. */
  readonly mcpScopes?: ReadonlyArray<Scope>
  /** Keys of places; null = not narrowed. */
  readonly projects: ReadonlyArray<string> | null
  readonly environments: ReadonlyArray<string> | null
  readonly crossSite: boolean
  /** The team of the issuer that signed the person in; absent: any. */
  readonly onlyTeam?: TeamKey
  readonly asked: Asked
}

export interface Row {
  /** Credential set of the route; "anyone": it asks for none. */
  readonly takes: ReadonlyArray<Kind> | "anyone"
  /** Target of the request (docs/contract/endpoints.md). */
  readonly subject: "self" | "allTeams" | "eachTeam" | "team" | "project" | "environment" | "environmentId" | "secret"
  /** Scope that a CLI grant needs; absent: none. */
  readonly scope?: Scope
  /** MCP scope that an API token needs over REST, and a person need not hold. */
  readonly tokensNeed?: Scope
  /**
   * Role that a person needs: viewer, member, member or (protected) admin, admin, owner
   * (docs/contract/session-routes.md).
   */
  readonly needs?: "names" | "values" | "write" | "manage" | "own"
  readonly ask: (place: Place) => { readonly path: string; readonly json?: unknown }
  /** The answer without an obstacle: a success, or a harmless refusal of a rule that comes later. */
  readonly answers: Outcome
  /** The same where the secret is deleted; default: the 404 of the secret. */
  readonly answersDeleted?: Outcome
  /** "A login that is restricted to projects or environments is 403": it tells of all of the team. */
  readonly ofTheWholeTeam?: true
  /** It reaches beyond each single team: a session of one team's own issuer may not. */
  readonly beyondTeams?: true
  /** It waits for no approval: where changes do, it is for owners and admins. */
  readonly direct?: true
  /** It binds an owner or admin: where the team requires a second person, it waits for one (202). */
  readonly waits?: true
  /** It makes a credential that reads everything of the team; nobody makes one that reads what they may not. */
  readonly makesReader?: true
  /** Absent: everywhere. Where the request would not be harmless, the row is not asked. */
  readonly where?: (place: Place) => boolean
  /** The request ends the credential (or the membership) that makes it. */
  readonly endsCredential?: true
  /** The request deletes its target. */
  readonly deletes?: "project" | "environment"
  readonly takesRevokedTokens?: true
}

const notFound: Record<"team" | "project" | "environment" | "secret", Outcome> = {
  team: [404, "TEAM_NOT_FOUND"],
  project: [404, "PROJECT_NOT_FOUND"],
  environment: [404, "ENVIRONMENT_NOT_FOUND"],
  secret: [404, "SECRET_NOT_FOUND"]
}

const rank: Record<Role, number> = { viewer: 0, member: 1, admin: 2, owner: 3 }
const standing = (c: Credential, place: Place) => (place.team === null ? undefined : c.teams[place.team])

/** "A grant ends by itself at `until`." */
const inForce = (c: Credential, now: number) => c.grants.filter(({ until }) => until === null || now < until)

/** "A person below admin sees of it what a grant reaches." */
const needsGrantToSee = (c: Credential, place: Place) => {
  const role = standing(c, place)?.role ?? null
  return place.visibility === "granted" && role !== null && rank[role] < rank.admin
}

const reachesEnvironment = (c: Credential, environment: string) =>
  (c.projects === null || c.projects.some((project) => environment.startsWith(`${project}/`))) &&
  (c.environments === null || c.environments.includes(environment))

/** "Projects without a reached environment are hidden." */
export const seesProject = (c: Credential, place: Place, now: number): boolean =>
  standing(c, place) !== undefined &&
  place.project !== null &&
  (c.projects === null || c.projects.includes(place.project)) &&
  (c.environments === null || c.environments.some((e) => e.startsWith(`${place.project}/`))) &&
  (!needsGrantToSee(c, place) ||
    inForce(c, now).some(
      ({ environment, project }) =>
        project === place.project && (environment === null || reachesEnvironment(c, environment))
    ))

const granted = (c: Credential, place: Place, now: number) =>
  inForce(c, now).filter(
    ({ environment, project }) =>
      project === place.project && (environment === null || environment === place.environment)
  )

/** "Narrowing is checked on every request." */
export const seesEnvironment = (c: Credential, place: Place, now: number): boolean =>
  standing(c, place) !== undefined &&
  place.environment !== null &&
  reachesEnvironment(c, place.environment) &&
  (!needsGrantToSee(c, place) || granted(c, place, now).length > 0)

const unseen = (row: Row, c: Credential, place: Place, now: number): Outcome | undefined => {
  switch (row.subject) {
    case "team":
      return standing(c, place) === undefined ? notFound.team : undefined
    case "project":
      return seesProject(c, place, now) ? undefined : notFound.project
    case "environment":
      if (seesEnvironment(c, place, now)) return undefined
      return seesProject(c, place, now) ? notFound.environment : notFound.project
    case "environmentId":
      return seesEnvironment(c, place, now) ? undefined : notFound.environment
    case "secret":
      return seesEnvironment(c, place, now) && place.secret !== null ? undefined : notFound.secret
    default:
      return undefined
  }
}

const enough = (role: Role, needs: NonNullable<Row["needs"]>): boolean =>
  rank[role] >= { names: 0, values: 1, write: 1, manage: 2, own: 3 }[needs]

const forbidden: Outcome = [403, "FORBIDDEN"]
const scopeMissing: Outcome = [403, "SCOPE_MISSING"]

/** "Reads, runs, is handed or writes a value there by a grant only"; each level gives those before it. */
const lacksGrant = (row: Row, c: Credential, place: Place, now: number) => {
  const at = standing(c, place)
  if (at === undefined || at.role === null) return false
  if (place.readers === "team" && place.visibility === "team") return false
  if (rank[at.role] >= rank.admin && at.adminsNeedGrants !== true) return false
  const levels = granted(c, place, now).map(({ level }) => level)
  if (row.needs === "write") return !levels.includes("write")
  if (row.scope === "secrets:read_values" || row.makesReader === true)
    return !levels.some((level) => level === "values" || level === "write")
  return row.scope === "secrets:run" && !levels.some((level) => level !== "names")
}

const mayNot = (row: Row, c: Credential, place: Place, now: number): Outcome | undefined => {
  const standings = Object.values(c.teams)
  const lacks = ({ scopes }: { readonly scopes: ReadonlyArray<Scope> | null }) =>
    row.scope !== undefined && scopes !== null && !scopes.includes(row.scope)
  if (row.beyondTeams === true && c.onlyTeam !== undefined) return forbidden
  if (row.subject === "self") return undefined
  if (row.subject === "allTeams") return standings.some(lacks) ? scopeMissing : undefined
  if (row.subject === "eachTeam") return standings.length > 0 && standings.every(lacks) ? scopeMissing : undefined
  const at = place.team === null ? undefined : c.teams[place.team]
  if (at === undefined) return undefined
  // Role, scope, level, protected, grant: in this order.
  if (at.role !== null && row.needs !== undefined && !enough(at.role, row.needs)) return forbidden
  if (lacks(at)) return scopeMissing
  if (row.tokensNeed !== undefined && c.kind === "api_token" && !(c.mcpScopes ?? []).includes(row.tokensNeed)) {
    return scopeMissing
  }
  if (row.ofTheWholeTeam === true && (c.projects !== null || c.environments !== null)) return forbidden
  const writes = row.needs === "write"
  if (writes && c.level === "read") return [403, "API_TOKEN_READ_ONLY"]
  if (
    writes &&
    place.protected &&
    c.kind === "api_token" &&
    c.environments?.includes(place.environment ?? "") !== true
  ) {
    return [403, "API_TOKEN_NOT_SCOPED_TO_PROTECTED_ENVIRONMENT"]
  }
  // "Members may propose": a token is no person.
  const proposes = place.changes === "proposed" && c.kind !== "api_token"
  if (writes && place.protected && at.role !== null && rank[at.role] < rank.admin && !proposes) return forbidden
  if (lacksGrant(row, c, place, now)) return [403, "ENVIRONMENT_NOT_GRANTED"]
  return row.direct === true && proposes && at.role !== null && rank[at.role] < rank.admin ? forbidden : undefined
}

export interface Verdict {
  readonly outcome: Outcome
  /** "Not visible" and "does not exist": all of these answer the same bytes. */
  readonly unseen: boolean
  /** Said before anybody looks at the place: a few places are enough to see that. */
  readonly early: boolean
}

export const expected = (method: string, row: Row, c: Credential, place: Place, now = Date.now()): Verdict => {
  const as = (outcome: Outcome, unseen = false): Verdict => ({ outcome, unseen, early: false })
  const early = (outcome: Outcome): Verdict => ({ outcome, unseen: false, early: true })
  if (row.takes === "anyone") return early(row.answers)
  if (c.presents === "nothing") return early([401, "UNAUTHENTICATED"])
  if (c.presents === "garbage") return early([401, "CREDENTIAL_INVALID"])
  if (c.life === "expired") return early([401, "CREDENTIAL_EXPIRED"])
  if (c.life === "revoked" && !(row.takesRevokedTokens === true && c.kind === "api_token")) {
    return early([401, "CREDENTIAL_REVOKED"])
  }
  if (!row.takes.includes(c.kind)) return early([403, "CREDENTIAL_KIND_NOT_ACCEPTED"])
  if (c.crossSite && method !== "GET") return early([403, "CROSS_SITE_REQUEST"])
  const hidden = unseen(row, c, place, now)
  if (hidden !== undefined) return as(hidden, true)
  const denied = mayNot(row, c, place, now)
  if (denied !== undefined) return as(denied)
  if (row.subject === "secret" && place.secret === "deleted") return as(row.answersDeleted ?? notFound.secret)
  // "While it is set, these actions wait for another owner or admin."
  if (row.waits === true && standing(c, place)?.secondPerson === true) return as([202])
  return as(row.answers)
}
