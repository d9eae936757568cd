/**
 * Ports for what a test starts at an address that has to be known before. They lie below the range from which the
 * system takes ports by itself, so none is given away between the look and the use; each process looks from a place of
 * its own, and never twice at the same port.
 */
import * as Effect from "effect/Effect"
import { createServer } from "node:net"

const first = 10_000
const count = 20_000
let next = (process.pid * 37) % count

const isFree = (port: number) =>
  Effect.async<boolean>((resume) => {
    const probe = createServer()
    probe.once("error", () => resume(Effect.succeed(false)))
    probe.listen({ port, host: "127.0.0.1", exclusive: true }, () => {
      probe.close(() => resume(Effect.succeed(true)))
    })
  })

export const freePort: Effect.Effect<number> = Effect.suspend(() => {
  const port = first + next
  next = (next + 1) % count
  return Effect.flatMap(isFree(port), (free) => (free ? Effect.succeed(port) : freePort))
})
