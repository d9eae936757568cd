import { assert, describe, it, layer } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { readFileSync } from "node:fs"
import * as MetricsListener from "#layers/MetricsListener.ts"
import * as Server from "#layers/Server.ts"
import * as Telemetry from "#layers/Telemetry.ts"
import * as Metrics from "#src/telemetry/Metrics.ts"
import * as Prometheus from "#src/telemetry/Prometheus.ts"
import { freePort } from "#test/support/FreePort.ts"
import * as MovableClock from "#test/support/MovableClock.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

class MetricsPort extends Context.Tag("test/MetricsPort")<MetricsPort, number>() {}

const measured = Layer.unwrapEffect(
  Effect.map(freePort, (port) => {
    const settings = { ...TestApp.settings, metricsPort: Option.some(port) }
    return Server.layer({ host: "127.0.0.1", port: 0, traced: false, measured: Telemetry.measured(settings) }).pipe(
      Layer.provideMerge(Layer.mergeAll(TestApp.backends, TestApp.config(), Layer.succeed(MetricsPort, port))),
      Layer.provideMerge(Layer.merge(MetricsListener.layer(settings), Telemetry.process(settings))),
      // A slow machine must not be given a new window of the rate limits meanwhile.
      Layer.provide(MovableClock.layer)
    )
  })
)

const ask = (path: string, method = "GET") =>
  Effect.flatMap(MetricsPort, (port) => Effect.promise(() => fetch(`http://127.0.0.1:${port}${path}`, { method })))
const scrape = Effect.flatMap(ask("/metrics"), (answer) => Effect.promise(() => answer.text()))

/** The value of one series, as written in the text. */
const valueOf = (text: string, series: string) =>
  Number(
    text
      .split("\n")
      .find((line) => line.startsWith(`${series} `))
      ?.split(" ")
      .at(-1)
  )
/**
 * How much a series grew since `before`: the counters are those of the process, which other files of tests share. NaN
 * when the series is missing.
 */
const growth = (before: string, text: string, series: string) =>
  valueOf(text, series) - (Number.isNaN(valueOf(before, series)) ? 0 : valueOf(before, series))
const requests = (route: string, method: string, status: number) =>
  `ampoule_http_requests_total{route="${route}",method="${method}",status="${status}"}`

