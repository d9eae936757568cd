/**
 * OAuth from registration to revocation, with what goes wrong on the way (RFC 6749, 7636, 8707, 9207, 7009;
 * docs/security.md).
 */
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as SqlClient from "@effect/sql/SqlClient"
import { Revocation } from "#src/credentials/Revocation.ts"
import type * as Bodies from "#test/support/Bodies.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as Clients from "#test/mcp/Clients.ts"
import * as McpApp from "#test/mcp/McpApp.ts"
import * as Seals from "#test/support/Seals.ts"
import * as World from "#test/support/World.ts"
import * as OAuth from "./OAuthClient.ts"

/** A person with a team and project, signed in, and a registered client. */
const scene = Effect.gen(function* () {
  const base = yield* McpApp.base
  const project = yield* World.project()
  const session = yield* World.session(project.team.owner)
  const client = yield* Effect.promise(() => OAuth.register(base))
  const { client_id: clientId } = OAuth.registered(client)
  return { base, project, clientId, browser: new McpApp.Browser(session.text) }
})

const authorize = (
  { base, browser, clientId, project }: Effect.Effect.Success<typeof scene>,
  scopes: ReadonlyArray<string> = ["projects:read"]
) =>
  Effect.promise(async () => {
    const { challenge, verifier } = OAuth.pkce()
    const url = OAuth.authorizationUrl(base, {
      client_id: clientId,
      code_challenge: challenge,
      scope: scopes.join(" ")
    })
    const { callback, page } = await McpApp.decide(browser, url, { scopes, teams: [project.team] })
    return { callback, page, verifier, code: callback.searchParams.get("code") ?? "" }
  })

const tokens = (stage: Effect.Effect.Success<typeof scene>, scopes?: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const { code, verifier } = yield* authorize(stage, scopes)
    const answer = yield* Effect.promise(() => OAuth.redeem(stage.base, stage.clientId, code, verifier))
    assert.strictEqual(answer.status, 200)
    return { ...answer.json, refresh_token: OAuth.refreshTokenOf(answer) }
  })

