import { assert, describe, it, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Http from "node:http"
import type { AddressInfo } from "node:net"
import * as Server from "#layers/Server.ts"
import * as Telemetry from "#layers/Telemetry.ts"
import { optional } from "#schema/Strict.ts"
import { DependencyDown } from "#src/database/Dependency.ts"
import { parsed } from "#test/support/Json.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

interface Received {
  readonly path: string
  readonly headers: Http.IncomingHttpHeaders
  readonly body: string
}

/** Stands in for an OTLP collector: takes what is posted and keeps it. */
class Collector extends Context.Tag("test/Collector")<
  Collector,
  { readonly url: string; readonly received: ReadonlyArray<Received> }
>() {}
const collector = Layer.scoped(
  Collector,
  Effect.gen(function* () {
    const received: Array<Received> = []
    const server = yield* Effect.acquireRelease(
      Effect.async<Http.Server>((resume) => {
        const server = Http.createServer((request, response) => {
          let body = ""
          request.on("data", (chunk) => (body += String(chunk)))
          request.on("end", () => {
            received.push({ path: request.url ?? "", headers: request.headers, body })
            response.writeHead(200, { "content-type": "application/json" }).end("{}")
          })
        })
        server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
      }),
      (server) => Effect.sync(() => (server.close(), server.closeAllConnections()))
    )
    return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, received }
  })
)

const settingsFor = (url: string) => ({
  ...TestApp.settings,
  otlpEndpoint: Option.some(`${url}/`),
  otlpHeaders: Option.some(Redacted.make("authorization=Bearer%20collector-key, x-tenant=7")),
  serviceName: "ampoule-test"
})
/** Spans are asked for here: databases of tests are made for servers that trace nothing. */
const exporting = Layer.unwrapEffect(
  Effect.map(Collector, ({ url }) =>
    Telemetry.exporting(settingsFor(url), { spans: "20 millis", metrics: "20 millis" })
  )
).pipe(Layer.merge(Layer.setTracerEnabled(true)))

const traced = Server.layer({ host: "127.0.0.1", port: 0, traced: true, measured: true }).pipe(
  Layer.provide(exporting),
  Layer.provideMerge(Layer.mergeAll(TestApp.backends, TestApp.config(), collector))
)

/** OTLP/JSON, as far as it is looked at (opentelemetry-proto, trace/v1 and metrics/v1). */
const Attributes = Schema.Array(
  Schema.Struct({ key: Schema.String, value: Schema.Record({ key: Schema.String, value: Schema.Unknown }) })
)
const Span = Schema.Struct({
  traceId: Schema.String,
  spanId: Schema.String,
  parentSpanId: optional(Schema.String),
  name: Schema.String,
  kind: Schema.Number,
  attributes: Attributes,
  events: Schema.Array(Schema.Struct({ name: Schema.String })),
  status: Schema.Struct({ code: Schema.Number, message: optional(Schema.String) })
})
type Span = typeof Span.Type
const tracesOf = parsed(
  Schema.Struct({
    resourceSpans: Schema.Array(
      Schema.Struct({ scopeSpans: Schema.Array(Schema.Struct({ spans: Schema.Array(Span) })) })
    )
  })
)
const metricsOf = parsed(
  Schema.Struct({
    resourceMetrics: Schema.Array(Schema.Struct({ resource: Schema.Struct({ attributes: Attributes }) }))
  })
)
const spansOf = (received: ReadonlyArray<Received>): ReadonlyArray<Span> =>
  received
    .filter(({ path }) => path === "/v1/traces")
    .flatMap(({ body }) => tracesOf(body).resourceSpans)
    .flatMap(({ scopeSpans }) => scopeSpans)
    .flatMap(({ spans }) => spans)
const attributesOf = (span: Span) =>
  Object.fromEntries(span.attributes.map(({ key, value }) => [key, value["stringValue"] ?? value["intValue"]]))

