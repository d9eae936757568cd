/**
 * `ampoule run` becomes its command (execve(2)), by a Node that can (22.15): no process beside it, and signals, job
 * control and exit code are its own.
 */
import * as Effect from "effect/Effect"
import { accessSync, constants, statSync } from "node:fs"
import * as module from "node:module"
import { join } from "node:path"
import type { Variables } from "#src/cli/terminal/ChildEnvironment.ts"
import { isWindows } from "#src/cli/terminal/Windows.ts"

/**
 * What is executed, with the command as its arguments. A Node before 26 aborts when execve fails, with a core that
 * could hold the values. `env` does not fail, finds the command as `spawn` does, and tells why it cannot be started.
 */
const env = "/usr/bin/env"

const isProgram = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK)
    return statSync(path).isFile()
  } catch {
    return false
  }
}

/** An empty part of PATH is the working folder, as shells have it. */
const isFound = (program: string, path: string): boolean =>
  program.includes("/") ? isProgram(program) : path.split(":").some((folder) => isProgram(join(folder, program)))

type Replace = (file: string, args: ReadonlyArray<string>, environment: Variables) => void

const replacement = (): Replace | undefined => {
  if (isWindows || !("execve" in process)) return undefined
  const { execve } = process
  return typeof execve === "function" ? (...given) => void execve.apply(process, given) : undefined
}

/** Node puts pipes into non-blocking mode, which belongs to the pipe itself: `cat` would read an error. */
const makeBlocking = (stream: object): void => {
  // No documented way there is; what `spawn` does in the child is the same call.
  const handle: unknown = "_handle" in stream ? stream._handle : undefined
  if (typeof handle !== "object" || handle === null || !("setBlocking" in handle)) return
  if (typeof handle.setBlocking === "function") handle.setBlocking(true)
}

/** Node ignores these, and an ignored signal stays ignored; a handler does not survive. */
const ignoredByNode = ["SIGPIPE", "SIGXFSZ"] as const

let leave = () => {}
/** What is to be done before this process is another program. */
export const beforeLeaving = (then: () => void): void => {
  leave = then
}

/** Returns when this process cannot become the command, or the command would not be found: then a child tells. */
export const become = Effect.fnUntraced(function* (
  [program, ...args]: readonly [program: string, ...ReadonlyArray<string>],
  environment: Variables
) {
  const replace = replacement()
  // With = in it, `env` would take it for a variable; with -, for an option.
  if (replace === undefined || /=|^-/.test(program)) return
  if (!isProgram(env) || !isFound(program, environment["PATH"] ?? "/usr/bin:/bin")) return
  // What was written is out, and a signal that came meanwhile ends this command: nobody is there to hear it later.
  yield* Effect.async<void>((resume) => {
    process.stderr.write("", () => setImmediate(() => resume(Effect.void)))
  })
  yield* Effect.sync(() => {
    leave()
    // Otherwise written when a process ends, which this one does not.
    if ("flushCompileCache" in module && typeof module.flushCompileCache === "function") module.flushCompileCache()
    for (const signal of ignoredByNode) process.on(signal, () => {})
    for (const stream of [process.stdin, process.stdout, process.stderr]) makeBlocking(stream)
    replace(env, ["env", program, ...args], environment)
  })
})
