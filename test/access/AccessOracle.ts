/**
 * Who gets what answer, from the sentences of docs/contract. Pure, and written on its own:
 * it imports no rule of the server.
 */
import type { AccessLevel, Role, Scope } from "#schema/Scopes.ts"
import type { Asked } from "#test/support/TestApp.ts"

export type Kind = "api_token" | "cli_grant" | "session" | "device_code"
export type TeamKey = "T" | "U"
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
  readonly secret: "live" | "deleted" | null
  readonly ids: {
    readonly teamId: string
    readonly projectId: string
    readonly environmentId: string
    readonly slug: string
    readonly secretId: string
  }
}

export interface Credential {
  readonly name: string
  /** What stands in the request, before anybody asks what it may do. */
  readonly presents: "nothing" | "garbage" | "credential"
  readonly life: "live" | "expired" | "revoked"
  readonly kind: Kind
  readonly teams: {
    readonly [K in TeamKey]?: { readonly role: Role | null; readonly scopes: ReadonlyArray<Scope> | null }
  }
  readonly level: AccessLevel | null
  /** Keys of places; null = not narrowed. */
  readonly projects: ReadonlyArray<string> | null
  readonly environments: ReadonlyArray<string> | null
  readonly crossSite: boolean
  readonly asked: Asked
}

export interface Row {
  /** Credential set of the route; "anyone": it asks for none. */
  readonly takes: ReadonlyArray<Kind> | "anyone"
  /** What the request is about (docs/contract/endpoints.md). */
  readonly subject: "self" | "allTeams" | "eachTeam" | "team" | "project" | "environment" | "environmentId" | "secret"
  /** Scope that a CLI grant needs; absent: none. */
  readonly scope?: Scope
  /**
   * What a person needs to be: viewer, member, member or (protected) admin, admin, owner
   * (docs/contract/session-routes.md).
   */
  readonly needs?: "names" | "values" | "write" | "manage" | "own"
  readonly ask: (place: Place) => { readonly path: string; readonly json?: unknown }
  /** The answer once nothing stands in the way: a success, or a harmless refusal of a rule that comes later. */
  readonly answers: Outcome
  /** The same where the secret is deleted; default: the 404 of the secret. */
  readonly answersDeleted?: Outcome
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

const seesTeam = (c: Credential, place: Place) => place.team !== null && c.teams[place.team] !== undefined

/** "Projects without a reached environment are hidden." */
export const seesProject = (c: Credential, place: Place): boolean =>
  seesTeam(c, place) &&
  place.project !== null &&
  (c.projects === null || c.projects.includes(place.project)) &&
  (c.environments === null || c.environments.some((e) => e.startsWith(`${place.project}/`)))

/** "Narrowing is checked on every request." */
export const seesEnvironment = (c: Credential, place: Place): boolean =>
  seesTeam(c, place) &&
  place.environment !== null &&
  (c.projects === null || c.projects.includes(place.project ?? "")) &&
  (c.environments === null || c.environments.includes(place.environment))

const unseen = (row: Row, c: Credential, place: Place): Outcome | undefined => {
  switch (row.subject) {
    case "team":
      return seesTeam(c, place) ? undefined : notFound.team
    case "project":
      return seesProject(c, place) ? undefined : notFound.project
    case "environment":
      if (seesEnvironment(c, place)) return undefined
      return seesProject(c, place) ? notFound.environment : notFound.project
    case "environmentId":
      return seesEnvironment(c, place) ? undefined : notFound.environment
    case "secret":
      return seesEnvironment(c, place) && place.secret !== null ? undefined : notFound.secret
    default:
      return undefined
  }
}

const rank: Record<Role, number> = { viewer: 0, member: 1, admin: 2, owner: 3 }
const enough = (role: Role, needs: NonNullable<Row["needs"]>): boolean =>
  rank[role] >= { names: 0, values: 1, write: 1, manage: 2, own: 3 }[needs]

const forbidden: Outcome = [403, "FORBIDDEN"]
const scopeMissing: Outcome = [403, "SCOPE_MISSING"]

const mayNot = (row: Row, c: Credential, place: Place): Outcome | undefined => {
  const standings = Object.values(c.teams)
  const lacks = ({ scopes }: { readonly scopes: ReadonlyArray<Scope> | null }) =>
    row.scope !== undefined && scopes !== null && !scopes.includes(row.scope)
  if (row.subject === "self") return undefined
  if (row.subject === "allTeams") return standings.some(lacks) ? scopeMissing : undefined
  if (row.subject === "eachTeam") return standings.length > 0 && standings.every(lacks) ? scopeMissing : undefined
  const at = place.team === null ? undefined : c.teams[place.team]
  if (at === undefined) return undefined
  // Role, scope, level, protected: in this order.
  if (at.role !== null && row.needs !== undefined && !enough(at.role, row.needs)) return forbidden
  if (lacks(at)) return scopeMissing
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
  if (writes && place.protected && at.role !== null && rank[at.role] < rank.admin) return forbidden
  return undefined
}

export interface Verdict {
  readonly outcome: Outcome
  /** "Not visible" and "does not exist": all of these answer the same bytes. */
  readonly unseen: boolean
  /** Said before anybody looks at the place: a few places are enough to see that. */
  readonly early: boolean
}

export const expected = (method: string, row: Row, c: Credential, place: Place): Verdict => {
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
  const hidden = unseen(row, c, place)
  if (hidden !== undefined) return as(hidden, true)
  const denied = mayNot(row, c, place)
  if (denied !== undefined) return as(denied)
  if (row.subject === "secret" && place.secret === "deleted") return as(row.answersDeleted ?? notFound.secret)
  return as(row.answers)
}
