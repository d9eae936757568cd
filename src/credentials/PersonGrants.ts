/**
 * Access grants of a person, read by the statement that verifies their credential. The database returns them as one
 * text, which costs it a third of JSON. The process parses equal texts once.
 */
import type { EnvironmentId, ProjectId, TeamId, UserId } from "#schema/Ids.ts"
import type { GrantLevel } from "#schema/Scopes.ts"
import type { RowMac } from "#src/rows/RowMac.ts"

/** Cells of a grant's line; none contains a space. */
const cells = [
  "a.id::text",
  "a.team_id::text",
  "a.user_id::text",
  "a.project_id::text",
  "coalesce(a.environment_id::text, '-')",
  "a.level",
  "coalesce((extract(epoch FROM a.until) * 1000)::text, '-')",
  "coalesce(encode(a.mac, 'hex'), '-')"
]

/** Includes ended grants until the sweep; null when the person has none. */
export const column = (userId: string): string =>
  `(SELECT string_agg(${cells.join(" || ' ' || ")}, E'\\n') FROM access_grants a WHERE a.user_id = ${userId}) AS person_grants`

interface Grant {
  readonly projectId: ProjectId
  readonly environmentId: EnvironmentId | null
  readonly level: GrantLevel
  /** Milliseconds since 1970; null: no end. */
  readonly until: number | null
}

const optional = (cell: string): string | null => (cell === "-" ? null : cell)

/** A row of `access_grants`; the statement gives it its type, as it does for the other columns. */
const rowOf = (line: string) => {
  const [id = "", teamId = "", userId = "", projectId = "", environmentId = "-", level = "", until = "-", mac = "-"] =
    line.split(" ")
  const millis = optional(until)
  return {
    id,
    teamId: teamId as TeamId,
    userId: userId as UserId,
    projectId: projectId as ProjectId,
    environmentId: optional(environmentId) as EnvironmentId | null,
    level: level as GrantLevel,
    until: millis === null ? null : Number(millis),
    mac: optional(mac)
  }
}

interface Grants {
  readonly grants: ReadonlyArray<Grant>
  /** Earliest end of a grant, milliseconds since 1970. */
  readonly firstEnd: number
}

/** Parsed texts, per set of MAC keys. A person has at most 200 grants, about 60 KB of text. */
const cacheLimit = 200
const cache = new WeakMap<RowMac, Map<string, Grants>>()

const cacheOf = (macs: RowMac) => {
  const cached = cache.get(macs)
  if (cached !== undefined) return cached
  const parsed = new Map<string, Grants>()
  cache.set(macs, parsed)
  return parsed
}

const parse = (text: string, macs: RowMac): Grants => {
  const byText = cacheOf(macs)
  const cached = byText.get(text)
  if (cached !== undefined) return cached
  const rows = text.split("\n").map(rowOf)
  const valid = rows.filter((row) => macs.isAuthentic("access_grants", row))
  const parsed = {
    grants: valid.map(({ environmentId, level, projectId, until }) => ({ environmentId, level, projectId, until })),
    firstEnd: Math.min(...valid.map(({ until }) => until ?? Number.POSITIVE_INFINITY))
  }
  // Not cached with an invalid row, so that each read reports it.
  if (valid.length === rows.length) {
    if (byText.size >= cacheLimit) byText.clear()
    byText.set(text, parsed)
  }
  return parsed
}

/** Grants in force whose MAC holds. */
export const inForce = (text: string, now: number, macs: RowMac): ReadonlyArray<Grant> => {
  const { grants, firstEnd } = parse(text, macs)
  return now < firstEnd ? grants : grants.filter(({ until }) => until === null || until > now)
}
