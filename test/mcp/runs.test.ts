/** A run from its plan to its result: what the agent, the command line and the trail know of each other. */
import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { allScopes } from "#schema/Scopes.ts"
import { Ampoule } from "#test/cli/Ampoule.ts"
import { columnName, type authorizationTables } from "#src/rows/AuthorizationRows.ts"
import { auditEntry } from "#test/support/Json.ts"
import * as Seals from "#test/support/Seals.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import * as Clients from "./Clients.ts"
import * as McpApp from "./McpApp.ts"

const value = "a value that nobody prints"

const scene = Effect.gen(function* () {
  const base = yield* McpApp.base
  const project = yield* World.project()
  const writer = yield* World.token({ team: project.team, accessLevel: "write" })
  const at = { projectId: project.id, environment: "development" }
  const secrets = [
    { key: "A", value },
    { key: "B", value: "another value" }
  ]
  yield* TestApp.post("/secrets/bulk", { bearer: writer.text, json: { ...at, secrets } })
  const agent = yield* World.token({ team: project.team, mcpScopes: allScopes })
  const planned = (input: Record<string, unknown> = {}) =>
    Effect.map(
      Clients.use(base, agent.text, "plan_run", { ...at, command: ["node", "app.js"], ...input }),
      ({ output }) => output
    )
  const status = (plan: string | undefined, bearer = agent.text) =>
    Clients.use(base, bearer, "run_status", { plan: plan ?? "" })
  const begin = (plan: string | undefined, bearer = agent.text) =>
    TestApp.get(`/secrets/inject?projectId=${project.id}&environment=development&plan=${plan ?? ""}`, { bearer })
  const report = (plan: string | undefined, bearer = agent.text, more: Record<string, unknown> = {}) =>
    TestApp.post("/secrets/run-results", {
      bearer,
      json: { ...at, plan, exitCode: 1, durationMillis: 5, output: "the end\u001b[2J\u202e\n", ...more }
    })
  return { base, project, at, agent, writer, planned, status, begin, report }
})

