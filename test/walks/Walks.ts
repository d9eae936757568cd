/** The files and functions of ours that V8 enters for one warm request, by its precise coverage. */
import * as inspector from "node:inspector"
import * as path from "node:path"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"

export interface Walk {
  /** Paths from the root of the repository, sorted. */
  readonly files: ReadonlyArray<string>
  /** Named functions as `file name`, sorted. */
  readonly functions: ReadonlyArray<string>
  /** Calls of each named function in one request. */
  readonly calls: ReadonlyMap<string, number>
}

const root = path.resolve(import.meta.dirname, "../..")
const ours = /^(?:schema|src|layers)\//
/** The test runner reads each import of ours through such a function, in the file that exports it. */
const exportReader = /^\(\) => \{ try \{ return [\w$.]+ \} catch \{\} \}/

const Coverage = Schema.Struct({
  result: Schema.Array(
    Schema.Struct({
      url: Schema.String,
      scriptId: Schema.String,
      functions: Schema.Array(
        Schema.Struct({
          functionName: Schema.String,
          ranges: Schema.Array(Schema.Struct({ count: Schema.Number, startOffset: Schema.Number }))
        })
      )
    })
  )
})
const readCoverage = Schema.decodeUnknownSync(Coverage)
const readSource = Schema.decodeUnknownSync(Schema.Struct({ scriptSource: Schema.String }))

const post = (session: inspector.Session, method: string, params: object = {}) =>
  new Promise<unknown>((resolve, reject) =>
    session.post(method, params, (error: Error | null, result?: object) =>
      error === null ? resolve(result) : reject(error)
    )
  )

const fileOf = (url: string) => path.relative(root, url.replace(/^file:\/\//, "").replace(/\?.*$/, ""))

interface Run {
  readonly files: Set<string>
  readonly calls: Map<string, number>
}

const runOf = async (session: inspector.Session, coverage: unknown) => {
  const run: Run = { files: new Set(), calls: new Map() }
  for (const { functions, scriptId, url } of readCoverage(coverage).result) {
    const file = fileOf(url)
    if (!ours.test(file)) continue
    const { scriptSource } = readSource(await post(session, "Debugger.getScriptSource", { scriptId }))
    for (const { functionName, ranges } of functions) {
      const [{ count, startOffset }] = ranges
      if (count === 0 || exportReader.test(scriptSource.slice(startOffset, startOffset + 200))) continue
      run.files.add(file)
      // A name by the test runner's own variables is none.
      if (functionName === "" || functionName.startsWith("__vite")) continue
      const name = `${file} ${functionName}`
      run.calls.set(name, (run.calls.get(name) ?? 0) + count)
    }
  }
  return run
}

const inMost = (sets: ReadonlyArray<ReadonlySet<string>>) => {
  const isFrequent = (one: string) => sets.filter((set) => set.has(one)).length > sets.length / 2
  return [...new Set(sets.flatMap((set) => [...set]))].filter(isFrequent)
}

const median = (counts: ReadonlyArray<number>) => counts.toSorted((a, b) => a - b)[counts.length >> 1]

const warmRequests = 30
const measuredRequests = 6

/**
 * Serves `request` until it is warm, then counts. A job that runs beside a request is not part of it: only files and
 * functions that most measured requests enter count.
 */
export const walk = (request: Effect.Effect<unknown>): Effect.Effect<Walk> =>
  Effect.gen(function* () {
    for (let i = 0; i < warmRequests; i++) yield* request
    const session = new inspector.Session()
    session.connect()
    const send = (method: string, params?: object) => Effect.promise(() => post(session, method, params))
    yield* send("Debugger.enable")
    yield* send("Profiler.enable")
    yield* send("Profiler.startPreciseCoverage", { callCount: true, detailed: false })
    const runs: Array<Run> = []
    for (let i = 0; i < measuredRequests; i++) {
      yield* Effect.sleep("50 millis")
      yield* send("Profiler.takePreciseCoverage")
      yield* request
      const coverage = yield* send("Profiler.takePreciseCoverage")
      runs.push(yield* Effect.promise(() => runOf(session, coverage)))
    }
    yield* send("Profiler.stopPreciseCoverage")
    session.disconnect()
    const functions = inMost(runs.map(({ calls }) => new Set(calls.keys()))).sort()
    return {
      files: inMost(runs.map(({ files }) => files)).sort(),
      functions,
      calls: new Map(functions.map((name) => [name, median(runs.map(({ calls }) => calls.get(name) ?? 0))]))
    }
  })
