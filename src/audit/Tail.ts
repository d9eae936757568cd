/**
 * Entries of a stream under no seal: what a process had no time to have sealed, or what a writer of the database added.
 *
 * The last of them carries a server's MAC (`Chain.entryMac`). Streams of releases before have none, and are judged by
 * their times only: entries that claim to be older than a seal that does not cover them, or younger than their process.
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
