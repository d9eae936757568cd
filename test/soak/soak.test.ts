/**
 * The released program as two workers on Postgres, with Redis and a vault of its own, under everybody who uses it at once, for
 * an hour: writers, readers, agents, streams, webhooks, sessions, tokens that come and go. Meanwhile root key and data
 * keys are rotated, a backup is made, the trail is cut, and each part is restarted. Nothing acknowledged is lost, nothing fails but
 * during the restarts, and nothing grows but what is kept. `npm run test:soak` runs three of them at once and writes
 * test/records/soak.json; `AMPOULE_SOAK_MINUTES` is how long, `AMPOULE_SOAK_REPORT` names a file for the figures, `AMPOULE_SOAK_FOLDER` one
 * for logs and samples. CI runs three minutes, which shows that nothing is lost and not that nothing grows.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as fs from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import * as path from "node:path"
import * as Trial from "#test/faults/Trial.ts"
import * as Writers from "#test/faults/Writers.ts"
import * as Programs from "#test/support/Programs.ts"
import * as Gauges from "./Gauges.ts"
import * as Parts from "./Parts.ts"
import * as Requests from "./Requests.ts"
import * as Schedule from "./Schedule.ts"
import * as Traffic from "./Traffic.ts"
import * as Verdict from "./Verdict.ts"

const minutes = Number(process.env["AMPOULE_SOAK_MINUTES"] ?? "3")
const reportFile = process.env["AMPOULE_SOAK_REPORT"]
const givenFolder = process.env["AMPOULE_SOAK_FOLDER"]
const run = process.env["AMPOULE_SOAK_RUN"] ?? "1"
/** Below that, what a process does at its start is all that is seen. */
const isLong = minutes >= 20
const seconds = minutes * 60
/** Times of requests are reported for so many parts of the run. */
const windowCount = 10
const writers = 2

const sleepUntil = (at: number) =>
  Effect.suspend(() => Effect.sleep(`${Math.max(0, Math.round(at - performance.now()))} millis`))

/** Notices when time went on without this process: somebody else had the machine. */
const watchClock = (requests: Requests.Requests) =>
  Effect.gen(function* () {
    let last = performance.now()
    while (true) {
      yield* Effect.sleep("500 millis")
      const now = performance.now()
      if (now - last > 1_500) requests.excuse(Requests.pause, last)
      last = now
    }
  })

/** Milliseconds that a process was ready to run and had no CPU, by Linux. */
const waitedBy = (pid: number) => {
  try {
    return Number(fs.readFileSync(`/proc/${pid}/schedstat`, "utf8").split(" ")[1]) / 1e6
  } catch {
    // It is gone.
    return 0
  }
}

/** Notices seconds in which the parts together waited for a CPU half of the time or more. */
const watchCpu = (parts: Parts.Parts, requests: Requests.Requests) =>
  Effect.gen(function* () {
    let before = new Map<number, number>()
    let last = performance.now()
    while (true) {
      yield* Effect.sleep("1 second")
      // None while Postgres is away.
      const pids = yield* Effect.orElseSucceed(Effect.try(parts.pids), () => [])
      const waited = new Map(pids.map((pid) => [pid, waitedBy(pid)]))
      const sum = [...waited].reduce((all, [pid, millis]) => all + millis - (before.get(pid) ?? millis), 0)
      if (sum > (performance.now() - last) / 2) requests.shortOfCpu(last)
      before = waited
      last = performance.now()
    }
  })

/** Takes webhooks, and counts their events. */
const receiver = Effect.acquireRelease(
  Effect.async<{ readonly url: string; readonly events: Set<string>; readonly close: () => void }>((resume) => {
    const events = new Set<string>()
    const server = createServer((request, response) => {
      events.add(String(request.headers["ampoule-event-id"]))
      request.resume().once("end", () => response.writeHead(204).end())
    })
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as AddressInfo
      resume(Effect.succeed({ url: `http://127.0.0.1:${port}/`, events, close: () => void server.close() }))
    })
  }),
  ({ close }) => Effect.sync(close)
)

