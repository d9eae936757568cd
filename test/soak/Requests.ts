/** Outcome of each request of a long run, by kind and time; and the spans of time in which some may fail. */

/** Performance-clock milliseconds. */
interface Span {
  readonly from: number
  readonly to: number
  readonly why: string
}
interface Failure {
  readonly kind: string
  readonly status: number | undefined
  readonly from: number
  readonly to: number
}

/** `PATCH /secrets/{id}`: no ids, no query. */
const kindOf = (method: string, path: string) =>
  `${method} ${path
    .replace(/\?.*/s, "")
    .replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, "{id}")
    .replaceAll(/[A-Z]{4}-[A-Z]{4}/g, "{code}")}`

const percentile = (sorted: ReadonlyArray<number>, part: number) =>
  Math.round((sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0) * 10) / 10

/** After a part came back, or time went on: requests that began before are under way still. */
const grace = 5_000

/** Why time went on without anybody doing anything. */
export const pause = "pause"

const shortOfCpu = "short of CPU"

export const make = () => {
  const failures: Array<Failure> = []
  const unexpected: Array<string> = []
  const spans: Array<Span> = []
  let window = new Map<string, Array<number>>()
  let [requests, refused, notReady] = [0, 0, 0]
  const isExcused = ({ from, to }: Failure) => spans.some((span) => from < span.to && to > span.from)
  const secondsOf = (which: string, more: number) =>
    Math.round(spans.filter(({ why }) => why === which).reduce((sum, { from, to }) => sum + to - from - more, 0) / 1000)
  return {
    requests: () => requests,
    /** 429: the limits of a credential, or a server that is busy. */
    refused: () => refused,
    /** Readiness tells when a part answers late as well, which on a busy machine it does. */
    notReady: () => notReady,
    /** status undefined: no answer came. */
    observe: (method: string, path: string, status: number | undefined, began: number) => {
      const [kind, to] = [kindOf(method, path), performance.now()]
      requests++
      if (status === 429) refused++
      if (status === 503 && path === "/health/ready") return void notReady++
      if (status === undefined || status >= 500) return void failures.push({ kind, status, from: began, to })
      const times = window.get(kind) ?? []
      window.set(kind, times)
      times.push(to - began)
    },
    /** An answer that is none of a fault, and not the one that is due. */
    unexpected: (text: string) => void unexpected.push(text),
    /** Something was done from then until now; its requests may fail, and a little longer. */
    excuse: (why: string, from: number) => void spans.push({ why, from, to: performance.now() + grace }),
    /** From then until now others had most of the machine: the deadline of a request may pass before it has its turn. */
    shortOfCpu: (from: number) => void spans.push({ why: shortOfCpu, from, to: performance.now() }),
    secondsShortOfCpu: () => secondsOf(shortOfCpu, 0),
    spans: () => spans,
    /** How long somebody else had the machine. */
    pausedSeconds: () => secondsOf(pause, grace),
    /** Times since the last call, by kind. */
    take: () => {
      const previous = window
      window = new Map()
      return Object.fromEntries(
        [...previous]
          .toSorted(([a], [b]) => a.localeCompare(b))
          .map(([kind, times]) => {
            const sorted = times.toSorted((a, b) => a - b)
            return [
              kind,
              { count: sorted.length, p50: percentile(sorted, 0.5), p99: percentile(sorted, 0.99) }
            ] as const
          })
      )
    },
    excused: () => failures.filter(isExcused).length,
    /** Unexplained failures, a sentence each. */
    problems: (start: number) => [
      ...unexpected,
      ...failures
        .filter((failure) => !isExcused(failure))
        .map(
          ({ from, kind, status, to }) =>
            `${kind}: ${status ?? "no answer"} after ${Math.round(to - from)} ms, ${Math.round((from - start) / 1000)} s after the start`
        )
    ]
  }
}
export type Requests = ReturnType<typeof make>
