/** One child process: it shares our standard streams, and its end is a single value. */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import { type ChildProcess, spawn, type StdioOptions } from "node:child_process"
import type { Readable, Writable } from "node:stream"
import type { Variables } from "#src/cli/terminal/ChildEnvironment.ts"
import type { Redactor } from "./Redactor.ts"
import { exitCodeOf } from "#src/cli/terminal/Signals.ts"

export type Ended =
  | { readonly _tag: "Ended"; readonly code: number; readonly signal?: NodeJS.Signals }
  /** 127 not found, 126 found but not executable, as in shells. */
  | { readonly _tag: "NotStarted"; readonly code: number; readonly reason: string }

export interface Child {
  readonly ended: Effect.Effect<Ended>
  readonly kill: (signal: NodeJS.Signals) => void
}

interface ChildOptions {
  readonly command: string
  readonly args: ReadonlyArray<string>
  readonly environment: Variables
  /** Makes the redactors through which standard output and error pass. */
  readonly redactor: (() => Redactor) | undefined
  /** Receives the redacted output. */
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

/** Terminates the child when the scope closes. */
export const start = (options: ChildOptions) =>
  Effect.acquireRelease(
    Effect.gen(function* () {
      const result = yield* Deferred.make<Ended>()
      const complete = (ended: Ended) => Deferred.unsafeDone(result, Effect.succeed(ended))
      const { redactor } = options
      const stdio: StdioOptions = redactor === undefined ? "inherit" : ["inherit", "pipe", "pipe"]
      const child = yield* Effect.try({
        // Values travel in the options object, never in an argument.
        try: (): ChildProcess => spawn(options.command, options.args, { env: { ...options.environment }, stdio }),
        catch: notStarted
      }).pipe(
        Effect.catchAll((ended) =>
          Effect.as(
            Effect.sync(() => complete(ended)),
            undefined
          )
        )
      )
      if (child !== undefined) {
        child.on("error", (error) => {
          if (child.pid === undefined) complete(notStarted(error))
        })
        if (redactor !== undefined && child.stdout !== null && child.stderr !== null) {
          passThrough(child.stdout, process.stdout, redactor(), options.onOutput)
          passThrough(child.stderr, process.stderr, redactor(), options.onOutput)
        }
        // `close` follows the last byte of output. Without pipes it coincides with `exit`.
        child.on(redactor === undefined ? "exit" : "close", (code, signal) =>
          complete(
            signal === null ? { _tag: "Ended", code: code ?? 1 } : { _tag: "Ended", code: exitCodeOf(signal), signal }
          )
        )
      }
      return {
        ended: Deferred.await(result),
        kill: (signal) => {
          child?.kill(signal)
        }
      } satisfies Child
    }),
    (child) => Effect.sync(() => child.kill("SIGTERM"))
  )
