import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const { codeOf } = TestApp
const none = { projectIds: null, environmentIds: null }

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
        restrictions: { projectIds: [project.id], environmentIds: [project.staging.id] }
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
        restrictions: none
      })
      const session = yield* World.session(team.owner)
      const verified = yield* TestApp.get("/me/verify", { session: session.text })
      assert.deepStrictEqual(verified.json, {
        credential: { type: "session", id: session.id, expiresAt: verified.json.credential.expiresAt },
        teams: json.teams,
        restrictions: none
      })
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
