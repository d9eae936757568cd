/**
 * One deadline for the work on a request (docs/contract/outages.md): the time that its body takes to arrive, and its
 * answer to leave, is the client's. What is away fails earlier by itself, so what is late is late because there is too
 * much to do.
 */
import type { IncomingMessage } from "node:http"

/** Milliseconds. */
const deadline = 10_000
/** How often a request whose body is late is looked at. */
const look = 100

/**
 * Calls `expire` once when the work is late, unless what it returns is called before. A timer and no race: every request
 * has one.
 */
export const watch = (
  source: Pick<IncomingMessage, "complete">,
  expire: () => void,
  millis = deadline
): (() => void) => {
  const due = () => {
    if (source.complete) expire()
    else timer = setTimeout(() => (source.complete ? (timer = setTimeout(due, millis)) : due()), look)
  }
  let timer = setTimeout(due, millis)
  return () => clearTimeout(timer)
}
