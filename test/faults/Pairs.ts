/** The released program on two Postgres with streaming replication. */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Release from "#test/support/Release.ts"
import type * as Fronts from "./Fronts.ts"
import * as Load from "./Load.ts"
import * as Replication from "./Replication.ts"
import * as Trial from "./Trial.ts"

export type MakeFront = (pair: Replication.Pair) => Effect.Effect<Fronts.Front, never, Scope.Scope>

/** A server on a pair, with somebody who writes there. */
export const started = (synchronous: boolean, makeFront: MakeFront) =>
  Effect.gen(function* () {
    const pair = yield* Replication.make(synchronous)
    const front = yield* makeFront(pair)
    const release = yield* Release.build
    const env: Trial.Env = {
      AMPOULE_DATA_DIR: yield* Trial.folderOf("failover"),
      AMPOULE_DATABASE_URL: front.url,
      AMPOULE_SETUP_CODE: Trial.setupCode,
      AMPOULE_RATE_LIMITS: "off"
    }
    const server = yield* Effect.orDie(Release.server(release, env))
    const place = { server, ...(yield* Trial.setUp(server.url)) }
    return { pair, front, release, env, place }
  })
export type Started = Effect.Effect.Success<ReturnType<typeof started>>

/** Milliseconds from the failure to the first 503 of readiness, and from the end of the promotion to answers. */
export interface Failure {
  readonly told: number
  readonly serving: number
}

/** The primary fails in some way, and the standby is promoted. */
export const failOver = ({ front, pair, place }: Started, fail: Effect.Effect<unknown>) =>
  Effect.gen(function* () {
    yield* fail
    const failed = performance.now()
    // The remaining server is a standby: it answers, and takes no writes.
    const noticedMillis = yield* Trial.until("it is not ready", failed, Effect.negate(Trial.isReady(place.server.url)))
    yield* pair.promote
    yield* front.promoted
    const promoted = performance.now()
    const serving = yield* Trial.until("it serves", promoted, Load.serves(place))
    yield* Trial.untilReady(place.server.url, promoted)
    const failure: Failure = { told: noticedMillis, serving }
    return failure
  })

/** Head of test/records/failover.json, for each trial that writes there. */
export const about =
  "The released program under 8 writers and 4 readers on two Postgres with streaming replication; the primary is killed and the standby promoted. servingMillis: from the end of the promotion (HAProxy has still to see it, pgbouncer is reloaded) to an acknowledged write and a read; toldMillis: from the crash to the first 503 of readiness. npm run test:failover"