describe("metrics", () => {
  layer(measured, { excludeTestServices: true })((it) => {
    it.effect("count and time requests by template, method and status", () =>
      Effect.gen(function* () {
        const before = yield* scrape
        const project = yield* World.project()
        const bearer = (yield* World.token({ team: project.team })).text
        const place = { projectId: project.id, environment: "development" }
        const created = yield* TestApp.post("/secrets", { bearer, json: { ...place, key: "A_KEY", value: "hunter2" } })
        assert.strictEqual(created.status, 201)
        const query = new URLSearchParams(place)
        for (let i = 0; i < 3; i++) yield* TestApp.get(`/secrets/inject?${query}`, { bearer })
        yield* TestApp.get("/secrets/inject?nonsense", { bearer })
        yield* TestApp.get("/secrets/inject")
        const text = yield* scrape
        assert.strictEqual(growth(before, text, requests("/secrets", "POST", 201)), 1)
        assert.strictEqual(growth(before, text, requests("/secrets/inject", "GET", 200)), 3)
        assert.strictEqual(growth(before, text, requests("/secrets/inject", "GET", 400)), 1)
        assert.strictEqual(growth(before, text, requests("/secrets/inject", "GET", 401)), 1)
        const timed = 'ampoule_http_request_duration_seconds_count{route="/secrets/inject",method="GET"}'
        assert.strictEqual(growth(before, text, timed), 5)
        assert.strictEqual(growth(before, text, "ampoule_snapshot_hits_total"), 2)
        assert.strictEqual(growth(before, text, "ampoule_snapshot_misses_total"), 1)
        assert.isAtLeast(growth(before, text, "ampoule_audit_batch_size_sum"), 3)
        assert.isAtLeast(growth(before, text, "ampoule_auth_batch_size_sum"), 5)
        assert.isAbove(valueOf(text, "process_resident_memory_bytes"), 1_000_000)
        assert.isAbove(valueOf(text, "process_cpu_seconds_total"), 0)
        assert.strictEqual(valueOf(text, "ampoule_http_requests_in_flight"), 0)
      })
    )

    it.effect("do not grow with what is asked for, and hold nothing of it", () =>
      Effect.gen(function* () {
        const team = yield* World.team()
        const bearer = (yield* World.token({ team })).text
        const round = (n: number) =>
          Effect.all([
            TestApp.get(`/canary-${n}/x?canary=${n}`, { bearer }),
            TestApp.get(`/secrets/inject?canary=${n}`, { bearer, headers: { "user-agent": `canary-${n}` } }),
            TestApp.del(`/projects/canary-${n}`, { bearer }),
            TestApp.get(`/teams/canary-${n}/members`, { bearer })
          ])
        const first = yield* scrape
        yield* round(0)
        const series = (text: string) => text.match(/^ampoule_http_\w+\{[^}]*\}/gm)
        const before = series(yield* scrape)
        for (let n = 1; n < 10; n++) yield* round(n)
        const text = yield* scrape
        assert.deepStrictEqual(series(text), before)
        assert.notInclude(text, "canary")
        assert.notInclude(text, team.id)
        assert.notInclude(text, bearer)
        assert.strictEqual(growth(first, text, requests("none", "GET", 404)), 10)
      })
    )

    it.effect("tell refusals by what is limited, never by whom", () =>
      Effect.gen(function* () {
        const before = yield* scrape
        const bearer = (yield* World.token({ team: yield* World.team() })).text
        let refused = 0
        for (let i = 0; i < 60; i++) if ((yield* TestApp.get("/me/verify", { bearer })).status === 429) refused++
        assert.strictEqual(refused, 10)
        assert.strictEqual(growth(before, yield* scrape, 'ampoule_rate_limited_total{limit="credential"}'), refused)
        for (const line of (yield* scrape).split("\n")) {
          if (line.startsWith("ampoule_rate_limited_total")) assert.match(line, /\{limit="[a-z-]+"\} \d+$/)
        }
      })
    )

    it.effect("are served on their own port, by GET, at one address", () =>
      Effect.gen(function* () {
        const answer = yield* ask("/metrics")
        assert.strictEqual(answer.headers.get("content-type"), "text/plain; version=0.0.4; charset=utf-8")
        assert.strictEqual((yield* ask("/")).status, 404)
        assert.strictEqual((yield* ask("/metrics?x")).status, 404)
        assert.strictEqual((yield* ask("/metrics", "POST")).status, 404)
        assert.strictEqual((yield* TestApp.get("/metrics")).status, 404)
      })
    )

    it.effect("are text that Prometheus reads: typed families, one block each, buckets that only grow", () =>
      Effect.gen(function* () {
        const text = yield* scrape
        const blocks = text.split(/^(?=# HELP )/m)
        const names = blocks.map(
          (block) => /^# HELP (\w+) \S.*\n# TYPE \1 (?:counter|gauge|histogram)\n/.exec(block)?.[1]
        )
        assert.notInclude(names, undefined)
        assert.strictEqual(new Set(names).size, names.length)
        for (const [i, block] of blocks.entries()) {
          let last: { readonly series: string; readonly value: number } | undefined
          for (const line of block.trimEnd().split("\n").slice(2)) {
            const [, name, suffix, labels, value] =
              /^(\w+?)((?:_bucket|_sum|_count)?)(?:\{(.*)\})? (-?[\d.e+-]+)$/.exec(line) ?? assert.fail(line)
            assert.strictEqual(`${name}${suffix}`.startsWith(String(names[i])), true, line)
            if (suffix !== "_bucket") continue
            const series = labels.replace(/,?le="[^"]*"/, "")
            if (last?.series === series) assert.isAtLeast(Number(value), last.value, line)
            last = { series, value: Number(value) }
          }
          if (block.includes(" histogram\n")) assert.match(block, /le="\+Inf"/)
        }
      })
    )
  })

  it.prop("of several processes differ by a label, with any text", [FastCheck.string()], ([name]) => {
    const family: Prometheus.Family = {
      name: "ampoule_x",
      type: "counter",
      help: "A\nB",
      samples: [{ suffix: "", labels: [["l", name]], value: 2 }]
    }
    const text = Prometheus.render(
      Prometheus.mergeProcesses("worker", [
        ["1", [family]],
        ["2", [family]]
      ])
    )
    const lines = text.trimEnd().split("\n")
    assert.strictEqual(lines.length, 4)
    for (const [i, line] of lines.slice(2).entries()) {
      const quoted = /^ampoule_x\{l="(.*)",worker="(\d)"\} 2$/s.exec(line)
      const read = quoted?.[1].replaceAll(/\\(.)/gs, (_, c: string) => (c === "n" ? "\n" : c))
      assert.deepStrictEqual([read, quoted?.[2]], [name, String(i + 1)])
    }
  })

  it("on the dashboard all exist, with the labels that it asks for", () => {
    const labelsByName = new Map(
      Metrics.catalogue.flatMap(({ labels, name, type }) =>
        (type === "histogram" ? ["_bucket", "_sum", "_count"] : [""]).map((suffix) => [
          `${name}${suffix}`,
          new Set([...labels, "job", "instance", "worker", ...(suffix === "_bucket" ? ["le"] : [])])
        ])
      )
    )
    const dashboard = readFileSync("deploy/grafana-dashboard.json", "utf8")
    const expressions = [...dashboard.matchAll(/"(?:expr|query|definition)": ("(?:[^"\\]|\\.)*")/g)].map(([, json]) =>
      String(JSON.parse(json))
    )
    const used = new Set<string>()
    for (const expression of expressions) {
      for (const [, name, selector] of expression.matchAll(/\b((?:ampoule|process|nodejs)_\w+)(?:\{([^}]*)\})?/g)) {
        used.add(name)
        const labels = labelsByName.get(name)
        assert.isDefined(labels, name)
        for (const [, label] of selector?.matchAll(/(\w+)=/g) ?? [])
          assert.isTrue(labels?.has(label), `${name}: ${label}`)
        for (const [, by] of expression.matchAll(/by \(([^)]*)\)/g)) {
          const some = [...labelsByName].some(([, labels]) => by.split(", ").every((label) => labels.has(label)))
          assert.isTrue(some, by)
        }
      }
    }
    const names = new Set([...used].map((name) => name.replace(/_(?:bucket|sum|count)$/, "")))
    assert.deepStrictEqual(
      Metrics.catalogue.map(({ name }) => name).filter((name) => !names.has(name)),
      []
    )
  })
})
