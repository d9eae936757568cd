/** Writers and readers that run until a stop, and the outcome of their writes. */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Trial from "./Trial.ts"
import * as Writers from "./Writers.ts"

const where = (place: Writers.Place) => `projectId=${place.projectId}&environment=development`

/** Within what a credential may ask for in a minute. */
const pause = "150 millis"

/** Goes on whatever the answers are; `answered` gets the requests that were answered with values. */
const read = (place: Writers.Place, goesOn: () => boolean, answered: Array<string>, failed: () => void) =>
  Effect.iterate(undefined, {
    while: goesOn,
    body: () =>
      Effect.gen(function* () {
        const answer = yield* Writers.ask(place, "GET", `/secrets/inject?${where(place)}`)
        if (answer?.status === 200) answered.push(answer.requestId)
        else if (answer?.status !== 429) failed()
        yield* Effect.sleep(pause)
        return undefined
      })
  })

/** These writers, until each meets a fault, and readers until `end`. */
export const of = (
  place: Writers.Place,
  lanes: ReadonlyArray<Writers.Writer>,
  answered: Array<string>,
  readers: number
) =>
  Effect.gen(function* () {
    let goesOn = true
    const run = yield* Effect.fork(
      Effect.all(
        [
          ...lanes.map((lane) => lane.run(() => goesOn)),
          ...Array.from({ length: readers }, () =>
            read(
              place,
              () => goesOn,
              answered,
              () => {}
            )
          )
        ],
        { concurrency: "unbounded", discard: true }
      )
    )
    return { end: Effect.suspend(() => ((goesOn = false), Fiber.join(run))) }
  })

/**
 * A writer of each place, and a reader of each of the others, until `end`, whatever happens meanwhile: after a write of which nobody knows what
 * became of it, another writer goes on, with keys of its own.
 */
export const tireless = (places: {
  readonly write: ReadonlyArray<Writers.Place>
  readonly read: ReadonlyArray<Writers.Place>
}) =>
  Effect.gen(function* () {
    const lanes: Array<Writers.Writer> = []
    const answered: Array<string> = []
    let [goesOn, failures, failedReads] = [true, 0, 0]
    const isOn = () => goesOn
    const write = (place: Writers.Place) =>
      Effect.gen(function* () {
        while (isOn()) {
          const lane = Writers.make(place, lanes.length)
          lanes.push(lane)
          if (yield* lane.run(isOn)) return
          failures++
          yield* Effect.sleep("200 millis")
        }
      })
    const failed = () => {
      failures++
      failedReads++
    }
    const work = [...places.write.map(write), ...places.read.map((place) => read(place, isOn, answered, failed))]
    const run = yield* Effect.fork(Effect.all(work, { concurrency: "unbounded", discard: true }))
    return {
      lanes,
      /** Requests without an answer, or with one that tells of a fault. */
      failures: () => failures,
      /** Those of them that read. */
      failedReads: () => failedReads,
      /** Requests that were answered so far: each must be in the trail. */
      answered: () => [...answered, ...lanes.flatMap((lane) => lane.answered)],
      end: Effect.suspend(() => ((goesOn = false), Fiber.join(run)))
    }
  })
export type Tireless = Effect.Effect.Success<ReturnType<typeof tireless>>

export const writesOf = (lanes: ReadonlyArray<Writers.Writer>) => lanes.reduce((sum, lane) => sum + lane.writes(), 0)

/** Until so many more writes are acknowledged. */
export const someWrites = (lanes: ReadonlyArray<Writers.Writer>, more: number) =>
  Effect.suspend(() => {
    const enough = writesOf(lanes) + more
    return Trial.until(
      "writes are acknowledged",
      performance.now(),
      Effect.sync(() => writesOf(lanes) >= enough)
    )
  })

/** A write and a read of values are answered. */
export const serves = (place: Writers.Place) =>
  Effect.gen(function* () {
    const json = { projectId: place.projectId, environment: "development", secrets: [{ key: "PROBE", value: "x" }] }
    const written = yield* Writers.ask(place, "POST", "/secrets/bulk", json)
    const injected = yield* Writers.ask(place, "GET", `/secrets/inject?${where(place)}`)
    return written !== undefined && written.status < 300 && injected?.status === 200
  })

/** Compares with the stored keys; returns the faults, a sentence each. */
export const check = (lanes: ReadonlyArray<Writers.Writer>, live: Writers.Lives) => {
  for (const lane of lanes) lane.check(live)
  return lanes.flatMap((lane) => lane.problems.splice(0))
}
