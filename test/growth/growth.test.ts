/**
 * Cost of each route where a team has little, much and very much: time, statements, and whether one of them reads a
 * whole table. `npm run test:growth` goes up to a million secrets and entries and writes `test/records/growth.json`
 * (`AMPOULE_GROWTH_REPORT`); a run of the long tests goes as far as it needs to tell an index from none.
 */
// It hears what connects after it.
import { during } from "#test/support/Statements.ts"
import * as SqlClient from "@effect/sql/SqlClient"
import * as HttpApi from "@effect/platform/HttpApi"
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as fs from "node:fs"
import { version } from "#src/Release.ts"
import { ServerApi } from "#schema/ServerApi.ts"
import * as Dashboard from "#src/dashboard/Dashboard.ts"
import * as Docs from "#src/docs/Docs.ts"
import { RateLimits } from "#src/limits/RateLimiter.ts"
import * as Rows from "#src/database/Rows.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as TestDatabase from "#test/support/TestDatabase.ts"
import * as Filled from "./Filled.ts"
import * as Pages from "./Pages.ts"
import * as Routes from "./Routes.ts"
import * as Scene from "./Scene.ts"

const reportFile = process.env["AMPOULE_GROWTH_REPORT"]
/** Where times are kept. */
const repeats = reportFile === undefined ? 0 : 9

const sizes: ReadonlyArray<Filled.Size> =
  reportFile === undefined
    ? [
        { secrets: 100, tokens: 100, environments: 5, entries: 1_000 },
        { secrets: 20_000, tokens: 5_000, environments: 4_000, entries: 30_000 }
      ]
    : [
        { secrets: 100, tokens: 100, environments: 1, entries: 1_000 },
        { secrets: 10_000, tokens: 1_000, environments: 100, entries: 100_000 },
        { secrets: 1_000_000, tokens: 100_000, environments: 10_000, entries: 1_000_000 }
      ]

/** Tables that grow with use. A statement that reads one of them as a whole gets slower with each row. */
const growing = ["audit_entries", "secrets", "secret_versions", "secret_counters", "api_tokens", "environments"]

/** Routes that show or count all secrets of a team read them all, and the team has half of the secrets here. */
const ofSecrets = ["secrets", "secret_versions", "environments"]
const allOfTheTeam = new Set([
  "GET /teams/:teamId/incident-report",
  "POST /teams/:teamId/incidents",
  "GET /app/teams/:teamId/incidents/new",
  "GET /app/teams/:teamId/settings"
])

/** The plan that holds for all parameters: the one that a prepared statement ends up with. */
const wholeTables = Effect.fnUntraced(function* (text: string) {
  if (!/^\s*(?:SELECT|WITH|INSERT|UPDATE|DELETE)\b/i.test(text)) return []
  const sql = yield* SqlClient.SqlClient
  const parameters = Math.max(0, ...Array.from(text.matchAll(/\$(\d+)/g), ([, n]) => Number(n)))
  const nulls = parameters === 0 ? "" : `(${Array.from({ length: parameters }, () => "NULL").join(",")})`
  const plan = yield* sql.withTransaction(
    Effect.gen(function* () {
      yield* sql.unsafe("SET LOCAL plan_cache_mode = force_generic_plan")
      yield* sql.unsafe(`PREPARE looked_at AS ${text}`)
      const rows = yield* sql.unsafe<Record<string, string>>(`EXPLAIN EXECUTE looked_at${nulls}`)
      yield* sql.unsafe("DEALLOCATE looked_at")
      return rows.map((row) => Object.values(row)[0]).join("\n")
    })
  )
  const whole = growing.filter((table) => new RegExp(`Seq Scan on ${table}\\b`).test(plan))
  return whole.map((table) => ({ table, text: text.trim().replaceAll(/\s+/g, " ") }))
}, Effect.orDie)

/** Statements of a pass over the trail, which a page that tells of reads begins when the last one is old. */
const passes = 5

interface Cost {
  readonly millis: number
  readonly statements: number
  readonly rows: number
  readonly whole: ReadonlyArray<{ readonly table: string; readonly text: string }>
}

const median = (list: ReadonlyArray<number>) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)] ?? 0

const costOf = Effect.fnUntraced(function* (name: string, ask: Routes.Ask) {
  const asking = Effect.map(ask, (once) =>
    Effect.tap(once, (answer) => assert.isBelow(answer.status, 400, `${name}: ${answer.text.slice(0, 500)}`))
  )
  yield* Effect.repeatN(Effect.flatten(asking), 2)
  // Background work of the server is counted too, but not each time.
  let heard = yield* during(yield* asking)
  for (let i = 0; i < 2; i++) {
    const again = yield* during(yield* asking)
    if (again.length < heard.length) heard = again
  }
  const times: Array<number> = []
  for (let i = 0; i < repeats; i++) {
    const once = yield* asking
    const started = performance.now()
    yield* once
    times.push(performance.now() - started)
  }
  const scans = yield* Effect.forEach(new Set(heard.map(({ text }) => text)), wholeTables)
  const cost: Cost = {
    millis: Math.round(median(times) * 10) / 10,
    statements: heard.length,
    rows: heard.reduce((sum, { rows }) => sum + rows, 0),
    whole: scans.flat()
  }
  return cost
})

