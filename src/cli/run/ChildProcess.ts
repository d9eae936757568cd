/** One child process: its own standard streams are ours, and how it ends is told in one value. */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import { type ChildProcess, spawn, type StdioOptions } from "node:child_process"
import type { Readable, Writable } from "node:stream"
import type { Variables } from "#src/cli/terminal/ChildEnvironment.ts"
import type { Redactor } from "./Redactor.ts"
import { exitCodeOf } from "#src/cli/terminal/Signals.ts"

export type Ended =
  | { readonly _tag: "Ended"; readonly code: number; readonly signal?: NodeJS.Signals }
  /** 127 not found, 126 found but not executable, as shells have it. */
  | { readonly _tag: "NotStarted"; readonly code: number; readonly reason: string }

export interface Child {
  readonly ended: Effect.Effect<Ended>
  readonly kill: (signal: NodeJS.Signals) => void
}

interface ChildOptions {
  readonly command: string
  readonly args: ReadonlyArray<string>
  readonly environment: Variables
  /** Given: standard output and error pass through one each. */
  readonly redactor: (() => Redactor) | undefined
  /** Sees what passed through a redactor. */
  readonly onOutput?: ((bytes: Uint8Array) => void) | undefined
}

const notStarted = (error: unknown): Ended => {
  const code = typeof error === "object" && error !== null && "code" in error ? error.code : undefined
  switch (code) {
    case "ENOENT":
      return { _tag: "NotStarted", code: 127, reason: "command not found" }
    case "EACCES":
    case "ENOEXEC":
    case "EPERM":
      return { _tag: "NotStarted", code: 126, reason: "the command is not executable" }
    case "E2BIG":
      return {
        _tag: "NotStarted",
        code: 126,
        reason: "the arguments and variables together are too long for this system"
      }
    case "EAGAIN":
    case "EMFILE":
    case "ENFILE":
    case "ENOMEM":
      return { _tag: "NotStarted", code: 126, reason: "the system has no room for another process" }
    default:
      return { _tag: "NotStarted", code: 126, reason: "the command cannot be started" }
  }
}

const passThrough = (
  from: Readable,
  to: Writable,
  redactor: Redactor,
  onOutput: ChildOptions["onOutput"] = () => undefined
): void => {
  const write = (bytes: Uint8Array) => {
    onOutput(bytes)
    if (bytes.length > 0 && !to.write(bytes)) {
      from.pause()
      to.once("drain", () => from.resume())
    }
  }
  from.on("data", (chunk: Uint8Array) => write(redactor.push(chunk)))
  from.on("end", () => write(redactor.flush()))
}

/** Ends with the scope, when it still runs then. */
export const start = (options: ChildOptions) =>
  Effect.acquireRelease(
    Effect.gen(function* () {
      const done = yield* Deferred.make<Ended>()
      const end = (ended: Ended) => Deferred.unsafeDone(done, Effect.succeed(ended))
      const { redactor } = options
      const stdio: StdioOptions = redactor === undefined ? "inherit" : ["inherit", "pipe", "pipe"]
      const child = yield* Effect.try({
        // The options object is what takes the values: nothing of them is in an argument.
        try: (): ChildProcess => spawn(options.command, options.args, { env: { ...options.environment }, stdio }),
        catch: notStarted
      }).pipe(
        Effect.catchAll((ended) =>
          Effect.as(
            Effect.sync(() => end(ended)),
            undefined
          )
        )
      )
      if (child !== undefined) {
        child.on("error", (error) => {
          if (child.pid === undefined) end(notStarted(error))
        })
        if (redactor !== undefined && child.stdout !== null && child.stderr !== null) {
          passThrough(child.stdout, process.stdout, redactor(), options.onOutput)
          passThrough(child.stderr, process.stderr, redactor(), options.onOutput)
        }
        // `close` comes after the last byte of output; without pipes it is the same moment as `exit`.
        child.on(redactor === undefined ? "exit" : "close", (code, signal) =>
          end(
            signal === null ? { _tag: "Ended", code: code ?? 1 } : { _tag: "Ended", code: exitCodeOf(signal), signal }
          )
        )
      }
      return {
        ended: Deferred.await(done),
        kill: (signal) => {
          child?.kill(signal)
        }
      } satisfies Child
    }),
    (child) => Effect.sync(() => child.kill("SIGTERM"))
  )
