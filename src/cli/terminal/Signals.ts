/**
 * Signals of this process. Normally SIGINT, SIGTERM, SIGHUP and SIGQUIT end the command; while a child runs, every
 * signal that can be caught goes to it. Without a child, a second signal ends the process at once.
 */
import * as Effect from "effect/Effect"
import { createHook } from "node:async_hooks"
import { constants } from "node:os"
import { fs } from "./BuiltIn.ts"
import { isWindows } from "./Windows.ts"

const ending: ReadonlyArray<NodeJS.Signals> = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"]
/** True for signals that ask this process to end. */
export const asksToEnd = (signal: Signal): boolean => ending.some((one) => one === signal)

/** A name, or the number of a real-time signal, which Node does not name. */
export type Signal = NodeJS.Signals | number

const stopping = ["SIGTSTP", "SIGTTIN", "SIGTTOU"] as const
/** No process catches the first two. SIGCHLD reports our own children. The others have handlers of their own. */
const separate: ReadonlySet<string> = new Set(["SIGKILL", "SIGSTOP", "SIGCHLD", "SIGCONT", "SIGUSR1", ...stopping])

/**
 * Every further signal with a name that can be caught. A number with two names (SIGIO, SIGPOLL) has one of them here.
 * SIGSEGV and its like are caught when a process sent them. A fault of this process itself would come again after its
 * handler, but this process only waits.
 */
export const catchable = (): ReadonlyArray<NodeJS.Signals> => {
  const byNumber = new Map(Object.entries(constants.signals).map(([name, number]) => [number, name]))
  // Safe cast: they are the names of that table.
  return ([...byNumber.values()] as Array<NodeJS.Signals>).filter(
    (name) => !separate.has(name) && !ending.includes(name)
  )
}

/** Numbers of real-time signals, on Linux alone. The C library refuses those that it needs for itself. */
const realTime = process.platform === "linux" ? Array.from({ length: 31 }, (_, i) => 34 + i) : []

type Handler = (signal: Signal) => void

let current: Handler | undefined
let received: Signal | undefined

/** Signal that ended the command, if any. */
export const endedBy = (): Signal | undefined => received

let childSignal: Signal | undefined
/** Records that this process must end by the signal that ended its child. */
export const endLike = (signal: Signal): void => {
  childSignal = signal
}
export const childEndedBy = (): Signal | undefined => childSignal

/** Signals that dump core by default, which could expose values. */
const leavesCore: ReadonlySet<Signal> = new Set<Signal>([
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
export const dieBy = (signal: Signal): void => {
  if (isWindows || leavesCore.has(signal)) return
  if (typeof signal === "string") process.removeAllListeners(signal)
  process.kill(process.pid, signal)
}

export const exitCodeOf = (signal: Signal): number =>
  128 + (typeof signal === "string" ? constants.signals[signal] : signal)

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

/** Handle of Node for one signal. */
interface Watch {
  onsignal: (number: number) => void
  readonly start: (number: number) => number
  readonly unref: () => void
  readonly close: () => void
}
type WatchClass = new () => Watch

/**
 * Node exports no class of these handles, and its own listeners take names alone. A hook sees a handle being made, which
 * Node does for the first listener of SIGURG.
 */
const watchClass = (): WatchClass | undefined => {
  let signalWrap: WatchClass | undefined
  const hook = createHook({
    init: (_id, type, _trigger, handle) => {
      // Safe cast: the members are those of Node's SignalWrap since version 0.10.
      if (type === "SIGNALWRAP") signalWrap = handle.constructor as WatchClass
    }
  })
  const listener = () => {}
  hook.enable()
  process.on("SIGURG", listener)
  hook.disable()
  process.off("SIGURG", listener)
  return signalWrap
}

const watchRealTime = (handler: Handler): ReadonlyArray<Watch> => {
  const Class = realTime.length === 0 ? undefined : watchClass()
  if (Class === undefined) return []
  return realTime.map((number) => {
    const watch = new Class()
    watch.onsignal = handler
    watch.unref()
    // A result other than 0: the signal keeps its default.
    watch.start(number)
    return watch
  })
}

/** Passes the real-time signals to `handler` until the scope closes. Call it before `handledBy`. */
export const realTimeHandledBy = (handler: Handler) =>
  Effect.acquireRelease(
    Effect.sync(() => watchRealTime(handler)),
    (watches) =>
      Effect.sync(() => {
        for (const watch of watches) watch.close()
      })
  )

/** Further signals for a program that this one waits for. Without it they keep their default. */
const usual: ReadonlyArray<NodeJS.Signals> = ["SIGUSR2", "SIGWINCH"]

/** Node ignores these. Without a last listener the kernel's default comes back, which ends the process. */
const ignored: ReadonlySet<NodeJS.Signals> = new Set(["SIGPIPE", "SIGXFSZ"])
const ignore = () => {}

/**
 * Passes the signals that end a command, and `further` ones, to `handler` until the scope closes. Installed before a
 * child starts, so that none is lost.
 */
export const handledBy = (handler: Handler, further = usual) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      current = handler
      for (const signal of further) process.on(signal, handler)
    }),
    () =>
      Effect.sync(() => {
        current = undefined
        for (const signal of further) {
          if (ignored.has(signal)) process.on(signal, ignore)
          process.off(signal, handler)
        }
      })
  )

/**
 * Handles ^Z, and a stop signal sent only to this process: the child stops, then this process, and both continue
 * together. A child that the terminal has stopped already drops the second signal when it continues. A SIGCONT without
 * a stop of this process goes to the child too.
 */
export const stoppedWith = (child: (signal: NodeJS.Signals) => void) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const onContinue = () => child("SIGCONT")
      const onStop: NodeJS.SignalsListener = (signal) => {
        child(signal)
        process.off(signal, onStop)
        process.off("SIGCONT", onContinue)
        // Returns when this process continues.
        process.kill(process.pid, signal)
        process.on(signal, onStop)
        process.on("SIGCONT", onContinue)
        child("SIGCONT")
      }
      if (isWindows) return () => {}
      for (const signal of stopping) process.on(signal, onStop)
      process.on("SIGCONT", onContinue)
      return () => {
        for (const signal of stopping) process.off(signal, onStop)
        process.off("SIGCONT", onContinue)
      }
    }),
    (end) => Effect.sync(end)
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

export const terminalSends = (signal: Signal): boolean =>
  (signal === "SIGINT" || signal === "SIGQUIT" || signal === "SIGWINCH") && isForeground()
