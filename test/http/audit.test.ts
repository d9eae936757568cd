import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { chain, genesis } from "#src/audit/Chain.ts"
import * as MovableClock from "#test/support/MovableClock.ts"
import type * as Bodies from "#test/support/Bodies.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const app = TestApp.layer.pipe(Layer.provideMerge(MovableClock.layer))
const codeOf = TestApp.refusalOf

type Trail = TestApp.Answer<Bodies.BodyOf<"GET", `/teams/${string}/audit`>>

const setUp = Effect.gen(function* () {
  const project = yield* World.project()
  const { team } = project
  const session = (yield* World.session(team.owner)).text
  const trail = (query = "") => TestApp.get(`/teams/${team.id}/audit?${query}`, { session })
  const actions = (query = "") => Effect.map(trail(query), ({ json }) => json.items.map(({ action }) => action))
  return { project, team, session, trail, actions }
})

layer(app, { excludeTestServices: true })("the audit trail", (it) => {
  it.effect("is shown to owners and admins of the team, newest first", () =>
    Effect.gen(function* () {
      const { actions, session, team, trail } = yield* setUp
      yield* TestApp.patch(`/teams/${team.id}`, { session, json: { name: "One" }, headers: { "user-agent": "tests" } })
      yield* TestApp.post(`/teams/${team.id}/projects`, { session, json: { name: "Two", environments: [] } })
      assert.deepStrictEqual(yield* actions(), ["project.create", "team.update"])
      const [, entry] = (yield* trail()).json.items
      assert.deepStrictEqual(entry, {
        id: entry.id,
        stream: entry.stream,
        seq: entry.seq,
        at: entry.at,
        requestId: entry.requestId,
        actor: { type: "user", id: team.owner.id, name: team.owner.email },
        action: "team.update",
        outcome: "allowed",
        team: team.id,
        keys: [],
        target: { type: "team", id: team.id, name: "name" },
        ip: "127.0.0.1",
        userAgent: "tests",
        via: "dashboard"
      })
      const admin = yield* World.session(yield* World.member(team, "admin"))
      assert.strictEqual((yield* TestApp.get(`/teams/${team.id}/audit`, { session: admin.text })).status, 200)
      for (const role of ["member", "viewer"] as const) {
        const other = yield* World.session(yield* World.member(team, role))
        const answer = yield* TestApp.get(`/teams/${team.id}/audit`, { session: other.text })
        assert.deepStrictEqual(codeOf(answer), [403, "FORBIDDEN", undefined])
      }
      const stranger = yield* World.session((yield* World.team()).owner)
      const hidden = yield* TestApp.get(`/teams/${team.id}/audit`, { session: stranger.text })
      assert.deepStrictEqual(codeOf(hidden), [404, "TEAM_NOT_FOUND", undefined])
      const token = yield* World.token({ team })
      const bearer = yield* TestApp.get(`/teams/${team.id}/audit`, { bearer: token.text })
      assert.deepStrictEqual(codeOf(bearer), [403, "CREDENTIAL_KIND_NOT_ACCEPTED", undefined])
      assert.strictEqual((yield* actions("action=audit.read")).length, 2, "denials are recorded")
    })
  )

  it.effect("is filtered by action, actor, project, environment, key, and time", () =>
    Effect.gen(function* () {
      const { actions, project, session, team, trail } = yield* setUp
      const token = yield* World.token({ team })
      const write = (key: string, environment: string) =>
        TestApp.post("/secrets", { bearer: token.text, json: { projectId: project.id, environment, key, value: "v" } })
      yield* write("A", "development")
      yield* MovableClock.advance("1 hours")
      yield* write("B", "staging")
      const between = (yield* trail("limit=1")).json.items[0].at
      yield* MovableClock.advance("1 hours")
      yield* TestApp.patch(`/teams/${team.id}`, { session, json: { name: "N" } })

      assert.deepStrictEqual(yield* actions(), ["team.update", "secret.create", "secret.create"])
      assert.deepStrictEqual(yield* actions("action=team.update"), ["team.update"])
      assert.deepStrictEqual(yield* actions(`actor=${token.id}`), ["secret.create", "secret.create"])
      assert.deepStrictEqual(yield* actions(`actor=${team.owner.id}`), ["team.update"])
      assert.lengthOf(yield* actions(`projectId=${project.id}`), 2)
      assert.lengthOf(yield* actions("environment=staging"), 1)
      assert.lengthOf(yield* actions("key=A"), 1)
      assert.lengthOf(yield* actions("key=A&environment=staging"), 0)
      assert.lengthOf(yield* actions(`since=${between}`), 2)
      assert.lengthOf(yield* actions(`until=${between}`), 1)
      assert.lengthOf(yield* actions(`since=${between}&until=${between}`), 0)
      assert.lengthOf(yield* actions(`projectId=${(yield* World.project()).id}`), 0)
    })
  )

  it.effect("is paged by a cursor that new entries do not move", () =>
    Effect.gen(function* () {
      const { session, team, trail } = yield* setUp
      const rename = (name: string) => TestApp.patch(`/teams/${team.id}`, { session, json: { name } })
      for (let i = 0; i < 7; i++) yield* rename(`Name ${i}`)
      const all = (yield* trail()).json
      assert.isNull(all.nextCursor)
      const seen: Array<string> = []
      let cursor: string | null = ""
      while (cursor !== null) {
        const { json }: Trail = yield* trail(`limit=3${cursor === "" ? "" : `&cursor=${cursor}`}`)
        assert.isAtMost(json.items.length, 3)
        for (const item of json.items) seen.push(item.id)
        cursor = json.nextCursor
        yield* rename("While reading")
      }
      assert.deepStrictEqual(
        seen,
        all.items.map((item) => item.id)
      )
    })
  )

  it.effect("refuses what it cannot ask, by name", () =>
    Effect.gen(function* () {
      const { trail } = yield* setUp
      for (const [query, field] of [
        ["limit=0", "limit"],
        ["limit=201", "limit"],
        ["limit=1e2", "limit"],
        ["cursor=nonsense", "cursor"],
        ["cursor=%27", "cursor"],
        ["action=secret.steal", "action"],
        ["projectId=1", "projectId"],
        ["since=yesterday", "since"],
        ["key=lower", "key"],
        ["order=asc", "order"]
      ]) {
        assert.deepStrictEqual(codeOf(yield* trail(`${query}`)), [400, "VALIDATION_FAILED", field], query)
      }
    })
  )

  it.effect("is one chain per stream: every hash covers the one before and the entry's own text", () =>
    Effect.gen(function* () {
      const { session, team } = yield* setUp
      for (let i = 0; i < 12; i++) yield* TestApp.patch(`/teams/${team.id}`, { session, json: { name: `Name ${i}` } })
      const sql = yield* SqlClient.SqlClient
      const rows = yield* sql<{
        readonly stream: string
        readonly seq: number
        readonly body: string
        readonly hash: Buffer
      }>`
        SELECT stream, seq::float8 AS seq, body, hash FROM audit_entries ORDER BY stream, seq`
      assert.isAbove(rows.length, 10)
      let previous: (typeof rows)[number] | undefined
      for (const row of rows) {
        const follows = previous?.stream === row.stream ? previous : undefined
        assert.strictEqual(row.seq, (follows?.seq ?? 0) + 1)
        assert.deepStrictEqual(row.hash, chain(follows?.hash ?? genesis(row.stream), row.body))
        previous = row
      }
    })
  )
})