/** A writer knows the ids of what it made when it has looked, and so can change and delete it; each look is a check as well. */
const betweenLooks = 30_000

/** Writers with keys of their own; after a write of which nobody knows what became of it another one goes on. */
const writing = (place: Writers.Place) => {
  const lanes: Array<Writers.Writer> = []
  let goesOn = true
  const turn = (lane: Writers.Writer) => {
    const until = performance.now() + betweenLooks
    return lane.run(() => goesOn && performance.now() < until, Effect.sleep("1500 millis"))
  }
  const write = Effect.gen(function* () {
    let lane: Writers.Writer | undefined
    while (isOn()) {
      if (lane === undefined) lanes.push((lane = Writers.make(place, lanes.length)))
      const goesWell: boolean = yield* turn(lane)
      const live = yield* Effect.option(Writers.look(place))
      if (goesWell && live._tag === "Some") lane.check(live.value)
      else lane = undefined
      yield* Effect.sleep("2 seconds")
    }
  })
  const isOn = () => goesOn
  return { lanes, write, end: () => void (goesOn = false) }
}

const everyMinute = (parts: Parts.Parts, start: number, samples: Array<Gauges.Sample>) =>
  Effect.forever(
    Effect.gen(function* () {
      yield* Effect.sleep(isLong ? "1 minute" : "5 seconds")
      // None while a part is away.
      const sample = yield* Effect.option(Gauges.sample(parts, start))
      if (sample._tag === "Some") samples.push(sample.value)
    })
  )

/** When the heaps are collected: four times in each of the parts that are compared. */
const collections = Object.values(Verdict.stretch).flatMap(([from, to]) =>
  [0, 1, 2, 3].map((n) => from + ((to - from) * (n + 0.5)) / 4)
)

const collecting = (parts: Parts.Parts, start: number, held: Array<Gauges.Held>) =>
  Effect.forEach(collections, (part) =>
    Effect.gen(function* () {
      yield* sleepUntil(start + part * seconds * 1000)
      held.push(...(yield* Gauges.collect(parts, start)))
    })
  )

const takingWindows = (start: number, requests: Requests.Requests) => {
  const windows: Array<ReturnType<Requests.Requests["take"]>> = []
  return {
    windows,
    run: Effect.forEach(Array.from({ length: windowCount }), (_, n) =>
      Effect.gen(function* () {
        yield* sleepUntil(start + ((n + 1) / windowCount) * seconds * 1000)
        windows.push(requests.take())
      })
    )
  }
}

/** By kind: the figures of each window. */
const byKind = (windows: ReadonlyArray<ReturnType<Requests.Requests["take"]>>, name: "count" | "p50" | "p99") =>
  Object.fromEntries(
    [...new Set(windows.flatMap((window) => Object.keys(window)))]
      .toSorted()
      .map((kind) => [kind, windows.map((window) => window[kind]?.[name] ?? null)])
  )

const mebibytes = (bytes: number) => Math.round((bytes / 2 ** 20) * 10) / 10

/** Parts of the comparison in the record: tables that are small and stay so are left out. */
const summaryOf = (comparisons: ReadonlyArray<Verdict.Comparison>) =>
  Object.fromEntries(
    comparisons
      .filter(
        ({ late, what }) => !/^(bytes|dead rows) of/.test(what) || late > (what.startsWith("bytes") ? 2 ** 18 : 100)
      )
      .map(({ early, late, what }) => {
        const unit = /^(heap|resident|bytes)/.test(what) ? mebibytes : Math.round
        return [/^(heap|resident|bytes)/.test(what) ? `${what}, MiB` : what, [unit(early), unit(late)]]
      })
  )

