/** The server as a program of its own: what `ampoule server` runs, without the command line around it. */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { setFlagsFromString } from "node:v8"
import * as Signals from "#src/cli/Signals.ts"

// V8 decides to allocate Effect's objects in the old space, which makes every collection slow; set before they load.
setFlagsFromString("--no-allocation-site-pretenuring")
const { server } = await import("#layers/Programs.ts")

Signals.install(() => process.exit(1))
const exit = await Effect.runPromiseExit(
  Effect.catchAll(server, ({ message }) =>
    Effect.sync(() => {
      process.stderr.write(`${message}\n`)
      process.exitCode = 1
    })
  )
)
if (Exit.isFailure(exit)) process.exitCode = 70
process.exit()
