/**
 * Finds the sender of SIGINT or SIGQUIT. The terminal sends it to the child too; `kill` sends it to this process alone.
 * No system call tells them apart. So a witness process waits in the same group: the terminal's signal ends it as well.
 */
import * as Effect from "effect/Effect"
import { type ChildProcess, spawn } from "node:child_process"
import type { Signal } from "#src/cli/terminal/Signals.ts"

/** Milliseconds to wait for the witness's exit event. */
const longestWait = 300

interface State {
  witness: ChildProcess | undefined
  /** Signals that ended a witness, and were not queried yet. */
  readonly fromTerminal: Set<Signal>
  /** Signals that were queried, with the timer that runs when no witness ends. */
  readonly timers: Map<Signal, NodeJS.Timeout>
}

const start = (state: State): void => {
  // `cat` reads until this process is gone, and receives no value.
  const beside = spawn("cat", [], { stdio: ["pipe", "ignore", "ignore"], env: { PATH: process.env["PATH"] } })
  state.witness = beside
  beside.on("error", () => (state.witness = undefined))
  beside.on("exit", (_, by) => {
    if (state.witness !== beside) return
    state.witness = undefined
    if (by === null) return
    start(state)
    const timer = state.timers.get(by)
    state.timers.delete(by)
    if (timer !== undefined) return clearTimeout(timer)
    // The exit event may arrive before the signal.
    state.fromTerminal.add(by)
    setTimeout(() => state.fromTerminal.delete(by), longestWait).unref()
  })
}

/** Bound to the scope. `unlessTerminal` calls back when no other process received the signal. */
export const witness = Effect.map(
  Effect.acquireRelease(
    Effect.sync(() => {
      const state: State = { witness: undefined, fromTerminal: new Set(), timers: new Map() }
      start(state)
      return state
    }),
    (state) =>
      Effect.sync(() => {
        const { witness: beside } = state
        state.witness = undefined
        beside?.stdin?.destroy()
      })
  ),
  (state) => ({
    unlessTerminal: (signal: Signal, then: () => void): void => {
      // Without a witness, assume the terminal. To many programs a second ^C means more than the first.
      if (state.fromTerminal.delete(signal) || state.witness === undefined || state.timers.has(signal)) return
      state.timers.set(
        signal,
        setTimeout(() => {
          state.timers.delete(signal)
          then()
        }, longestWait)
      )
    }
  })
)
