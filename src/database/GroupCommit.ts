/**
 * Lets concurrent callers share one run (docs/architecture.md, "The hot path"). Items that arrive while runs are in
 * flight join the next run.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Runtime from "effect/Runtime"

/** Most extra event-loop turns to wait for more items. */
const maxExtraTurns = 7

/** A run slower than this fails the queue too (ms). */
const slowRunMillis = 1_500

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
 * `run` gets 1 to `maxBatch` items and returns one result for each, in order. With `maxInFlight: 1` batches never
 * overlap, so items commit in their order. An interrupted caller never stops a run that others share.
 */
export const make = <A, B, E>(options: Options<A, B, E>): Effect.Effect<(item: A) => Effect.Effect<B, E>> =>
  Effect.map(Effect.runtime<never>(), (runtime) => on(runtime, options))

/** The same for groups that come and go: their runs belong to the owner of the runtime, not to a caller. */
export const on = <A, B, E>(
  { fiberRefs, runtimeFlags }: Runtime.Runtime<never>,
  options: Options<A, B, E>
): ((item: A) => Effect.Effect<B, E>) => {
  // A run needs no service. An empty context makes each `provideService` in it cheaper: it copies the whole map.
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
        // A failure this slow means that the database hangs. The queue fails at once, so that no caller waits for a
        // second deadline (docs/contract/outages.md: within 3 s).
        if (Exit.isFailure(exit) && performance.now() - started > slowRunMillis) settle(queue.splice(0), exit)
        if (queue.length > 0) schedule()
      })
    }
  }
  const schedule = () => {
    if (scheduled || inFlight >= options.maxInFlight) return
    scheduled = true
    let lastLength = queue.length
    let looks = 1
    const look = () => {
      if (queue.length === lastLength || queue.length >= options.maxBatch || looks === maxExtraTurns) return flush()
      lastLength = queue.length
      looks++
      setImmediate(look)
    }
    // Waits for the next look at the sockets, and longer while each look brings more items. Callers that got their
    // results together also send their next requests together.
    setImmediate(() => setImmediate(look))
  }
  const settle = (batch: ReadonlyArray<Waiting<A, B, E>>, exit: Exit.Exit<ReadonlyArray<B>, E>) => {
    if (Exit.isSuccess(exit)) {
      for (let i = 0; i < batch.length; i++) batch[i].resume(Exit.succeed(exit.value[i]))
      return
    }
    // An interrupted run (at shutdown) reaches its callers as a defect: it was not their own interruption.
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
