/**
 * Concurrent callers share one run (docs/architecture.md, "The hot path"): whatever arrives while runs are in flight
 * goes with the next one.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Runtime from "effect/Runtime"

/** At the sockets, while they bring more. */
const mostLooks = 7

/** Milliseconds. */
const hanging = 1_500

interface Waiting<A, B, E> {
  readonly item: A
  readonly resume: (exit: Effect.Effect<B, E>) => void
}

interface Options<A, B, E> {
  readonly run: (batch: ReadonlyArray<A>) => Effect.Effect<ReadonlyArray<B>, E>
  readonly maxBatch: number
  readonly maxInFlight: number
}

/**
 * `run` gets 1 to `maxBatch` items and answers one result for each, in order. With `maxInFlight: 1` batches never
 * overlap, so the order of items is the order of commits. A caller's interruption never stops a run that others share.
 */
export const make = <A, B, E>(options: Options<A, B, E>): Effect.Effect<(item: A) => Effect.Effect<B, E>> =>
  Effect.map(Effect.runtime<never>(), (runtime) => on(runtime, options))

/** The same, where groups come and go: their runs belong to whoever has the runtime, and to no caller. */
export const on = <A, B, E>(
  { fiberRefs, runtimeFlags }: Runtime.Runtime<never>,
  options: Options<A, B, E>
): ((item: A) => Effect.Effect<B, E>) => {
  // A run needs no service (its type says so): each that it would provide had to copy the map of all of them.
  const fork = Runtime.runFork(Runtime.make({ context: Context.empty(), fiberRefs, runtimeFlags }))
  let queue: Array<Waiting<A, B, E>> = []
  let inFlight = 0
  let scheduled = false

  const flush = () => {
    scheduled = false
    while (queue.length > 0 && inFlight < options.maxInFlight) {
      const batch = queue.length <= options.maxBatch ? queue : queue.slice(0, options.maxBatch)
      queue = queue.length <= options.maxBatch ? [] : queue.slice(options.maxBatch)
      inFlight++
      const started = performance.now()
      fork(Effect.suspend(() => options.run(batch.map((w) => w.item)))).addObserver((exit) => {
        inFlight--
        settle(batch, exit)
        // What failed this slowly met a database that hangs: those who waited behind it are told now, not a second
        // deadline later (docs/contract/outages.md: within 3 s).
        if (Exit.isFailure(exit) && performance.now() - started > hanging) settle(queue.splice(0), exit)
        if (queue.length > 0) schedule()
      })
    }
  }
  const schedule = () => {
    if (scheduled || inFlight >= options.maxInFlight) return
    scheduled = true
    let seen = queue.length
    let looks = 1
    const look = () => {
      if (queue.length === seen || queue.length >= options.maxBatch || looks === mostLooks) return flush()
      seen = queue.length
      looks++
      setImmediate(look)
    }
    // After the next look at the sockets: with whatever else came in this turn of the event loop, or waited behind it.
    // While each further look brings more, that goes along: callers who were answered together ask together.
    setImmediate(() => setImmediate(look))
  }
  const settle = (batch: ReadonlyArray<Waiting<A, B, E>>, exit: Exit.Exit<ReadonlyArray<B>, E>) => {
    if (Exit.isSuccess(exit)) {
      for (let i = 0; i < batch.length; i++) batch[i].resume(Exit.succeed(exit.value[i]))
      return
    }
    // The run is nobody's fiber: an interruption of it (shutdown) reaches the callers as a defect, never as their
    // own.
    const cause = Cause.isInterruptedOnly(exit.cause) ? Cause.die(new Error("shut down before commit")) : exit.cause
    for (const waiting of batch) waiting.resume(Exit.failCause(cause))
  }

  return (item: A) =>
    Effect.async<B, E>((resume) => {
      const waiting = { item, resume }
      queue.push(waiting)
      schedule()
      return Effect.sync(() => {
        const at = queue.indexOf(waiting)
        if (at >= 0) queue.splice(at, 1)
      })
    })
}
