/** A process that dies between sending and settling, without the server around it: no other process is there to help. */
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, layer } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as VaultLocal from "#layers/VaultLocal.ts"
import * as Outbox from "#src/access/Outbox.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { Outbound } from "#src/outbound/Outbound.ts"
import { Dispatcher, lease } from "#src/webhooks/Dispatcher.ts"
import { WebhookSecrets } from "#src/webhooks/WebhookSecrets.ts"
import { serve } from "#test/machines/LocalIssuer.ts"
import * as MovableClock from "#test/support/MovableClock.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as TestDatabase from "#test/support/TestDatabase.ts"
import * as World from "#test/support/World.ts"

const app = Layer.merge(WebhookSecrets.Default, Outbound.Default).pipe(
  Layer.provideMerge(Layer.provide(VaultLocal.layerMemory, Crypto.Default)),
  Layer.provideMerge(Layer.mergeAll(Crypto.Default, TestDatabase.layer, TestApp.config())),
  Layer.provideMerge(MovableClock.layer)
)

/** What a process is to the outbox: it is gone when its scope is closed, whatever it was doing. */
const process = Effect.gen(function* () {
  const scope = yield* Scope.make()
  const built = yield* Layer.buildWithScope(Layer.fresh(Dispatcher.Default), scope)
  return { dispatcher: Context.get(built, Dispatcher), kill: Scope.close(scope, Exit.void) }
})

const hook = (url: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const crypto = yield* Crypto
    const team = yield* World.team()
    const id = yield* crypto.uuid
    const at = yield* Clock.currentTimeMillis
    const { sealed } = yield* Effect.flatMap(WebhookSecrets, (secrets) => secrets.make(team.id))
    yield* sql`
      INSERT INTO webhooks (id, team_id, name, url, enabled, created_by, created_at, updated_at)
      VALUES (${id}, ${team.id}, 'hook', ${url}, true, ${team.owner.id}, ${new Date(at)}, ${new Date(at)})`
    yield* sql`
      INSERT INTO webhook_secrets (id, webhook_id, root_key_id, wrapped)
      VALUES (${sealed.id}, ${id}, ${sealed.rootKeyId}, ${sealed.wrapped})`
    const change = Effect.gen(function* () {
      const event = { keys: ["A"] }
      const actor = { type: "user", id: team.owner.id, name: team.owner.email }
      yield* Outbox.enqueue(sql, [{ id: yield* crypto.uuid, at, action: "secret.create", team: team.id, event, actor }])
    })
    const rows = sql<{ readonly state: string; readonly attempts: number }>`
      SELECT state, attempts FROM webhook_deliveries WHERE webhook_id = ${id}`
    return { change, rows }
  })

layer(app, { excludeTestServices: true })("a delivery", (it) => {
  it.scoped("of a process that is gone in the middle of it is sent by another when its lease is over, not before", () =>
    Effect.gen(function* () {
      const ids: Array<unknown> = []
      const { url } = yield* serve((request, response) => {
        ids.push(request.headers["ampoule-event-id"])
        if (ids.length > 1) response.writeHead(204).end()
      })
      const { change, rows } = yield* hook(url)
      const first = yield* process
      yield* change
      yield* Effect.forkDaemon(first.dispatcher.drain).pipe(
        Effect.flatMap((sending) =>
          Effect.gen(function* () {
            for (let i = 0; i < 100 && ids.length === 0; i++) yield* Effect.sleep("20 millis")
            yield* first.kill
            yield* sending.interruptAsFork(sending.id())
          })
        )
      )
      assert.strictEqual(ids.length, 1)
      assert.deepStrictEqual(yield* rows, [{ state: "pending", attempts: 1 }])

      const second = yield* process
      yield* Effect.addFinalizer(() => second.kill)
      assert.strictEqual(yield* second.dispatcher.drain, 0)
      yield* MovableClock.advance(lease)
      for (let i = 0; i < 100 && (yield* rows)[0].state === "pending"; i++) {
        yield* second.dispatcher.drain
        yield* Effect.sleep("20 millis")
      }
      assert.deepStrictEqual(yield* rows, [{ state: "delivered", attempts: 2 }])
      assert.strictEqual(ids.length, 2)
      assert.strictEqual(ids[0], ids[1])
    })
  )
})
