/**
 * One deadline for the work on a request (docs/contract/outages.md). It excludes the time in which the body arrives and
 * the response leaves, since both depend on the client. A missing dependency fails earlier, so lateness means overload.
 */
import type { IncomingMessage } from "node:http"

/** Milliseconds. */
const deadline = 10_000
/** Milliseconds between two checks of a request whose body is incomplete at the deadline. */
const recheck = 100

/**
 * Calls `expire` once when the work is late, unless the returned function is called first. Every request has a
 * deadline, so this is a timer, which costs less than a race of fibers.
 */
export const watch = (
  source: Pick<IncomingMessage, "complete">,
  expire: () => void,
  millis = deadline
): (() => void) => {
  const due = () => {
    if (source.complete) expire()
    else timer = setTimeout(() => (source.complete ? (timer = setTimeout(due, millis)) : due()), recheck)
  }
  let timer = setTimeout(due, millis)
  return () => clearTimeout(timer)
}
