/**
 * Rights of one person in a team, shown and ended in one action; and decisions that wait for a person, on every page of
 * theirs.
 */
import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { allScopes } from "#schema/Scopes.ts"
import { Seal } from "#src/trail/Seal.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { oauthToken } from "#test/access/Scene.ts"
import * as Browser from "#test/mcp/McpApp.ts"
import { auditEntry } from "#test/support/Json.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const sessionOf = (person: World.Person) => Effect.map(World.session(person), ({ text }) => text)
const app = Layer.merge(Browser.layer, Crypto.Default)

/** A member with a grant, a token, a CLI login and a connected agent, and another team that is not touched. */
const scene = Effect.gen(function* () {
  const project = yield* World.project()
  const { production, team } = project
  const owner = yield* sessionOf(team.owner)
  const person = yield* World.member(team, "member")
  const other = yield* World.team()
  yield* World.join(other, person, "member")
  yield* TestApp.patch(`/environments/${production.id}`, { session: owner, json: { readers: "granted" } })
  const until = new Date(Date.now() + 3_600_000).toISOString()
  const grant = yield* TestApp.post(`/environments/${production.id}/grants`, {
    session: owner,
    json: { userId: person.id, level: "values", until }
  })
  assert.strictEqual(grant.status, 201)
  const reach = { scopes: allScopes, projects: null, environments: null }
  const theirs = {
    session: yield* World.session(person),
    token: yield* World.token({ team, creator: person, name: "nightly" }),
    login: yield* World.grant({ person, teams: [{ team, scopes: ["projects:read", "identity:read"] }] }),
    wide: yield* World.grant({
      person,
      teams: [team, other].map((one) => ({ team: one, scopes: ["projects:read"] as const }))
    }),
    agent: yield* oauthToken(person, team, `${yield* Browser.base}/mcp`, reach)
  }
  const statusOf = (path: `/${string}`, as: Parameters<typeof TestApp.get>[1]) =>
    Effect.map(TestApp.get(path, as), ({ status }) => status)
  return { project, team, owner, person, other, until, theirs, statusOf }
})