/** The first report after the trail grew reads it, part by part, for exposure. */
const settled = (ask: Routes.Ask) => {
  const statements = Effect.map(Effect.flatMap(ask, during), ({ length }) => length)
  const twice = Effect.zipWith(statements, statements, (first, second) => first === second)
  return Effect.repeat(twice, { until: (same) => same, times: 100 })
}

const app = TestApp.layer.pipe(Layer.provide(Layer.succeed(RateLimits, "off")))

/** A route without what a request to it adds for another question of the same route. */
const routeOf = (name: string) => name.replace(/\?.*$/, "")

layer(app, { excludeTestServices: true, timeout: 120_000 })("a team that grows", (it) => {
  it.effect("is asked at every route and page, but for those that are left out for a reason", () =>
    Effect.gen(function* () {
      const scene = yield* Scene.make
      const declared: Array<string> = []
      HttpApi.reflect(ServerApi, {
        onGroup: () => {},
        onEndpoint: ({ endpoint }) => void declared.push(`${endpoint.method} ${endpoint.path}`)
      })
      const routes = [...Object.keys(Routes.of(scene)), ...Object.keys(Routes.omissions)]
      assert.deepStrictEqual([...new Set(routes.map(routeOf))].sort(), declared.sort())
      const ofDashboard = [...Dashboard.pages.routes].filter(({ method }) => method === "GET")
      const expected = [...ofDashboard.map(({ path }) => path), ...Object.values(Docs.paths)]
      const pages = [...Object.keys(Pages.of(scene)), ...Object.keys(Pages.omissions)]
      assert.deepStrictEqual([...new Set(pages.map(routeOf))].sort(), expected.map((path) => `GET ${path}`).sort())
    })
  )

  // The embedded database has the same planner, and would take minutes to fill.
  it.effect.skipIf(!TestDatabase.onPostgres)(
    "asks as many statements as before, and none of them reads a whole table",
    () =>
      Effect.gen(function* () {
        const scene = yield* Scene.make
        const routes = { ...Routes.of(scene), ...Pages.of(scene) }
        const grow = Filled.grow(scene.project)
        const costs: Record<string, Array<Cost>> = {}
        for (const size of sizes) {
          yield* grow(size)
          yield* settled(routes["GET /app/projects/:projectId/exposure"])
          for (const [name, ask] of Object.entries(routes)) (costs[name] ??= []).push(yield* costOf(name, ask))
        }
        if (reportFile !== undefined) yield* report(reportFile, costs)
        const last = sizes.length - 1
        const whole = Object.entries(costs).flatMap(([name, of]) =>
          of[last].whole
            .filter(({ table }) => !(allOfTheTeam.has(name) && ofSecrets.includes(table)))
            .map(({ table, text }) => `${name}: ${table}, in ${text}`)
        )
        assert.deepStrictEqual(whole, [])
        const grew = ([, of]: readonly [string, ReadonlyArray<Cost>]) => of[last].statements > of[0].statements + passes
        // Background work may take longer than three requests: a second later it is done.
        for (let i = 0; i < 5; i++) {
          for (const [name] of Object.entries(costs).filter(grew)) {
            yield* Effect.sleep("1 second")
            const again = yield* costOf(name, routes[name])
            if (again.statements < costs[name][last].statements) costs[name][last] = again
          }
        }
        const more = Object.entries(costs).filter(grew)
        assert.deepStrictEqual(
          more.map(([name, of]) => `${name}: ${of.map(({ statements }) => statements).join(", ")}`),
          []
        )
      }),
    3_600_000
  )
})

const SizeRow = Schema.Struct({ name: Schema.String, table: Schema.Number, indexes: Schema.Number })

/** MiB of the tables that grow, and of their indexes. */
const space = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  Rows.findAll(
    SizeRow,
    sql`
      SELECT relname::text AS name, round(pg_table_size(oid) / 1048576.0)::int AS table,
        round(pg_indexes_size(oid) / 1048576.0)::int AS indexes
      FROM pg_class WHERE relname = ANY(${growing}::text[]) AND relkind = 'r' ORDER BY 1`
  )
)

const report = (file: string, costs: Record<string, ReadonlyArray<Cost>>) =>
  Effect.map(space, (tables) => {
    const record = {
      what: "What each route costs for a team of three sizes, on Postgres, one process: milliseconds (median of 9, one request at a time, the test's own client included), statements, rows that they return. npm run test:growth",
      date: new Date().toISOString().slice(0, 10),
      versions: { ampoule: version, node: process.versions.node },
      sizes,
      "MiB at the last size": Object.fromEntries(tables.map(({ indexes, name, table }) => [name, { table, indexes }])),
      routes: Object.fromEntries(
        Object.entries(costs).map(([name, of]) => [
          name,
          {
            millis: of.map(({ millis }) => millis),
            statements: of.map(({ statements }) => statements),
            rows: of.map(({ rows }) => rows)
          }
        ])
      )
    }
    fs.writeFileSync(file, `${JSON.stringify(record, undefined, 2)}\n`)
  })
