import * as SqlClient from "@effect/sql/SqlClient"
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Seals from "#test/support/Seals.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const { codeOf } = TestApp
const none = { projectIds: null, environmentIds: null }

const onlyOf = (asked: TestApp.Asked) => Effect.map(TestApp.get("/me/verify", asked), ({ json }) => json.only)
const everyScope = ["identity:read", "projects:read", "secrets:read", "secrets:run"] as const

layer(TestApp.shared, { excludeTestServices: true })("identity", (it) => {
  it.effect("verifies an API token: name, level, team, MCP scopes, restrictions", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const { team } = project
      const token = yield* World.token({
        team,
        accessLevel: "read",
        projects: [project],
        environments: [project.staging],
        mcpScopes: ["secrets:read"]
      })
      const { json } = yield* TestApp.get("/me/verify", { bearer: token.text })
      assert.deepStrictEqual(json, {
        credential: { type: "api_token", id: token.id, name: "ci", expiresAt: json.credential.expiresAt },
        accessLevel: "read",
        teams: [{ id: team.id, name: "Team" }],
        mcpScopes: ["secrets:read"],
        restrictions: { projectIds: [project.id], environmentIds: [project.staging.id] },
        only: {
          projectId: project.id,
          project: project.slug,
          environmentId: project.staging.id,
          environment: "staging"
        }
      })
    })
  )

  it.effect("verifies a CLI grant with its scopes per team, and a session", () =>
    Effect.gen(function* () {
      const team = yield* World.team()
      const other = yield* World.team({ name: "Other" })
      yield* World.join(other, team.owner, "viewer")
      const grant = yield* World.grant({
        person: team.owner,
        teams: [
          { team, scopes: ["identity:read", "secrets:run"] },
          { team: other, scopes: ["identity:read"] }
        ]
      })
      const { json } = yield* TestApp.get("/me/verify", { bearer: grant.text })
      assert.deepStrictEqual(json, {
        credential: { type: "cli_grant", id: grant.id, expiresAt: json.credential.expiresAt },
        teams: [
          { id: team.id, name: "Team" },
          { id: other.id, name: "Other" }
        ],
        scopes: [
          { teamId: team.id, scopes: ["identity:read", "secrets:run"] },
          { teamId: other.id, scopes: ["identity:read"] }
        ],
        restrictions: none,
        only: null
      })
      const session = yield* World.session(team.owner)
      const verified = yield* TestApp.get("/me/verify", { session: session.text })
      assert.deepStrictEqual(verified.json, {
        credential: { type: "session", id: session.id, expiresAt: verified.json.credential.expiresAt },
        teams: json.teams,
        restrictions: none,
        only: null
      })
    })
  )

  it.effect("names the only environment of a narrowed login, of a machine login, and of a team with one", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const project = yield* World.project()
      const { team } = project
      const only = {
        projectId: project.id,
        project: project.slug,
        environmentId: project.staging.id,
        environment: "staging"
      }
      const staging = { person: team.owner, environments: [project.staging] }
      const login = yield* World.grant({ ...staging, teams: [{ team, scopes: everyScope }] })
      assert.deepStrictEqual(yield* onlyOf({ bearer: login.text }), only)
      const scopes = ["identity:read", "secrets:run"] as const
      const machine = yield* World.grant({ ...staging, teams: [{ team, scopes }], machine: true })
      assert.deepStrictEqual(yield* onlyOf({ bearer: machine.text }), only)
      // Identity alone says nothing about the team's projects.
      const nameless = yield* World.grant({ ...staging, teams: [{ team, scopes: ["identity:read"] }] })
      assert.isNull(yield* onlyOf({ bearer: nameless.text }))

      const whole = yield* World.token({ team })
      assert.isNull(yield* onlyOf({ bearer: whole.text }))
      const { development, production } = project
      yield* sql`UPDATE environments SET deleted_at = ${new Date()} WHERE id IN (${development.id}, ${production.id})`
      assert.deepStrictEqual(yield* onlyOf({ bearer: whole.text }), only)
      // The environment of another team counts too.
      const other = yield* World.project()
      yield* World.join(other.team, team.owner, "member")
      const both = [team, other.team].map((one) => ({ team: one, scopes: everyScope }))
      assert.isNull(yield* onlyOf({ bearer: (yield* World.grant({ person: team.owner, teams: both })).text }))
      yield* sql`UPDATE projects SET deleted_at = ${new Date()} WHERE id = ${project.id}`
      assert.isNull(yield* onlyOf({ bearer: whole.text }))
    })
  )

  it.effect("counts hidden projects by their grants, and no row that somebody altered in the database", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { team, ...project } = yield* World.project()
      const member = yield* World.member(team, "member")
      // More of them than the statement would return.
      const others = yield* Effect.forEach([1, 2, 3], () => World.project({ team }))
      const [first] = others
      const ids = [project, ...others].map(({ id }) => id)
      yield* Seals.after("projects", sql`UPDATE projects SET visibility = 'granted' WHERE id = any(${ids}::uuid[])`)
      const session = { session: (yield* World.session(member)).text }
      assert.isNull(yield* onlyOf(session))
      const now = new Date()
      yield* sql`
        INSERT INTO access_grants (id, team_id, user_id, project_id, environment_id, level, created_by, created_at)
        VALUES (gen_random_uuid(), ${team.id}, ${member.id}, ${first.id}, ${first.production.id}, 'run',
          ${team.owner.id}, ${now})`
      yield* Seals.give("access_grants")
      assert.deepInclude(yield* onlyOf(session), { projectId: first.id, environment: "production" })

      yield* sql`UPDATE projects SET visibility = 'team' WHERE id = ${project.id}`
      assert.deepInclude(yield* onlyOf(session), { projectId: first.id }, "a project that is open without a MAC")
      yield* sql`UPDATE environments SET slug = 'other' WHERE id = ${first.production.id}`
      assert.isNull(yield* onlyOf(session), "an environment whose slug was altered")
    })
  )

  it.effect("needs identity:read in every granted team", () =>
    Effect.gen(function* () {
      const team = yield* World.team()
      const other = yield* World.team()
      yield* World.join(other, team.owner, "owner")
      const grant = yield* World.grant({
        person: team.owner,
        teams: [
          { team, scopes: ["identity:read"] },
          { team: other, scopes: ["secrets:run"] }
        ]
      })
      for (const path of ["/me/verify", "/me", "/me/cli"] as const) {
        const { error, status } = yield* TestApp.get(path, { bearer: grant.text })
        assert.deepStrictEqual([status, error.code, error.requiredScope], [403, "SCOPE_MISSING", "identity:read"])
      }
      const trail = yield* TestApp.get(`/teams/${other.id}/audit?action=identity.read`, {
        session: (yield* World.session(other.owner)).text
      })
      assert.lengthOf(trail.json.items, 3)
      assert.deepInclude(trail.json.items[0], { outcome: "denied", reason: "SCOPE_MISSING" })
    })
  )

  it.effect("answers /me to people, with granted teams only for a grant, and to no API token", () =>
    Effect.gen(function* () {
      const team = yield* World.team({ plan: "developer" })
      const other = yield* World.team()
      yield* World.join(other, team.owner, "viewer")
      const grant = yield* World.grant({ person: team.owner, teams: [{ team, scopes: ["identity:read"] }] })
      const mine = { id: team.id, name: "Team", role: "owner", plan: "developer" }
      assert.deepStrictEqual((yield* TestApp.get("/me", { bearer: grant.text })).json, {
        user: team.owner,
        teams: [mine],
        activeTeam: team.id
      })
      const session = yield* World.session(team.owner)
      assert.deepStrictEqual((yield* TestApp.get("/me", { session: session.text })).json.teams, [
        mine,
        { id: other.id, name: "Team", role: "viewer", plan: "team" }
      ])
      const token = yield* World.token({ team })
      for (const path of ["/me", "/me/cli"]) {
        const answer = yield* TestApp.get(path, { bearer: token.text })
        assert.deepStrictEqual(codeOf(answer), [403, "CREDENTIAL_KIND_NOT_ACCEPTED"])
      }
    })
  )

  it.effect("answers /me/cli to a CLI grant, and to nothing else", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const { team } = project
      const grant = yield* World.grant({
        person: team.owner,
        teams: [{ team, scopes: ["identity:read", "projects:read"] }],
        projects: [project],
        machine: true
      })
      const { json } = yield* TestApp.get("/me/cli", { bearer: grant.text })
      assert.deepStrictEqual(json, {
        grantId: grant.id,
        machine: true,
        user: team.owner,
        teams: [{ id: team.id, name: "Team", scopes: ["identity:read", "projects:read"] }],
        restrictions: { projectIds: [project.id], environmentIds: null },
        createdAt: json.createdAt,
        expiresAt: new Date(Date.parse(json.createdAt) + 180 * 86_400_000).toISOString(),
        lastUsedAt: null
      })
      const session = yield* World.session(team.owner)
      const answer = yield* TestApp.get("/me/cli", { session: session.text })
      assert.deepStrictEqual(codeOf(answer), [403, "CREDENTIAL_KIND_NOT_ACCEPTED"])
      const ended = yield* TestApp.del("/me/token", { bearer: grant.text })
      assert.deepStrictEqual(codeOf(ended), [403, "CREDENTIAL_KIND_NOT_ACCEPTED"])
    })
  )
})
