/**
 * Whether the trail is what was written, before a report is made of it. A short trail is read through for each report. Of
 * a long one a report reads the heads and what came since the index, and the rest was read through by this process a
 * while ago: in parts, behind the requests, so that no report is as slow as the trail is long.
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

/** How long a trail may be that a report reads through, and how much of a longer one is read at a time. */
export class Bounds extends Context.Reference<Bounds>()("access/TrailPass/Bounds", {
  defaultValue: () => ({ wholeAtMost: 50_000, atATime: 5_000 })
}) {}

/** How old a pass over a long trail may be before the next one starts, and before a report waits for it. */
const freshMillis = 600_000
const staleMillis = days(1)
/** How long a report waits for the first pass of its process. What a page shows beside other things waits for none. */
const patience = "5 seconds"

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

const ended = Effect.fnUntraced(function* ({ state }: Passes, startedAt: number, altered: boolean) {
  const pass: Pass = { startedAt, endedAt: yield* Clock.currentTimeMillis, altered }
  state.last = pass
  return pass
})

/** All of a short trail in one statement. Those that ask while a pass is under way share the next one. */
const whole = (passes: Passes, within: number) =>
  Effect.flatMap(Clock.currentTimeMillis, (asked) =>
    passes.one.withPermits(1)(
      Effect.gen(function* () {
        const { last } = passes.state
        if (last !== undefined && last.startedAt > asked - within) return last
        const startedAt = yield* Clock.currentTimeMillis
        return yield* ended(passes, startedAt, yield* ExposureIndex.isAltered(passes.sql))
      })
    )
  )

const inParts = (passes: Passes, done: Deferred.Deferred<void>) =>
  Effect.gen(function* () {
    const startedAt = yield* Clock.currentTimeMillis
    const altered = yield* ExposureIndex.isAlteredInParts(passes.sql, passes.bounds.atATime)
    yield* ended(passes, startedAt, altered)
  }).pipe(
    Effect.ensuring(
      Effect.suspend(() => {
        passes.state.running = undefined
        return Deferred.succeed(done, undefined)
      })
    )
  )

/** Starts a pass unless one is under way; it belongs to the server, not to the request. */
const started = Effect.fnUntraced(function* (passes: Passes) {
  const { scope, state } = passes
  if (state.running !== undefined) return state.running
  const done = yield* Deferred.make<void>()
  state.running = done
  yield* Effect.forkIn(inParts(passes, done), scope)
  return done
})

const stillReading = new ServerBusy({
  message: "The audit trail is read through before a report is made of it. Try again shortly."
})

/** The last pass over a long trail; the next one is started when it is due. */
const recent = Effect.fnUntraced(function* (passes: Passes, isReport: boolean) {
  const now = yield* Clock.currentTimeMillis
  const { last } = passes.state
  if (last !== undefined && now - last.endedAt <= freshMillis) return last
  const done = yield* started(passes)
  if (last !== undefined && !last.altered && now - last.endedAt <= staleMillis) return last
  if (isReport) yield* Effect.timeoutOption(Deferred.await(done), patience)
  const found = passes.state.last
  return found !== undefined && found !== last ? found : yield* stillReading
})

const altered = new IntegrityFailure({
  message:
    "The audit trail is not what was written: there is no report. `ampoule audit verify` says where it was altered."
})

/**
 * Answers since when the trail was read through. INTEGRITY_FAILURE: it was altered. `within`: how old the pass over a
 * short trail may be, in milliseconds. SERVER_BUSY: a long one was not read through yet.
 */
export const checked = Effect.fnUntraced(function* (passes: Passes, within = 0) {
  const heads = yield* ExposureIndex.heads(passes.sql, passes.bounds.atATime)
  if (heads.altered) return yield* altered
  const pass = yield* heads.entries <= passes.bounds.wholeAtMost ? whole(passes, within) : recent(passes, within === 0)
  return pass.altered ? yield* altered : new Date(pass.startedAt).toISOString()
})
