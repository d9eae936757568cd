/**
 * Metrics of the service, with the names of `/metrics` and OTLP. Labels come from closed sets (route templates,
 * methods, statuses, own names): no request content, and no growth with the number of users. Counting is on the hot
 * path: plain functions over metrics that are looked up once.
 */
import * as Metric from "effect/Metric"
import * as MetricBoundaries from "effect/MetricBoundaries"
import * as MetricKey from "effect/MetricKey"
import * as MetricLabel from "effect/MetricLabel"

interface Definition {
  readonly name: string
  readonly type: "counter" | "gauge" | "histogram"
  readonly help: string
  readonly labels: ReadonlyArray<string>
}
const definitions: Array<Definition> = []
/** Every metric of the service, including those without a value yet. */
export const catalogue: ReadonlyArray<Definition> = definitions

const noTags: ReadonlyArray<MetricLabel.MetricLabel> = []

/** One metric per combination of labels, cached by their text. `Metric.tagged` would search the registry each time. */
const byLabels = <M>(names: ReadonlyArray<string>, make: (labels: ReadonlyArray<MetricLabel.MetricLabel>) => M) => {
  const metrics = new Map<string, M>()
  return (...values: ReadonlyArray<string>): M => {
    const key = values.length === 1 ? values[0] : values.join("\n")
    let metric = metrics.get(key)
    if (metric === undefined) {
      metric = make(names.map((name, i) => MetricLabel.make(name, values[i])))
      metrics.set(key, metric)
    }
    return metric
  }
}

const counter = (name: string, help: string, ...labels: ReadonlyArray<string>) => {
  definitions.push({ name, type: "counter", help, labels })
  const key = MetricKey.counter(name, { description: help, incremental: true })
  const of = byLabels(labels, (tags) => Metric.fromMetricKey(MetricKey.taggedWithLabels(key, tags)))
  return (by: number, ...values: ReadonlyArray<string>) => of(...values).unsafeUpdate(by, noTags)
}
const gauge = (name: string, help: string, ...labels: ReadonlyArray<string>) => {
  definitions.push({ name, type: "gauge", help, labels })
  const key = MetricKey.gauge(name, { description: help })
  const of = byLabels(labels, (tags) => Metric.fromMetricKey(MetricKey.taggedWithLabels(key, tags)))
  return (value: number, ...values: ReadonlyArray<string>) => of(...values).unsafeUpdate(value, noTags)
}
const histogram = (name: string, help: string, bounds: ReadonlyArray<number>, ...labels: ReadonlyArray<string>) => {
  definitions.push({ name, type: "histogram", help, labels })
  const key = MetricKey.histogram(name, MetricBoundaries.fromIterable(bounds), help)
  const of = byLabels(labels, (tags) => Metric.fromMetricKey(MetricKey.taggedWithLabels(key, tags)))
  return (value: number, ...values: ReadonlyArray<string>) => of(...values).unsafeUpdate(value, noTags)
}

const seconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const sizes = [1, 2, 4, 8, 16, 32, 64, 128, 256]

const buildInfo = gauge(
  "ampoule_build_info",
  "1, labelled with the version that runs and its commit.",
  "version",
  "commit"
)
/** `commit`: undefined where the build knows none; Prometheus takes an empty label for an absent one. */
export const build = (version: string, commit: string | undefined) => buildInfo(1, version, commit ?? "")

const httpRequests = counter("ampoule_http_requests_total", "Requests answered.", "route", "method", "status")
const httpDurations = histogram(
  "ampoule_http_request_duration_seconds",
  "From the request's header to the last byte of its answer; event streams are not timed.",
  seconds,
  "route",
  "method"
)
const httpInFlight = gauge("ampoule_http_requests_in_flight", "Requests under way, event streams included.")
let inFlight = 0
export const requestStarted = () => httpInFlight(++inFlight)
/** `route` is the route's template. `millis` is undefined for an event stream. */
export const requestEnded = (route: string, method: string, status: number, millis: number | undefined) => {
  httpInFlight(--inFlight)
  httpRequests(1, route, method, String(status))
  if (millis !== undefined) httpDurations(millis / 1000, route, method)
}

const auditSeconds = histogram("ampoule_audit_commit_seconds", "Time to commit a batch of audit entries.", seconds)
const auditSizes = histogram("ampoule_audit_batch_size", "Audit entries committed together.", sizes)
export const auditCommitted = (entries: number, millis: number) => {
  auditSeconds(millis / 1000)
  auditSizes(entries)
}

