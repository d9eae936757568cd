/**
 * The unsealed entries at the end of a stream: not sealed in time by their process, or added by a writer of the
 * database. The last one has a server's MAC (`Entry.macOf`). Streams of earlier releases have none, so only their
 * times count. An entry must not be much older than a later seal, nor younger than its process.
 */
import { deadAfterMillis, graceMillis, heartbeatMillis, tailMillis } from "./Chain.ts"

/** Milliseconds. */
export interface SealTimes {
  /** The time when the seal covered all committed entries of its process. */
  readonly sealedAt: number
  /** The process's last report that it is alive. */
  readonly seenAt: number
}

/** Timestamps of the first and the last unsealed entry (ms). */
export interface Tail {
  readonly oldest: number
  readonly newest: number
}

/** Whether the process of the stream still runs, by the times of its seal. */
export const isRunning = ({ seenAt }: SealTimes, now: number): boolean => seenAt >= now - 2 * heartbeatMillis

/** The reason why a process cannot have left such entries. Undefined: it can. */
export const implausibility = (seal: SealTimes, { newest, oldest }: Tail): string | undefined => {
  if (oldest < seal.sealedAt - graceMillis) return "are under no seal, although a later one was made"
  if (newest > seal.seenAt + deadAfterMillis)
    return "are under no seal, and younger than the process that wrote the stream"
  if (newest - oldest > tailMillis) return "are under no seal, and too many minutes lie between them"
  return undefined
}