const soak = Effect.gen(function* () {
  const folder = givenFolder === undefined ? yield* Trial.folderOf("soak-logs") : path.resolve(givenFolder)
  fs.mkdirSync(folder, { recursive: true })
  const parts = yield* Parts.make(folder)
  const requests = Requests.make()
  const team = yield* Trial.team(parts.url)
  const projectId = yield* team.project
  const place: Writers.Place = {
    server: { url: parts.url },
    token: yield* team.token,
    projectId,
    observe: requests.observe
  }
  const hooks = yield* receiver
  yield* team.post(`/teams/${team.id}/webhooks`, { name: "hook", url: hooks.url })
  const world: Traffic.World = { teamId: team.id, projectId, person: team.person, token: team.tokenOfAnAgent }
  const lanes = yield* Traffic.lanes(Traffic.make(parts.url, requests), world)
  const { end, lanes: written, write } = writing(place)
  const samples: Array<Gauges.Sample> = []
  const usage: Array<Gauges.Held> = []

  const start = performance.now()
  const { run: taking, windows } = takingWindows(start, requests)
  const measuring = yield* Effect.forkScoped(
    Effect.all([watchClock(requests), watchCpu(parts, requests), everyMinute(parts, start, samples)], {
      concurrency: "unbounded",
      discard: true
    })
  )
  const using = yield* Effect.forkScoped(Effect.all(lanes, { concurrency: "unbounded", discard: true }))
  const writingOn = yield* Effect.forkScoped(
    Effect.all(
      Array.from({ length: writers }, () => write),
      { concurrency: "unbounded", discard: true }
    )
  )
  const [done] = yield* Effect.all(
    [Schedule.run({ parts, requests, start, seconds }), collecting(parts, start, usage), taking],
    { concurrency: "unbounded" }
  )
  end()
  yield* Fiber.join(writingOn)
  yield* Fiber.interrupt(using)
  yield* Fiber.interrupt(measuring)
  fs.writeFileSync(
    path.join(folder, "samples.json"),
    JSON.stringify({ samples, held: usage, windows, spans: requests.spans() })
  )

  const live = yield* Writers.look(place)
  for (const lane of written) lane.check(live)
  const lost = written.flatMap((lane) => lane.problems)
  yield* parts.server.end("SIGTERM")
  const answered = written.flatMap((lane) => lane.answered)
  const trail = yield* Schedule.trail({ parts, done, answered })
  const restored = yield* Schedule.restore(parts, done)
  const alarms = parts.serverLog().includes("altered") ? ["the server raised an alarm"] : []
  const growth = Verdict.problems(samples, usage, seconds)
  const problems = [...requests.problems(start), ...lost, ...trail, ...restored, ...alarms, ...(isLong ? growth : [])]
  const figures = {
    minutes,
    requests: requests.requests(),
    acknowledgedWrites: written.reduce((sum, lane) => sum + lane.writes(), 0),
    webhookEvents: hooks.events.size,
    failedAndExcused: requests.excused(),
    refusedAsTooMany: requests.refused(),
    toldNotReady: requests.notReady(),
    secondsShortOfCpu: requests.secondsShortOfCpu(),
    pausedSeconds: requests.pausedSeconds(),
    done: done.told,
    earlyAndLate: summaryOf(Verdict.compare(samples, usage, seconds)),
    p50Millis: byKind(windows, "p50"),
    p99Millis: byKind(windows, "p99"),
    problems
  }
  fs.writeFileSync(path.join(folder, "figures.json"), JSON.stringify(figures, undefined, 2))
  yield* Trial.record(reportFile, Schedule.what, `run ${run}`, figures)
  assert.deepStrictEqual(problems, [])
})

describe("in a long run under all kinds of users, with rotations, a backup, retention and restarts,", () => {
  it.scopedLive.skipIf(Programs.missing("psql", "redis-server"))(
    "nothing is lost, nothing fails but during restarts, and nothing grows",
    () => soak,
    (minutes + 30) * 60_000
  )
})
