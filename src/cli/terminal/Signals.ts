/**
 * Signals of this process. At rest, SIGINT, SIGTERM, SIGHUP and SIGQUIT end the command; while a child runs they are
 * its own. A second one at rest ends the process at once.
 */
import * as Effect from "effect/Effect"
import { constants } from "node:os"
import { fs } from "./BuiltIn.ts"
import { isWindows } from "./Windows.ts"

const ending = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"] as const
/** Those a child may want besides. At rest they keep their default, except SIGUSR1: see below. */
const passing = ["SIGUSR2", "SIGWINCH"] as const

type Handler = (signal: NodeJS.Signals) => void

let current: Handler | undefined
let received: NodeJS.Signals | undefined

/** Signal that ended the command, if one did. */
export const endedBy = (): NodeJS.Signals | undefined => received

let childs: NodeJS.Signals | undefined
/** This process is to end as its child did. */
export const endLike = (signal: NodeJS.Signals): void => {
  childs = signal
}
export const childEndedBy = (): NodeJS.Signals | undefined => childs

/** Signals whose default leaves a core: ours could hold values. */
const leavesCore: ReadonlySet<NodeJS.Signals> = new Set([
  "SIGQUIT",
  "SIGILL",
  "SIGTRAP",
  "SIGABRT",
  "SIGIOT",
  "SIGBUS",
  "SIGFPE",
  "SIGSEGV",
  "SIGSYS",
  "SIGXCPU",
  "SIGXFSZ"
])

/**
 * Ends this process as the signal ended a child, or would have ended this one: a shell stops a loop when the program
 * that ^C was meant for died by it. Returns where a signal does not end a process: Windows, and process 1 of a
 * container.
 */
export const dieBy = (signal: NodeJS.Signals): void => {
  if (isWindows || leavesCore.has(signal)) return
  process.removeAllListeners(signal)
  process.kill(process.pid, signal)
}

export const exitCodeOf = (signal: NodeJS.Signals): number => 128 + constants.signals[signal]

let deliver: Handler = () => {}

/** As if the signal had come: for a ^C that raw mode hands over as a character. */
export const raise = (signal: NodeJS.Signals): void => deliver(signal)

/** Once, before anything else runs. `end` interrupts what is under way. */
export const install = (end: () => void): void => {
  const onSignal: Handler = (signal) => {
    if (current !== undefined) return current(signal)
    if (signal === "SIGUSR1") return
    if (received !== undefined) process.exit(exitCodeOf(signal))
    received = signal
    end()
  }
  deliver = onSignal
  for (const signal of ending) process.on(signal, onSignal)
  // Without a listener, SIGUSR1 opens the debugger's port, and with it all memory, to every process of this user.
  process.on("SIGUSR1", onSignal)
}

/**
 * Hands every signal to `handler` until the scope closes. Installed before a child is started, so that none is lost.
 */
export const handledBy = (handler: Handler) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      current = handler
      for (const signal of passing) process.on(signal, handler)
    }),
    () =>
      Effect.sync(() => {
        current = undefined
        for (const signal of passing) process.off(signal, handler)
      })
  )

/**
 * ^Z, or a TSTP for this process alone: the child stops, then this process by the same signal; both go on together. A
 * child that the terminal stopped already loses the second one when it goes on.
 */
export const stoppedWith = (child: (signal: "SIGTSTP" | "SIGCONT") => void) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const onStop = () => {
        child("SIGTSTP")
        process.off("SIGTSTP", onStop)
        // Returns when this process goes on.
        process.kill(process.pid, "SIGTSTP")
        process.on("SIGTSTP", onStop)
        child("SIGCONT")
      }
      if (!isWindows) process.on("SIGTSTP", onStop)
      return onStop
    }),
    (onStop) => Effect.sync(() => process.off("SIGTSTP", onStop))
  )

/** Fields of /proc/self/stat after the name: state ppid pgrp session tty_nr tpgid. */
const statFields = (): ReadonlyArray<string> => {
  const stat = fs().readFileSync("/proc/self/stat", "latin1")
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ")
}

/**
 * Whether this process group is the one that the terminal sends ^C, ^\ and resizes to: a child in it has them already.
 */
const isForeground = (): boolean => {
  if (process.platform === "linux") {
    const [, , group, , terminal, foreground] = statFields()
    return terminal !== "0" && group === foreground
  }
  return process.stdin.isTTY === true || process.stdout.isTTY === true || process.stderr.isTTY === true
}

/** Whether a terminal could send signals to this process, now or when it is brought to the foreground. */
export const hasTerminal = (): boolean =>
  process.platform === "linux" ? statFields()[4] !== "0" : !isWindows && isForeground()

export const terminalSends = (signal: NodeJS.Signals): boolean =>
  (signal === "SIGINT" || signal === "SIGQUIT" || signal === "SIGWINCH") && isForeground()
