/** A process and its children, signalled together: to stop only the one that was started would leave the others at work. */
import * as Effect from "effect/Effect"
import * as fs from "node:fs"

/** By `/proc`, which only Linux has. */
export const childrenOf = (pid: number): ReadonlyArray<number> =>
  fs
    .readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8")
    .split(" ")
    .filter((text) => text.trim() !== "")
    .map(Number)

const send = (pid: number, signal: NodeJS.Signals) => {
  try {
    process.kill(pid, signal)
    // oxlint-disable-next-line no-empty
  } catch {}
}

/** The parent first: it starts no other one then. */
export const signal = (pid: number, name: NodeJS.Signals) =>
  Effect.sync(() => {
    send(pid, name)
    for (const child of childrenOf(pid)) send(child, name)
  })
