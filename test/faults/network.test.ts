/**
 * The released program under writers and readers, while Postgres, Redis or the vault hangs, is cut off, slow, or closes
 * late: acknowledged writes exist, no bulk exists in part, every answered request is in the trail, which verifies
 * and raises no alarm. Without Redis, or without the vault, no request fails; readiness tells of what is away; when the
 * fault has ended, the server goes on without a restart. CI tries some of the matrix, another part by each seed;
 * `npm run test:faults` (`AMPOULE_FAULTS=all`) tries all of it and writes test/records/faults.json
 * (`AMPOULE_FAULTS_REPORT`).
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Programs from "#test/support/Programs.ts"
import type * as FaultProxy from "#test/support/FaultProxy.ts"
import * as Load from "./Load.ts"
import * as Stack from "./Stack.ts"
import * as Trial from "./Trial.ts"
import * as Writers from "./Writers.ts"

const isWhole = process.env["AMPOULE_FAULTS"] === "all"
const reportFile = process.env["AMPOULE_FAULTS_REPORT"]
const writers = 4

interface Fault {
  readonly begin: (dependency: Stack.Dependency) => Effect.Effect<void>
  readonly end: (dependency: Stack.Dependency) => Effect.Effect<void>
  /** It is only slow: nothing is away. */
  readonly isMild?: boolean
}

const network = (mode: FaultProxy.Mode): Fault => ({
  begin: ({ set }) => set(mode),
  end: ({ set }) => set("pass")
})
const faults = {
  SIGSTOP: { begin: ({ signal }) => signal("SIGSTOP"), end: ({ signal }) => signal("SIGCONT") },
  "black hole": network("blackhole"),
  reset: network("reset"),
  "latency 50 ms": { ...network({ delayMillis: 50 }), isMild: true },
  "latency 2 s": network({ delayMillis: 2_000 }),
  "slow close": network({ closesAfterMillis: 4_000 })
} satisfies Record<string, Fault>

type DependencyName = keyof Effect.Effect.Success<typeof Stack.make>["dependencies"]
const cells = (["Postgres", "Redis", "vault"] as const).flatMap((dependency) =>
  (Object.keys(faults) as ReadonlyArray<keyof typeof faults>).map((fault) => ({ dependency, fault }))
)

interface Seen {
  readonly acknowledgedWrites: number
  readonly requestsFailed: number
  /** From the fault to the first 503 of readiness; null: nothing is away, and it stays ready. */
  readonly toldMillis: number | null
  /** From the end of the fault to a write and a read that are answered, and to readiness. */
  readonly servingMillis: number
  readonly readyMillis: number
}

/** Measures of a fault: time until readiness reports it, and failed requests. */
const lasting = (name: DependencyName, fault: Fault, url: string, load: Load.Tireless) =>
  Effect.gen(function* () {
    const [began, before] = [performance.now(), load.failures()]
    const noticedMillis =
      fault.isMild === true ? null : yield* Trial.until("it is not ready", began, Effect.negate(Trial.isReady(url)))
    if (name === "Postgres") yield* Effect.sleep("3 seconds")
    else {
      yield* Load.someWrites(load.lanes, 2 * writers)
      assert.strictEqual(load.failures(), before, `requests failed without ${name}`)
    }
    return noticedMillis
  })

type Trialled = Effect.Effect.Success<ReturnType<typeof started>>
const started = () =>
  Effect.gen(function* () {
    const stack = yield* Stack.make
    const team = yield* Trial.team(stack.server.url)
    return { ...stack, team }
  })

const trial = ({ dependencies, server, team }: Trialled, name: DependencyName, fault: Fault) =>
  Effect.gen(function* () {
    const projectId = yield* team.project
    const place = Effect.map(team.token, (token): Writers.Place => ({ server, token, projectId }))
    const [write, read] = yield* Effect.all([
      Effect.replicateEffect(place, writers),
      Effect.replicateEffect(place, writers)
    ])
    const probe = yield* place
    const load = yield* Load.tireless({ write, read })
    yield* Load.someWrites(load.lanes, 2 * writers)
    yield* fault.begin(dependencies[name])
    const noticedMillis = yield* lasting(name, fault, server.url, load)
    yield* fault.end(dependencies[name])
    const ended = performance.now()
    const serving = yield* Trial.until("it serves", ended, Load.serves(probe))
    const ready = yield* Trial.untilReady(server.url, ended)
    yield* Load.someWrites(load.lanes, 2 * writers)
    yield* load.end
    const problems = Load.check(load.lanes, yield* Writers.look(probe))
    const seen: Seen = {
      acknowledgedWrites: Load.writesOf(load.lanes),
      requestsFailed: load.failures(),
      toldMillis: noticedMillis === null ? null : Math.round(noticedMillis),
      servingMillis: Math.round(serving),
      readyMillis: Math.round(ready)
    }
    return { answered: load.answered(), problems, seen }
  })

describe("between a server and what it depends on", () => {
  it.scopedLive.skipIf(Programs.missing("psql", "redis-server"))(
    "no fault loses what was acknowledged, or needs a restart",
    () =>
      Effect.gen(function* () {
        const stack = yield* started()
        const mixed = [...(yield* Random.shuffle(cells))]
        const some = ["Postgres", "Postgres", "Redis", "vault"].map((name) => {
          const index = mixed.findIndex(({ dependency }) => dependency === name)
          return mixed.splice(index, 1)
        })
        const figures: Record<string, Seen> = {}
        const problems: Array<string> = []
        const answered: Array<string> = []
        for (const { dependency, fault } of isWhole ? cells : some.flat()) {
          const name = `${dependency}, ${fault}`
          const tried = yield* trial(stack, dependency, faults[fault])
          yield* Effect.logInfo(name).pipe(Effect.annotateLogs({ ...tried.seen }))
          figures[name] = tried.seen
          problems.push(...tried.problems.map((problem) => `${name}: ${problem}`))
          answered.push(...tried.answered)
        }
        assert.deepStrictEqual(problems, [])
        assert.notInclude(stack.server.output.text, "altered")
        yield* Trial.trailHas(stack.release, stack.env, answered)
        yield* Trial.record(reportFile, Trial.faults, "network", figures)
      }),
    isWhole ? 900_000 : 240_000
  )
})
