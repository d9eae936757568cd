/**
 * Who sent SIGINT or SIGQUIT: the terminal, which sends it to the child too, or somebody who named this process alone?
 * Nothing tells a program. So a process waits beside, in the same group: when the signal ends it too, the terminal sent
 * it.
 */
import * as Effect from "effect/Effect"
import { type ChildProcess, spawn } from "node:child_process"

/** Milliseconds that the news of its end may take. */
const patience = 300

interface State {
  beside: ChildProcess | undefined
  /** Signals that ended a witness, and were not asked about yet. */
  readonly seen: Set<NodeJS.Signals>
  /** Signals that were asked about, and what happens when no witness ends. */
  readonly asked: Map<NodeJS.Signals, NodeJS.Timeout>
}

const start = (state: State): void => {
  // It reads until this process is gone, and has no value.
  const beside = spawn("cat", [], { stdio: ["pipe", "ignore", "ignore"], env: { PATH: process.env["PATH"] } })
  state.beside = beside
  beside.on("error", () => (state.beside = undefined))
  beside.on("exit", (_, by) => {
    if (state.beside !== beside) return
    state.beside = undefined
    if (by === null) return
    start(state)
    const timer = state.asked.get(by)
    state.asked.delete(by)
    if (timer !== undefined) return clearTimeout(timer)
    // The news of its end may come before the signal.
    state.seen.add(by)
    setTimeout(() => state.seen.delete(by), patience).unref()
  })
}

/** Of the scope. `unlessTerminal` calls back when nobody else got the signal. */
export const witness = Effect.map(
  Effect.acquireRelease(
    Effect.sync(() => {
      const state: State = { beside: undefined, seen: new Set(), asked: new Map() }
      start(state)
      return state
    }),
    (state) =>
      Effect.sync(() => {
        const { beside } = state
        state.beside = undefined
        beside?.stdin?.destroy()
      })
  ),
  (state) => ({
    unlessTerminal: (signal: NodeJS.Signals, then: () => void): void => {
      // Without a witness, the terminal is believed: a second ^C means more to many programs than the first.
      if (state.seen.delete(signal) || state.beside === undefined || state.asked.has(signal)) return
      state.asked.set(
        signal,
        setTimeout(() => {
          state.asked.delete(signal)
          then()
        }, patience)
      )
    }
  })
)
