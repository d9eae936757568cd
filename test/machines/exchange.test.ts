/** Token exchange against a server and an issuer of this machine. */
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Jose from "jose"
import { createHmac } from "node:crypto"
import { OAuthErrorResponse } from "#schema/OAuthApi.ts"
import * as EndedCredentials from "#src/credentials/EndedCredentials.ts"
import { AnyObject, auditEntry, parsed } from "#test/support/Json.ts"
import type { authorizationTables } from "#src/rows/AuthorizationRows.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as Seals from "#test/support/Seals.ts"
import * as World from "#test/support/World.ts"
import * as LocalIssuer from "./LocalIssuer.ts"

const unlimited = TestApp.unlimited

const grantType = "urn:ietf:params:oauth:grant-type:token-exchange"
const jwtType = "urn:ietf:params:oauth:token-type:jwt"

const parameters = (rule: string, jwt: string, more: Record<string, string> = {}) => ({
  grant_type: grantType,
  subject_token: jwt,
  subject_token_type: jwtType,
  audience: rule,
  ...more
})
const exchange = (rule: string, jwt: string, more: Record<string, string> = {}) =>
  TestApp.post("/auth/token-exchange", {
    headers: { "content-type": "application/x-www-form-urlencoded" },
    body: new URLSearchParams(parameters(rule, jwt, more)).toString()
  })

const setUp = (options: Parameters<typeof LocalIssuer.make>[0] = {}) =>
  Effect.gen(function* () {
    const issuer = yield* LocalIssuer.make(options)
    const project = yield* World.project()
    const admin = yield* World.member(project.team, "admin")
    const { text: session } = yield* World.session(admin)
    const { text: writer } = yield* World.session(project.team.owner)
    const rules = `/teams/${project.team.id}/machine-rules` as const
    const create = (more: Record<string, unknown> = {}) =>
      TestApp.post(rules, {
        session,
        json: { name: "shop", issuer: issuer.url, claims: { repository: "acme/shop" }, ...more }
      })
    const trail = (action: string) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const rows = yield* sql<{ readonly body: string }>`
          SELECT body FROM audit_entries WHERE team_id = ${project.team.id} AND action = ${action} ORDER BY id`
        return rows.map(auditEntry)
      })
    const minted = Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const rows = yield* sql<{ readonly name: string }>`
        SELECT name FROM api_tokens WHERE team_id = ${project.team.id} AND rule_id IS NOT NULL ORDER BY id`
      return rows.map(({ name }) => name)
    })
    return { issuer, project, admin, session, writer, rules, create, trail, minted }
  })

const anyObject = parsed(AnyObject)

