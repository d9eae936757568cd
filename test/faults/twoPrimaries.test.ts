/**
 * A primary that hangs instead of ending (SIGSTOP), under writers and readers: the standby is promoted, and then the old
 * one wakes and takes itself for the primary still. A server that has met the new one writes nothing to the old one any
 * more, and neither does one that starts then. With a synchronous standby nothing that was acknowledged is lost. CI tries both hosts in the address and HAProxy, with a synchronous standby;
 * `npm run test:failover` (`AMPOULE_FAILOVERS`) tries all and writes test/records/failover.json.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Programs from "#test/support/Programs.ts"
import * as Release from "#test/support/Release.ts"
import * as Fronts from "./Fronts.ts"
import * as Load from "./Load.ts"
import * as Pairs from "./Pairs.ts"
import * as Replication from "./Replication.ts"
import * as Trial from "./Trial.ts"
import * as Writers from "./Writers.ts"

const isWhole = process.env["AMPOULE_FAILOVERS"] !== undefined
const reportFile = process.env["AMPOULE_FAILOVERS_REPORT"]
const writers = 8
const readers = 4

const entriesOf = (node: Replication.Node) =>
  Effect.orDie(
    Effect.map(Replication.ask<{ readonly n: string }>(node, "SELECT count(*) AS n FROM audit_entries"), ([row]) =>
      Number(row?.n)
    )
  )

/** Work of the old primary from before its hang has ended: nothing is added for a second. */
const settled = (node: Replication.Node) =>
  Effect.gen(function* () {
    let before = -1
    for (let now = yield* entriesOf(node); now !== before; now = yield* entriesOf(node)) {
      before = now
      yield* Effect.sleep("1 seconds")
    }
    return before
  })

const hanging = (synchronous: boolean, name: string, makeFront: Pairs.MakeFront) =>
  Effect.gen(function* () {
    const trial = yield* Pairs.started(synchronous, makeFront)
    const { env, pair, place, release } = trial
    const answered: Array<string> = []
    const lanes = Array.from({ length: writers }, (_, n) => Writers.make(place, n))
    const under = yield* Load.of(place, lanes, answered, readers)
    yield* Load.someWrites(lanes, 2 * writers)
    const { serving, told } = yield* Pairs.failOver(trial, pair.hangPrimary)
    yield* under.end
    const problems = Load.check(lanes, yield* Writers.look(place))
    yield* pair.wake
    const there = yield* settled(pair.standby())
    // A server that starts now has met neither.
    const beginner = { ...place, server: yield* Effect.orDie(Release.server(release, env)) }
    const others = Array.from({ length: writers }, (_, n) => Writers.make(n % 2 === 0 ? place : beginner, 100 + n))
    const after = yield* Load.of(place, others, answered, readers)
    yield* Load.someWrites(others, 4 * writers)
    yield* after.end
    assert.deepStrictEqual(Load.check(others, yield* Writers.look(place)), [])
    assert.strictEqual(yield* entriesOf(pair.standby()), there, "the old primary got an entry")
    if (synchronous) {
      assert.deepStrictEqual(problems, [])
      yield* Trial.trailHas(release, env, [...answered, ...[...lanes, ...others].flatMap((lane) => lane.answered)])
    } else {
      // Writes that it had acknowledged and not sent when it hung; none exists in part.
      assert.deepStrictEqual(
        problems.filter((problem) => !problem.endsWith("acknowledged")),
        []
      )
    }
    const figures = {
      acknowledgedWrites: Load.writesOf([...lanes, ...others]),
      keysLost: problems.length,
      toldMillis: Math.round(told),
      servingMillis: Math.round(serving)
    }
    yield* Effect.logInfo(name).pipe(Effect.annotateLogs(figures))
    const kind = synchronous ? "synchronous" : "asynchronous"
    yield* Trial.record(reportFile, Pairs.about, `the primary hangs and wakes, ${kind}, ${name}`, figures)
  })

const limit = 240_000
const fronts = [
  ["both hosts in the address", Fronts.direct, []],
  ["behind HAProxy", Fronts.haproxy, ["haproxy"]],
  ["behind pgbouncer", Fronts.pgbouncer("session"), ["pgbouncer"]]
] as const satisfies ReadonlyArray<readonly [string, Pairs.MakeFront, ReadonlyArray<string>]>

describe("a primary that hangs, and wakes when another one was promoted, gets nothing more:", () => {
  for (const [index, [name, front, programs]] of fronts.entries()) {
    it.scopedLive.skipIf((!isWhole && index > 1) || Programs.missing("psql", ...programs))(
      `with a synchronous standby, ${name}`,
      () => hanging(true, name, front),
      limit
    )
    it.scopedLive.skipIf(!isWhole || Programs.missing("psql", ...programs))(
      `with an asynchronous standby, ${name}`,
      () => hanging(false, name, front),
      limit
    )
  }
})
