/** Growth by the rules of the long run, on invented runs. */
import { assert, describe, it } from "@effect/vitest"
import type * as Gauges from "./Gauges.ts"
import * as Verdict from "./Verdict.ts"

const mebibyte = 2 ** 20
const seconds = 3_600

/** A sample each minute; `late` changes those of the second half. */
const run = (late: (sample: Gauges.Sample) => Gauges.Sample = (sample) => sample) => ({
  samples: Array.from({ length: 60 }, (_, minute) => {
    const process = (id: string): Gauges.Process => ({ id, rss: 150 * mebibyte, descriptors: 30 })
    const sample: Gauges.Sample = {
      at: minute * 60,
      processes: { "worker 1": process("a"), "worker 2": process("b"), primary: process("c"), vault: process("d") },
      connections: 20,
      databaseBytes: 20 * mebibyte,
      redisKeys: 12,
      redisBytes: mebibyte,
      redisClients: 4,
      tables: { secrets: { bytes: 4 * mebibyte, live: 1_000, dead: 100, autovacuums: minute } }
    }
    return minute < 30 ? sample : late(sample)
  }),
  held: Array.from({ length: 60 }, (_, minute): Gauges.Held => ({
    at: minute * 60,
    name: "worker 1",
    id: "1",
    bytes: 40 * mebibyte
  }))
})
const problemsOf = ({ held, samples }: ReturnType<typeof run>) => Verdict.problems(samples, held, seconds)
const table = (change: Partial<Gauges.Table>) => (sample: Gauges.Sample) => ({
  ...sample,
  tables: {
    secrets: { ...sample.tables["secrets"], bytes: 4 * mebibyte, live: 1_000, dead: 100, autovacuums: 1, ...change }
  }
})
const worker = (change: Partial<Gauges.Process>) => (sample: Gauges.Sample) => ({
  ...sample,
  processes: {
    ...sample.processes,
    "worker 1": { id: "a", rss: 150 * mebibyte, descriptors: 30, ...change }
  }
})

describe("a long run", () => {
  it("in which nothing changes has no growth", () => assert.deepStrictEqual(problemsOf(run()), []))

  it("may keep more rows in as many bytes each", () => {
    assert.deepStrictEqual(problemsOf(run(table({ bytes: 40 * mebibyte, live: 10_000 }))), [])
  })

  const grown: ReadonlyArray<readonly [what: string, late: (sample: Gauges.Sample) => Gauges.Sample, told: RegExp]> = [
    ["memory", worker({ rss: 250 * mebibyte }), /^resident memory, worker 1/],
    ["descriptors", worker({ descriptors: 40 }), /^descriptors, worker 1/],
    ["connections", (sample) => ({ ...sample, connections: 30 }), /^connections to Postgres/],
    ["keys in Redis", (sample) => ({ ...sample, redisKeys: 100 }), /^keys in Redis/],
    ["a table with as many rows", table({ bytes: 40 * mebibyte }), /^bytes of secrets/],
    ["rows that are dead", table({ dead: 2_000 }), /^dead rows of secrets/],
    ["nothing, but of another process", worker({ id: "z" }), /^worker 1 is not one process/]
  ]
  for (const [what, late, told] of grown) {
    it(`that grows in ${what} is reported`, () => {
      const problems = problemsOf(run(late))
      assert.lengthOf(problems, 1)
      assert.match(problems[0] ?? "", told)
    })
  }

  it("whose heap holds more is reported, at any size of the process", () => {
    const { held, samples } = run()
    const leaking = held.map((one) => ({ ...one, bytes: one.bytes + one.at * 10_000 }))
    assert.match(Verdict.problems(samples, leaking, seconds).join(), /^heap, worker 1/)
  })

  it("that was not measured is no run without growth", () => {
    const { held, samples } = run()
    assert.isNotEmpty(
      Verdict.problems(
        samples.filter(({ at }) => at < 1_800),
        held,
        seconds
      )
    )
    assert.isNotEmpty(
      Verdict.problems(
        samples,
        held.filter(({ at }) => at < 1_800),
        seconds
      )
    )
  })
})
