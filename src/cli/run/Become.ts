/**
 * `ampoule run` turns into its command (execve(2)), with Node 22.15 and later. No process remains beside the command,
 * which owns signals, job control and exit code.
 */
import * as Effect from "effect/Effect"
import { accessSync, constants, statSync } from "node:fs"
import * as module from "node:module"
import { join } from "node:path"
import type { Variables } from "#src/cli/terminal/ChildEnvironment.ts"
import { isWindows } from "#src/cli/terminal/Windows.ts"

/**
 * Program for execve, with the command as its arguments. Node before 26 aborts when execve fails, with a core dump that
 * could hold the values. `env` always starts, finds the command as `spawn` does, and reports why it cannot be started.
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

/** An empty part of PATH means the working folder, as in shells. */
const isInPath = (program: string, path: string): boolean =>
  program.includes("/") ? isProgram(program) : path.split(":").some((folder) => isProgram(join(folder, program)))

/** True when `spawn` would find the program in the PATH of these variables. */
export const isFound = (program: string, environment: Variables): boolean =>
  isInPath(program, environment["PATH"] ?? "/usr/bin:/bin")

type Replace = (file: string, args: ReadonlyArray<string>, environment: Variables) => void

const replacement = (): Replace | undefined => {
  if (isWindows || !("execve" in process)) return undefined
  const { execve } = process
  return typeof execve === "function" ? (...args) => void execve.apply(process, args) : undefined
}

/** Undoes Node's non-blocking mode. It belongs to the pipe itself, so `cat` would see a read error. */
const makeBlocking = (stream: object): void => {
  // Undocumented, but `spawn` makes the same call for the child.
  const handle: unknown = "_handle" in stream ? stream._handle : undefined
  if (typeof handle !== "object" || handle === null || !("setBlocking" in handle)) return
  if (typeof handle.setBlocking === "function") handle.setBlocking(true)
}

/** Node ignores these, and an ignored signal stays ignored after execve; a handler does not. */
const ignoredByNode = ["SIGPIPE", "SIGXFSZ"] as const

/** Reason why this process cannot become a command of this name. */
export const obstacle = (program: string): "node" | "env" | "name" | undefined => {
  if (replacement() === undefined) return "node"
  // `env` takes a name with = for a variable, and one with - for an option.
  if (/=|^-/.test(program)) return "name"
  return isProgram(env) ? undefined : "env"
}

let beforeExec = () => {}
/** Sets the action to run before this process is replaced. */
export const onBeforeExec = (action: () => void): void => {
  beforeExec = action
}

/**
 * Returns when this process cannot become the command, or the command would not be found. Then a child process reports
 * the reason.
 */
export const become = Effect.fnUntraced(function* (
  [program, ...args]: readonly [program: string, ...ReadonlyArray<string>],
  environment: Variables
) {
  const replace = replacement()
  if (replace === undefined || obstacle(program) !== undefined || !isFound(program, environment)) return
  // Output is flushed, and a signal that arrived in the meantime ends this command, since no later code could handle
  // it.
  yield* Effect.async<void>((resume) => {
    process.stderr.write("", () => setImmediate(() => resume(Effect.void)))
  })
  yield* Effect.sync(() => {
    beforeExec()
    // Node writes this cache at the end of a process, which execve skips.
    if ("flushCompileCache" in module && typeof module.flushCompileCache === "function") module.flushCompileCache()
    for (const signal of ignoredByNode) process.on(signal, () => {})
    for (const stream of [process.stdin, process.stdout, process.stderr]) makeBlocking(stream)
    replace(env, ["env", program, ...args], environment)
  })
})