layer(app, { excludeTestServices: true })("all that a person has in a team", (it) => {
  it.effect("is shown to who manages members, and ended in one action that spares other teams", () =>
    Effect.gen(function* () {
      const { other, owner, person, project, statusOf, team, theirs, until } = yield* scene
      const path = `/teams/${team.id}/members/${person.id}` as const
      const at = `projectId=${project.id}&environment=production`
      yield* TestApp.post("/secrets", {
        session: owner,
        json: { projectId: project.id, environment: "production", key: "PIN", value: "4711" }
      })
      const reading = `/secrets/with-values?${at}` as const
      assert.strictEqual(yield* statusOf(reading, { session: theirs.session.text }), 200)
      yield* Effect.flatMap(Seal, (seal) => seal.now)

      const { json, status } = yield* TestApp.get(`${path}/access`, { session: owner })
      assert.strictEqual(status, 200)
      const production = json.environments.find(({ environment }) => environment === "production")
      assert.deepStrictEqual([production?.level, production?.by, production?.until], ["values", "grant", until])
      assert.isString(production?.lastReadAt)
      const development = json.environments.find(({ environment }) => environment === "development")
      assert.deepStrictEqual([development?.level, development?.by, development?.lastReadAt], ["write", "role", null])
      assert.deepStrictEqual(
        json.credentials.map(({ type }) => type),
        ["api_token", "cli_grant", "cli_grant", "oauth_grant", "session"]
      )
      assert.isFalse(json.endsSessions)
      const member = yield* sessionOf(yield* World.member(team, "member"))
      for (const rest of ["access", "end-access"] as const) {
        const method = rest === "access" ? TestApp.get : TestApp.post
        const answer = yield* method(`${path}/${rest}`, { session: member, ...(rest === "access" ? {} : { json: {} }) })
        assert.deepStrictEqual(TestApp.codeOf(answer), [403, "FORBIDDEN"])
      }

      const ended = yield* TestApp.post(`${path}/end-access`, { session: owner, json: {} })
      const { waysIn, ...counts } = ended.json
      const endingOf = new Map(waysIn.map(({ ending, way }) => [way, ending]))
      assert.strictEqual(endingOf.get("sessions"), "closed")
      assert.strictEqual(endingOf.get("passkeys"), "closed")
      assert.strictEqual(endingOf.get("password"), "kept")
      assert.deepStrictEqual(counts, {
        grants: 1,
        tokens: 1,
        rules: 0,
        logins: 1,
        agents: 1,
        signedOut: false,
        active: true
      })
      assert.strictEqual(yield* statusOf("/me/verify", { bearer: theirs.token.text }), 401)
      assert.strictEqual(yield* statusOf("/me/cli", { bearer: theirs.login.text }), 401)
      const wide = yield* TestApp.get("/projects", { bearer: theirs.wide.text })
      assert.deepStrictEqual([wide.status, wide.json.items], [200, []])
      // The session opens the other team alone.
      assert.strictEqual(yield* statusOf(reading, { session: theirs.session.text }), 404)
      const after = (yield* TestApp.get(`${path}/access`, { session: owner })).json
      assert.deepStrictEqual([after.grants, after.credentials.map(({ type }) => type)], [[], []])

      const sql = yield* SqlClient.SqlClient
      const rows = yield* sql<{ body: string }>`
        SELECT body FROM audit_entries WHERE team_id = ${team.id} AND actor_id = ${team.owner.id} ORDER BY id`
      const said = rows.map((row) => auditEntry(row)).map(({ action, target }) => `${action} ${target?.type ?? ""}`)
      for (const one of [
        "member.end_access user",
        "access.end access_grant",
        "token.revoke api_token",
        "grant.revoke cli_grant",
        "oauth.revoke oauth_grant"
      ]) {
        assert.include(said, one)
      }
      assert.lengthOf(yield* sql`SELECT 1 FROM memberships WHERE team_id = ${other.id} AND user_id = ${person.id}`, 1)
    })
  )

  it.effect("ends with the role and the session, where the owner manages the person in all teams", () =>
    Effect.gen(function* () {
      const team = yield* World.team()
      const person = yield* World.member(team, "admin")
      const session = yield* sessionOf(person)
      const browser = new Browser.Browser(yield* sessionOf(team.owner))
      const base = yield* Browser.base
      const go = (path: string, form?: ReadonlyArray<readonly [string, string]>) =>
        Effect.promise(async () => {
          const answer = await browser.go(`${base}${path}`, form)
          return { status: answer.status, text: await answer.text() }
        })
      const path = `/app/teams/${team.id}/members/${person.id}`
      const page = yield* go(path)
      assert.match(page.text, /Ended for good: [^.]*sessions[^.]*known browsers[^.]*recovery codes/)
      const ended = yield* go(`${path}/end`, [["deactivate", "on"]])
      assert.oneOf(ended.status, [200, 303])
      assert.include((yield* go(path)).text, "deactivated")
      assert.strictEqual((yield* TestApp.get("/me", { session })).status, 401)
      const own = yield* TestApp.post(`/teams/${team.id}/members/${team.owner.id}/end-access`, {
        session: yield* sessionOf(team.owner),
        json: { deactivate: true }
      })
      assert.deepStrictEqual(TestApp.codeOf(own), [403, "FORBIDDEN"])
    })
  )
})

layer(app, { excludeTestServices: true })("what waits for a person", (it) => {
  it.effect("is a badge on every page of the approvers alone", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const { production, team } = project
      const asker = yield* World.member(team, "member")
      const owner = yield* sessionOf(team.owner)
      yield* TestApp.patch(`/environments/${production.id}`, {
        session: owner,
        json: { readers: "granted", changes: "proposed" }
      })
      const request = yield* TestApp.post(`/environments/${production.id}/access-requests`, {
        session: yield* sessionOf(asker),
        json: { level: "write", hours: 2, reason: "Incident 42" }
      })
      assert.strictEqual(request.status, 201)
      const base = yield* Browser.base
      const textOf = (person: World.Person, path: string) =>
        Effect.flatMap(sessionOf(person), (session) =>
          Effect.promise(async () => (await new Browser.Browser(session).go(`${base}${path}`)).text())
        )
      const nav = (text: string) => /<div class="rail">.*?<\/div>/s.exec(text)?.[0] ?? ""
      assert.match(nav(yield* textOf(team.owner, "/app")), /href="\/app\/waiting"[^>]*>.*?Requests <span[^>]*>1</s)
      assert.notInclude(nav(yield* textOf(asker, "/app")), "/app/waiting")
      const page = yield* textOf(team.owner, "/app/waiting")
      for (const text of [asker.email, "Incident 42", `/app/projects/${project.id}/env/production/access`]) {
        assert.include(page, text)
      }
      assert.include(yield* textOf(asker, "/app/waiting"), "Your access requests")

      const flagsFor = (as: Parameters<typeof TestApp.get>[1]) =>
        Effect.map(TestApp.get(`/projects/${project.id}/environments`, as), ({ json }) =>
          json.items.map((one) => "approvers" in one)
        )
      assert.notInclude(yield* flagsFor({ session: owner }), false)
      assert.notInclude(yield* flagsFor({ bearer: (yield* World.token({ team })).text }), true)
    })
  )
})
