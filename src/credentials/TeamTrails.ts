import type { TeamId } from "#schema/Ids.ts"
import type { AuditEvent } from "#src/access/Audit.ts"

/** An event that concerns a person, not a team: one entry in the trail of each of their teams, or one in none. */
export const inEachTeam = (
  teamIds: ReadonlyArray<TeamId>,
  event: Omit<AuditEvent, "teamId">
): ReadonlyArray<AuditEvent> =>
  teamIds.length === 0 ? [{ ...event, teamId: null }] : teamIds.map((teamId) => ({ ...event, teamId }))
