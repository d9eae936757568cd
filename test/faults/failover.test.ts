/**
 * The released program on two Postgres with streaming replication, under writers and readers: the primary is killed as by a
 * crash, the standby promoted. By the names of both hosts, through HAProxy, through pgbouncer. With a synchronous standby
 * nothing that was acknowledged is lost; what an asynchronous one did not get is, and the server, which has seen it, goes
 * on from the standby's state. `npm run test:failover` does each several times and writes test/records/failover.json;
 * `AMPOULE_FAILOVERS` is how many, `AMPOULE_FAILOVERS_REPORT` names a file for the figures.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { execFile } from "node:child_process"
import * as path from "node:path"
import * as PostgresServer from "#test/deploy/PostgresServer.ts"
import * as Programs from "#test/support/Programs.ts"
import * as Release from "#test/support/Release.ts"
import * as Fronts from "./Fronts.ts"
import * as Load from "./Load.ts"
import * as Pairs from "./Pairs.ts"
import * as Trial from "./Trial.ts"
import * as Writers from "./Writers.ts"

const rounds = Number(process.env["AMPOULE_FAILOVERS"] ?? "1")
const reportFile = process.env["AMPOULE_FAILOVERS_REPORT"]
const writers = 8
const readers = 4

const report = (name: string, failures: ReadonlyArray<Pairs.Failure>, others: object) =>
  Trial.record(reportFile, Pairs.about, name, {
    failovers: failures.length,
    ...others,
    servingMillis: Trial.spread(failures.map(({ serving }) => serving)),
    toldMillis: Trial.spread(failures.map(({ told }) => told))
  })

const synchronously = (name: string, makeFront: Pairs.MakeFront) =>
  Effect.gen(function* () {
    const trial = yield* Pairs.started(true, makeFront)
    const { env, pair, place, release } = trial
    const lanes = Array.from({ length: writers }, (_, n) => Writers.make(place, n))
    const answered: Array<string> = []
    const failures: Array<Pairs.Failure> = []
    for (let round = 1; round <= rounds; round++) {
      const under = yield* Load.of(place, lanes, answered, readers)
      yield* Load.someWrites(lanes, 2 * lanes.length)
      failures.push(yield* Pairs.failOver(trial, pair.killPrimary))
      yield* under.end
      assert.deepStrictEqual(Load.check(lanes, yield* Writers.look(place)), [])
      if (round < rounds) yield* pair.rejoin
    }
    const after = yield* Load.of(place, lanes, answered, readers)
    yield* Load.someWrites(lanes, 2 * lanes.length)
    yield* after.end
    assert.deepStrictEqual(Load.check(lanes, yield* Writers.look(place)), [])
    const all = [...answered, ...lanes.flatMap((lane) => lane.answered)]
    yield* Trial.trailHas(release, env, all)
    const writes = Load.writesOf(lanes)
    yield* report(`synchronous, ${name}`, failures, { acknowledgedWrites: writes, reads: all.length - writes, lost: 0 })
  })

const asynchronously = (name: string, makeFront: Pairs.MakeFront) =>
  Effect.gen(function* () {
    const trial = yield* Pairs.started(false, makeFront)
    const { env, pair, place, release } = trial
    const failures: Array<Pairs.Failure> = []
    let [writes, lost] = [0, 0]
    for (let round = 1; round <= rounds; round++) {
      const lanes = Array.from({ length: writers }, (_, n) => Writers.make(place, round * 100 + n))
      const under = yield* Load.of(place, lanes, [], readers)
      yield* Load.someWrites(lanes, 2 * lanes.length)
      yield* pair.cutOff
      yield* Load.someWrites(lanes, 2 * lanes.length)
      failures.push(yield* Pairs.failOver(trial, pair.killPrimary))
      yield* under.end
      // A server that starts now never saw the lost writes.
      const other = yield* Effect.orDie(Release.server(release, env))
      const there = yield* Writers.look({ ...place, server: other })
      assert.deepStrictEqual(yield* Writers.look(place), there)
      const missing = Load.check(lanes, there).filter((problem) => problem.endsWith("acknowledged")).length
      assert.isAbove(missing, 0, "nothing was lost, so nothing was shown")
      lost += missing
      writes += Load.writesOf(lanes)
      // From here on nothing more is lost, at any server: revisions that were taken are taken anew.
      const others = [place, { ...place, server: other }].flatMap((at, i) =>
        Array.from({ length: 2 }, (_, n) => Writers.make(at, round * 100 + 50 + 10 * i + n))
      )
      const after = yield* Load.of(place, others, [], readers)
      yield* Load.someWrites(others, 2 * others.length)
      yield* after.end
      assert.deepStrictEqual(Load.check(others, yield* Writers.look(place)), [])
      if (round < rounds) yield* pair.rejoin
    }
    // It says so, and the verification finds nothing but what is missing.
    assert.include(place.server.output.text, "entries that this process committed are gone")
    const lines = (yield* Trial.verify(release, env)).stdout.split("\n").filter((line) => line.startsWith("PROBLEM"))
    assert.deepStrictEqual(
      lines.filter((line) => !line.includes("missing")),
      []
    )
    yield* report(`asynchronous, the standby cut off some writes before, ${name}`, failures, {
      acknowledgedWrites: writes,
      keysLost: lost
    })
  })

const limit = 180_000 + rounds * 60_000
const fronts = [
  ["both hosts in the address", Fronts.direct, []],
  ["behind HAProxy", Fronts.haproxy, ["haproxy"]],
  ["behind pgbouncer", Fronts.pgbouncer("session"), ["pgbouncer"]]
] as const satisfies ReadonlyArray<readonly [string, Pairs.MakeFront, ReadonlyArray<string>]>
const without = (programs: ReadonlyArray<string>) => Programs.missing("psql", ...programs)

describe("after the fail-over to a synchronous standby every acknowledged write exists, and no restart is needed:", () => {
  for (const [name, front, programs] of fronts) {
    it.scopedLive.skipIf(without(programs))(name, () => synchronously(name, front), limit)
  }
})

describe("after the fail-over to an asynchronous standby a server goes on from what that one has:", () => {
  for (const [name, front, programs] of fronts.slice(0, rounds > 1 ? fronts.length : 1)) {
    it.scopedLive.skipIf(without(programs))(name, () => asynchronously(name, front), limit)
  }
})

describe("behind a pooler that gives every transaction another session", () => {
  it.scopedLive.skipIf(without(["pgbouncer"]))(
    "a server does not start, and says what to change",
    () =>
      Effect.gen(function* () {
        const postgres = yield* PostgresServer.make({ script: "/dev/null", env: {} })
        const { url } = yield* Fronts.pgbouncer("transaction")({ primary: () => postgres })
        const release = yield* Release.build
        const folder = yield* Trial.folderOf("failover")
        const said = yield* Effect.promise(
          () =>
            new Promise<string>((resolve) => {
              execFile(
                process.execPath,
                [path.join(release, "dist/ampoule.cjs"), "server"],
                { env: { PATH: process.env["PATH"], AMPOULE_DATA_DIR: folder, AMPOULE_DATABASE_URL: url } },
                (error, stdout, stderr) => resolve(`${error?.code} ${stdout} ${stderr}`)
              )
            })
        )
        assert.include(said, "pool_mode=session")
      }),
    limit
  )
})