const auditAlarms = counter("ampoule_audit_alarms_total", "Streams of the audit trail that were found altered.")
export const auditAltered = () => auditAlarms(1)

const authSizes = histogram("ampoule_auth_batch_size", "Credentials looked up by one statement.", sizes)
export const credentialsLookedUp = (batch: number) => authSizes(batch)

const snapshotHits = counter("ampoule_snapshot_hits_total", "Resolved environments served from memory.")
const snapshotMisses = counter("ampoule_snapshot_misses_total", "Resolved environments not found in memory.")
export const snapshotLookedUp = (hit: boolean) => (hit ? snapshotHits(1) : snapshotMisses(1))

const rateLimits = counter(
  "ampoule_rate_limited_total",
  "Refused by a rate limit, by what it limits; `refusals` limits how often a denial goes into the audit trail.",
  "limit"
)
/** A bucket is named `<limit>:<subject>`, or `sign-in:email:<subject>`. */
export const rateLimited = (bucket: string) => rateLimits(1, bucket.slice(0, Math.max(0, bucket.indexOf(":"))))

const vaultCalls = counter("ampoule_vault_calls_total", "Calls of the vault.", "call", "outcome")
const vaultSeconds = histogram("ampoule_vault_call_seconds", "Time of a call of the vault.", seconds, "call")
export const vaultCalled = (call: string, outcome: "ok" | "unavailable" | "refused", millis: number) => {
  vaultCalls(1, call, outcome)
  vaultSeconds(millis / 1000, call)
}

const poolConnections = gauge("ampoule_database_pool_connections", "Open connections to Postgres.", "state")
const poolWaiting = gauge("ampoule_database_pool_waiting", "Queries that wait for a connection.")
const poolSize = gauge("ampoule_database_pool_size", "Connections to Postgres at most.")
export const databasePool = (pool: {
  readonly total: number
  readonly idle: number
  readonly waiting: number
  readonly size: number
}) => {
  poolConnections(pool.idle, "idle")
  poolConnections(pool.total - pool.idle, "busy")
  poolWaiting(pool.waiting)
  poolSize(pool.size)
}

const cacheIsUp = gauge("ampoule_cache_up", "Whether Redis answers; absent when none is configured.")
export const cacheUp = (up: boolean) => cacheIsUp(up ? 1 : 0)
const cacheCalls = counter("ampoule_cache_calls_total", "Calls of Redis, by what came of them.", "outcome")
export const cacheCall = (outcome: "ok" | "late" | "error") => cacheCalls(1, outcome)

const cpuSeconds = counter("process_cpu_seconds_total", "User and system CPU time of the process.")
const residentBytes = gauge("process_resident_memory_bytes", "Resident memory of the process.")
const startTime = gauge("process_start_time_seconds", "Start of the process, in seconds since 1970.")
const openFds = gauge("process_open_fds", "Open file descriptors (Linux).")
const heapUsed = gauge("nodejs_heap_size_used_bytes", "Used heap of V8.")
const heapTotal = gauge("nodejs_heap_size_total_bytes", "Heap of V8.")
const externalBytes = gauge("nodejs_external_memory_bytes", "Memory of buffers and other objects outside the heap.")
const lagMean = gauge("nodejs_eventloop_lag_mean_seconds", "Mean delay of the event loop since the last reading.")
const lagP99 = gauge("nodejs_eventloop_lag_p99_seconds", "99th percentile of that delay.")
const lagMax = gauge("nodejs_eventloop_lag_max_seconds", "Longest delay.")
export const processState = (state: {
  /** CPU time since the last call. */
  readonly cpuSeconds: number
  readonly startTime: number
  readonly openFds: number | undefined
  readonly memory: NodeJS.MemoryUsage
  readonly lag: { readonly mean: number; readonly p99: number; readonly max: number }
}) => {
  cpuSeconds(state.cpuSeconds)
  startTime(state.startTime)
  if (state.openFds !== undefined) openFds(state.openFds)
  residentBytes(state.memory.rss)
  heapUsed(state.memory.heapUsed)
  heapTotal(state.memory.heapTotal)
  externalBytes(state.memory.external)
  lagMean(state.lag.mean)
  lagP99(state.lag.p99)
  lagMax(state.lag.max)
}
