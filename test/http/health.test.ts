import * as SqlClient from "@effect/sql/SqlClient"
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

describe("health and discovery", () => {
  layer(TestApp.layer, { excludeTestServices: true })((it) => {
    it.effect("liveness answers without a credential", () =>
      Effect.gen(function* () {
        const answer = yield* TestApp.get("/health/live")
        assert.deepStrictEqual([answer.status, answer.json], [200, { status: "ok" }])
      })
    )

    it.effect("readiness names each dependency", () =>
      Effect.gen(function* () {
        const answer = yield* TestApp.get("/health/ready")
        assert.strictEqual(answer.status, 200)
        assert.deepStrictEqual(answer.json, {
          status: "ready",
          checks: { database: { status: "up" }, cache: { status: "in-process" }, vault: { status: "up" } }
        })
      })
    )

    it.effect("readiness needs no procedural language of the database", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* sql`DROP EXTENSION plpgsql`
        yield* Effect.sleep("500 millis")
        const answer = yield* TestApp.get("/health/ready")
        yield* sql`CREATE EXTENSION plpgsql`
        assert.deepStrictEqual([answer.status, answer.json.checks.database.status], [200, "up"])
      })
    )

    it.effect("readiness says so while no entry of the audit trail can be committed, and leaves none itself", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const until = (status: number) =>
          Effect.repeat(Effect.delay(TestApp.get("/health/ready"), "100 millis"), {
            until: (answer) => answer.status === status
          })
        const entries = sql`SELECT count(*)::int AS n FROM audit_entries`
        const before = yield* entries
        yield* sql`
          CREATE FUNCTION refuse_entries() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'the trail fails'; END $$`
        yield* sql`CREATE TRIGGER refused BEFORE INSERT ON audit_entries EXECUTE FUNCTION refuse_entries()`
        assert.strictEqual((yield* until(503)).json.checks.database.status, "down")
        const { id, team } = yield* World.project()
        const { text: bearer } = yield* World.token({ team })
        const inject = TestApp.get(`/secrets/inject?projectId=${id}&environment=development`, { bearer })
        const failed = yield* inject
        assert.deepStrictEqual([failed.status, failed.error.code], [500, "DEPENDENCY_UNAVAILABLE"])
        // A lock that was not given in time: nothing is broken, there is too much to do.
        yield* sql`
          CREATE OR REPLACE FUNCTION refuse_entries() RETURNS trigger LANGUAGE plpgsql
          AS $$ BEGIN RAISE 'busy' USING ERRCODE = '55P03'; END $$`
        const busy = yield* inject
        assert.deepStrictEqual(
          [busy.status, busy.error.code, busy.headers.get("retry-after")],
          [429, "SERVER_BUSY", "2"]
        )
        yield* sql`DROP TRIGGER refused ON audit_entries`
        assert.strictEqual((yield* until(200)).json.checks.database.status, "up")
        yield* sql`DROP FUNCTION refuse_entries()`
        yield* until(200)
        assert.deepStrictEqual(yield* entries, before)
      })
    )

    it.effect(
      "readiness asks for more once a request met a disk that is full, until an entry of some size passes",
      () =>
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const ready = Effect.zipRight(Effect.sleep("500 millis"), TestApp.get("/health/ready"))
          const { id, team } = yield* World.project()
          const { text: bearer } = yield* World.token({ team })
          const inject = TestApp.get(`/secrets/inject?projectId=${id}&environment=development`, { bearer })
          // There is room for what is small.
          yield* sql`
          CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql
          AS $$ BEGIN RAISE 'no space left on device' USING ERRCODE = '53100'; END $$`
          yield* sql`
          CREATE TRIGGER full_disk BEFORE INSERT ON audit_entries FOR EACH ROW
          WHEN (NEW.action <> 'audit.probe' OR length(NEW.body) > 8000) EXECUTE FUNCTION no_room()`
          assert.strictEqual((yield* ready).status, 200)
          const failed = yield* inject
          assert.deepStrictEqual([failed.status, failed.error.code], [500, "DEPENDENCY_UNAVAILABLE"])
          for (let i = 0; i < 3; i++) assert.strictEqual((yield* ready).status, 503)
          yield* sql`DROP TRIGGER full_disk ON audit_entries`
          yield* sql`DROP FUNCTION no_room()`
          assert.strictEqual((yield* ready).status, 200)
          assert.strictEqual((yield* inject).status, 200)
        })
    )

    it.effect("readiness tries the trail once, however many ask", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        // A sequence counts what is taken back, too.
        yield* sql`CREATE SEQUENCE tries`
        yield* sql`
          CREATE FUNCTION count_tries() RETURNS trigger LANGUAGE plpgsql
          AS $$ BEGIN PERFORM nextval('tries'); RETURN NEW; END $$`
        yield* sql`
          CREATE TRIGGER counted BEFORE INSERT ON audit_entries FOR EACH ROW WHEN (NEW.action = 'audit.probe')
          EXECUTE FUNCTION count_tries()`
        const began = performance.now()
        yield* Effect.all(
          Array.from({ length: 100 }, () => TestApp.get("/health/ready")),
          { concurrency: "unbounded" }
        )
        const pauses = Math.ceil((performance.now() - began) / 400)
        yield* sql`DROP TRIGGER counted ON audit_entries`
        const [row] = yield* sql<{ readonly next: string }>`SELECT nextval('tries') AS next`
        // One when they begin, one after each pause that they last.
        assert.isAtMost(Number(row?.next) - 1, 1 + pauses)
      })
    )

    it.effect("capabilities need a credential and name the plan of the one team", () =>
      Effect.gen(function* () {
        assert.strictEqual((yield* TestApp.get("/capabilities")).status, 401)
        const team = yield* World.team({ plan: "developer" })
        const { text } = yield* World.token({ team })
        const answer = yield* TestApp.get("/capabilities", { bearer: text })
        assert.strictEqual(answer.status, 200)
        assert.strictEqual(answer.json.plan, "developer")
        assert.strictEqual(answer.json.durability, "process-crash")
        assert.strictEqual(answer.json.mcpUrl, `${TestApp.baseUrl}/mcp`)
      })
    )
  })
})
