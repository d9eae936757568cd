/** What an agent of a member hears where changes wait for an approval. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { ChangeRequest } from "#schema/ChangeRequestsApi.ts"
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

layer(Layer.merge(McpApp.layer, Crypto.Default), { excludeTestServices: true })("an agent of a member", (it) => {
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
      assert.deepStrictEqual(changeRequest.changes, [{ key: "NEW", change: "create", conflict: false }])
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
})
