/**
 * Whether something grew in a long run: the medians of an early and of a late part of it are compared, between which no
 * server and no worker was restarted.
 */
import type { Held, Sample, Table } from "./Gauges.ts"

/** As parts of the whole run. */
export const stretch = { early: [0.2, 0.36], late: [0.66, 0.82] } as const

/** Allowed growth from early to late. */
const allowed = {
  heap: { factor: 1.1, bytes: 4 * 2 ** 20 },
  rss: { factor: 1.2, bytes: 32 * 2 ** 20 },
  descriptors: 4,
  connections: 4,
  redisKeys: { factor: 1.25, keys: 20 },
  table: { factor: 1.25, bytes: 2 ** 20 },
  /** Of rows that live; autovacuum begins at 50 and a fifth, once a minute. */
  dead: { part: 0.5, rows: 500 }
} as const

export const criteria = `Compared are the medians of ${stretch.early.map((part) => part * 100).join(" to ")} % and ${stretch.late.map((part) => part * 100).join(" to ")} % of the run; server and workers are the same processes throughout, vault, Redis and Postgres were restarted in between. No growth: heap and buffers of each process of ours after a collection, without compiled code, at most ${allowed.heap.factor} × + ${allowed.heap.bytes / 2 ** 20} MiB; resident memory ${allowed.rss.factor} × + ${allowed.rss.bytes / 2 ** 20} MiB; descriptors + ${allowed.descriptors}; connections to Postgres + ${allowed.connections}; keys in Redis ${allowed.redisKeys.factor} × + ${allowed.redisKeys.keys}; a table with its indexes at most as its rows once grew, × ${allowed.table.factor}, + ${allowed.table.bytes / 2 ** 20} MiB; dead rows at most ${allowed.dead.part} of those that live + ${allowed.dead.rows}. Whole: no acknowledged write lost, no bulk there in part, every answered request in the trail, which verifies, the backup of the middle restores and verifies, no 5xx and no request without an answer but within 5 s of a restart and of a pause of the machine (the run's own clock was late by more than a second), and within seconds in which the processes of the run together waited for a CPU for half of the time or more, told as secondsShortOfCpu.`

const median = (numbers: ReadonlyArray<number>) => {
  const sorted = numbers.toSorted((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}

interface Timed {
  readonly at: number
}
const within = <A extends Timed>(all: ReadonlyArray<A>, seconds: number, [from, to]: readonly [number, number]) =>
  all.filter(({ at }) => at >= from * seconds && at <= to * seconds)

export interface Comparison {
  readonly what: string
  readonly early: number
  readonly late: number
  readonly most: number
}

export const compare = (samples: ReadonlyArray<Sample>, held: ReadonlyArray<Held>, seconds: number) => {
  const [early, late] = [within(samples, seconds, stretch.early), within(samples, seconds, stretch.late)]
  const of = (what: string, read: (sample: Sample) => number, most: (early: number) => number): Comparison => {
    const [before, after] = [median(early.map(read)), median(late.map(read))]
    return { what, early: before, late: after, most: most(before) }
  }
  const processes = Object.keys(early[0]?.processes ?? {}).flatMap((name) => [
    of(
      `resident memory, ${name}`,
      ({ processes }) => processes[name]?.rss ?? Number.NaN,
      (before) => before * allowed.rss.factor + allowed.rss.bytes
    ),
    of(
      `descriptors, ${name}`,
      ({ processes }) => processes[name]?.descriptors ?? Number.NaN,
      (before) => before + allowed.descriptors
    )
  ])
  const heaps = [...new Set(held.map(({ name }) => name))].map((name): Comparison => {
    const own = held.filter((one) => one.name === name)
    const at = (part: readonly [number, number]) => median(within(own, seconds, part).map(({ bytes }) => bytes))
    const before = at(stretch.early)
    const most = before * allowed.heap.factor + allowed.heap.bytes
    return { what: `heap, ${name}`, early: before, late: at(stretch.late), most }
  })
  const tables = Object.keys(early[0]?.tables ?? {}).flatMap((name) => {
    const read = (pick: (table: Table) => number) => (sample: Sample) => {
      const table = sample.tables[name]
      return table === undefined ? Number.NaN : pick(table)
    }
    const until = late.at(-1)?.at ?? 0
    // A cut frees room inside of the file, which stays as large as its rows once were.
    const most = Math.max(...samples.filter(({ at }) => at <= until).map(read(({ live }) => live)))
    const live = median(late.map(read((table) => table.live)))
    const grew = Math.max(1, most / Math.max(1, median(early.map(read((table) => table.live)))))
    return [
      of(
        `bytes of ${name}`,
        read((table) => table.bytes),
        (before) => before * grew * allowed.table.factor + allowed.table.bytes
      ),
      of(
        `dead rows of ${name}`,
        read((table) => table.dead),
        () => live * allowed.dead.part + allowed.dead.rows
      )
    ]
  })
  return [
    ...heaps,
    ...processes,
    of(
      "connections to Postgres",
      ({ connections }) => connections,
      (before) => before + allowed.connections
    ),
    of(
      "keys in Redis",
      ({ redisKeys }) => redisKeys,
      (before) => before * allowed.redisKeys.factor + allowed.redisKeys.keys
    ),
    ...tables
  ]
}

/** Gauges that grew, or were not measured; and a worker that was replaced between early and late. */
export const problems = (samples: ReadonlyArray<Sample>, held: ReadonlyArray<Held>, seconds: number) => {
  const names = ["worker 1", "worker 2", "primary"]
  const both = [...within(samples, seconds, stretch.early), ...within(samples, seconds, stretch.late)]
  const changed = names.filter((name) => new Set(both.map(({ processes }) => processes[name]?.id)).size !== 1)
  return [
    ...changed.map((name) => `${name} is not one process throughout`),
    ...compare(samples, held, seconds)
      .filter(({ late, most }) => !(late <= most))
      .map(({ early, late, most, what }) => `${what}: ${early} early, ${late} late, at most ${Math.round(most)}`)
  ]
}
