/** Answers to an agent of a member where changes wait for an approval. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { ChangeRequest } from "#schema/ChangeRequestsApi.ts"
import type { ToolName } from "#schema/McpTools.ts"
import { allScopes } from "#schema/Scopes.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { oauthToken } from "#test/access/Scene.ts"
import * as Bodies from "#test/support/Bodies.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import * as Clients from "./Clients.ts"
import * as McpApp from "./McpApp.ts"

const Waiting = Schema.parseJson(
  Schema.Struct({ statusCode: Schema.Literal(202), message: Schema.String, changeRequest: ChangeRequest })
)

layer(Layer.merge(McpApp.shared, Crypto.Default), { excludeTestServices: true })("an agent of a member", (it) => {
  it.effect("is answered with the request, and writes nothing", () =>
    Effect.gen(function* () {
      const base = yield* McpApp.base
      const project = yield* World.project()
      const member = yield* World.member(project.team, "member")
      const { text: session } = yield* World.session(project.team.owner)
      yield* TestApp.patch(`/environments/${project.production.id}`, { session, json: { changes: "proposed" } })
      const agent = yield* oauthToken(member, project.team, `${base}/mcp`, {
        scopes: allScopes,
        projects: null,
        environments: null
      })
      const at = { projectId: project.id, environment: "production" }
      const call = Clients.modernCall("create_secret", { ...at, key: "NEW", generate: { length: 32 } })
      const { result } = yield* Clients.raw(base, "POST", { bearer: agent.text, ...call })
      assert.isTrue(result.isError)
      const [{ text = "" }] = result.content ?? []
      const { changeRequest } = Bodies.exactly(Waiting)(text)
      assert.deepStrictEqual(changeRequest.changes, [
        { key: "NEW", change: "create", kind: "literal", references: [], warnings: [], conflict: false }
      ])
      assert.strictEqual(changeRequest.user.id, member.id)
      const listed = yield* TestApp.get("/change-requests", { session })
      assert.deepStrictEqual(
        listed.json.items.map(({ id }) => id),
        [changeRequest.id]
      )
      const approved = yield* TestApp.post(`/change-requests/${changeRequest.id}/approve`, { session })
      assert.strictEqual(approved.status, 200, approved.text)
      const value = yield* TestApp.get(`/secrets/value?${new URLSearchParams({ ...at, key: "NEW" })}`, { session })
      assert.lengthOf(value.json.value, 32)
    })
  )

  it.effect("asks for access by a page, where the person does, and hears what became of it", () =>
    Effect.gen(function* () {
      const base = yield* McpApp.base
      const project = yield* World.project()
      const member = yield* World.member(project.team, "member")
      const { text: owner } = yield* World.session(project.team.owner)
      const { text: session } = yield* World.session(member)
      yield* TestApp.patch(`/environments/${project.production.id}`, { session: owner, json: { readers: "granted" } })
      const reach = { scopes: allScopes, projects: null, environments: null }
      const agent = yield* oauthToken(member, project.team, `${base}/mcp`, reach)
      const at = { projectId: project.slug, environment: "production" }
      const call = (tool: ToolName, input: object, capabilities: Record<string, unknown> = {}) =>
        Clients.raw(base, "POST", {
          bearer: agent.text,
          ...Clients.modernCall(tool, { ...at, ...input }, capabilities)
        })
      const ask = (input: object = {}, capabilities: Record<string, unknown> = {}) =>
        call("request_access", { level: "values", hours: 4, ...input }, capabilities)
      const refused = yield* call("resolve_environment", {})
      assert.include(refused.text, "request_access")

      const { status, url = "" } = (yield* ask()).output("request_access")
      assert.strictEqual(status, "needs_human")
      assert.strictEqual(
        url,
        `${base}/app/projects/${project.id}/env/production/access?${new URLSearchParams({ level: "values", hours: "4" })}`
      )
      const elicited = yield* ask({}, { elicitation: { url: {} } })
      assert.include(elicited.text, "input_required")
      assert.include(elicited.text, `${project.id}/env/production/access`)
      const browser = new McpApp.Browser(session)
      const page = yield* Effect.promise(async () => (await browser.go(url)).text())
      assert.match(page, /<option value="4" selected[^>]*>4 hours/)
      assert.strictEqual((yield* ask({ level: "write", hours: 1 })).output("request_access").status, "needs_human")

      const path = `/environments/${project.production.id}/access-requests` as const
      const request = yield* TestApp.post(path, { session, json: { level: "values", hours: 4, reason: "Incident 42" } })
      const pending = (yield* ask()).output("request_access")
      assert.deepStrictEqual([pending.status, pending.id], ["pending", request.json.id])
      yield* TestApp.post(`/access-requests/${request.json.id}/approve`, { session: owner })
      assert.deepStrictEqual((yield* ask()).output("request_access"), { status: "granted" })
      assert.strictEqual((yield* ask({ environment: "development" })).output("request_access").status, "granted")
      const viewer = yield* World.member(project.team, "viewer")
      const theirs = yield* oauthToken(viewer, project.team, `${base}/mcp`, reach)
      const above = yield* Clients.raw(base, "POST", {
        bearer: theirs.text,
        ...Clients.modernCall("request_access", { ...at, level: "values" })
      })
      assert.include(above.text, "A viewer cannot be granted this level.")
    })
  )
})
