/**
 * Checks that the trail is unaltered before a report uses it. A short trail is read whole for each report. For a long
 * one, a report reads the heads and the entries since the index. Its rest was read before by this process, in parts and
 * in the background, so that reports stay fast.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { IntegrityFailure, ServerBusy } from "#schema/Errors.ts"
import { days } from "#src/Days.ts"
import * as ExposureIndex from "./ExposureIndex.ts"

/** Longest trail (entries) that a report reads whole, and the batch size for a longer one. */
export class Bounds extends Context.Reference<Bounds>()("trail/TrailPass/Bounds", {
  defaultValue: () => ({ maxWholeEntries: 50_000, batchSize: 5_000 })
}) {}

/** The age of a pass over a long trail at which the next one starts, and at which a report waits for it (ms). */
const freshMillis = 600_000
const staleMillis = days(1)
/** Longest wait of a report for the first pass of its process. Other parts of pages do not wait. */
const maxWait = "5 seconds"

interface Pass {
  readonly startedAt: number
  readonly endedAt: number
  readonly altered: boolean
}

export interface Passes {
  readonly sql: SqlClient.SqlClient
  readonly scope: Scope.Scope
  readonly bounds: typeof Bounds.Service
  readonly one: Effect.Semaphore
  readonly state: { last: Pass | undefined; running: Deferred.Deferred<void> | undefined }
}

export const make: Effect.Effect<Passes, never, SqlClient.SqlClient | Scope.Scope> = Effect.gen(function* () {
  return {
    sql: yield* SqlClient.SqlClient,
    scope: yield* Effect.scope,
    bounds: yield* Bounds,
    one: yield* Effect.makeSemaphore(1),
    state: { last: undefined, running: undefined }
  }
})

const recordPass = Effect.fnUntraced(function* ({ state }: Passes, startedAt: number, altered: boolean) {
  const pass: Pass = { startedAt, endedAt: yield* Clock.currentTimeMillis, altered }
  state.last = pass
  return pass
})

/** Reads a short trail in one statement. Callers during a pass share the next one. */
const fullPass = (passes: Passes, within: number) =>
  Effect.flatMap(Clock.currentTimeMillis, (requestedAt) =>
    passes.one.withPermits(1)(
      Effect.gen(function* () {
        const { last } = passes.state
        if (last !== undefined && last.startedAt > requestedAt - within) return last
        const startedAt = yield* Clock.currentTimeMillis
        return yield* recordPass(passes, startedAt, yield* ExposureIndex.isAltered(passes.sql))
      })
    )
  )

const inParts = (passes: Passes, done: Deferred.Deferred<void>) =>
  Effect.gen(function* () {
    const startedAt = yield* Clock.currentTimeMillis
    const altered = yield* ExposureIndex.isAlteredInParts(passes.sql, passes.bounds.batchSize)
    yield* recordPass(passes, startedAt, altered)
  }).pipe(
    Effect.ensuring(
      Effect.suspend(() => {
        passes.state.running = undefined
        return Deferred.succeed(done, undefined)
      })
    )
  )

/** Starts a pass unless one runs. It belongs to the server, not to the request. */
const startPass = Effect.fnUntraced(function* (passes: Passes) {
  const { scope, state } = passes
  if (state.running !== undefined) return state.running
  const done = yield* Deferred.make<void>()
  state.running = done
  yield* Effect.forkIn(inParts(passes, done), scope)
  return done
})

const notReadYet = new ServerBusy({
  message: "The report waits until the audit trail is verified. Try again shortly."
})

/** The last pass over a long trail. Starts the next one when it is due. */
const recentPass = Effect.fnUntraced(function* (passes: Passes, isReport: boolean) {
  const now = yield* Clock.currentTimeMillis
  const { last } = passes.state
  if (last !== undefined && now - last.endedAt <= freshMillis) return last
  const done = yield* startPass(passes)
  if (last !== undefined && !last.altered && now - last.endedAt <= staleMillis) return last
  if (isReport) yield* Effect.timeoutOption(Deferred.await(done), maxWait)
  const latest = passes.state.last
  return latest !== undefined && latest !== last ? latest : yield* notReadYet
})

const trailAltered = new IntegrityFailure({
  message: "The audit trail was altered, so there is no report. `ampoule audit verify` shows where it was altered."
})

/**
 * Returns the time of the pass. Fails with INTEGRITY_FAILURE if the trail was altered, and with SERVER_BUSY if a long
 * one was not read yet. `within` is the maximum age of a pass over a short trail (ms).
 */
export const check = Effect.fnUntraced(function* (passes: Passes, within = 0) {
  const heads = yield* ExposureIndex.heads(passes.sql, passes.bounds.batchSize)
  if (heads.altered) return yield* trailAltered
  const pass = yield* heads.entries <= passes.bounds.maxWholeEntries
    ? fullPass(passes, within)
    : recentPass(passes, within === 0)
  return pass.altered ? yield* trailAltered : new Date(pass.startedAt).toISOString()
})
