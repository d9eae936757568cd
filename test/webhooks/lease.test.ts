/** Leases of deliveries, without the server around them: who sends what, and when another does. */
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, layer } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as VaultLocal from "#layers/VaultLocal.ts"
import * as Outbox from "#src/trail/Outbox.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { Outbound } from "#src/outbound/Outbound.ts"
import { Dispatcher, lease } from "#src/webhooks/Dispatcher.ts"
import { WebhookSecrets } from "#src/webhooks/WebhookSecrets.ts"
import { serve } from "#test/machines/LocalIssuer.ts"
import * as MovableClock from "#test/support/MovableClock.ts"
import * as TestApp from "#test/support/TestApp.ts"
import { ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import * as Seals from "#test/support/Seals.ts"
import * as TestDatabase from "#test/support/TestDatabase.ts"
import * as World from "#test/support/World.ts"

const app = Layer.mergeAll(WebhookSecrets.Default, Outbound.Default, RowSeal.Default).pipe(
  Layer.provideMerge(ServiceKeys.Default),
  Layer.provideMerge(Layer.provide(VaultLocal.layerMemory, Crypto.Default)),
  Layer.provideMerge(Layer.mergeAll(Crypto.Default, TestDatabase.layer, TestApp.config())),
  Layer.provideMerge(MovableClock.layer)
)

/** A process that ends in order, as the outbox sees it: it is gone when its scope is closed. */
const process = Effect.gen(function* () {
  const scope = yield* Scope.make()
  const built = yield* Layer.buildWithScope(Layer.fresh(Dispatcher.Default), scope)
  return { dispatcher: Context.get(built, Dispatcher), kill: Scope.close(scope, Exit.void) }
})

const hook = (url: string, count = 1) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const crypto = yield* Crypto
    const team = yield* World.team()
    const at = yield* Clock.currentTimeMillis
    const ids: Array<string> = []
    for (let i = 0; i < count; i++) {
      const id = yield* crypto.uuid
      ids.push(id)
      const { sealed } = yield* Effect.flatMap(WebhookSecrets, (secrets) => secrets.make(team.id))
      yield* sql`
        INSERT INTO webhooks (id, team_id, name, url, enabled, created_by, created_at, updated_at)
        VALUES (${id}, ${team.id}, 'hook', ${url}, true, ${team.owner.id}, ${new Date(at)}, ${new Date(at)})`
      yield* sql`
        INSERT INTO webhook_secrets (id, webhook_id, bound, root_key_id, wrapped)
        VALUES (${sealed.id}, ${id}, ${sealed.bound}, ${sealed.rootKeyId}, ${sealed.wrapped})`
    }
    yield* Seals.give("webhooks")
    const change = Effect.gen(function* () {
      const event = { keys: ["A"] }
      const actor = { type: "user", id: team.owner.id, name: team.owner.email }
      yield* Outbox.enqueue(sql, [{ id: yield* crypto.uuid, at, action: "secret.create", team: team.id, event, actor }])
    })
    const rows = sql<{ readonly state: string; readonly attempts: number }>`
      SELECT state, attempts FROM webhook_deliveries WHERE webhook_id = any(${ids}::uuid[])`
    return { change, rows }
  })

const until = <E, R>(what: string, condition: Effect.Effect<boolean, E, R>): Effect.Effect<void, E, R> =>
  Effect.gen(function* () {
    for (let i = 0; i < 1_500; i++) {
      if (yield* condition) return
      yield* Effect.sleep("20 millis")
    }
    assert.fail(`waited in vain until ${what}`)
  })

/** Answers on request: each event's id, and how to answer it. */
const receiver = Effect.gen(function* () {
  // A process takes whatever is due: nothing that an earlier test left behind.
  yield* Effect.flatMap(SqlClient.SqlClient, (sql) => sql`DELETE FROM webhook_deliveries`)
  const deliveries: Array<{ readonly id: unknown; readonly answer: () => void }> = []
  const { url } = yield* serve((request, response) => {
    deliveries.push({ id: request.headers["ampoule-event-id"], answer: () => void response.writeHead(204).end() })
  })
  const has = (n: number) =>
    until(
      `${n} are received`,
      Effect.sync(() => deliveries.length >= n)
    )
  return { url, asked: deliveries, has }
})