const mcp = (base: string, bearer: string) =>
  Effect.promise(() =>
    fetch(`${base}/mcp`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${bearer}`,
        "content-type": "application/json",
        accept: "application/json, text/event-stream"
      },
      body: JSON.stringify(Clients.initialize)
    })
  )

const isInvalidGrant = (answer: Bodies.Answer) => answer.status === 400 && OAuth.errorOf(answer) === "invalid_grant"

layer(McpApp.shared, { excludeTestServices: true })("the authorization server", (it) => {
  describe("a client", () => {
    it.effect("registers, is consented to, and gets tokens in our format that work at /mcp", () =>
      Effect.gen(function* () {
        const stage = yield* scene
        const { callback, code, page, verifier } = yield* authorize(stage, ["projects:read", "secrets:read"])
        assert.include(page, "Test client")
        assert.include(page, "127.0.0.1:53121")
        assert.notMatch(page, /type="checkbox"[^>]*checked/)
        assert.strictEqual(callback.searchParams.get("state"), "s-1")
        assert.strictEqual(callback.searchParams.get("iss"), stage.base)
        assert.match(code, /^amp_oc_/)
        const { headers, json, status } = yield* Effect.promise(() =>
          OAuth.redeem(stage.base, stage.clientId, code, verifier)
        )
        assert.strictEqual(status, 200)
        assert.strictEqual(headers.get("cache-control"), "no-store")
        assert.match(json.access_token, /^amp_oa_/)
        assert.match(json.refresh_token ?? "", /^amp_or_/)
        assert.strictEqual(json.token_type, "Bearer")
        assert.strictEqual(json.expires_in, 900)
        assert.strictEqual(json.scope, "projects:read secrets:read")
        const answer = yield* mcp(stage.base, json.access_token)
        assert.strictEqual(answer.status, 200)
      })
    )

    it.effect("keeps no readable credential in the database", () =>
      Effect.gen(function* () {
        const stage = yield* scene
        const pair = yield* tokens(stage)
        const sql = yield* SqlClient.SqlClient
        const rows = yield* sql`
          SELECT to_jsonb(c)::text AS row FROM oauth_codes c
          UNION ALL SELECT to_jsonb(a)::text FROM oauth_access_tokens a
          UNION ALL SELECT to_jsonb(r)::text FROM oauth_refresh_tokens r
          UNION ALL SELECT to_jsonb(i)::text FROM oauth_interactions i
          UNION ALL SELECT to_jsonb(g)::text FROM oauth_grants g`
        const dump = JSON.stringify(rows)
        for (const text of [pair.access_token, pair.refresh_token]) {
          assert.notInclude(dump, text.slice(24, 60))
        }
      })
    )

    it.effect("gets less when the person allows less, and the answer names the scopes", () =>
      Effect.gen(function* () {
        const stage = yield* scene
        const { challenge, verifier } = OAuth.pkce()
        const url = OAuth.authorizationUrl(stage.base, {
          client_id: stage.clientId,
          code_challenge: challenge,
          scope: "projects:read secrets:read secrets:write offline_access nonsense"
        })
        const { callback } = yield* Effect.promise(() =>
          McpApp.decide(stage.browser, url, { scopes: ["secrets:read"], teams: [stage.project.team] })
        )
        const code = callback.searchParams.get("code") ?? ""
        const { json } = yield* Effect.promise(() => OAuth.redeem(stage.base, stage.clientId, code, verifier))
        assert.strictEqual(json.scope, "secrets:read")
      })
    )

    it.effect("that names no scope asks for names only", () =>
      Effect.gen(function* () {
        const stage = yield* scene
        const { challenge, verifier } = OAuth.pkce()
        const url = OAuth.authorizationUrl(stage.base, { client_id: stage.clientId, code_challenge: challenge })
        const { callback } = yield* Effect.promise(() =>
          McpApp.decide(stage.browser, url, {
            scopes: ["projects:read", "secrets:read", "secrets:write"],
            teams: [stage.project.team]
          })
        )
        const code = callback.searchParams.get("code") ?? ""
        const { json } = yield* Effect.promise(() => OAuth.redeem(stage.base, stage.clientId, code, verifier))
        assert.strictEqual(json.scope, "projects:read secrets:read")
      })
    )

    it.effect("gets access_denied after a refusal", () =>
      Effect.gen(function* () {
        const stage = yield* scene
        const { challenge } = OAuth.pkce()
        const url = OAuth.authorizationUrl(stage.base, { client_id: stage.clientId, code_challenge: challenge })
        const { callback } = yield* Effect.promise(() => McpApp.decide(stage.browser, url, "refuse"))
        assert.strictEqual(callback.searchParams.get("error"), "access_denied")
        assert.strictEqual(callback.searchParams.get("iss"), stage.base)
        assert.strictEqual(callback.searchParams.get("state"), "s-1")
      })
    )

    it.effect("is consented to each time; the newer consent replaces the earlier one, whose choice it shows", () =>
      Effect.gen(function* () {
        const stage = yield* scene
        const { base, browser, clientId, project } = stage
        const first = yield* tokens(stage, ["projects:read"])
        const { code, page, verifier } = yield* authorize(stage, ["projects:read", "secrets:read_values"])
        assert.include(page, "Test client")
        const ticked = [...page.matchAll(/<input[^>]*type="checkbox"[^>]*>/g)].filter(([box]) => / checked/.test(box))
        assert.deepStrictEqual(
          ticked.map(([box]) => (box.includes(`name="everywhere"`) ? "everywhere" : /value="([^"]*)"/.exec(box)?.[1])),
          ["projects:read", project.team.id, "everywhere"]
        )
        assert.include(page, "already granted")
        assert.include(page, "Values in plain text")
        // From the decision on, what the earlier consent gave is dead.
        assert.strictEqual((yield* mcp(base, first.access_token)).status, 401)
        assert.isTrue(isInvalidGrant(yield* Effect.promise(() => OAuth.refresh(base, clientId, first.refresh_token))))
        const { json } = yield* Effect.promise(() => OAuth.redeem(base, clientId, code, verifier))
        assert.strictEqual((yield* mcp(base, json.access_token)).status, 200)
        const html = yield* Effect.promise(async () => (await browser.go(`${base}/app/connections`)).text())
        assert.lengthOf([...html.matchAll(/<h2>Test client<\/h2>/g)], 1)
      })
    )

    it.effect("that two consents at once are for has one of them", () =>
      Effect.gen(function* () {
        const stage = yield* scene
        const browsers = [stage.browser, new McpApp.Browser((yield* World.session(stage.project.team.owner)).text)]
        // Whose consent was replaced before it brought a code is sent to the page again.
        const decided = yield* Effect.forEach(browsers, (browser) => Effect.exit(authorize({ ...stage, browser })), {
          concurrency: 2
        })
        assert.isTrue(decided.some(({ _tag }) => _tag === "Success"))
        const sql = yield* SqlClient.SqlClient
        const live = yield* sql`
          SELECT id FROM oauth_grants WHERE client_id = ${stage.clientId} AND revoked_at IS NULL`
        assert.lengthOf(live, 1)
      })
    )
  })

  describe("a code", () => {
    it.effect("is redeemed once by 12 parallel tries", () =>
      Effect.gen(function* () {
        const stage = yield* scene
        const { code, verifier } = yield* authorize(stage)
        const answers = yield* Effect.promise(() =>
          Promise.all(Array.from({ length: 12 }, () => OAuth.redeem(stage.base, stage.clientId, code, verifier)))
        )
        assert.strictEqual(answers.filter(({ status }) => status === 200).length, 1)
        assert.strictEqual(answers.filter(isInvalidGrant).length, 11)
      })
    )

    it.effect("used again takes back what it gave", () =>
      Effect.gen(function* () {
        const stage = yield* scene
        const { code, verifier } = yield* authorize(stage)
        const first = yield* Effect.promise(() => OAuth.redeem(stage.base, stage.clientId, code, verifier))
        assert.strictEqual(first.status, 200)
        const again = yield* Effect.promise(() => OAuth.redeem(stage.base, stage.clientId, code, verifier))
        assert.isTrue(isInvalidGrant(again))
        assert.strictEqual((yield* mcp(stage.base, first.json.access_token)).status, 401)
        const renewed = yield* Effect.promise(() =>
          OAuth.refresh(stage.base, stage.clientId, OAuth.refreshTokenOf(first))
        )
        assert.isTrue(isInvalidGrant(renewed))
      })
    )

    it.effect("is bound to its verifier, client and redirect", () =>
      Effect.gen(function* () {
        const stage = yield* scene
        const { client_id: other } = OAuth.registered(yield* Effect.promise(() => OAuth.register(stage.base)))
        const { code, verifier } = yield* authorize(stage)
        for (const attempt of [
          () => OAuth.redeem(stage.base, stage.clientId, code, OAuth.pkce().verifier),
          () => OAuth.redeem(stage.base, other, code, verifier),
          () =>
            OAuth.redeem(stage.base, stage.clientId, code, verifier, { redirect_uri: "http://127.0.0.1:1/callback" }),
          () =>
            OAuth.redeem(stage.base, stage.clientId, `${code.slice(0, -1)}${code.endsWith("0") ? "1" : "0"}`, verifier)
        ]) {
          assert.isTrue(isInvalidGrant(yield* Effect.promise(attempt)))
        }
        const target = yield* Effect.promise(() =>
          OAuth.redeem(stage.base, stage.clientId, code, verifier, { resource: "https://elsewhere.example/mcp" })
        )
        assert.strictEqual(target.status, 400)
        assert.strictEqual(OAuth.errorOf(target), "invalid_target")
      })
    )
  })

  describe("a refresh token", () => {
    it.effect("is rotated, and the successor of 12 parallel uses is one", () =>
      Effect.gen(function* () {
        const stage = yield* scene
        const pair = yield* tokens(stage)
        const answers = yield* Effect.promise(() =>
          Promise.all(Array.from({ length: 12 }, () => OAuth.refresh(stage.base, stage.clientId, pair.refresh_token)))
        )
        assert.isTrue(answers.every(({ status }) => status === 200))
        const successors = new Set(answers.map(({ json }) => json.refresh_token))
        assert.strictEqual(successors.size, 1)
        assert.isFalse(successors.has(pair.refresh_token))
        for (const { json } of answers) assert.strictEqual((yield* mcp(stage.base, json.access_token)).status, 200)
      })
    )

    it.effect("used again after its successor was used ends the family", () =>
      Effect.gen(function* () {
        const stage = yield* scene
        const first = yield* tokens(stage)
        const second = yield* Effect.promise(() => OAuth.refresh(stage.base, stage.clientId, first.refresh_token))
        const third = yield* Effect.promise(() =>
          OAuth.refresh(stage.base, stage.clientId, OAuth.refreshTokenOf(second))
        )
        assert.strictEqual(third.status, 200)
        const stolen = yield* Effect.promise(() => OAuth.refresh(stage.base, stage.clientId, first.refresh_token))
        assert.isTrue(isInvalidGrant(stolen))
        assert.isTrue(
          isInvalidGrant(
            yield* Effect.promise(() => OAuth.refresh(stage.base, stage.clientId, OAuth.refreshTokenOf(third)))
          )
        )
        assert.strictEqual((yield* mcp(stage.base, third.json.access_token)).status, 401)
      })
    )

    it.effect("used again after 30 seconds ends the family, though its successor was never seen", () =>
      Effect.gen(function* () {
        const stage = yield* scene
        const first = yield* tokens(stage)
        const second = yield* Effect.promise(() => OAuth.refresh(stage.base, stage.clientId, first.refresh_token))
        assert.strictEqual(second.status, 200)
        const sql = yield* SqlClient.SqlClient
        yield* sql`
          UPDATE oauth_refresh_tokens SET consumed_at = consumed_at - interval '31 seconds'
          WHERE consumed_at IS NOT NULL`
        assert.isTrue(
          isInvalidGrant(yield* Effect.promise(() => OAuth.refresh(stage.base, stage.clientId, first.refresh_token)))
        )
        assert.isTrue(
          isInvalidGrant(
            yield* Effect.promise(() => OAuth.refresh(stage.base, stage.clientId, OAuth.refreshTokenOf(second)))
          )
        )
      })
    )

    it.effect("may narrow and never widen", () =>
      Effect.gen(function* () {
        const stage = yield* scene
        const pair = yield* tokens(stage, ["projects:read", "secrets:read"])
        const wider = yield* Effect.promise(() =>
          OAuth.refresh(stage.base, stage.clientId, pair.refresh_token, { scope: "projects:read secrets:write" })
        )
        assert.strictEqual(OAuth.errorOf(wider), "invalid_scope")
        const narrower = yield* Effect.promise(() =>
          OAuth.refresh(stage.base, stage.clientId, pair.refresh_token, { scope: "projects:read" })
        )
        assert.strictEqual(narrower.json.scope, "projects:read")
      })
    )

    it.effect("of another client is refused", () =>
      Effect.gen(function* () {
        const stage = yield* scene
        const pair = yield* tokens(stage)
        const { client_id: other } = OAuth.registered(yield* Effect.promise(() => OAuth.register(stage.base)))
        assert.isTrue(isInvalidGrant(yield* Effect.promise(() => OAuth.refresh(stage.base, other, pair.refresh_token))))
      })
    )
  })

  describe("revocation", () => {
    it.effect("answers 200 to the owner and to nonsense, and ends the grant at once", () =>
      Effect.gen(function* () {
        const stage = yield* scene
        const pair = yield* tokens(stage)
        const { client_id: other } = OAuth.registered(yield* Effect.promise(() => OAuth.register(stage.base)))
        const revoke = (clientId: string, token: string) =>
          Effect.promise(() => OAuth.post(stage.base, "/oauth/revoke", { token, client_id: clientId }))
        assert.strictEqual((yield* revoke(stage.clientId, "nonsense")).status, 200)
        yield* revoke(other, pair.refresh_token)
        assert.strictEqual((yield* mcp(stage.base, pair.access_token)).status, 200)
        assert.strictEqual((yield* revoke(stage.clientId, pair.refresh_token)).status, 200)
        assert.strictEqual((yield* mcp(stage.base, pair.access_token)).status, 401)
        assert.isTrue(
          isInvalidGrant(yield* Effect.promise(() => OAuth.refresh(stage.base, stage.clientId, pair.refresh_token)))
        )
      })
    )

    it.effect("by the person takes effect with the next request", () =>
      Effect.gen(function* () {
        const stage = yield* scene
        const pair = yield* tokens(stage)
        const page = yield* Effect.promise(async () => (await stage.browser.go(`${stage.base}/app/connections`)).text())
        const path = /action="(\/app\/connections\/[^"]+\/revoke)"/.exec(page)?.[1]
        assert.include(page, "Test client")
        const done = yield* Effect.promise(() => stage.browser.go(`${stage.base}${path}`, []))
        assert.strictEqual(done.status, 303)
        assert.strictEqual((yield* mcp(stage.base, pair.access_token)).status, 401)
      })
    )
  })

  describe("a grant", () => {
    const standing = (
      change: (
        sql: SqlClient.SqlClient,
        stage: Effect.Effect.Success<typeof scene>
      ) => Effect.Effect<unknown, unknown, Revocation | SqlClient.SqlClient>
    ) =>
      Effect.gen(function* () {
        const stage = yield* scene
        const pair = yield* tokens(stage)
        assert.strictEqual((yield* mcp(stage.base, pair.access_token)).status, 200)
        const sql = yield* SqlClient.SqlClient
        yield* Effect.orDie(change(sql, stage))
        assert.strictEqual((yield* mcp(stage.base, pair.access_token)).status, 401)
        assert.isTrue(
          isInvalidGrant(yield* Effect.promise(() => OAuth.refresh(stage.base, stage.clientId, pair.refresh_token)))
        )
      })

    it.effect("dies with a change of role", () =>
      standing((sql, { project }) => {
        const later = new Date(Date.now() + 1_000)
        return Seals.after(
          "memberships",
          sql`UPDATE memberships SET role = 'member', updated_at = ${later} WHERE user_id = ${project.team.owner.id}`
        )
      })
    )
    it.effect("dies with a new password", () =>
      standing((_, { project }) =>
        Effect.flatMap(Revocation, (revocation) => revocation.agentsOf(project.team.owner.id))
      )
    )
    it.effect("dies when the person is removed", () =>
      standing((sql, { project }) => sql`DELETE FROM memberships WHERE user_id = ${project.team.owner.id}`)
    )
    it.effect("dies when the person is deactivated", () =>
      standing((sql, { project }) =>
        Seals.after("memberships", sql`UPDATE memberships SET active = false WHERE user_id = ${project.team.owner.id}`)
      )
    )
  })

  describe("a grant that is restricted to environments", () => {
    const scopes = ["identity:read", "projects:read", "secrets:read"]
    const restricted = (stage: Effect.Effect.Success<typeof scene>, environments: ReadonlyArray<{ id: string }>) =>
      Effect.gen(function* () {
        const { challenge, verifier } = OAuth.pkce()
        const url = OAuth.authorizationUrl(stage.base, {
          client_id: stage.clientId,
          code_challenge: challenge,
          scope: scopes.join(" ")
        })
        const { callback, page } = yield* Effect.promise(() =>
          McpApp.decide(stage.browser, url, { scopes, teams: [stage.project.team], environments })
        )
        const code = callback.searchParams.get("code") ?? ""
        const { json } = yield* Effect.promise(() => OAuth.redeem(stage.base, stage.clientId, code, verifier))
        return { page, access: String(json.access_token), refresh: String(json.refresh_token) }
      })
    const listed = (base: string, bearer: string, projectId: string) =>
      Effect.map(Clients.use(base, bearer, "list_environments", { projectId }), ({ output }) =>
        output.environments.map(({ slug }) => slug)
      )

    it.effect("is offered every environment by name, and reaches those that the person ticked", () =>
      Effect.gen(function* () {
        const stage = yield* scene
        const { base, project } = stage
        const other = yield* World.project({ team: project.team })
        const { access, page } = yield* restricted(stage, [project.development])
        for (const { id } of [project.development, project.production, other.staging]) {
          assert.include(page, `name="environmentIds" value="${id}"`)
        }
        const place = { projectId: project.id, environment: "development" }
        assert.deepStrictEqual((yield* Clients.use(base, access, "list_secrets", place)).output.secrets, [])
        assert.deepStrictEqual(yield* listed(base, access, project.id), ["development"])
        const { projects } = (yield* Clients.use(base, access, "list_projects")).output
        assert.deepStrictEqual(
          projects.map(({ id }) => id),
          [project.id]
        )
        const { restrictions } = (yield* Clients.use(base, access, "whoami")).output
        assert.deepStrictEqual(restrictions, {
          projects: null,
          environments: [project.development.id],
          named: {
            projects: [],
            environments: [{ id: project.development.id, slug: "development", project: project.slug }]
          }
        })
        const html = yield* Effect.promise(async () => (await stage.browser.go(`${base}/app/connections`)).text())
        assert.include(html, `${project.slug} / development`)
      })
    )

    it.effect("answers for every other environment what it answers for one that does not exist", () =>
      Effect.gen(function* () {
        const stage = yield* scene
        const { base, project } = stage
        const other = yield* World.project({ team: project.team })
        const { access } = yield* restricted(stage, [project.development])
        const answer = (projectId: string, environment: string) =>
          Effect.map(Clients.use(base, access, "list_secrets", { projectId, environment }), ({ answer, refusal }) => ({
            code: refusal.code,
            text: answer.text
          }))
        const absent = yield* answer(project.id, "no-such-environment")
        assert.strictEqual(absent.code, "ENVIRONMENT_NOT_FOUND")
        assert.deepStrictEqual(yield* answer(project.id, "production"), absent)
        assert.deepStrictEqual(yield* answer(project.id, "staging"), absent)
        const absentProject = yield* answer("0197a0de-0000-7000-8000-000000000000", "development")
        assert.strictEqual(absentProject.code, "PROJECT_NOT_FOUND")
        assert.deepStrictEqual(yield* answer(other.id, "development"), absentProject)
      })
    )

    it.effect("stays as narrow when it is refreshed, and reaches what the person chooses next time instead", () =>
      Effect.gen(function* () {
        const stage = yield* scene
        const { base, project } = stage
        const first = yield* restricted(stage, [project.development])
        const renewed = yield* Effect.promise(() => OAuth.refresh(base, stage.clientId, first.refresh))
        for (const bearer of [first.access, renewed.json.access_token]) {
          assert.deepStrictEqual(yield* listed(base, bearer, project.id), ["development"])
        }
        const second = yield* restricted(stage, [project.staging])
        assert.match(
          second.page,
          new RegExp(`value="${project.development.id}"[^>]* checked|checked[^>]*value="${project.development.id}"`)
        )
        assert.deepStrictEqual(yield* listed(base, second.access, project.id), ["staging"])
      })
    )

    it.effect("reaches nothing once its environments are deleted", () =>
      Effect.gen(function* () {
        const stage = yield* scene
        const { base, project } = stage
        const { access } = yield* restricted(stage, [project.development])
        const sql = yield* SqlClient.SqlClient
        yield* sql`UPDATE environments SET deleted_at = now() WHERE id = ${project.development.id}`
        assert.deepStrictEqual((yield* Clients.use(base, access, "list_projects")).output.projects, [])
      })
    )

    it.effect("is not given for an environment of a team that it does not reach, or that does not exist", () =>
      Effect.gen(function* () {
        const stage = yield* scene
        const foreign = yield* World.project()
        const url = OAuth.authorizationUrl(stage.base, {
          client_id: stage.clientId,
          code_challenge: OAuth.pkce().challenge,
          scope: scopes.join(" ")
        })
        const choice = { scopes, teams: [stage.project.team] }
        for (const environments of [[foreign.development], [{ id: "0197a0de-0000-7000-8000-000000000000" }]]) {
          const problem = yield* Effect.flip(
            Effect.tryPromise(() => McpApp.decide(stage.browser, url, { ...choice, environments }))
          )
          assert.match(String(problem.error), /the decision answers 400/)
        }
        const sql = yield* SqlClient.SqlClient
        const grants = yield* sql`SELECT 1 FROM oauth_grants WHERE user_id = ${stage.project.team.owner.id}`
        assert.lengthOf(grants, 0)
      })
    )
  })

  describe("what is no grant", () => {
    it.effect("an access token of OAuth is another kind of credential to REST", () =>
      Effect.gen(function* () {
        const stage = yield* scene
        const pair = yield* tokens(stage)
        const answer = yield* TestApp.get("/projects", { bearer: pair.access_token })
        assert.strictEqual(answer.status, 403)
        assert.strictEqual(answer.error.code, "CREDENTIAL_KIND_NOT_ACCEPTED")
      })
    )
    it.effect("CLI grants, sessions and refresh tokens are nothing to /mcp", () =>
      Effect.gen(function* () {
        const stage = yield* scene
        const { owner } = stage.project.team
        const grant = yield* World.grant({
          person: owner,
          teams: [{ team: stage.project.team, scopes: ["secrets:read"] }]
        })
        const session = yield* World.session(owner)
        const pair = yield* tokens(stage)
        for (const bearer of [grant.text, session.text, pair.refresh_token]) {
          const answer = yield* mcp(stage.base, bearer)
          assert.strictEqual(answer.status, 401)
          assert.include(answer.headers.get("www-authenticate") ?? "", 'error="invalid_token"')
        }
      })
    )
    it.effect("a token of another resource is not known", () =>
      Effect.gen(function* () {
        const stage = yield* scene
        const pair = yield* tokens(stage)
        const sql = yield* SqlClient.SqlClient
        yield* sql`UPDATE oauth_access_tokens SET audience = 'https://elsewhere.example/mcp'`
        assert.strictEqual((yield* mcp(stage.base, pair.access_token)).status, 401)
      })
    )
  })
})
