/**
 * Signals of this process. Normally SIGINT, SIGTERM, SIGHUP and SIGQUIT end the command; while a child runs, they go to
 * it. Without a child, a second signal ends the process at once.
 */
import * as Effect from "effect/Effect"
import { constants } from "node:os"
import { fs } from "./BuiltIn.ts"
import { isWindows } from "./Windows.ts"

const ending = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"] as const
/** Further signals for a child. Without one they keep their default. */
const passing = ["SIGUSR2", "SIGWINCH"] as const

type Handler = (signal: NodeJS.Signals) => void

let current: Handler | undefined
let received: NodeJS.Signals | undefined

/** Signal that ended the command, if any. */
export const endedBy = (): NodeJS.Signals | undefined => received

let childSignal: NodeJS.Signals | undefined
/** Records that this process must end by the signal that ended its child. */
export const endLike = (signal: NodeJS.Signals): void => {
  childSignal = signal
}
export const childEndedBy = (): NodeJS.Signals | undefined => childSignal

/** Signals that dump core by default, which could expose values. */
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
 * Ends this process by the signal that ended a child, or that this process received. A shell ends its loop only when
 * the program dies by ^C. Returns where signals do not end a process: on Windows, and as process 1 of a container.
 */
export const dieBy = (signal: NodeJS.Signals): void => {
  if (isWindows || leavesCore.has(signal)) return
  process.removeAllListeners(signal)
  process.kill(process.pid, signal)
}

export const exitCodeOf = (signal: NodeJS.Signals): number => 128 + constants.signals[signal]

let deliver: Handler = () => {}

/** Delivers a signal, for a ^C that raw mode delivers as a character. */
export const raise = (signal: NodeJS.Signals): void => deliver(signal)

/** Called once, before other code runs. `end` interrupts the running command. */
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
  // Without a listener, SIGUSR1 opens the debugger's port, which gives each process of this user access to all memory.
  process.on("SIGUSR1", onSignal)
}

/** Passes every signal to `handler` until the scope closes. Installed before a child starts, so that none is lost. */
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
 * Handles ^Z, and a TSTP sent only to this process: the child stops, then this process, and both continue together. A
 * child that the terminal has stopped already drops the second signal when it continues.
 */
export const stoppedWith = (child: (signal: "SIGTSTP" | "SIGCONT") => void) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const onStop = () => {
        child("SIGTSTP")
        process.off("SIGTSTP", onStop)
        // Returns when this process continues.
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

/** True when the terminal sends ^C, ^\ and resizes to this process group. A child in it receives them directly. */
const isForeground = (): boolean => {
  if (process.platform === "linux") {
    const [, , group, , terminal, foreground] = statFields()
    return terminal !== "0" && group === foreground
  }
  return process.stdin.isTTY === true || process.stdout.isTTY === true || process.stderr.isTTY === true
}

/** True when a terminal could signal this process, now or after it comes to the foreground. */
export const hasTerminal = (): boolean =>
  process.platform === "linux" ? statFields()[4] !== "0" : !isWindows && isForeground()

export const terminalSends = (signal: NodeJS.Signals): boolean =>
  (signal === "SIGINT" || signal === "SIGQUIT" || signal === "SIGWINCH") && isForeground()
