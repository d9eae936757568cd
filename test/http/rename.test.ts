/** A secret with another key: its history, its templates, the rights, and the notices. */
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { cliScopes } from "#schema/Scopes.ts"
import { auditEntry } from "#test/support/Json.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const { codeOf } = TestApp
const app = TestApp.server.pipe(Layer.provideMerge(Layer.merge(TestApp.backends, TestApp.config())))

/** A project with PASS at version 3, and URL that refers to it, in development. */
const setUp = (environment: "development" | "production" = "development") =>
  Effect.gen(function* () {
    const project = yield* World.project()
    const { text: session } = yield* World.session(project.team.owner)
    const at = { projectId: project.id, environment }
    const query = `${new URLSearchParams(at)}` as const
    const create = (key: string, value: string) =>
      Effect.map(TestApp.post("/secrets", { session, json: { ...at, key, value } }), ({ json }) => json)
    const secret = yield* create("PASS", "one")
    for (const value of ["two", "three"]) yield* TestApp.patch(`/secrets/${secret.id}`, { session, json: { value } })
    const url = yield* create("URL", "x-${PASS}-$${PASS}-${PASS}")
    const rename = (json: object, as: { readonly bearer: string } | { readonly session: string } = { session }) =>
      TestApp.post(`/secrets/${secret.id}/rename`, { ...as, json })
    const inject = Effect.map(TestApp.get(`/secrets/inject?${query}`, { session }), ({ json }) => json.values)
    return { project, session, at, query, create, secret, url, rename, inject }
  })

