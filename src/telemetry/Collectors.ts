/** Metrics that are read on demand (pools, memory, the event loop). */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { readdirSync } from "node:fs"
import { monitorEventLoopDelay } from "node:perf_hooks"
import * as Metrics from "./Metrics.ts"

const collectors = new Set<() => void>()

/** `collect` sets gauges. It runs before each reading of the metrics, until the scope closes. */
export const register = (collect: () => void): Effect.Effect<void, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => collectors.add(collect)),
    () => Effect.sync(() => collectors.delete(collect))
  ).pipe(Effect.asVoid)

export const collect = () => {
  for (const each of collectors) each()
}

const countOpenFds = () => {
  try {
    return readdirSync("/proc/self/fd").length
  } catch {
    return undefined
  }
}

const nanos = 1_000_000_000
const resolutionMillis = 20

/** Memory, CPU and event loop of this process. */
export const process = Effect.gen(function* () {
  const loop = yield* Effect.acquireRelease(
    Effect.sync(() => {
      const loop = monitorEventLoopDelay({ resolution: resolutionMillis })
      loop.enable()
      return loop
    }),
    (loop) => Effect.sync(() => loop.disable())
  )
  const node = globalThis.process
  const startTime = performance.timeOrigin / 1000
  // The histogram measures the time between two ticks: the tick's own length plus the delay.
  const delay = (value: number) => (Number.isFinite(value) ? Math.max(0, value / nanos - resolutionMillis / 1000) : 0)
  let cpu = 0
  yield* register(() => {
    const { system, user } = node.cpuUsage()
    const now = (system + user) / 1_000_000
    Metrics.processState({
      cpuSeconds: now - cpu,
      startTime,
      openFds: countOpenFds(),
      memory: node.memoryUsage(),
      lag: { mean: delay(loop.mean), p99: delay(loop.percentile(99)), max: delay(loop.max) }
    })
    cpu = now
    loop.reset()
  })
})
