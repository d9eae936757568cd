/**
 * Entries of a stream under no seal: what a process had no time to have sealed, or what a writer of the database added.
 *
 * Such entries are judged by their times only: entries that claim to be older than a seal that does not cover them, or
 * younger than their process. The times of a seal are under no MAC. A writer of the database can therefore add entries
 * to a stream between the end of its process and the moment when another one closes it (5 minutes after that one saw
 * the last sign of it, or the next start of an embedded database), when they claim a time after the last seal. A
 * process that runs notices when the times of its own seals are changed, and takes the last word on what its streams
 * hold, also after another process closed one (`src/access/AuditSeal.ts`).
 */
import { deadAfterMillis, graceMillis, heartbeatMillis, tailMillis } from "./Chain.ts"

/** Milliseconds. */
export interface SealTimes {
  /** When the seal was known to cover everything that its process had committed. */
  readonly sealedAt: number
  /** When the process last said that it runs. */
  readonly seenAt: number
}

/** Times that the first and the last entry under no seal claim, milliseconds. */
export interface Tail {
  readonly oldest: number
  readonly newest: number
}

/** Whether the process of the stream still runs, as far as its seal says. */
export const isRunning = ({ seenAt }: SealTimes, now: number): boolean => seenAt >= now - 2 * heartbeatMillis

/** Why such entries cannot be what a process left; undefined: they can. */
export const implausible = (seal: SealTimes, { newest, oldest }: Tail): string | undefined => {
  if (oldest < seal.sealedAt - graceMillis) return "are under no seal, although a later one was made"
  if (newest > seal.seenAt + deadAfterMillis)
    return "are under no seal, and younger than the process that wrote the stream"
  if (newest - oldest > tailMillis) return "are under no seal, and too many minutes lie between them"
  return undefined
}