layer(app, { excludeTestServices: true })("a secret that is renamed", (it) => {
  it.effect(
    "keeps its versions; what refers to it refuses, or is written with the new key in the same transaction",
    () =>
      Effect.gen(function* () {
        const { create, inject, query, rename, secret, session, url } = yield* setUp()
        const about = { owner: "ada", note: "kept", rotateBy: null }
        yield* TestApp.patch(`/secrets/${secret.id}/metadata`, { session, json: about })
        const refused = yield* rename({ key: "PASSWORD" })
        assert.deepStrictEqual(codeOf(refused), [409, "SECRET_HAS_DEPENDENTS"])
        assert.include(refused.text, "Set references to rewrite")
        assert.include(refused.text, '"dependents":["URL"]')
        const before = yield* inject

        const renamed = yield* rename({ key: "PASSWORD", references: "rewrite", expectedVersion: 3 })
        assert.strictEqual(renamed.status, 200, renamed.text)
        assert.deepInclude(renamed.json, { id: secret.id, key: "PASSWORD", formerKey: "PASS", version: 4 })
        assert.deepStrictEqual(renamed.json.rewritten, ["URL"])
        assert.deepStrictEqual(yield* inject, { PASSWORD: "three", URL: before["URL"] })
        const source = yield* TestApp.get(`/secrets/value?${query}&key=URL&representation=source`, { session })
        assert.strictEqual(source.json.value, "x-${PASSWORD}-$${PASS}-${PASSWORD}")
        assert.strictEqual(source.json.version, url.version + 1)
        assert.deepInclude((yield* TestApp.get(`/secrets/${secret.id}/metadata`, { session })).json, about)

        const versions = yield* TestApp.get(`/secrets/${secret.id}/versions`, { session })
        assert.deepStrictEqual(
          versions.json.items.map(({ key, version }) => [version, key]),
          [
            [4, "PASSWORD"],
            [3, "PASS"],
            [2, "PASS"],
            [1, "PASS"]
          ]
        )
        // Earlier versions open under the key that they were sealed under, also after a second rename.
        yield* rename({ key: "TOKEN", references: "rewrite" })
        yield* TestApp.post(`/secrets/${secret.id}/rollback`, { session, json: { version: 1 } })
        assert.strictEqual((yield* inject)["TOKEN"], "one")
        // The key before is free, and none of its versions is ever another text.
        assert.strictEqual((yield* create("PASS", "new")).version, 4)
        const back = yield* rename({ key: "PASSWORD", references: "rewrite" })
        assert.strictEqual(back.json.version, 7)
        yield* TestApp.del(`/secrets/${secret.id}?disposition=flatten`, { session })
        yield* TestApp.post(`/secrets/${secret.id}/restore`, { session })
        assert.strictEqual((yield* inject)["PASSWORD"], "one")
      })
  )

  it.effect("takes no key that is taken, at no other version than expected; the trail names both keys", () =>
    Effect.gen(function* () {
      const { project, rename, secret, session, url } = yield* setUp()
      const sql = yield* SqlClient.SqlClient
      assert.deepStrictEqual(codeOf(yield* rename({ key: "URL" })), [409, "SECRET_ALREADY_EXISTS"])
      assert.deepStrictEqual(codeOf(yield* rename({ key: "PASS" })), [409, "SECRET_ALREADY_EXISTS"])
      assert.deepStrictEqual(codeOf(yield* rename({ key: "P", expectedVersion: 2 })), [409, "SECRET_VERSION_CONFLICT"])
      for (const json of [{}, { key: "lower" }, { key: "P", references: "keep" }, { key: "P", value: "x" }]) {
        assert.strictEqual((yield* rename(json)).status, 400, JSON.stringify(json))
      }
      yield* TestApp.post(`/secrets/${url.id}/rename`, { session, json: { key: "ADDRESS" } })
      yield* rename({ key: "P", references: "rewrite" })
      const entries = yield* sql<{ readonly body: string }>`
        SELECT body FROM audit_entries WHERE environment_id = ${project.development.id} AND action = 'secret.rename'
        ORDER BY at, seq`
      const read = entries.map((entry) => auditEntry(entry))
      assert.deepStrictEqual(
        read.filter(({ outcome }) => outcome === "allowed").map(({ keys, versions }) => [keys, versions]),
        [
          [
            ["URL", "ADDRESS"],
            [1, 2]
          ],
          [
            ["PASS", "P"],
            [3, 4]
          ]
        ]
      )
      const exposure = yield* TestApp.get(`/secrets/${secret.id}/exposure`, { session })
      assert.deepStrictEqual(exposure.json.formerly, ["PASS"])
    })
  )

  it.effect("is renamed by who may write, and what a writer without values renames counts as written by it", () =>
    Effect.gen(function* () {
      const { at, create, project, rename, secret, session } = yield* setUp("production")
      const sql = yield* SqlClient.SqlClient
      const viewer = (yield* World.session(yield* World.member(project.team, "viewer"))).text
      assert.deepStrictEqual(codeOf(yield* rename({ key: "P" }, { session: viewer })), [403, "FORBIDDEN"])
      const writer = yield* World.grant({
        person: project.team.owner,
        teams: [{ team: project.team, scopes: cliScopes.filter((scope) => !/values|run/.test(scope)) }]
      })
      const done = yield* rename({ key: "P", references: "rewrite" }, { bearer: writer.text })
      assert.strictEqual(done.status, 200, done.text)
      const [row] = yield* sql<{ readonly withoutValues: boolean | null }>`
        SELECT (created_by ->> 'withoutValues')::boolean AS without_values FROM secret_versions
        WHERE secret_id = ${secret.id} AND version = ${done.json.version}`
      assert.isTrue(row?.withoutValues)

      yield* TestApp.patch(`/environments/${project.production.id}`, { session, json: { changes: "proposed" } })
      const author = (yield* World.session(yield* World.member(project.team, "member"))).text
      const refused = yield* rename({ key: "Q", references: "rewrite" }, { session: author })
      assert.deepStrictEqual(codeOf(refused), [403, "FORBIDDEN"])
      assert.include(refused.text, "wait for an approval")

      // A page asks before a name that runs code, and a plan that keeps one version keeps the last.
      const page = `/app/projects/${at.projectId}/env/production/secrets/${secret.id}/rename` as const
      const send = (fields: Readonly<Record<string, string>>) =>
        TestApp.post(page, {
          session,
          headers: { "content-type": "application/x-www-form-urlencoded", origin: TestApp.baseUrl },
          body: new URLSearchParams({ expectedVersion: String(done.json.version), ...fields }).toString()
        })
      const question = yield* send({ key: "node_options", references: "rewrite" })
      assert.include(question.text, "This name is dangerous")
      yield* TestApp.patch(`/teams/${project.team.id}`, { session, json: { plan: "developer" } })
      const confirmed = yield* send({ key: "NODE_OPTIONS", references: "rewrite", anyway: "NODE_OPTIONS" })
      assert.strictEqual(confirmed.status, 303, confirmed.text)
      const versions = yield* TestApp.get(`/secrets/${secret.id}/versions`, { session })
      assert.deepStrictEqual(
        versions.json.items.map(({ key }) => key),
        ["NODE_OPTIONS"]
      )
      assert.strictEqual((yield* create("PASS", "again")).version, 4)
    })
  )
})
