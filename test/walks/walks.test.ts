/**
 * Four warm requests against the record of the code that they enter. `npm run walks` writes the record and the walks of
 * `docs/architecture.md`. A walk that enters more than before needs a reason: `AMPOULE_WALKS_WHY="…" npm run walks`.
 */
import { assert, describe, it as plain, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as Clients from "#test/mcp/Clients.ts"
import * as McpApp from "#test/mcp/McpApp.ts"
import * as World from "#test/support/World.ts"
import * as WalkRecord from "./WalkRecord.ts"
import * as Walks from "./Walks.ts"

const file = "test/records/walks.json"
const page = "docs/architecture.md"
const records = process.env["AMPOULE_RECORD_WALKS"] === "1"
const recorded = () => WalkRecord.read(fs.readFileSync(file, "utf8"))

/** The road to Postgres enters other files. */
const onPostgres = process.env["AMPOULE_TEST_DATABASE_URL"] !== undefined

/**
 * The server writes the first use of a credential in the background. Later requests of a minute note none. Other tests of
 * the same server have tokens that nobody uses.
 */
const untilUsesAreWritten = Effect.fnUntraced(function* (team: World.Team) {
  const sql = yield* SqlClient.SqlClient
  const unwritten = sql`SELECT 1 FROM api_tokens WHERE team_id = ${team.id} AND last_used_at IS NULL`
  while ((yield* unwritten).length > 0) yield* Effect.sleep("100 millis")
})

const measured = Effect.gen(function* () {
  const base = yield* McpApp.base
  const project = yield* World.project()
  const { text: bearer } = yield* World.token({ team: project.team })
  const { text: agent } = yield* World.token({ team: project.team, mcpScopes: ["secrets:read", "secrets:write"] })
  const at = { projectId: project.id, environment: "development" }
  const query = `projectId=${project.id}&environment=development`
  const call = (method: string, route: string, json?: unknown) =>
    Effect.promise(async () => {
      const answer = await fetch(base + route, {
        method,
        headers: { authorization: `Bearer ${bearer}`, "content-type": "application/json" },
        ...(json === undefined ? {} : { body: JSON.stringify(json) })
      })
      assert.isTrue(answer.ok, await answer.text())
    })
  let created = 0
  yield* call("POST", "/secrets", { ...at, key: "BASE", value: "base" })
  const requests = {
    "POST /secrets": () => call("POST", "/secrets", { ...at, key: `KEY_${created++}`, value: "a${BASE}b" }),
    "GET /secrets/inject": () => call("GET", `/secrets/inject?${query}`),
    "GET /me/verify": () => call("GET", "/me/verify"),
    "MCP create_secret": () => {
      const input = { ...at, key: `KEY_${created++}`, template: { source: "a${BASE}b" } }
      return Clients.raw(base, "POST", { bearer: agent, ...Clients.modernCall("create_secret", input) })
    }
  }
  yield* call("GET", "/me/verify")
  yield* requests["MCP create_secret"]()
  yield* untilUsesAreWritten(project.team)
  const walks = new Map<string, Walks.Walk>()
  for (const [name, request] of Object.entries(requests)) walks.set(name, yield* Walks.walk(Effect.suspend(request)))
  return walks
})

describe("walks", () => {
  layer(McpApp.shared, { excludeTestServices: true })((it) => {
    it.effect.skipIf(onPostgres)("of four warm requests enter no more code than the record says", () =>
      Effect.gen(function* () {
        const walks = yield* measured
        if (records) {
          const record = WalkRecord.updated(recorded(), walks, process.env["AMPOULE_WALKS_WHY"])
          fs.writeFileSync(file, `${JSON.stringify(record, null, 1)}\n`)
          fs.writeFileSync(page, WalkRecord.pageWith(fs.readFileSync(page, "utf8"), record))
        }
        const record = recorded()
        for (const [name, walk] of walks) {
          const more = WalkRecord.additions(record, name, walk)
          assert.isFalse(
            WalkRecord.rises(record, name, walk),
            `${name} enters ${walk.files.length} files and ${walk.functions.length} functions; new: ${more.join(", ")}`
          )
        }
        for (const name of ["POST /secrets", "MCP create_secret"]) {
          const scans = walks.get(name)?.calls.get("src/secrets/TemplateScan.ts scan")
          assert.strictEqual(scans, 1, `${name} scans its text once`)
        }
      })
    )
  })

  plain("enter more than before only where the record says by what and why", () => {
    const record = recorded()
    assert.deepStrictEqual(WalkRecord.unexplained(record), [])
    const [line] = record.lines
    const rise = { ...line, files: line.files + 1 }
    assert.lengthOf(WalkRecord.unexplained({ ...record, lines: [line, rise] }), 1)
    const explained = { ...rise, by: ["src/secrets/New.ts"], why: "a new step" }
    assert.lengthOf(WalkRecord.unexplained({ ...record, lines: [line, explained] }), 0)
  })

  plain("of docs/architecture.md are those of the record", () => {
    const text = fs.readFileSync(page, "utf8")
    assert.strictEqual(text, WalkRecord.pageWith(text, recorded()))
  })
})
