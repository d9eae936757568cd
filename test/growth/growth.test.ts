/**
 * What each route costs where a team has little, much and very much: time, statements, and whether one of them reads a
 * whole table. `npm run test:growth` goes up to a million secrets and entries and writes `test/records/growth.json`
 * (`AMPOULE_GROWTH_REPORT`); a run of the long tests goes as far as it needs to tell an index from none.
 */
// It hears what connects after it.
import { during } from "#test/support/Statements.ts"
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as fs from "node:fs"
import { version } from "#schema/Api.ts"
import { RateLimits } from "#src/limits/RateLimiter.ts"
import * as Rows from "#src/Rows.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as TestDatabase from "#test/support/TestDatabase.ts"
import * as World from "#test/support/World.ts"
import * as Filled from "./Filled.ts"

const reportFile = process.env["AMPOULE_GROWTH_REPORT"]
const repeats = 9

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

type Ask = () => Effect.Effect<TestApp.Answer, never, Effect.Effect.Context<ReturnType<typeof TestApp.get>>>

/** Requests of a person and of a machine, and what changes something, which changes something else each time. */
const routesOf = (
  { development, id, staging, team }: World.Project,
  of: { readonly token: string; readonly session: string; readonly secret: string; readonly key: string }
): Record<string, Ask> => {
  const bearer = { bearer: of.token }
  const session = { session: of.session, headers: { origin: TestApp.baseUrl } }
  const at = `projectId=${id}&environment=development`
  let made = 0
  const get =
    (path: string, by: TestApp.Asked = session): Ask =>
    () =>
      TestApp.get(path, by)
  return {
    "GET /me/verify": get("/me/verify", bearer),
    "GET /me": get("/me"),
    "GET /projects": get("/projects"),
    "GET /projects/:projectId/environments": get(`/projects/${id}/environments`),
    "GET /secrets": get(`/secrets?${at}`, bearer),
    "GET /secrets?lastRead": get(`/secrets?${at}&lastRead=true`),
    "GET /secrets/with-values": get(`/secrets/with-values?${at}`, bearer),
    "GET /secrets/value": get(`/secrets/value?${at}&key=${of.key}`, bearer),
    "GET /secrets/inject": get(`/secrets/inject?${at}`, bearer),
    "GET /secrets/diff": get(`/secrets/diff?projectId=${id}&sourceEnv=development&targetEnv=staging`, bearer),
    "GET /secrets/composition": get(`/secrets/composition?${at}`, bearer),
    "GET /secrets/deleted": get(`/secrets/deleted?${at}`, bearer),
    "GET /secrets/:secretId/versions": get(`/secrets/${of.secret}/versions`, bearer),
    "GET /secrets/:secretId/metadata": get(`/secrets/${of.secret}/metadata`, bearer),
    "GET /secrets/:secretId/exposure": get(`/secrets/${of.secret}/exposure`),
    "GET /secrets/exposure": get(`/secrets/exposure?${at}&key=${of.key}`),
    "GET /projects/:projectId/exposure": get(`/projects/${id}/exposure`),
    "GET /environments/:envId/keypair": get(`/environments/${development.id}/keypair`, bearer),
    "GET /environments/:envId/access": get(`/environments/${development.id}/access`),
    "GET /environments/:envId/grants": get(`/environments/${development.id}/grants`),
    "GET /projects/:projectId/grants": get(`/projects/${id}/grants`),
    "GET /projects/:projectId/activity": get(`/projects/${id}/activity`),
    "GET /access-requests": get("/access-requests"),
    "GET /change-requests": get("/change-requests"),
    "GET /teams/:teamId/api-tokens": get(`/teams/${team.id}/api-tokens`),
    "GET /teams/:teamId/members": get(`/teams/${team.id}/members`),
    "GET /teams/:teamId/members/:userId/access": get(`/teams/${team.id}/members/${team.owner.id}/access`),
    "GET /teams/:teamId/machine-rules": get(`/teams/${team.id}/machine-rules`),
    "GET /teams/:teamId/webhooks": get(`/teams/${team.id}/webhooks`),
    "GET /teams/:teamId/incidents": get(`/teams/${team.id}/incidents`),
    "GET /teams/:teamId/leaked-credentials": get(`/teams/${team.id}/leaked-credentials`),
    "GET /teams/:teamId/audit": get(`/teams/${team.id}/audit`),
    "GET /teams/:teamId/audit?key": get(`/teams/${team.id}/audit?key=NEVER_USED`),
    "GET /teams/:teamId/audit?actor": get(`/teams/${team.id}/audit?actor=${team.owner.id}`),
    "GET /teams/:teamId/audit?action": get(`/teams/${team.id}/audit?action=secret.delete`),
    "GET /me/cli-grants": get("/me/cli-grants"),
    "GET /me/sessions": get("/me/sessions"),
    "GET /app": get("/app"),
    "GET /app/teams/:teamId/tokens": get(`/app/teams/${team.id}/tokens`),
    "POST /secrets": () =>
      TestApp.post("/secrets", {
        ...bearer,
        json: { projectId: id, environment: staging.slug, key: `NEW_${++made}`, value: "v" }
      }),
    "PATCH /secrets/:secretId": () =>
      TestApp.patch(`/secrets/${of.secret}`, { ...bearer, json: { value: `v${++made}` } }),
    "POST /secrets/bulk": () =>
      TestApp.post("/secrets/bulk", {
        ...bearer,
        json: {
          projectId: id,
          environment: staging.slug,
          secrets: Array.from({ length: 20 }, (_, i) => ({ key: `MANY_${i}`, value: `v${++made}` }))
        }
      }),
    "POST /teams/:teamId/api-tokens": () =>
      TestApp.post(`/teams/${team.id}/api-tokens`, {
        ...session,
        json: { name: `made ${++made}`, accessLevel: "read", lifetime: "1d" }
      })
  }
}

