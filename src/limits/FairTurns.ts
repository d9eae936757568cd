/** Shares scarce resources (threads, connections): the queue is bounded, and owners (addresses, teams) take turns. */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as FiberId from "effect/FiberId"
import { RateLimited } from "#schema/Errors.ts"

export interface Turn {
  /** Undefined: the service itself, which goes first and is never refused for lack of room. */
  readonly owner: string | undefined
  readonly long: boolean
  readonly decide: (runs: boolean) => void
  state: "waiting" | "running" | "refused"
}

interface QueueOptions {
  /** Most turns at the same time. */
  readonly atOnce: number
  /** Most long turns among them, which leaves room for short ones. Absent: no such limit. */
  readonly longAtOnce?: number
  /** Most waiting turns, of all owners together. */
  readonly waiting: number
}

/**
 * Owners take turns, however many turns each waits for. When the queue is full, the owner with the most waiting turns
 * loses its newest one, so that no owner blocks the others. Without such an owner, the new turn is refused.
 */
export class Queue {
  /** Waiting turns by owner, in the order of the next turns. Owners without waiting turns are absent. */
  readonly #waiting = new Map<string | undefined, Array<Turn>>()
  #waitingNow = 0
  #running = 0
  #longRunning = 0
  readonly #options: QueueOptions

  constructor(options: QueueOptions) {
    this.#options = options
  }

  get waiting(): number {
    return this.#waitingNow
  }

  /** Calls `decide` once, perhaps immediately. Call `leave` after the turn, or to stop waiting. */
  join(owner: string | undefined, decide: Turn["decide"], long = false): Turn {
    const turn: Turn = { owner, long, decide, state: "waiting" }
    if (this.#isFree(turn)) {
      this.#decide(turn, true)
      return turn
    }
    const own = this.#waiting.get(owner)
    if (owner !== undefined && !this.#makesRoom(own?.length ?? 0)) {
      this.#decide(turn, false)
      return turn
    }
    if (own === undefined) this.#waiting.set(owner, [turn])
    else own.push(turn)
    this.#waitingNow++
    return turn
  }

  leave(turn: Turn) {
    if (turn.state === "waiting") this.#withdraw(turn)
    if (turn.state !== "running") return
    turn.state = "refused"
    this.#running--
    if (turn.long) this.#longRunning--
    this.#next()
  }

  /** Refuses these waiting turns, or all. */
  refuse(...turns: ReadonlyArray<Turn>) {
    for (const turn of turns.length > 0 ? turns : [...this.#waiting.values()].flat()) {
      if (turn.state !== "waiting") continue
      this.#withdraw(turn)
      this.#decide(turn, false)
    }
  }

  #isFree({ long }: Turn) {
    const { atOnce, longAtOnce = atOnce } = this.#options
    return this.#running < atOnce && (!long || this.#longRunning < longAtOnce)
  }

  #decide(turn: Turn, runs: boolean) {
    turn.state = runs ? "running" : "refused"
    if (runs) this.#running++
    if (runs && turn.long) this.#longRunning++
    turn.decide(runs)
  }

  #withdraw(turn: Turn) {
    const turns = this.#waiting.get(turn.owner) ?? []
    const at = turns.indexOf(turn)
    if (at < 0) return
    turns.splice(at, 1)
    this.#waitingNow--
    if (turns.length === 0) this.#waiting.delete(turn.owner)
  }

  #following(): Turn | undefined {
    const free = (turn: Turn) => this.#isFree(turn)
    const service = this.#waiting.get(undefined)?.find(free)
    if (service !== undefined) return service
    for (const turns of this.#waiting.values()) {
      const turn = turns.find(free)
      if (turn !== undefined) return turn
    }
    return undefined
  }

  #next() {
    for (let turn = this.#following(); turn !== undefined; turn = this.#following()) {
      this.#withdraw(turn)
      // Further turns of this owner go to the end.
      const more = this.#waiting.get(turn.owner)
      if (more !== undefined) {
        this.#waiting.delete(turn.owner)
        this.#waiting.set(turn.owner, more)
      }
      this.#decide(turn, true)
    }
  }

  /** Makes room for a turn of an owner with `own` waiting turns, if possible. */
  #makesRoom(own: number): boolean {
    if (this.#waitingNow < this.#options.waiting) return true
    let longest: ReadonlyArray<Turn> = []
    for (const [owner, turns] of this.#waiting) {
      if (owner !== undefined && turns.length > longest.length) longest = turns
    }
    const newest = longest.at(-1)
    if (newest === undefined || longest.length <= own + 1) return false
    this.refuse(newest)
    return true
  }
}

interface Options extends QueueOptions {
  /** The `Retry-After` of refused requests. */
  readonly retryAfterSeconds: number
}

export interface FairTurns {
  /**
   * Runs `work` on the owner's turn; RATE_LIMITED when too many wait. Running work is not interrupted: threads cannot
   * be, and a turn ends only when its thread is free.
   */
  readonly take: <A, E, R>(owner: string, work: Effect.Effect<A, E, R>) => Effect.Effect<A, E | RateLimited, R>
}

export const make = ({ retryAfterSeconds, ...options }: Options): FairTurns => {
  const queue = new Queue(options)
  return {
    take: (owner, work) =>
      Effect.uninterruptibleMask((restore) =>
        Effect.suspend(() => {
          const decision = Deferred.unsafeMake<void, RateLimited>(FiberId.none)
          const turn = queue.join(owner, (runs) =>
            Deferred.unsafeDone(decision, runs ? Effect.void : new RateLimited({ retryAfterSeconds }))
          )
          return Effect.ensuring(
            Effect.zipRight(restore(Deferred.await(decision)), work),
            Effect.sync(() => queue.leave(turn))
          )
        })
      )
  }
}
