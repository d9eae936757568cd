/** Process of a command: its start, the report of its failures, and its end. */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import { type CliError, describe, print } from "#src/cli/terminal/Failure.ts"
import * as Signals from "#src/cli/terminal/Signals.ts"

const report = (error: CliError, json: boolean) =>
  Effect.sync(() => {
    process.stderr.write(print(error, json))
    process.exitCode ??= describe(error).exitCode
  })

/** Report of a bug: its place in the code, without the error's message, which may quote a value. */
const bug = (defect: unknown): string => {
  const name = defect instanceof Error ? defect.name : "unknown"
  const frames = defect instanceof Error ? (defect.stack ?? "").split("\n").filter((line) => /^\s+at /.test(line)) : []
  return [`ampoule: internal error (${name}). Please report it.`, ...frames.slice(0, 5), ""].join("\n")
}

const finish = (code: number, signal?: Signals.Signal) => {
  process.exitCode = code
  const last = () => {
    if (signal !== undefined) Signals.dieBy(signal)
    process.exit()
  }
  // One turn later, because the failure of an earlier write is reported only then.
  process.stdout.write("", () => process.stderr.write("", () => setImmediate(last)))
}

const end = (exit: Exit.Exit<void>) => {
  if (Exit.isSuccess(exit)) return finish(Number(process.exitCode ?? 0), Signals.childEndedBy())
  const signal = Signals.endedBy()
  if (Cause.isInterruptedOnly(exit.cause) && signal !== undefined) return finish(Signals.exitCodeOf(signal), signal)
  process.stderr.write(bug(Cause.squash(exit.cause)))
  finish(70)
}

/** `json`: print failures as JSON. */
export const launch = (command: Effect.Effect<void, CliError>, { json }: { readonly json: boolean }): void => {
  const fault = (error: unknown) => {
    process.stderr.write(bug(error))
    process.exit(70)
  }
  process.on("uncaughtException", fault)
  process.on("unhandledRejection", fault)
  // A closed reader (`| head`) needs no report. A full disk does, because the missing part may be a backup.
  for (const stream of [process.stdout, process.stderr]) {
    stream.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EPIPE") process.exit()
      if (stream === process.stdout) {
        process.stderr.write(`ampoule: standard output cannot be written (${error.code ?? "unknown"}).\n`)
      }
      process.exit(1)
    })
  }
  let fiber: Fiber.RuntimeFiber<void> | undefined
  Signals.install(() => fiber?.unsafeInterruptAsFork(fiber.id()))
  fiber = Effect.runFork(Effect.catchAll(command, (error) => report(error, json)))
  // The event loop is empty, but the command has not ended: that must not look like success.
  const stuck = () => fault(new Error())
  process.once("beforeExit", stuck)
  fiber.addObserver((exit) => {
    process.off("beforeExit", stuck)
    end(exit)
  })
}
