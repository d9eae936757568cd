/**
 * Signals of this process. At rest, SIGINT, SIGTERM, SIGHUP and SIGQUIT end the command; while a child runs they are
 * its own. A second one at rest ends the process at once.
 */
import * as Effect from "effect/Effect"
import { readFileSync } from "node:fs"
import { constants } from "node:os"

const ending = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"] as const
/** Those a child may want besides. At rest they keep their default, except SIGUSR1: see below. */
const passing = ["SIGUSR2", "SIGWINCH"] as const

type Handler = (signal: NodeJS.Signals) => void

let current: Handler | undefined
let received: NodeJS.Signals | undefined

/** Signal that ended the command, if one did. */
export const endedBy = (): NodeJS.Signals | undefined => received

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

/** Fields of /proc/self/stat after the name: state ppid pgrp session tty_nr tpgid. */
const statFields = (): ReadonlyArray<string> => {
  const stat = readFileSync("/proc/self/stat", "latin1")
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

export const terminalSends = (signal: NodeJS.Signals): boolean =>
  (signal === "SIGINT" || signal === "SIGQUIT" || signal === "SIGWINCH") && isForeground()