/** Tables that grow with use. A statement that reads one of them as a whole gets slower with each row. */
const growing = ["audit_entries", "secrets", "secret_versions", "secret_counters", "api_tokens", "environments"]

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
  return growing.filter((table) => new RegExp(`Seq Scan on ${table}\\b`).test(plan))
}, Effect.orDie)

/** Statements of a pass over the trail, which a page that tells of reads begins when the last one is old. */
const passes = 5

interface Cost {
  readonly millis: number
  readonly statements: number
  readonly rows: number
  readonly whole: ReadonlyArray<string>
}

const median = (list: ReadonlyArray<number>) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)]

const costOf = Effect.fnUntraced(function* (name: string, ask: Ask) {
  const once = Effect.tap(Effect.suspend(ask), (answer) =>
    assert.isBelow(answer.status, 400, `${name}: ${JSON.stringify(TestApp.refusalOf(answer))}`)
  )
  yield* Effect.repeatN(once, 2)
  // What the server does beside it now and then is heard too, but not twice.
  const [first, second] = [yield* during(once), yield* during(once)]
  const heard = first.length <= second.length ? first : second
  const times: Array<number> = []
  for (let i = 0; i < repeats; i++) {
    const started = performance.now()
    yield* once
    times.push(performance.now() - started)
  }
  const found = yield* Effect.forEach(new Set(heard.map(({ text }) => text)), wholeTables)
  const cost: Cost = {
    millis: Math.round(median(times) * 10) / 10,
    statements: heard.length,
    rows: heard.reduce((sum, { rows }) => sum + rows, 0),
    whole: [...new Set(found.flat())]
  }
  return cost
})

const app = TestApp.layer.pipe(Layer.provide(Layer.succeed(RateLimits, "off")))

layer(app, { excludeTestServices: true, timeout: 120_000 })("a team that grows", (it) => {
  // The embedded database has the same planner, and would take minutes to fill.
  it.effect.skipIf(!TestDatabase.onPostgres)(
    "asks as many statements as before, and none of them reads a whole table",
    () =>
      Effect.gen(function* () {
        const project = yield* World.project()
        const { text: token } = yield* World.token({ team: project.team, accessLevel: "write" })
        const { text: session } = yield* World.session(project.team.owner)
        const secrets = Array.from({ length: 50 }, (_, i) => ({ key: `OWN_${i}`, value: `value ${i}` }))
        const bulk = (environment: string) =>
          TestApp.post("/secrets/bulk", { bearer: token, json: { projectId: project.id, environment, secrets } })
        const [{ id: secret, key }] = (yield* bulk("development")).json.items
        yield* bulk("staging")
        const routes = routesOf(project, { token, session, secret, key })
        const grow = Filled.grow(project)
        const costs: Record<string, Array<Cost>> = {}
        for (const size of sizes) {
          yield* grow(size)
          for (const [name, ask] of Object.entries(routes)) (costs[name] ??= []).push(yield* costOf(name, ask))
        }
        if (reportFile !== undefined) yield* report(reportFile, costs)
        const last = sizes.length - 1
        const whole = Object.entries(costs).flatMap(([name, of]) => of[last].whole.map((table) => `${name}: ${table}`))
        assert.deepStrictEqual(whole, [])
        const more = Object.entries(costs).filter(([, of]) => of[last].statements > of[0].statements + passes)
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
