/** Writers and readers of one environment, each with keys of its own, until the server is gone or a stop. */
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import * as History from "./History.ts"

/** Where the server is now, and who calls it. */
export interface Server {
  url: string
}
export interface Place {
  readonly server: Server
  readonly token: string
  readonly projectId: string
  /** Told of each request when it has ended; status undefined: no answer came. */
  readonly observe?: (method: string, path: string, status: number | undefined, began: number) => void
}

interface Answer {
  readonly status: number
  readonly requestId: string
  readonly json: unknown
}

/** undefined: no answer came, so nobody knows what became of the request. */
export const ask = (place: Place, method: string, path: string, body?: object) =>
  Effect.suspend(() => {
    const began = performance.now()
    const observe = (answer: Answer | undefined) => place.observe?.(method, path, answer?.status, began)
    return Effect.tap(send(place, method, path, body), (answer) => Effect.sync(() => observe(answer)))
  })

const send = ({ server, token }: Place, method: string, path: string, body?: object) =>
  Effect.tryPromise(async (signal): Promise<Answer> => {
    const response = await fetch(server.url + path, {
      method,
      signal,
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) })
    })
    const text = await response.text()
    const json: unknown = text === "" ? undefined : JSON.parse(text)
    return { status: response.status, requestId: response.headers.get("x-request-id") ?? "", json }
    // A worker that is killed while a connection is handed to it may leave that open, without anybody behind it.
  }).pipe(
    Effect.timeoutTo({ duration: "30 seconds", onSuccess: (answer) => answer, onTimeout: () => undefined }),
    Effect.orElseSucceed(() => undefined)
  )

const Listed = Schema.Struct({
  items: Schema.Array(Schema.Struct({ id: Schema.String, key: Schema.String, version: Schema.Number })),
  hasMore: Schema.Boolean
})
const Injected = Schema.Struct({ values: Schema.Record({ key: Schema.String, value: Schema.String }) })

interface Live extends History.Seen {
  readonly id: string
}
/** By key. */
export type Lives = ReadonlyMap<string, Live>

/** All stored keys, with values; undefined: pages moved while they were read, for others write. */
const lookOnce = (place: Place) =>
  Effect.gen(function* () {
    const where = `projectId=${place.projectId}&environment=development`
    const injected = yield* ask(place, "GET", `/secrets/inject?${where}`)
    const { values } = yield* Schema.decodeUnknown(Injected, { onExcessProperty: "ignore" })(injected?.json)
    const live = new Map<string, Live>()
    for (let page = 1, hasMore = true; hasMore; page++) {
      const answer = yield* ask(place, "GET", `/secrets?${where}&pageSize=500&page=${page}`)
      const listed = yield* Schema.decodeUnknown(Listed, { onExcessProperty: "ignore" })(answer?.json)
      for (const { id, key, version } of listed.items) live.set(key, { id, version, value: values[key] ?? "" })
      hasMore = listed.hasMore
    }
    return Object.keys(values).every((key) => live.has(key)) ? live : undefined
  })

/** All stored keys, with values. */
export const look = (place: Place) =>
  lookOnce(place).pipe(
    Effect.repeat({ until: (live) => live !== undefined, times: 20 }),
    Effect.flatMap(Effect.fromNullable)
  )

interface Write {
  readonly changes: History.Changes
  readonly send: readonly [method: string, path: string, body?: object]
}

const keysOfEach = 40

/** One writer; `n` names its keys. */
export const make = (place: Place, n: number) => {
  const history = History.make()
  const keys = Array.from({ length: keysOfEach }, (_, i) => `W${n}_${i}`)
  let ids: Map<string, string> = new Map()
  let count = 0
  const where = { projectId: place.projectId, environment: "development" }
  const isLive = (key: string) => history.stateOf(key).value !== null
  const valueFor = (key: string) => `${key} ${++count}`

  const bulk = (some: ReadonlyArray<string>): Write => {
    const changes = new Map(some.map((key) => [key, valueFor(key)]))
    const secrets = [...changes].map(([key, value]) => ({ key, value }))
    return { changes, send: ["POST", "/secrets/bulk", { ...where, secrets }] }
  }
  const put = (key: string): Write => {
    const value = valueFor(key)
    const { version } = history.stateOf(key)
    const id = ids.get(key)
    if (isLive(key) && id === undefined) return bulk([key])
    return {
      changes: new Map([[key, value]]),
      send: isLive(key)
        ? ["PATCH", `/secrets/${id}`, { value, expectedVersion: version }]
        : ["POST", "/secrets", { ...where, key, value, expectedVersion: version }]
    }
  }
  const remove = (some: ReadonlyArray<string>): Write => {
    const gone = some.filter((key) => isLive(key) && ids.has(key))
    const [key] = gone
    if (key === undefined) return bulk(some)
    const secretIds = gone.map((one) => ids.get(one))
    return {
      changes: new Map(gone.map((one) => [one, null])),
      send:
        gone.length === 1
          ? ["DELETE", `/secrets/${secretIds[0]}`]
          : ["POST", "/secrets/delete-bulk", { ...where, ids: secretIds }]
    }
  }
  const next = Effect.gen(function* () {
    const shuffled = [...(yield* Random.shuffle(keys))]
    const kind = yield* Random.nextIntBetween(0, 10)
    const some = shuffled.slice(0, yield* Random.nextIntBetween(2, 30))
    if (kind < 6) return put(some[0] ?? "")
    return kind < 8 ? bulk(some) : remove(kind === 8 ? some.slice(0, 1) : some.slice(0, 5))
  })

  /** Requests that were answered, by their ids: each must be in the trail. */
  const answered: Array<string> = []
  const problems: Array<string> = []
  let writes = 0

  /** true: go on. */
  const step = Effect.gen(function* () {
    const write = yield* next
    history.sent(write.changes)
    const answer = yield* ask(place, ...write.send)
    // Without an answer, or with one that tells of a fault, the write may be there.
    if (answer === undefined || (answer.status >= 500 && answer.status !== 503)) return false
    if (answer.status >= 400) {
      history.refused()
      if (answer.status === 429 || answer.status === 503) {
        yield* Effect.sleep("200 millis")
        return true
      }
      problems.push(`${write.send[0]} ${write.send[1].split("/")[1]}: ${answer.status}`)
      return false
    }
    history.acknowledged()
    // A key that is created again is a secret with another id.
    for (const [key, value] of write.changes) if (value === null) ids.delete(key)
    writes++
    answered.push(answer.requestId)
    const [key] = write.changes.keys()
    const read = yield* ask(place, "GET", `/secrets/inject?projectId=${where.projectId}&environment=development`)
    if (read?.status === 200) answered.push(read.requestId)
    const values = Schema.decodeUnknownOption(Injected, { onExcessProperty: "ignore" })(read?.json)
    if (values._tag === "Some" && values.value.values[key ?? ""] !== (write.changes.get(key ?? "") ?? undefined))
      problems.push(`${key} is not read as it was written`)
    return read !== undefined
  })

  return {
    answered,
    problems,
    writes: () => writes,
    /** `pause`: after each write. */
    run: (goesOn: () => boolean, pause: Effect.Effect<void> = Effect.void) =>
      Effect.iterate(true, { while: (on) => on && goesOn(), body: () => Effect.zipLeft(step, pause) }),
    check: (live: Lives) => {
      const own = new Map([...live].filter(([key]) => key.startsWith(`W${n}_`)))
      ids = new Map([...own].map(([key, { id }]) => [key, id]))
      problems.push(...history.check(own))
    }
  }
}

export type Writer = ReturnType<typeof make>
