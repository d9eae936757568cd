/** Which open stream ends for a new one, so that neither a credential nor a team takes all streams of a process. */
import type { TeamId } from "#schema/Ids.ts"

export const perCredential = 20
export const perTeam = 200
/** Of one process. */
export const inTotal = 2_000

/** Whose shares a stream counts in. */
export interface StreamOwner {
  readonly credentialId: string
  readonly teamId: TeamId | null
}

/** The members with the most watchers in common, oldest first; of equals those that hold the oldest. */
const largest = <W>(watchers: ReadonlyArray<W>, of: (watcher: W) => string | null): ReadonlyArray<W> => {
  const shares = new Map<string | null, Array<W>>()
  for (const watcher of watchers) {
    const share = shares.get(of(watcher))
    if (share === undefined) shares.set(of(watcher), [watcher])
    else share.push(watcher)
  }
  const none: ReadonlyArray<W> = []
  return [...shares.values()].reduce((most, share) => (share.length > most.length ? share : most), none)
}
const byCredential = ({ credentialId }: StreamOwner) => credentialId
const byTeam = ({ teamId }: StreamOwner) => teamId

/**
 * The stream that ends for a new one: the oldest of the credential, of the team's busiest credential, or of the busiest
 * team's, whichever limit is reached. A client is never refused because of streams that others hold open.
 */
export const makesRoom = <W extends StreamOwner>(open: Iterable<W>, to: StreamOwner): W | undefined => {
  const all = [...open]
  const own = all.filter(({ credentialId }) => credentialId === to.credentialId)
  if (own.length >= perCredential) return own[0]
  const team = all.filter(({ teamId }) => teamId === to.teamId)
  if (team.length >= perTeam) return largest(team, byCredential)[0]
  if (all.length >= inTotal) return largest(largest(all, byTeam), byCredential)[0]
  return undefined
}
