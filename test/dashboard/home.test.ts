/** The first page and the page of all access, asked over HTTP: what they say, to whom. */
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Seal } from "#src/trail/Seal.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import * as Rooms from "./Rooms.ts"

const read = (path: string, session: { readonly text: string }) =>
  Effect.map(TestApp.get(path, { session: session.text }), ({ text }) => text)

layer(TestApp.shared, { excludeTestServices: true, timeout: "60 seconds" })("the first page", (it) => {
  it.effect("names what is missing in protected environments that are in use, and what nobody read for 90 days", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const unused = yield* World.project({ team: project.team, slug: "unused" })
      const owner = yield* World.session(project.team.owner)
      const caller = yield* Rooms.callerOf(owner)
      yield* Rooms.write(caller, unused, "development", { NOT_IN_USE: "canary" })
      yield* Rooms.write(caller, project, "development", { GAP_B: "canary", GAP_A: "canary", BOTH: "canary" })
      yield* Rooms.write(caller, project, "production", { BOTH: "canary", OLD: "canary", READ: "canary" })
      // Before the page is asked for: what it says of reads is as of the last pass over the trail.
      yield* TestApp.post(`/app/projects/${project.id}/env/production/reveal`, {
        session: owner.text,
        headers: { "content-type": "application/x-www-form-urlencoded", origin: TestApp.baseUrl },
        body: "key=READ"
      })
      yield* Effect.flatMap(Seal, (seal) => seal.now)
      const before = yield* read("/app", owner)
      assert.match(before, /2 keys are missing in Demo \/ production/)
      assert.include(before, "GAP_A, GAP_B")
      assert.notInclude(before, "NOT_IN_USE")
      assert.notInclude(before, "90 days")

      const sql = yield* SqlClient.SqlClient
      yield* sql`
        UPDATE secrets SET created_at = created_at - interval '100 days'
        WHERE environment_id = ${project.production.id} AND key IN ('OLD', 'READ')`
      const after = yield* read("/app", owner)
      assert.match(after, /1 value was not read in the last 90 days in Demo \/ production/)
      assert.match(after, /Values were read once/)
      assert.notInclude(after, "canary")

      // A viewer sees names, and nothing of the trail; another team sees nothing of it.
      const viewer = yield* read("/app", yield* World.session(yield* World.member(project.team, "viewer")))
      assert.include(viewer, "2 keys are missing")
      assert.notInclude(viewer, "90 days")
      assert.notInclude(viewer, "Last 14 days")
      const stranger = yield* read("/app", yield* World.session((yield* World.team()).owner))
      assert.notInclude(stranger, "are missing")
    })
  )

  it.effect("has tokens that end within 14 days", () =>
    Effect.gen(function* () {
      const team = yield* World.team()
      const owner = yield* World.session(team.owner)
      for (const [name, lifetime] of [
        ["soon gone", "7d"],
        ["long there", "90d"]
      ]) {
        const creation = yield* TestApp.post(`/teams/${team.id}/api-tokens`, {
          session: owner.text,
          json: { name, lifetime }
        })
        assert.strictEqual(creation.status, 201, creation.text)
      }
      const page = yield* read("/app", owner)
      assert.match(page, /The token soon gone ends on \d{4}-/)
      assert.notInclude(page, "long there")
    })
  )
})

const behindProxy = TestApp.server.pipe(
  Layer.provideMerge(Layer.merge(TestApp.backends, TestApp.config({ trustedProxies: ["127.0.0.1"] })))
)

