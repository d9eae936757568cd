/** Forms about credentials as a browser without scripts sends them. */
import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { Passwords } from "#src/credentials/Passwords.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const submit = (path: string, session: string, fields: ReadonlyArray<readonly [string, string]>) =>
  TestApp.post(path, {
    session,
    headers: { "content-type": "application/x-www-form-urlencoded" },
    body: new URLSearchParams(fields.map(([name, value]) => [name, value])).toString()
  })

layer(TestApp.shared, { excludeTestServices: true })("forms", (it) => {
  it.effect("a token's environments say which projects have them, unless all do", () =>
    Effect.gen(function* () {
      const team = yield* World.team()
      const shop = yield* World.project({ team, slug: "shop" })
      yield* World.project({ team, slug: "blog" })
      yield* World.environment(shop, "preview")
      const session = (yield* World.session(team.owner)).text
      const page = yield* TestApp.get(`/app/teams/${team.id}/tokens/new`, { session })
      const boxOf = (slug: string) => page.text.split("<label").find((box) => box.includes(`value="${slug}"`)) ?? ""
      assert.include(boxOf("preview"), '<span class="hint">in Demo</span>')
      assert.include(boxOf("development"), "<code>development</code>")
      assert.notInclude(boxOf("development"), "hint")
    })
  )

  it.effect("a token with MCP scopes is for /mcp only, unless the form says otherwise", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const team = yield* World.team()
      const session = (yield* World.session(team.owner)).text
      const path = `/app/teams/${team.id}/tokens/new` as const
      const create = (name: string, ...more: ReadonlyArray<readonly [string, string]>) =>
        submit(path, session, [
          ["name", name],
          ["accessLevel", "read"],
          ["lifetime", "30d"],
          ["allProjects", "on"],
          ["allEnvironments", "on"],
          ...more
        ])
      const page = yield* TestApp.get(path, { session })
      assert.match(page.text, /<input(?=[^>]*name="mcpUse")(?=[^>]*value="mcp")(?=[^>]*checked)[^>]*>/)

      const scope = ["mcpScopes", "secrets:read"] as const
      for (const answer of [
        yield* create("agent", scope, ["mcpUse", "mcp"]),
        yield* create("silent", scope),
        yield* create("everywhere", scope, ["mcpUse", "everywhere"]),
        yield* create("ci", ["mcpUse", "mcp"])
      ]) {
        assert.strictEqual(answer.status, 200, answer.text)
      }
      const rows = yield* sql<{ readonly id: string; readonly name: string; readonly mcpOnly: boolean }>`
        SELECT id, name, mcp_only FROM api_tokens WHERE team_id = ${team.id} ORDER BY id`
      assert.deepStrictEqual(
        rows.map(({ mcpOnly, name }) => [name, mcpOnly]),
        [
          ["agent", true],
          ["silent", true],
          ["everywhere", false],
          ["ci", false]
        ]
      )
      const view = (name: string) =>
        TestApp.get(`/app/teams/${team.id}/tokens/${rows.find((row) => row.name === name)?.id}`, { session })
      assert.include((yield* view("everywhere")).text, "MCP scopes do not limit the REST API")
      assert.notInclude((yield* view("agent")).text, "MCP scopes do not limit the REST API")

      const wrong = yield* create("", scope, ["mcpUse", "everywhere"])
      assert.strictEqual(wrong.status, 400)
      assert.match(wrong.text, /<input(?=[^>]*name="mcpUse")(?=[^>]*value="everywhere")(?=[^>]*checked)[^>]*>/)
    })
  )

  it.effect("a person changes their name: all their teams see it, and the trail of each has it", () =>
    Effect.gen(function* () {
      const person = yield* World.person()
      const teams = [yield* World.team({ owner: person }), yield* World.team()] as const
      yield* World.join(teams[1], person, "viewer")
      const session = (yield* World.session(person)).text
      const page = yield* TestApp.get("/app/account", { session })
      assert.include(page.text, `value="${person.name}"`)
      assert.include(page.text, `value="${person.email}"`)

      const changed = yield* submit("/app/account/name", session, [["name", "Ada <King>"]])
      assert.deepStrictEqual([changed.status, changed.headers.get("location")], [303, "/app/account?done=name-changed"])
      assert.include((yield* TestApp.get("/app/account", { session })).text, 'value="Ada &lt;King>"')
      for (const team of teams) {
        const colleague = (yield* World.session(team.owner)).text
        const audit = yield* TestApp.get(`/teams/${team.id}/audit?action=account.update`, { session: colleague })
        assert.include(audit.text, "Ada <King>")
        assert.include(
          (yield* TestApp.get(`/app/teams/${team.id}/members`, { session: colleague })).text,
          "Ada &lt;King>"
        )
      }

      const empty = yield* submit("/app/account/name", session, [["name", " "]])
      assert.strictEqual(empty.status, 400)
      assert.match(empty.text, /<input(?=[^>]*name="name")(?=[^>]*aria-invalid="true")[^>]*>/)
      assert.notMatch(empty.text, /<input(?=[^>]*name="currentPassword")(?=[^>]*aria-invalid)[^>]*>/)
      const bySession = (json: unknown) => TestApp.request("PATCH", "/me", { session, json })
      const answer = yield* bySession({ name: "Ada" })
      assert.deepStrictEqual([answer.status, answer.json], [200, { id: person.id, email: person.email, name: "Ada" }])
      assert.deepStrictEqual(TestApp.refusalOf(yield* bySession({ name: "Ada", email: "other@example.com" })), [
        400,
        "VALIDATION_FAILED",
        "email"
      ])
    })
  )

  it.effect("a new password gives this browser a new session, and ends the one it was changed with", () =>
    Effect.gen(function* () {
      const passwords = yield* Passwords
      const current = "vial of thirty drops"
      const person = yield* World.person({
        passwordHash: yield* passwords.hash(Redacted.make(current), "password")
      })
      yield* World.team({ owner: person })
      const before = (yield* World.session(person)).text
      const page = yield* TestApp.get("/app/account", { session: before })
      assert.include(page.text, "CLI logins")
      const changed = yield* submit("/app/account", before, [
        ["currentPassword", current],
        ["newPassword", "vial of forty drops!"]
      ])
      assert.strictEqual(changed.status, 303, changed.text)
      const after = /^ampoule_session=([^;]+)/.exec(changed.headers.getSetCookie()[0] ?? "")?.[1] ?? ""
      assert.strictEqual((yield* TestApp.get("/me", { session: after })).status, 200)
      assert.strictEqual((yield* TestApp.get("/me", { session: before })).error.code, "CREDENTIAL_REVOKED")
    })
  )
})
