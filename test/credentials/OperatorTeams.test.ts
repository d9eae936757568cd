/** Actions of the operator on teams, and on people in all of them. */
import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import { Audit } from "#src/trail/Audit.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import * as Operator from "#src/credentials/Operator.ts"
import * as OperatorTeams from "#src/credentials/OperatorTeams.ts"
import { Revocation } from "#src/credentials/Revocation.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { TeamIdOut } from "#schema/Ids.ts"
import { auditEntry } from "#test/support/Json.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const needs = Effect.gen(function* () {
  const services: Operator.Needs = {
    sql: yield* SqlClient.SqlClient,
    crypto: yield* Crypto,
    audit: yield* Audit,
    revocation: yield* Revocation,
    rowSeal: yield* RowSeal,
    baseUrl: TestApp.baseUrl
  }
  return services
})

const actionsOf = (teamId: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const rows = yield* sql<{ readonly body: string }>`
      SELECT body FROM audit_entries WHERE team_id = ${teamId} ORDER BY at, seq`
    return rows.map(auditEntry).map(({ action, actor }) => `${action} by ${actor.type}`)
  })

/** A team with everything that reaches a value of it. */
const scene = Effect.gen(function* () {
  const project = yield* World.project({ team: yield* World.team({ plan: "team" }) })
  const { team } = project
  const member = yield* World.member(team, "member")
  const session = yield* World.session(member)
  const grant = yield* World.grant({ person: member, teams: [{ team, scopes: ["secrets:run"] }] })
  const token = yield* World.token({ team })
  const path = `/secrets/inject?projectId=${project.id}&environment=${project.development.slug}` as const
  const ways = [{ session: session.text }, { bearer: grant.text }, { bearer: token.text }]
  const reached = Effect.map(
    Effect.forEach(ways, (way) => TestApp.get(path, way)),
    (answers) => answers.map(({ status }) => status)
  )
  return { project, team, member, reached }
})

layer(TestApp.layer, { excludeTestServices: true })("the operator and teams", (it) => {
  it.effect("lists them, with their owners", () =>
    Effect.gen(function* () {
      const { team } = yield* scene
      const [found] = (yield* OperatorTeams.list(yield* needs, { search: team.name, limit: 1_000 })).filter(
        ({ id }) => id === team.id
      )
      assert.deepInclude(found, { suspended: false, members: 2, projects: 1, owners: [team.owner.email] })
      assert.lengthOf(yield* OperatorTeams.list(yield* needs, { search: "no team is called so", limit: 10 }), 0)
    })
  )

  it.effect("creates one for an existing account, as its owner", () =>
    Effect.gen(function* () {
      const services = yield* needs
      const owner = yield* World.person()
      const team = yield* OperatorTeams.create(services, "Platform", { email: owner.email })
      assert.deepInclude(team, { name: "Platform", plan: "developer", suspended: false, owners: [owner.email] })
      const { text: session } = yield* World.session(owner)
      const { json } = yield* TestApp.get("/me", { session })
      assert.deepStrictEqual(
        json.teams.map(({ id, role }) => [id, role]),
        [[team.id, "owner"]]
      )
      assert.deepStrictEqual(yield* actionsOf(team.id), ["team.create by system"])
      const nobody = yield* Effect.flip(OperatorTeams.create(services, "Platform", { email: "nobody@example.com" }))
      assert.strictEqual(nobody._tag, "AccountNotFound")
    })
  )

  it.effect("suspends one, of which nothing is reached by anything until it goes on", () =>
    Effect.gen(function* () {
      const { reached, team } = yield* scene
      const services = yield* needs
      const id = TeamIdOut.make(team.id)
      assert.deepStrictEqual(yield* reached, [200, 200, 200])
      yield* OperatorTeams.setSuspended(services, id, true)
      for (const status of yield* reached) assert.include([401, 404], status)
      yield* OperatorTeams.setSuspended(services, id, false)
      assert.deepStrictEqual(yield* reached, [200, 200, 200])
      const actions = yield* actionsOf(team.id)
      assert.include(actions, "team.suspend by system")
      assert.include(actions, "team.resume by system")
      // A writer of the database alone cannot resume it.
      yield* OperatorTeams.setSuspended(services, id, true)
      yield* services.sql`UPDATE teams SET suspended = false WHERE id = ${team.id}`
      for (const status of yield* reached) assert.include([401, 404], status)
    })
  )

  it.effect("removes one with all that it had, and its trail stays", () =>
    Effect.gen(function* () {
      const { project, reached, team } = yield* scene
      const services = yield* needs
      const other = yield* scene
      yield* OperatorTeams.remove(services, TeamIdOut.make(team.id))
      for (const status of yield* reached) assert.include([401, 404], status)
      assert.deepStrictEqual(yield* other.reached, [200, 200, 200])
      const [left] = yield* services.sql<{ readonly n: number }>`
        SELECT count(*)::int AS n FROM environments WHERE project_id = ${project.id} AND deleted_at IS NULL`
      assert.strictEqual(left.n, 0)
      assert.include(yield* actionsOf(team.id), "team.delete by system")
      const listed = yield* OperatorTeams.list(services, { search: "", limit: 1_000 })
      assert.isFalse(listed.some(({ id }) => id === team.id))
      const absent = yield* Effect.flip(OperatorTeams.remove(services, TeamIdOut.make(crypto.randomUUID())))
      assert.strictEqual(absent._tag, "OperatorTeamNotFound")
    })
  )

  it.effect("keeps a person out of all teams, but no team without an owner, until they are activated", () =>
    Effect.gen(function* () {
      const { member, team } = yield* scene
      const services = yield* needs
      const second = yield* World.team()
      yield* World.join(second, member, "viewer")
      const { text: session } = yield* World.session(member)
      const status = Effect.map(TestApp.get("/me", { session }), (answer) => answer.status)
      assert.strictEqual(yield* status, 200)
      yield* Operator.setActive(services, member.email, false, { evenLastOwner: false })
      assert.strictEqual(yield* status, 401)
      assert.include(yield* actionsOf(team.id), "member.update by system")
      assert.include(yield* actionsOf(second.id), "member.update by system")
      yield* Operator.setActive(services, member.email, true, { evenLastOwner: false })
      const { text: again } = yield* World.session(member)
      assert.lengthOf((yield* TestApp.get("/me", { session: again })).json.teams, 2)
      const refused = yield* Effect.flip(
        Operator.setActive(services, team.owner.email, false, { evenLastOwner: false })
      )
      assert.strictEqual(refused._tag, "LastOwner")
    })
  )
})