layer(app, { excludeTestServices: true })("a delivery", (it) => {
  it.scoped("is not sent again while its lease lasts, and then is, after any holder", () =>
    Effect.gen(function* () {
      const { asked, has, url } = yield* receiver
      const { change, rows } = yield* hook(url)
      const first = yield* process
      yield* Effect.addFinalizer(() => first.kill)
      const second = yield* process
      yield* Effect.addFinalizer(() => second.kill)
      yield* change
      yield* has(1)
      assert.strictEqual(yield* second.dispatcher.drain, 0)
      // As if the process that sent it had stood still for a minute.
      yield* MovableClock.advance(lease)
      yield* has(2)
      assert.strictEqual(asked[1].id, asked[0].id)
      asked[1].answer()
      yield* until(
        "it is recorded",
        Effect.map(rows, ([row]) => row.state === "delivered")
      )
      // The late answer counts for nothing: its lease was over.
      asked[0].answer()
      yield* Effect.all([first.dispatcher.drain, second.dispatcher.drain])
      assert.deepStrictEqual(yield* rows, [{ state: "delivered", attempts: 2 }])
    })
  )

  it.scoped("is not sent to an address that a writer of the database put in", () =>
    Effect.gen(function* () {
      const { asked, has, url } = yield* receiver
      const { change, rows } = yield* hook(url)
      const sql = yield* SqlClient.SqlClient
      yield* change
      yield* sql`UPDATE webhooks SET url = ${`${url}/elsewhere`} WHERE url = ${url}`
      const sender = yield* process
      yield* Effect.addFinalizer(() => sender.kill)
      yield* until(
        "the attempt is noted",
        Effect.map(rows, ([row]) => row.attempts === 1)
      )
      const problems = sql<{ readonly log: ReadonlyArray<{ readonly problem: string }> }>`
        SELECT log FROM webhook_deliveries`
      yield* until(
        "its problem is noted",
        Effect.map(problems, ([{ log }]) => log[0]?.problem === "altered")
      )
      assert.lengthOf(asked, 0)
      yield* sql`UPDATE webhooks SET url = ${url} WHERE url = ${`${url}/elsewhere`}`
      yield* MovableClock.advance(lease)
      yield* has(1)
      asked[0].answer()
    })
  )

  it.scoped("of a process that ends in order is waited for", () =>
    Effect.gen(function* () {
      const { asked, has, url } = yield* receiver
      const { change, rows } = yield* hook(url)
      const first = yield* process
      yield* change
      yield* has(1)
      const ending = yield* Effect.fork(first.kill)
      yield* Effect.sleep("50 millis")
      asked[0].answer()
      yield* Fiber.join(ending)
      assert.deepStrictEqual(yield* rows, [{ state: "delivered", attempts: 1 }])
    })
  )

  it.scoped("that no receiver answers before the process has ended is sent by another at once", () =>
    Effect.gen(function* () {
      const { asked, has, url } = yield* receiver
      const { change, rows } = yield* hook(url)
      const first = yield* process
      yield* change
      yield* has(1)
      yield* first.kill
      assert.deepStrictEqual(yield* rows, [{ state: "pending", attempts: 1 }])
      const second = yield* process
      yield* Effect.addFinalizer(() => second.kill)
      yield* has(2)
      asked[1].answer()
      yield* until(
        "it is recorded",
        Effect.map(rows, ([row]) => row.state === "delivered")
      )
      assert.strictEqual(asked[1].id, asked[0].id)
    })
  )

  it.scoped("of one team does not wait behind the backlog of another whose receivers are slow", () =>
    Effect.gen(function* () {
      const slow = yield* receiver
      const fine = yield* receiver
      // More webhooks than there are places, and more events than anybody takes at once, all older than the one below.
      const stuck = yield* hook(slow.url, 6)
      for (let i = 0; i < 8; i++) yield* stuck.change
      yield* MovableClock.advance(1_000)
      const other = yield* hook(fine.url)
      yield* other.change
      const sender = yield* process
      yield* Effect.addFinalizer(() => sender.kill)
      yield* fine.has(1)
      fine.asked[0].answer()
      yield* until(
        "it is recorded",
        Effect.map(other.rows, ([row]) => row.state === "delivered")
      )
      // Nor does what comes later wait for the answers of those.
      yield* other.change
      yield* fine.has(2)
      fine.asked[1].answer()
      for (const { answer } of slow.asked) answer()
    })
  )
})
