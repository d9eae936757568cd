/**
 * The operator's word after the fail-over to an asynchronous standby that had not got everything: `ampoule audit
 * accept-restore`, while servers that lived through it go on. One ends before, and vouches at its end for what it had
 * written; one ends after. The trail verifies from the word on, and what was lost is on record.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Programs from "#test/support/Programs.ts"
import * as Release from "#test/support/Release.ts"
import * as Fronts from "./Fronts.ts"
import * as Load from "./Load.ts"
import * as Pairs from "./Pairs.ts"
import * as Trial from "./Trial.ts"
import * as Writers from "./Writers.ts"

const reportFile = process.env["AMPOULE_FAILOVERS_REPORT"]

/** It ends as it is asked to, and closes what it wrote. */
const stop = ({ child }: Effect.Effect.Success<ReturnType<typeof Release.server>>) =>
  Effect.async<void>((resume) => {
    child.once("exit", () => resume(Effect.void))
    child.kill("SIGTERM")
  })

describe("after a fail-over that lost entries", () => {
  it.scopedLive.skipIf(Programs.missing("psql"))(
    "the operator accepts the present state, while servers run or after they ended, and the trail verifies from then on",
    () =>
      Effect.gen(function* () {
        const trial = yield* Pairs.started(false, Fronts.direct)
        const { env, pair, place, release } = trial
        const second = { ...place, server: yield* Effect.orDie(Release.server(release, env)) }
        const problems = Effect.map(Trial.verify(release, env), ({ code, stdout }) => {
          const lines = stdout.split("\n").filter((line) => line.startsWith("PROBLEM"))
          // 2: the last entries wait for a seal. 1 stands for what was altered, or is missing.
          assert.strictEqual(code === 1, lines.length > 0, stdout)
          return lines
        })
        const accept = Effect.promise(() => Trial.ampoule(release, env, "audit", "accept-restore", "--yes"))
        const lanes = [place, second].flatMap((at, i) =>
          Array.from({ length: 4 }, (_, n) => Writers.make(at, 10 * i + n))
        )
        const under = [yield* Load.of(place, lanes, [], 2), yield* Load.of(second, [], [], 2)]
        yield* Load.someWrites(lanes, 2 * lanes.length)
        assert.deepStrictEqual(yield* problems, [])
        yield* pair.cutOff
        yield* Load.someWrites(lanes, 2 * lanes.length)
        yield* Pairs.failOver(trial, pair.killPrimary)
        yield* Effect.forEach(under, ({ end }) => end)
        yield* stop(second.server)
        const before = yield* problems
        assert.isAbove(before.length, 0, "no entry was lost, so nothing was shown")
        assert.deepStrictEqual(
          before.filter((line) => !line.includes("is missing")),
          []
        )
        const accepted = yield* accept
        assert.strictEqual(accepted.code, 0, accepted.stderr)
        assert.deepStrictEqual(yield* problems, [])
        const others = Array.from({ length: 4 }, (_, n) => Writers.make(place, 100 + n))
        const after = yield* Load.of(place, others, [], 2)
        yield* Load.someWrites(others, 4 * others.length)
        yield* after.end
        assert.deepStrictEqual(Load.check(others, yield* Writers.look(place)), [])
        yield* stop(place.server)
        assert.deepStrictEqual(yield* problems, [])
        const again = yield* accept
        assert.strictEqual(again.code, 1)
        assert.include(again.stderr, "nothing to accept")
        const exported = yield* Effect.promise(() => Trial.ampoule(release, env, "audit", "export"))
        assert.include(exported.stdout, '"audit.accept_restore"')
        yield* Trial.record(
          reportFile,
          Pairs.about,
          "accept-restore after an asynchronous fail-over, servers running",
          {
            problemsBefore: before.length,
            problemsAfter: 0
          }
        )
      }),
    240_000
  )
})