/** Looks until there is something. */
const eventually = <A>(look: () => A | undefined): Effect.Effect<A> =>
  Effect.suspend(() => {
    const match = look()
    return match === undefined ? Effect.delay(eventually(look), "10 millis") : Effect.succeed(match)
  })

/** The spans that have arrived, once the wanted ones are among them. */
const spans = (wanted: (span: Span) => boolean) =>
  Effect.flatMap(Collector, ({ received }) =>
    eventually(() => {
      const matches = spansOf(received).filter(wanted)
      return matches.length > 0 ? matches : undefined
    })
  )
const spanOf = (answer: TestApp.Answer) =>
  Effect.map(
    spans((span) => attributesOf(span)["ampoule.request_id"] === answer.headers.get("x-request-id")),
    ([span]) => span
  )

describe("traces", () => {
  layer(traced, { excludeTestServices: true })((it) => {
    it.effect("have one span per request: template, method, status and request id, statements below it", () =>
      Effect.gen(function* () {
        const project = yield* World.project()
        const bearer = (yield* World.token({ team: project.team })).text
        const place = { projectId: project.id, environment: "development" }
        const created = yield* TestApp.post("/secrets", { bearer, json: { ...place, key: "A_KEY", value: "v" } })
        const span = yield* spanOf(created)
        assert.deepStrictEqual(attributesOf(span), {
          "http.request.method": "POST",
          "http.route": "/secrets",
          "http.response.status_code": 201,
          "ampoule.request_id": created.headers.get("x-request-id")
        })
        assert.deepStrictEqual([span.name, span.kind, span.status.code], ["POST /secrets", 2, 1])
        assert.isUndefined(span.parentSpanId)
        const below = yield* spans(({ traceId, name }) => traceId === span.traceId && name === "sql.execute")
        assert.isTrue(below.some((one) => String(attributesOf(one)["db.query.text"]).includes("INSERT INTO")))
      })
    )

    it.effect("continue the caller's, unless it says that it is not recorded, or is not hex", () =>
      Effect.gen(function* () {
        const traceId = "0af7651916cd43dd8448eb211c80319c"
        const ask = (traceparent: string) => TestApp.get("/health/live", { headers: { traceparent } })
        const span = yield* spanOf(yield* ask(`00-${traceId}-b7ad6b7169203331-01`))
        assert.deepStrictEqual([span.traceId, span.parentSpanId], [traceId, "b7ad6b7169203331"])
        const unsampled = yield* ask(`00-${traceId}-b7ad6b7169203332-00`)
        const odd = yield* spanOf(yield* ask("00-canary-b7ad6b7169203333-01"))
        assert.match(odd.traceId, /^[0-9a-f]{32}$/)
        assert.isUndefined(odd.parentSpanId)
        const { received } = yield* Collector
        assert.notInclude(JSON.stringify(received), String(unsampled.headers.get("x-request-id")))
      })
    )

    it.effect("and metrics hold no value, credential, name, address or header of a request", () =>
      Effect.gen(function* () {
        const canary = (what: string) => `CANARY${what}${Math.random().toString(36).slice(2)}`
        const person = yield* World.person({ email: `${canary("mail")}@example.com`, name: canary("name") })
        const team = yield* World.team({ owner: person, name: canary("team") })
        const project = yield* World.project({ team })
        const bearer = (yield* World.token({ team, name: canary("token") })).text
        const session = (yield* World.session(person)).text
        const place = { projectId: project.id, environment: "development" }
        const query = new URLSearchParams({ ...place, key: "CANARY_KEY" })
        const headers = { "user-agent": canary("agent"), referer: canary("referer"), "x-canary": canary("header") }
        const json = { ...place, key: "CANARY_KEY", value: canary("value") }
        yield* TestApp.post("/secrets", { bearer, json, headers })
        yield* TestApp.post("/secrets", { bearer, json })
        yield* TestApp.get(`/secrets/value?${query}`, { bearer, headers })
        yield* TestApp.get(`/secrets/inject?${query}`, { bearer })
        yield* TestApp.post("/secrets", { bearer, json: { ...json, value: 7, CANARY: 1 } })
        yield* TestApp.post("/secrets", { bearer, body: '{"CANARY', headers: { "content-type": "application/json" } })
        yield* TestApp.get(`/setup?code=${canary("code")}`)
        yield* TestApp.get(`/invite?code=${canary("code")}`, { session })
        yield* TestApp.post("/auth/session", { json: { email: person.email, password: canary("password") } })
        yield* TestApp.get(`/${canary("path")}`, { session })
        const last = yield* TestApp.get("/me", { session })
        yield* spanOf(last)
        yield* Effect.sleep("100 millis")
        const { received } = yield* Collector
        const text = JSON.stringify(received)
        assert.notInclude(text, "CANARY")
        for (const credential of [bearer, session]) assert.notInclude(text, credential.slice(7, 40))
        for (const id of [project.id, team.id, person.id]) assert.notInclude(text, id)
        const keys = new Set(spansOf(received).flatMap(({ attributes }) => attributes.map(({ key }) => key)))
        const expected = [
          "ampoule.request_id",
          "db.operation.name",
          "db.query.text",
          "db.system.name",
          "http.request.method",
          "http.response.status_code",
          "http.route",
          // The exporter's own, on each span that failed.
          "span.label",
          "status.interrupted"
        ]
        assert.includeMembers(expected, [...keys])
      })
    )

    it.effect("metrics go the same way, with the headers of the collector and a name for each process", () =>
      Effect.gen(function* () {
        yield* TestApp.get("/health/live")
        const { received } = yield* Collector
        const request = yield* eventually(() =>
          received.find(({ body, path }) => path === "/v1/metrics" && body.includes("ampoule_http_requests_total"))
        )
        assert.strictEqual(request.headers["authorization"], "Bearer collector-key")
        assert.strictEqual(request.headers["x-tenant"], "7")
        const { resource } = metricsOf(request.body).resourceMetrics[0]
        const attributes = Object.fromEntries(
          resource.attributes.map(({ key, value }) => [key, String(value["stringValue"])])
        )
        assert.strictEqual(attributes["service.name"], "ampoule-test")
        assert.match(attributes["service.instance.id"], /^[0-9a-f-]{36}$/)
      })
    )
  })

  const alone = Layer.provideMerge(exporting, collector).pipe(Layer.provideMerge(TestApp.backends))
  layer(alone, { excludeTestServices: true })((it) => {
    const asRequest = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
      Effect.withSpan(effect, "request", { kind: "server" })

    it.effect("tell a failure by its name and place, not by its message", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* sql`SELECT ${"CANARY"}::text::int`.pipe(asRequest, Effect.exit)
        yield* Effect.log("CANARY").pipe(Effect.zipRight(Effect.die(new Error("CANARY"))), asRequest, Effect.exit)
        const cause = new Error("CANARY")
        yield* new DependencyDown({ dependency: "vault", cause }).pipe(asRequest, Effect.exit)
        const matches = yield* spans(({ status }) => status.message?.startsWith("DependencyDown") === true)
        assert.strictEqual(matches[0].status.message, "DependencyDown dependency=vault")
        const { received } = yield* Collector
        const failed = spansOf(received).filter(({ status }) => status.code === 2)
        assert.isAtLeast(failed.length, 4)
        assert.notInclude(JSON.stringify(received), "CANARY")
      })
    )

    it.effect("leave out what belongs to no request", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* sql`SELECT 'nobody asked'`
        yield* asRequest(sql`SELECT 'somebody asked'`)
        yield* spans((span) => JSON.stringify(span).includes("somebody asked"))
        const { received } = yield* Collector
        assert.notInclude(JSON.stringify(received), "nobody asked")
      })
    )
  })

  it.effect("are not even made when nobody wants them", () =>
    Effect.gen(function* () {
      const span = yield* Effect.useSpan("request", Effect.succeed)
      assert.strictEqual(span.spanId, "noop")
    }).pipe(Effect.provide(Telemetry.exporting(TestApp.settings)))
  )
})