layer(behindProxy, { excludeTestServices: true, timeout: "60 seconds" })("the first page", (it) => {
  it.effect("tells owners and admins who reads values from a new address for them", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const owner = yield* World.session(project.team.owner)
      yield* Rooms.write(yield* Rooms.callerOf(owner), project, "development", { A: "canary" })
      const familiar = yield* World.token({ team: project.team, name: "deploys the shop" })
      const fresh = yield* World.token({ team: project.team, name: "made just now" })
      const inject = ({ text }: { readonly text: string }, address: string) =>
        TestApp.get(`/secrets/inject?projectId=${project.id}&environment=development`, {
          bearer: text,
          headers: { "x-forwarded-for": address }
        })
      yield* inject(familiar, "198.51.100.1")
      yield* inject(fresh, "203.0.113.50")
      assert.notInclude(yield* read("/app", owner), "a new address")
      yield* inject(familiar, "203.0.113.9")
      const page = yield* read("/app", owner)
      assert.match(page, /deploys the shop read values from a new address/)
      assert.include(page, "203.0.113.9, just now")
      assert.notInclude(page, "198.51.100.1,")
      assert.notInclude(page, "made just now read")
      const member = yield* read("/app", yield* World.session(yield* World.member(project.team, "member")))
      assert.notInclude(member, "203.0.113.9")
      const stranger = yield* read("/app", yield* World.session((yield* World.team()).owner))
      assert.notInclude(stranger, "203.0.113.9")
    })
  )
})

layer(TestApp.shared, { excludeTestServices: true, timeout: "60 seconds" })("the page of all access", (it) => {
  it.effect("lists what gets into the team, of everybody, for owners and admins alone", () =>
    Effect.gen(function* () {
      const team = yield* World.team()
      const member = yield* World.member(team, "member")
      const admin = yield* World.session(yield* World.member(team, "admin"))
      yield* World.token({ team, name: "a token of the team" })
      yield* World.grant({ person: member, teams: [{ team, scopes: ["identity:read"] }] })
      const other = yield* World.team()
      yield* World.token({ team: other, name: "of another team" })
      yield* World.session(other.owner)
      const here = `/app/teams/${team.id}/access`
      const page = yield* read(here, admin)
      assert.include(page, "a token of the team")
      assert.include(page, "login of the command line")
      assert.include(page, member.email)
      assert.notInclude(page, "of another team")
      assert.notInclude(page, other.owner.email)
      // The lists of tokens and of CI identities are parts of this page, and so is every way to them.
      for (const part of ["tokens", "ci"]) {
        const list = yield* read(`/app/teams/${team.id}/${part}`, admin)
        assert.match(list, /<h1>Access<\/h1>/)
        assert.match(list, new RegExp(`/${part}" aria-current="page"`))
        assert.match(list, /\/access" aria-current="page"><svg/)
        assert.notInclude(
          yield* read(`/app/teams/${team.id}/${part}?q=nothing+is+called+so`, admin),
          "a token of the team"
        )
      }
      const rail = page.slice(page.indexOf('class="rail"'), page.indexOf("<main"))
      for (const part of ["tokens", "ci"]) assert.notInclude(rail, `/${part}"`)
      const tokens = yield* read(`${here}?kind=api_token`, admin)
      assert.notInclude(tokens, "login of the command line</td>")
      assert.include(yield* read(`${here}?q=${member.email}`, admin), member.email)
      for (const [person, status] of [
        [yield* World.session(member), 403],
        [yield* World.session(other.owner), 404]
      ] as const) {
        assert.strictEqual((yield* TestApp.get(here, { session: person.text })).status, status)
      }
    })
  )

  it.effect("and a form for a token begins with a purpose, and still reaches nothing by itself", () =>
    Effect.gen(function* () {
      const team = yield* World.team()
      yield* World.project({ team })
      const owner = yield* World.session(team.owner)
      const form = `/app/teams/${team.id}/tokens/new`
      const agent = yield* read(`${form}?preset=agent`, owner)
      assert.match(agent, /name="mcpScopes"[^>]*value="secrets:run"[^>]*checked|checked[^>]*value="secrets:run"/)
      assert.notMatch(agent, /name="(?:projects|environments|allProjects)"[^>]*checked/)
      assert.include(yield* read(`${form}?preset=ci`, owner), "need no token at all")
      assert.strictEqual((yield* TestApp.get(`${form}?preset=constructor`, { session: owner.text })).status, 200)
    })
  )
})