layer(Layer.merge(McpApp.shared, Ampoule.Default), { excludeTestServices: true })("a planned run", (it) => {
  it.effect("is run as it was given; its result comes back masked, and the trail joins the parts", () =>
    Effect.gen(function* () {
      const { agent, planned, project, status } = yield* scene
      const program = "console.log('got', process.env.A, process.env.B); process.exitCode = 3"
      const { command = [], plan } = yield* planned({ command: [process.execPath, "-e", program], keys: ["A"] })
      assert.includeMembers([...command], ["--redact", "--plan", String(plan)])
      assert.deepInclude((yield* status(plan)).output, { status: "planned" })
      const ampoule = yield* Ampoule
      const ended = yield* ampoule.run(command.slice(1), { env: { AMPOULE_API_TOKEN: agent.text } })
      assert.deepStrictEqual([ended.code, ended.stdout, ended.stderr], [3, "got [redacted] undefined\n", ""])
      const { answer, output } = yield* status(plan)
      assert.deepInclude(output, { status: "ended", exitCode: 3, output: "got [redacted] undefined\n" })
      assert.isAtLeast(output.durationMillis ?? -1, 1)
      assert.notInclude(answer.text, value)
      const sql = yield* SqlClient.SqlClient
      const rows = yield* sql<{ readonly body: string }>`
        SELECT body FROM audit_entries WHERE team_id = ${project.team.id} ORDER BY at, seq`
      const joined = rows.map(auditEntry).filter(({ target }) => target?.id === plan)
      assert.deepStrictEqual(
        joined.map(({ action, target }) => [action, target?.name]),
        [
          ["secret.plan", plan],
          ["secret.inject", plan],
          ["run.report", "exit code 3"],
          ["run.read", plan]
        ]
      )
      const kept = yield* sql<{ readonly row: string }>`
        SELECT encode(output, 'escape') AS row FROM run_plans WHERE id = ${plan ?? ""}`
      assert.notInclude(JSON.stringify(kept), "got")
    })
  )

  it.effect("has no command while a key is missing", () =>
    Effect.gen(function* () {
      const { planned } = yield* scene
      const output = yield* planned({ keys: ["A", "NOPE"] })
      assert.isUndefined(output.command)
      assert.isUndefined(output.plan)
      assert.deepStrictEqual(output.problems, [{ key: "NOPE", reason: "missing" }])
      assert.include(output.next, "create_secret")
    })
  )

  it.effect("tells its output and exit code to the token that planned and ran it", () =>
    Effect.gen(function* () {
      const { begin, planned, project, report, status } = yield* scene
      const other = yield* World.token({ team: project.team, mcpScopes: allScopes })
      const mine = (yield* planned()).plan
      assert.strictEqual((yield* begin(mine)).status, 200)
      assert.deepStrictEqual((yield* report(mine)).json, { plan: mine, outputKept: true })
      // No character that commands a terminal, or that only a model sees.
      assert.deepInclude((yield* status(mine)).output, { exitCode: 1, output: "the end[2J\n" })
      assert.strictEqual((yield* status(mine, other.text)).refusal.code, "VALIDATION_FAILED")

      // A token's plan is that token's alone.
      const theirs = (yield* planned()).plan
      assert.deepInclude((yield* begin(theirs, other.text)).error, { code: "RUN_NOT_PLANNED", field: "plan" })
      assert.strictEqual((yield* begin(theirs)).status, 200)
      // Only the credential that began the run says how it ended, once.
      assert.strictEqual((yield* report(theirs, other.text)).status, 400)
      assert.deepStrictEqual((yield* report(theirs)).json, { plan: theirs, outputKept: true })
      assert.strictEqual((yield* report(theirs)).status, 400)
    })
  )

  it.effect("hides values that control characters parted, after it removed those", () =>
    Effect.gen(function* () {
      const { begin, planned, report, status } = yield* scene
      const { plan } = yield* planned()
      yield* begin(plan)
      const parted = [...value].join("\u200b")
      const output = `colour: ${[...value].join("\u001b[1m")}\nunseen: ${parted}\nbase64: ${Buffer.from(`x:${value}`).toString("base64")}`
      yield* report(plan, undefined, { output })
      const { text } = (yield* status(plan)).answer
      assert.notInclude(text, value)
      assert.notInclude(text, Buffer.from(value.slice(3, -3)).toString("base64").slice(2, -4))
      assert.include(text, "unseen: [redacted]")
    })
  )

  it.effect("hides a value whole when a shorter one is part of it, and one that had characters without a glyph", () =>
    Effect.gen(function* () {
      const { at, begin, planned, report, status, writer } = yield* scene
      // More than one group is needed for the long values, and the short one comes first by its key.
      const short = "copper kettle"
      const long = `${short} ${"0123456789 ".repeat(180)}and its tail`
      const secrets = [
        { key: "A_SHORT", value: short },
        { key: "Z_LONG", value: long },
        { key: "Z_ZERO", value: "wide\u200bopen\u200bgate\r\nsecond\u200bline of it" }
      ]
      yield* TestApp.post("/secrets/bulk", { bearer: writer.text, json: { ...at, secrets } })
      const { plan } = yield* planned()
      yield* begin(plan)
      yield* report(plan, undefined, { output: `${[...long].join("\u200b")}\nwideopengate\nsecondline of it\n` })
      const { text } = (yield* status(plan)).answer
      for (const part of ["and its tail", "0123456789", short, "wideopengate", "secondline of it"]) {
        assert.notInclude(text, part)
      }
    })
  )

  it.effect("bounds the read: its keys, once, within 15 minutes", () =>
    Effect.gen(function* () {
      const { agent, planned, project } = yield* scene
      const read = (plan: string | undefined, more = "", environment = "development") =>
        TestApp.get(`/secrets/inject?projectId=${project.id}&environment=${environment}&plan=${plan ?? ""}${more}`, {
          bearer: agent.text
        })
      const { plan } = yield* planned({ keys: ["A"] })
      // Refusals use nothing up.
      for (const more of ["&keys=A,B", "&keys=B"]) {
        assert.deepInclude((yield* read(plan, more)).error, { code: "RUN_NOT_PLANNED" }, more)
      }
      assert.deepInclude((yield* read(plan, "&page=1")).error, { code: "VALIDATION_FAILED", field: "page" })
      const first = yield* read(plan)
      assert.deepStrictEqual(first.json["values"], { A: value })
      assert.deepInclude((yield* read(plan)).error, { code: "RUN_NOT_PLANNED" })

      const one = (yield* planned()).plan
      const both = yield* Effect.all([read(one), read(one)], { concurrency: 2 })
      assert.sameMembers(
        both.map(({ status }) => status),
        [200, 403]
      )
      const sql = yield* SqlClient.SqlClient
      const [row] = yield* sql<{ readonly minutes: number }>`
        SELECT extract(epoch FROM expires_at - created_at)::float8 / 60 AS minutes FROM run_plans
        WHERE id = ${(yield* planned()).plan ?? ""}`
      assert.strictEqual(row?.minutes, 15)
      const trail = yield* sql<{ readonly body: string }>`
        SELECT body FROM audit_entries WHERE team_id = ${project.team.id} AND action = 'secret.inject' ORDER BY at, seq`
      const entries = trail.map(auditEntry)
      assert.deepStrictEqual(
        entries.filter(({ outcome }) => outcome === "allowed").map(({ keys }) => keys),
        [["A"], ["A", "B"]]
      )
      assert.strictEqual(entries.filter(({ reason }) => reason === "RUN_NOT_PLANNED").length, 4)
    })
  )

  it.effect("is of its environment, and of the last hour", () =>
    Effect.gen(function* () {
      const { agent, begin, planned, project, report, status } = yield* scene
      const { plan } = yield* planned()
      const elsewhere = `/secrets/inject?projectId=${project.id}&environment=staging&plan=${plan}` as const
      const { error } = yield* TestApp.get(elsewhere, { bearer: agent.text })
      assert.deepInclude(error, { code: "RUN_NOT_PLANNED", field: "plan" })
      const sql = yield* SqlClient.SqlClient
      yield* Seals.after(
        "run_plans",
        sql`UPDATE run_plans SET expires_at = now() - interval '1 second' WHERE id = ${plan ?? ""}`
      )
      assert.strictEqual((yield* begin(plan)).status, 403)
      assert.strictEqual((yield* report(plan)).status, 400)
      assert.strictEqual((yield* status(plan)).refusal.code, "VALIDATION_FAILED")
    })
  )

  it.effect("is refused once a writer of the database changed it, to all", () =>
    Effect.gen(function* () {
      const { agent, begin, planned, project, report, status } = yield* scene
      const other = yield* World.token({ team: project.team, mcpScopes: allScopes })
      const { plan = "" } = yield* planned()
      assert.strictEqual((yield* begin(plan)).status, 200)
      assert.strictEqual((yield* report(plan)).status, 201)
      const sql = yield* SqlClient.SqlClient
      /** SQL of another value of each column. */
      const forged: Readonly<Record<(typeof authorizationTables)["run_plans"]["columns"][number], string>> = {
        id: "gen_random_uuid()",
        environmentId: `'${project.staging.id}'`,
        credentialId: `'${other.id}'`,
        userId: `'${project.team.owner.id}'`,
        createdAt: "created_at + interval '1 hour'",
        expiresAt: "expires_at + interval '1 day'",
        startedAt: "started_at + interval '1 hour'",
        startedBy: `'${other.id}'`,
        tellsOutput: "NOT tells_output",
        endedAt: "ended_at + interval '1 hour'",
        exitCode: "0",
        durationMillis: "duration_millis + 1",
        keys: "'{A,B}'"
      }
      for (const [column, value] of Object.entries(forged)) {
        const name = columnName(column)
        const [before] = yield* sql<{ readonly cell: unknown; readonly mac: Uint8Array }>`
          SELECT ${sql(name)} AS cell, mac FROM run_plans WHERE id = ${plan}`
        yield* sql`UPDATE run_plans SET ${sql(name)} = ${sql.literal(value)} WHERE id = ${plan}`
        for (const bearer of [agent.text, other.text]) {
          const { refusal } = yield* status(plan, bearer)
          assert.strictEqual(refusal.code, "VALIDATION_FAILED", `${column}: ${bearer === other.text ? "other" : "own"}`)
        }
        assert.strictEqual((yield* begin(plan)).status, 403, column)
        yield* sql`UPDATE run_plans SET ${sql(name)} = ${before.cell} WHERE mac = ${before.mac}`
        assert.deepInclude((yield* status(plan)).output, { exitCode: 1, output: "the end[2J\n" }, column)
      }
      // The output is a box of its plan: another row of the same person does not open it.
      const second = (yield* planned()).plan ?? ""
      yield* begin(second)
      yield* report(second)
      yield* sql`
        UPDATE run_plans SET output = (SELECT output FROM run_plans WHERE id = ${plan}) WHERE id = ${second}`
      assert.strictEqual((yield* status(second)).refusal.code, "INTEGRITY_FAILURE")
    })
  )
})