describe("token exchange", () => {
  layer(unlimited, { excludeTestServices: true })((it) => {
    it.scoped("follows no rule that somebody altered in the database, or brought back", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { create, issuer, project } = yield* setUp()
        const { id } = (yield* create()).json
        const alterations: Readonly<
          Record<(typeof authorizationTables)["machine_rules"]["columns"][number], string | null>
        > = {
          // Without it, it is another rule.
          id: null,
          teamId: `team_id = '${(yield* World.team()).id}'`,
          issuer: `issuer = issuer || '/'`,
          audience: `audience = audience || '/'`,
          claims: `claims = '{"repository": "acme/*"}'`,
          accessLevel: `access_level = 'write'`,
          projectIds: `project_ids = '{}'`,
          environmentIds: `environment_ids = '{}'`,
          lifetimeSeconds: "lifetime_seconds = 3600",
          createdBy: `created_by = '${project.team.owner.id}'`
        }
        for (const set of Object.values(alterations)) {
          if (set === null) continue
          const [before] = yield* sql<{ readonly row: string }>`
            SELECT to_jsonb(r)::text AS row FROM machine_rules r WHERE id = ${id}`
          const column = sql.literal(set.slice(0, set.indexOf(" ")))
          yield* sql`UPDATE machine_rules SET ${sql.literal(set)} WHERE id = ${id}`
          assert.strictEqual((yield* exchange(id, yield* issuer.sign())).status, 400, set)
          yield* sql`UPDATE machine_rules r SET ${column} = o.${column}
            FROM jsonb_populate_record(NULL::machine_rules, ${before.row}::jsonb) o WHERE r.id = ${id}`
          assert.strictEqual((yield* exchange(id, yield* issuer.sign())).status, 200, `${set}, undone`)
        }
        yield* sql`UPDATE machine_rules SET mac = '', revoked_at = now() WHERE id = ${id}`
        yield* sql`UPDATE machine_rules SET revoked_at = NULL WHERE id = ${id}`
        assert.strictEqual((yield* exchange(id, yield* issuer.sign())).status, 400)
      })
    )

    it.scoped("gives a CI job a short-lived token with the reach of the rule, on the record", () =>
      Effect.gen(function* () {
        const { create, issuer, minted, project, rules, session, trail, writer } = yield* setUp()
        for (const environment of ["development", "production"]) {
          yield* TestApp.post("/secrets", {
            session: writer,
            json: { projectId: project.id, environment, key: "URL", value: `of ${environment}` }
          })
        }
        const rule = yield* create({ projects: [project.id], environments: ["production"], lifetimeSeconds: 300 })
        assert.strictEqual(rule.status, 201)
        assert.strictEqual(rule.json.audience, TestApp.baseUrl)
        assert.deepStrictEqual(
          rule.json.environments?.map((e) => e.id),
          [project.production.id]
        )

        const before = Date.now()
        const answer = yield* exchange(rule.json.id, yield* issuer.sign())
        assert.strictEqual(answer.status, 200)
        assert.strictEqual(answer.headers.get("cache-control"), "no-store")
        const { access_token: bearer, ...rest } = answer.as(LocalIssuer.IssuedToken)
        assert.deepStrictEqual(rest, {
          issued_token_type: "urn:ietf:params:oauth:token-type:access_token",
          token_type: "Bearer",
          expires_in: 300,
          scope: "read"
        })
        assert.match(bearer, /^amp_at_/)

        const inject = (environment: string) =>
          TestApp.get(`/secrets/inject?projectId=${project.id}&environment=${environment}`, { bearer })
        assert.deepStrictEqual((yield* inject("production")).json.values, { URL: "of production" })
        assert.strictEqual((yield* inject("development")).status, 404)
        const write = yield* TestApp.post("/secrets", {
          bearer,
          json: { projectId: project.id, environment: "production", key: "NEW", value: "x" }
        })
        assert.strictEqual(write.error.code, "API_TOKEN_READ_ONLY")

        const verified = yield* TestApp.get("/me/verify", { bearer })
        const expires = Date.parse(verified.json.credential.expiresAt ?? "")
        assert.isAtLeast(expires, before + 300_000)
        assert.isAtMost(expires, Date.now() + 300_000)
        assert.deepInclude(verified.json.only, { projectId: project.id, environment: "production" })
        assert.strictEqual(verified.json.credential.name, "shop: repo:acme/shop:ref:refs/heads/main")
        assert.deepStrictEqual(yield* minted, ["shop: repo:acme/shop:ref:refs/heads/main"])

        const [entry, ...others] = yield* trail("machine.exchange")
        assert.deepStrictEqual(others, [])
        assert.strictEqual(entry.outcome, "allowed")
        assert.strictEqual(entry.actor.id, verified.json.credential.id)
        assert.deepStrictEqual(entry.target, { id: rule.json.id, name: "shop", type: "machine_rule" })
        const list = yield* TestApp.get(rules, { session })
        assert.isNotNull(list.json.items[0].lastUsedAt)
      })
    )

    it.scoped("takes JSON, ES256 and EdDSA, and scope read of a rule that writes", () =>
      Effect.gen(function* () {
        for (const alg of ["ES256", "EdDSA"] as const) {
          const { create, issuer } = yield* setUp({ alg })
          const { id } = (yield* create({ accessLevel: "write", audience: "urn:shop" })).json
          const ask = (jwt: string, more: Record<string, string>) =>
            TestApp.post("/auth/token-exchange", { json: parameters(id, jwt, more) })
          const written = yield* ask(yield* issuer.sign({ aud: ["urn:shop"] }), {})
          assert.strictEqual(written.as(LocalIssuer.IssuedToken).scope, "write")
          const read = yield* ask(yield* issuer.sign({ aud: "urn:shop" }), { scope: "read" })
          assert.strictEqual(read.as(LocalIssuer.IssuedToken).scope, "read")
          const verified = yield* TestApp.get("/me/verify", { bearer: read.as(LocalIssuer.IssuedToken).access_token })
          assert.strictEqual(verified.json.accessLevel, "read")
        }
      })
    )

    it.scoped("refuses every JWT that is not the issuer's, for this server, for this job, now", () =>
      Effect.gen(function* () {
        const { create, issuer, minted } = yield* setUp()
        const stranger = yield* LocalIssuer.make()
        const { id } = (yield* create({ claims: { repository: "acme/shop", ref: "refs/heads/*" } })).json
        const now = Math.floor(Date.now() / 1_000)
        const good = yield* issuer.sign()
        const [header, payload, signature] = good.split(".")
        const encode = (json: unknown) => Buffer.from(JSON.stringify(json)).toString("base64url")
        const hmac = encode({ alg: "HS256", kid: "k1" })
        const spki = yield* Effect.promise(() => Jose.exportSPKI(issuer.pair.publicKey))
        const other = anyObject(Buffer.from(payload, "base64url").toString())
        const refused: Record<string, string> = {
          "another key": yield* issuer.sign({}, { key: stranger.pair.privateKey }),
          "another issuer": yield* stranger.sign(),
          "another issuer that says it is this one": yield* stranger.sign({ iss: issuer.url }),
          "an issuer with a slash": yield* issuer.sign({ iss: `${issuer.url}/` }),
          "another audience": yield* issuer.sign({ aud: "https://elsewhere.example" }),
          "two audiences": yield* issuer.sign({ aud: ["http://127.0.0.1:4400", "https://elsewhere.example"] }),
          "no audience": yield* issuer.sign({ aud: undefined }),
          expired: yield* issuer.sign({ exp: now - 31 }),
          "no expiry": yield* issuer.sign({ exp: undefined }),
          "not yet valid": yield* issuer.sign({ nbf: now + 60 }),
          "from the future": yield* issuer.sign({ iat: now + 60 }),
          "from long ago": yield* issuer.sign({ iat: now - 86_500, exp: now + 300 }),
          "no time": yield* issuer.sign({ iat: undefined }),
          "no subject": yield* issuer.sign({ sub: undefined }),
          "another repository": yield* issuer.sign({ repository: "acme/shop-evil" }),
          "another case": yield* issuer.sign({ repository: "Acme/shop" }),
          "a tag": yield* issuer.sign({ ref: "refs/tags/v1" }),
          "no ref": yield* issuer.sign({ ref: undefined }),
          "no algorithm": `${encode({ alg: "none", kid: "k1" })}.${payload}.`,
          "no algorithm, with a signature": `${encode({ alg: "none", kid: "k1" })}.${payload}.${signature}`,
          "an HMAC with the public key": `${hmac}.${payload}.${createHmac("sha256", spki)
            .update(`${hmac}.${payload}`)
            .digest("base64url")}`,
          "a changed claim": `${header}.${encode({ ...other, sub: "repo:acme/shop:environment:production" })}.${signature}`,
          "a key of its own": yield* stranger.sign({ iss: issuer.url }, { header: { jwk: stranger.jwk } }),
          "a key address of its own": yield* stranger.sign(
            { iss: issuer.url },
            { header: { kid: "k2", jku: `${stranger.url}/jwks` } }
          ),
          "a header that must be understood": yield* issuer
            .sign({}, { header: { crit: ["exp"], exp: 1 } })
            .pipe(
              Effect.catchAllDefect(() =>
                Effect.succeed(`${encode({ alg: "RS256", crit: ["x"], x: 1 })}.${payload}.${signature}`)
              )
            ),
          "no JWT": "amp_at_something",
          nothing: "..",
          "far too long": `${header}.${"A".repeat(20_000)}.${signature}`
        }
        const texts = new Set<string>()
        for (const [name, jwt] of Object.entries(refused)) {
          const answer = yield* exchange(id, jwt)
          assert.strictEqual(answer.status, 400, name)
          assert.strictEqual(answer.as(OAuthErrorResponse).error, "invalid_request", name)
          texts.add(answer.text)
        }
        // A missing rule is refused like a token that is not accepted.
        texts.add((yield* exchange("01980a64-8f90-7192-a3b4-d5e6f7081920", good)).text)
        assert.strictEqual(texts.size, 1)
        assert.deepStrictEqual(yield* minted, [])
        assert.deepStrictEqual(
          stranger.asked.filter((path) => path !== "/jwks" && path !== "/.well-known/openid-configuration"),
          []
        )
        assert.deepStrictEqual(stranger.asked, [], "only the issuer of the rule is asked for anything")
        assert.strictEqual((yield* exchange(id, good)).status, 200)
      })
    )

    it.scoped("records refusals of a rule's own issuer and audience with their reason, and of no other", () =>
      Effect.gen(function* () {
        const { create, issuer, trail } = yield* setUp()
        const { id } = (yield* create()).json
        yield* exchange(id, yield* issuer.sign({ aud: "https://elsewhere.example" }))
        yield* exchange(id, yield* issuer.sign({ repository: "acme/other" }))
        yield* exchange(id, yield* issuer.sign({ exp: Math.floor(Date.now() / 1_000) - 60 }))
        const entries = (yield* trail("machine.exchange")).map(({ actor, outcome, reason }) => [
          actor.type,
          outcome,
          reason
        ])
        assert.deepStrictEqual(entries, [
          ["system", "denied", "CLAIM_MISMATCH repository"],
          ["system", "denied", "JWT_EXPIRED"]
        ])
      })
    )

    it.scoped("takes a JWT once, also with its signature spelled differently and by two at once", () =>
      Effect.gen(function* () {
        const { create, issuer, minted, trail } = yield* setUp({ alg: "ES256" })
        const { id } = (yield* create()).json
        const jwt = yield* issuer.sign()
        const twins = yield* Effect.all([exchange(id, jwt), exchange(id, jwt), exchange(id, jwt)], {
          concurrency: "unbounded"
        })
        assert.deepStrictEqual(twins.map(({ status }) => status).sort(), [200, 400, 400])
        // (r, n - s) is a signature of the same text.
        const order = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n
        const cut = jwt.lastIndexOf(".")
        const bytes = Buffer.from(jwt.slice(cut + 1), "base64url")
        const s = BigInt(`0x${bytes.subarray(32).toString("hex")}`)
        const twin = Buffer.concat([
          bytes.subarray(0, 32),
          Buffer.from((order - s).toString(16).padStart(64, "0"), "hex")
        ])
        const again = yield* exchange(id, `${jwt.slice(0, cut)}.${twin.toString("base64url")}`)
        assert.strictEqual(again.status, 400)
        assert.strictEqual((yield* minted).length, 1)
        const reasons = (yield* trail("machine.exchange")).map(({ reason }) => reason)
        assert.deepStrictEqual(
          reasons.filter((reason) => reason !== undefined),
          ["JWT_REPLAYED", "JWT_REPLAYED", "JWT_REPLAYED"]
        )
        const other = (yield* create({ name: "other" })).json.id
        assert.strictEqual((yield* exchange(other, jwt)).status, 400, "nor by another rule")
      })
    )

    it.scoped("ends with the rule, and with the standing of the person who made it", () =>
      Effect.gen(function* () {
        const { admin, create, issuer, project, rules, session, trail, writer } = yield* setUp()
        const first = (yield* create()).json.id
        const second = (yield* create({ name: "second" })).json.id
        const tokenOf = (rule: string) =>
          Effect.map(
            Effect.flatMap(issuer.sign(), (jwt) => exchange(rule, jwt)),
            (answer) => answer.as(LocalIssuer.IssuedToken).access_token
          )
        const bearer = yield* tokenOf(first)
        assert.strictEqual((yield* TestApp.get("/me/verify", { bearer })).status, 200)
        assert.strictEqual((yield* TestApp.del(`${rules}/${first}`, { session })).status, 200)
        assert.strictEqual((yield* TestApp.get("/me/verify", { bearer })).error.code, "CREDENTIAL_REVOKED")
        assert.strictEqual((yield* exchange(first, yield* issuer.sign())).status, 400)
        assert.strictEqual((yield* TestApp.del(`${rules}/${first}`, { session })).error.code, "GRANT_NOT_FOUND")

        const later = yield* tokenOf(second)
        const demoted = yield* TestApp.patch(`/teams/${project.team.id}/members/${admin.id}`, {
          session: writer,
          json: { role: "member" }
        })
        assert.strictEqual(demoted.status, 200)
        assert.strictEqual((yield* TestApp.get("/me/verify", { bearer: later })).error.code, "CREDENTIAL_REVOKED")
        assert.strictEqual((yield* exchange(second, yield* issuer.sign())).status, 400)
        const [entry] = yield* trail("machine.rule_revoke")
        assert.strictEqual(entry.target?.id, second)
        const list = yield* TestApp.get(rules, { session: writer })
        assert.deepStrictEqual(
          list.json.items.map((item) => item.state),
          ["stopped"]
        )
        assert.strictEqual((yield* TestApp.get(rules, { session })).status, 403)
      })
    )

    it.scoped("asks nothing of an issuer that redirects, answers for another one, or says too much", () =>
      Effect.gen(function* () {
        const trap = yield* LocalIssuer.make()
        const tricks: Record<string, (path: string, usual: string) => LocalIssuer.Answer | undefined> = {
          "redirected discovery": (path) =>
            path.startsWith("/.well-known")
              ? { status: 302, headers: { location: `${trap.url}/.well-known/openid-configuration` }, body: "" }
              : undefined,
          "redirected keys": (path) =>
            path === "/jwks" ? { status: 307, headers: { location: `${trap.url}/jwks` }, body: "" } : undefined,
          "discovery of another issuer": (path, usual) =>
            path.startsWith("/.well-known")
              ? { body: JSON.stringify({ ...anyObject(usual), issuer: trap.url }) }
              : undefined,
          "keys at a private address": (path, usual) =>
            path.startsWith("/.well-known")
              ? { body: JSON.stringify({ ...anyObject(usual), jwks_uri: "https://169.254.169.254/keys" }) }
              : undefined,
          "endless keys": (path) => (path === "/jwks" ? { body: `{"keys":[${" ".repeat(300_000)}]}` } : undefined),
          "no JSON": () => ({ body: "<html>" })
        }
        for (const [name, answer] of Object.entries(tricks)) {
          const { create, issuer } = yield* setUp({ answer })
          const { id } = (yield* create()).json
          const said = yield* exchange(id, yield* issuer.sign())
          assert.strictEqual(said.status, 500, name)
          assert.strictEqual(said.as(OAuthErrorResponse).error, "temporarily_unavailable", name)
          const before = issuer.asked.length
          yield* exchange(id, yield* issuer.sign())
          assert.strictEqual(issuer.asked.length, before, `${name}: not asked again at once`)
        }
        assert.deepStrictEqual(trap.asked, [])
      })
    )

    it.scoped("asks for keys once, not for every JWT, and again for a key that is new but not in a row", () =>
      Effect.gen(function* () {
        const { create, issuer } = yield* setUp()
        const { id } = (yield* create()).json
        for (let i = 0; i < 3; i++) assert.strictEqual((yield* exchange(id, yield* issuer.sign())).status, 200)
        for (let i = 0; i < 3; i++) {
          yield* exchange(id, yield* issuer.sign({}, { header: { kid: `unknown-${i}` } }))
        }
        assert.deepStrictEqual(issuer.asked, ["/.well-known/openid-configuration", "/jwks"])
      })
    )

    it.scoped("refuses malformed requests in the shapes of RFC 6749", () =>
      Effect.gen(function* () {
        const { create, issuer } = yield* setUp()
        const { id } = (yield* create()).json
        const jwt = yield* issuer.sign()
        const all = parameters(id, jwt)
        const without = (name: string) => Object.fromEntries(Object.entries(all).filter(([key]) => key !== name))
        const cases: ReadonlyArray<readonly [unknown, string]> = [
          [without("grant_type"), "invalid_request"],
          [{ ...all, grant_type: "authorization_code" }, "unsupported_grant_type"],
          [without("subject_token"), "invalid_request"],
          [without("subject_token_type"), "invalid_request"],
          [{ ...all, subject_token_type: "urn:ietf:params:oauth:token-type:saml2" }, "invalid_request"],
          [{ ...all, requested_token_type: "urn:ietf:params:oauth:token-type:jwt" }, "invalid_request"],
          [{ ...all, actor_token: jwt, actor_token_type: jwtType }, "invalid_request"],
          [{ ...all, resource: "https://example.com" }, "invalid_target"],
          [without("audience"), "invalid_request"],
          [{ ...all, audience: "shop" }, "invalid_target"],
          [{ ...all, scope: "admin" }, "invalid_scope"],
          [{ ...all, scope: "write" }, "invalid_scope"],
          [{ ...all, audience: [id] }, "invalid_request"],
          [[all], "invalid_request"],
          [null, "invalid_request"]
        ]
        for (const [json, error] of cases) {
          const answer = yield* TestApp.post("/auth/token-exchange", { json })
          assert.strictEqual(answer.status, 400, JSON.stringify(json))
          assert.strictEqual(answer.as(OAuthErrorResponse).error, error, JSON.stringify(json))
          assert.isString(answer.as(OAuthErrorResponse).error_description)
          assert.notInclude(answer.text, jwt)
        }
        const form = { "content-type": "application/x-www-form-urlencoded" }
        const twice = yield* TestApp.post("/auth/token-exchange", {
          headers: form,
          body: `${new URLSearchParams(all).toString()}&audience=${id}`
        })
        assert.strictEqual(twice.as(OAuthErrorResponse).error, "invalid_request")
        const plain = yield* TestApp.post("/auth/token-exchange", {
          headers: { "content-type": "text/plain" },
          body: JSON.stringify(all)
        })
        assert.strictEqual(plain.as(OAuthErrorResponse).error, "invalid_request")
        const large = yield* TestApp.post("/auth/token-exchange", { headers: form, body: "a=".padEnd(70_000, "a") })
        assert.strictEqual(large.status, 413)
        assert.strictEqual(large.as(OAuthErrorResponse).error, "invalid_request")
        assert.strictEqual((yield* TestApp.get("/auth/token-exchange")).error.code, "ROUTE_NOT_FOUND")
        assert.strictEqual((yield* exchange(id, jwt, { unknown: "ignored" })).status, 200)
      })
    )

    it.scoped("a rule says what it trusts, or is refused", () =>
      Effect.gen(function* () {
        const { create } = yield* setUp()
        const refused: ReadonlyArray<readonly [Record<string, unknown>, string]> = [
          [{ issuer: "https://10.0.0.1" }, "issuer"],
          [{ issuer: "http://ci.example.com" }, "issuer"],
          [{ issuer: "https://ci.example.com/?x" }, "issuer"],
          [{ claims: {} }, "claims"],
          [{ claims: { iss: "x" } }, "claims.iss"],
          [{ claims: { sub: "*" } }, "claims.sub"],
          [{ claims: { ref: "refs/*/main" } }, "claims.ref"],
          [{ claims: { repository: "acme/sh*" } }, "claims.repository"],
          [{ issuer: "https://gitlab.com", claims: { ref: "main" } }, "claims"],
          [{ lifetimeSeconds: 299 }, "lifetimeSeconds"],
          [{ lifetimeSeconds: 3_601 }, "lifetimeSeconds"],
          [{ environments: ["nowhere"] }, "environments.0"],
          [{ environments: [] }, "environments"]
        ]
        for (const [more, field] of refused) {
          const answer = yield* create(more)
          assert.deepStrictEqual([answer.status, answer.error.field], [400, field], JSON.stringify(more))
        }
      })
    )

    it.scoped("what is over is swept away: used JWTs after their end, tokens a day after theirs", () =>
      Effect.gen(function* () {
        const { create, issuer, minted } = yield* setUp()
        const sql = yield* SqlClient.SqlClient
        const { id } = (yield* create()).json
        yield* exchange(id, yield* issuer.sign())
        yield* exchange(id, yield* issuer.sign())
        yield* EndedCredentials.purge(sql)
        assert.strictEqual((yield* minted).length, 2)
        yield* Seals.after(
          "api_tokens",
          sql`UPDATE api_tokens SET expires_at = ${new Date(Date.now() - 90_000_000)}
          WHERE id = (SELECT id FROM api_tokens WHERE rule_id = ${id} LIMIT 1)`
        )
        yield* EndedCredentials.purge(sql)
        assert.strictEqual((yield* minted).length, 1)
      })
    )
  })

  layer(TestApp.shared, { excludeTestServices: true })("with limits", (it) => {
    it.scoped("counts exchanges per address, in its own shape", () =>
      Effect.gen(function* () {
        const { create, issuer } = yield* setUp()
        const { id } = (yield* create()).json
        const garbage = yield* Effect.forEach(Array.from({ length: 61 }), () => exchange(id, "a.b.c"))
        assert.strictEqual(garbage.filter(({ status }) => status === 400).length, 60)
        const last = garbage[60]
        assert.strictEqual(last.status, 429)
        assert.strictEqual(last.as(OAuthErrorResponse).error, "temporarily_unavailable")
        assert.isAtLeast(Number(last.headers.get("retry-after")), 1)
        assert.strictEqual((yield* exchange(id, yield* issuer.sign())).status, 429)
      })
    )
  })

  const publicServer = TestApp.server.pipe(
    Layer.provideMerge(Layer.merge(TestApp.backends, TestApp.config({ baseUrl: "https://ampoule.example.com" })))
  )
  layer(publicServer, { excludeTestServices: true })("of a server that is not loopback", (it) => {
    it.scoped("trusts no issuer on its own machine, also when the rule is there already", () =>
      Effect.gen(function* () {
        const { issuer, project } = yield* setUp()
        const sql = yield* SqlClient.SqlClient
        const session = (yield* World.session(project.team.owner)).text
        const cookie = { cookie: `__Host-ampoule_session=${session}` }
        const json = { name: "shop", claims: { repository: "acme/shop" } }
        for (const url of [issuer.url, "https://localhost", "https://127.0.0.1", "https://[::1]"]) {
          const answer = yield* TestApp.post(`/teams/${project.team.id}/machine-rules`, {
            headers: cookie,
            json: { ...json, issuer: url }
          })
          assert.deepStrictEqual([answer.status, answer.error.field], [400, "issuer"], url)
        }
        const rule = yield* TestApp.post(`/teams/${project.team.id}/machine-rules`, {
          headers: cookie,
          json: { ...json, issuer: "https://ci.example.com", audience: "urn:x" }
        })
        assert.strictEqual(rule.status, 201)
        yield* Seals.after(
          "machine_rules",
          sql`UPDATE machine_rules SET issuer = ${issuer.url} WHERE id = ${rule.json.id}`
        )
        const answer = yield* exchange(rule.json.id, yield* issuer.sign({ aud: "urn:x" }))
        assert.strictEqual(answer.as(OAuthErrorResponse).error, "temporarily_unavailable")
        assert.deepStrictEqual(issuer.asked, [])
      })
    )
  })
})
