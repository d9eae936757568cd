/**
 * What a person was granted, as the statement that verifies their credential brings it: one text, which costs the database
 * a third of what JSON costs it, and is read once for as long as it stays the same.
 */
import type { EnvironmentId, ProjectId, TeamId, UserId } from "#schema/Ids.ts"
import type { GrantLevel } from "#schema/Scopes.ts"
import type { RowMac } from "#src/rows/RowMac.ts"

/** A grant of a line: none of these holds a space. */
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

/** Ended ones too, until they are swept; null: there is none. */
export const column = (userId: string): string =>
  `(SELECT string_agg(${cells.join(" || ' ' || ")}, E'\\n') FROM access_grants a WHERE a.user_id = ${userId}) AS held`

interface Held {
  readonly projectId: ProjectId
  readonly environmentId: EnvironmentId | null
  readonly level: GrantLevel
  /** Milliseconds since 1970; null = until somebody ends it. */
  readonly until: number | null
}

const optional = (cell: string): string | null => (cell === "-" ? null : cell)

/** Typed at the statement, as its other columns are: rows of `access_grants`, which has ids and levels alone. */
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

interface Read {
  readonly grants: ReadonlyArray<Held>
  /** When the first of them ends. */
  readonly whole: number
}

/** Texts that are remembered with what they say, by who believes them. A person has at most 200 grants, some 60 KB. */
const rememberedAtMost = 200
const remembered = new WeakMap<RowMac, Map<string, Read>>()

const textsOf = (macs: RowMac) => {
  const known = remembered.get(macs)
  if (known !== undefined) return known
  const fresh = new Map<string, Read>()
  remembered.set(macs, fresh)
  return fresh
}

const read = (text: string, macs: RowMac): Read => {
  const texts = textsOf(macs)
  const known = texts.get(text)
  if (known !== undefined) return known
  const rows = text.split("\n").map(rowOf)
  const own = rows.filter((row) => macs.holds("access_grants", row))
  const fresh = {
    grants: own.map(({ environmentId, level, projectId, until }) => ({ environmentId, level, projectId, until })),
    whole: Math.min(...own.map(({ until }) => until ?? Number.POSITIVE_INFINITY))
  }
  // A row that no server wrote is told of each time.
  if (own.length === rows.length) {
    if (texts.size >= rememberedAtMost) texts.clear()
    texts.set(text, fresh)
  }
  return fresh
}

/** Those in force that a server wrote. */
export const inForce = (held: string | null, now: number, macs: RowMac): ReadonlyArray<Held> => {
  if (held === null) return []
  const { grants, whole } = read(held, macs)
  return now < whole ? grants : grants.filter(({ until }) => until === null || until > now)
}
