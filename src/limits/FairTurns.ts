/** Costly work, a few at a time: who waits is bounded, and every owner (an address) gets the next turn in its turn. */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as FiberId from "effect/FiberId"
import { RateLimited } from "#schema/Errors.ts"

interface Turn {
  readonly owner: string
  state: "waiting" | "running" | "refused"
  readonly decided: Deferred.Deferred<void, RateLimited>
}

interface Options {
  /** Works that run at the same time. */
  readonly atOnce: number
  /** Works that wait at most, of all owners together. */
  readonly waiting: number
  /** What the refused are told. */
  readonly retryAfterSeconds: number
}

export interface FairTurns {
  /**
   * Runs `work` when it is the owner's turn; RATE_LIMITED when too many wait. What runs is not interrupted: threads
   * cannot be, and a turn is over only when its thread is free.
   */
  readonly take: <A, E, R>(owner: string, work: Effect.Effect<A, E, R>) => Effect.Effect<A, E | RateLimited, R>
}

/**
 * Turns go around the owners that wait, however many works each has. When the queue is full, the owner that has most of
 * it makes room with its newest work, so that no owner keeps the others out; without such an owner, the newcomer is
 * refused.
 */
export const make = ({ atOnce, retryAfterSeconds, waiting: most }: Options): FairTurns => {
  /** By owner, in the order of their turns; no owner without a work. */
  const waiting = new Map<string, Array<Turn>>()
  let waitingNow = 0
  let running = 0

  const decide = (turn: Turn, state: "running" | "refused") => {
    turn.state = state
    if (state === "running") running++
    Deferred.unsafeDone(turn.decided, state === "running" ? Effect.void : new RateLimited({ retryAfterSeconds }))
  }

  const withdraw = (turn: Turn) => {
    const turns = waiting.get(turn.owner) ?? []
    const at = turns.indexOf(turn)
    if (at < 0) return
    turns.splice(at, 1)
    waitingNow--
    if (turns.length === 0) waiting.delete(turn.owner)
  }

  const next = () => {
    for (const [owner, turns] of waiting) {
      if (running >= atOnce) return
      const [first] = turns
      withdraw(first)
      // Behind all others, for whatever else it has.
      if (turns.length > 0) {
        waiting.delete(owner)
        waiting.set(owner, turns)
      }
      decide(first, "running")
    }
  }

  /** Whether there is room now for a work of an owner that has `own` waiting. */
  const makesRoom = (own: number): boolean => {
    if (waitingNow < most) return true
    let longest: ReadonlyArray<Turn> = []
    for (const turns of waiting.values()) if (turns.length > longest.length) longest = turns
    const newest = longest.at(-1)
    if (newest === undefined || longest.length <= own + 1) return false
    withdraw(newest)
    decide(newest, "refused")
    return true
  }

  const join = (owner: string): Turn => {
    const turn: Turn = { owner, state: "waiting", decided: Deferred.unsafeMake(FiberId.none) }
    if (running < atOnce) {
      decide(turn, "running")
      return turn
    }
    const own = waiting.get(owner)
    if (!makesRoom(own?.length ?? 0)) {
      decide(turn, "refused")
      return turn
    }
    if (own === undefined) waiting.set(owner, [turn])
    else own.push(turn)
    waitingNow++
    return turn
  }

  const leave = (turn: Turn) =>
    Effect.sync(() => {
      if (turn.state === "waiting") withdraw(turn)
      if (turn.state !== "running") return
      running--
      next()
    })

  return {
    take: (owner, work) =>
      Effect.uninterruptibleMask((restore) =>
        Effect.suspend(() => {
          const turn = join(owner)
          return Effect.ensuring(Effect.zipRight(restore(Deferred.await(turn.decided)), work), leave(turn))
        })
      )
  }
}
