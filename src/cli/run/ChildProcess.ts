/** One child process: it shares our standard streams, and its end is a single value. */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import { type ChildProcess, spawn, type StdioOptions } from "node:child_process"
import { readFileSync } from "node:fs"
import type { Readable, Writable } from "node:stream"
import type { Variables } from "#src/cli/terminal/ChildEnvironment.ts"
import { isFound } from "./Become.ts"
import * as Descriptors from "./Descriptors.ts"
import type { Redactor } from "#src/masks/Redactor.ts"
import { warn } from "#src/cli/terminal/Output.ts"
import { exitCodeOf, type Signal } from "#src/cli/terminal/Signals.ts"

export type Ended =
  | { readonly _tag: "Ended"; readonly code: number; readonly signal?: Signal }
  /** 127 not found, 126 found but not executable, as in shells. */
  | { readonly _tag: "NotStarted"; readonly code: number; readonly reason: string }

export interface Child {
  readonly ended: Effect.Effect<Ended>
  readonly kill: (signal: Signal) => void
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

/** Sends a signal. A process that has ended receives none. */
const send = (pid: number, signal: Signal): void => {
  try {
    process.kill(pid, signal)
  } catch {
    // ESRCH: it has ended. EPERM: it runs as another user, as `sudo` does.
  }
}

/** Undefined without /proc, or for a process of another user. */
const ofKernel = <A>(read: () => A): A | undefined => {
  try {
    return read()
  } catch {
    return undefined
  }
}

/** True when this process neither handles nor ignores the signal. One that waits for it (sigwait(3)) looks the same. */
const isDeadly = (pid: number, signal: number): boolean => {
  const lines = readFileSync(`/proc/${pid}/status`, "latin1").split("\n")
  const mask = (name: string) => BigInt(`0x${lines.find((line) => line.startsWith(name))?.split(/\s+/)[1] ?? "0"}`)
  return (((mask("SigCgt") | mask("SigIgn") | mask("SigBlk")) >> BigInt(signal - 1)) & 1n) === 0n
}

/** Milliseconds that a process takes at most to die of a signal. */
const longestDeath = 500

/** The signal that ended a process which nobody has waited for yet; undefined while it runs. */
const deathOf = (pid: number): number | undefined => {
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1")
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
  return fields[0] === "Z" ? Number(fields.at(-1)) & 0x7f : undefined
}

/**
 * Sends a signal that Node does not name, and tells whether the process died of it. Node would report such an end like
 * an exit with 0, so the kernel's word is read before Node can wait for the process.
 */
const sendUnnamed = (pid: number, signal: number): boolean => {
  const longest = ofKernel(() => isDeadly(pid, signal)) === true ? longestDeath : 0
  send(pid, signal)
  for (let waited = 0; waited < longest; waited++) {
    const by = ofKernel(() => deathOf(pid))
    if (by !== undefined) return by === signal
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1)
  }
  return false
}

const endOf = (code: number | null, signal: Signal | null): Ended =>
  signal === null ? { _tag: "Ended", code: code ?? 1 } : { _tag: "Ended", code: exitCodeOf(signal), signal }

/** Sockets of systemd need a variable with the child's own id. A missing command is for `spawn` to report. */
const startOf = Effect.fnUntraced(function* ({ args, command, environment }: ChildOptions) {
  if (!Descriptors.isSocketActivated() || !isFound(command, environment)) return { command, args, environment }
  const start = Descriptors.withListenPid(command, args, environment)
  if (start.lost.length > 0) {
    yield* warn(`not passed on together with LISTEN_FDS, because no shell has such names: ${start.lost.join(", ")}`)
  }
  return start
})

/** Terminates the child when the scope closes. */
export const start = (options: ChildOptions) =>
  Effect.acquireRelease(
    Effect.gen(function* () {
      const { args, command, environment } = yield* startOf(options)
      const result = yield* Deferred.make<Ended>()
      const complete = (ended: Ended) => Deferred.unsafeDone(result, Effect.succeed(ended))
      const { redactor } = options
      let unnamed: number | null = null
      const stdio: StdioOptions = Descriptors.stdio(
        redactor === undefined ? ["inherit", "inherit", "inherit"] : ["inherit", "pipe", "pipe"]
      )
      const child = yield* Effect.try({
        // Values travel in the options object, never in an argument.
        try: (): ChildProcess => spawn(command, args, { env: { ...environment }, stdio }),
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
        child.on(redactor === undefined ? "exit" : "close", (code, signal) => complete(endOf(code, signal ?? unnamed)))
      }
      return {
        ended: Deferred.await(result),
        kill: (signal) => {
          // After its end, another process may have its id.
          if (child?.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
          if (typeof signal === "string") send(child.pid, signal)
          else if (sendUnnamed(child.pid, signal)) unnamed = signal
        }
      } satisfies Child
    }),
    (child) => Effect.sync(() => child.kill("SIGTERM"))
  )
