/**
 * Delivered at least once, whatever ends the process that sends: the released program, killed between sending and
 * recording.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { inject } from "vitest"
import * as Pglite from "#layers/Pglite.ts"
import * as PgPool from "#layers/PgPool.ts"
import { Listening } from "#src/http/engine/Server.ts"
import { lease } from "#src/webhooks/Dispatcher.ts"
import { serve } from "#test/machines/LocalIssuer.ts"
import * as Release from "#test/support/Release.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as TestDatabase from "#test/support/TestDatabase.ts"

const setupCode = "the first owner"

const until = <E, R>(what: string, condition: Effect.Effect<boolean, E, R>): Effect.Effect<void, E, R> =>
  Effect.gen(function* () {
    for (let i = 0; i < 600; i++) {
      if (yield* condition) return
      yield* Effect.sleep("50 millis")
    }
    assert.fail(`waited in vain until ${what}`)
  })

/** Settings of a server, and a look into its database while it does not run (embedded: one process at a time). */
const place = Effect.gen(function* () {
  const dataDir = yield* Effect.acquireRelease(
    Effect.sync(() => fs.mkdtempSync(join(tmpdir(), "ampoule-webhooks-"))),
    (folder) => Effect.sync(() => fs.rmSync(folder, { recursive: true, force: true }))
  )
  const env = { AMPOULE_DATA_DIR: dataDir, AMPOULE_SETUP_CODE: setupCode, AMPOULE_RATE_LIMITS: "off" }
  const postgres = inject("postgres")
  if (postgres === undefined) return { env, database: Layer.orDie(Pglite.layerFolder(dataDir)) }
  const { url } = yield* TestDatabase.freshPostgres({ url: postgres.url })
  return {
    env: { ...env, AMPOULE_DATABASE_URL: url, AMPOULE_UNSAFE_DATABASE: "allow" },
    database: Layer.orDie(
      PgPool.layer({ connection: { connectionString: url }, size: 1, checkoutMillis: 30_000, deadlineMillis: 30_000 })
    )
  }
})

describe("a webhook's delivery", () => {
  it.scopedLive(
    "that a killed process had sent and not recorded is sent by the next one, as the same event, when its lease is over",
    () =>
      Effect.gen(function* () {
        const folder = yield* Release.build
        const { database, env } = yield* place
        const received: Array<{ readonly id: unknown; readonly body: string }> = []
        let atReceipt = () => {}
        const { url } = yield* serve((request, response) => {
          const chunks: Array<Buffer> = []
          request.on("data", (chunk: Buffer) => chunks.push(chunk))
          request.on("end", () => {
            received.push({ id: request.headers["ampoule-event-id"], body: Buffer.concat(chunks).toString() })
            if (received.length > 1) return response.writeHead(204).end()
            // It has all of it, and its answer comes too late.
            atReceipt()
            return response.writeHead(204).end()
          })
        })

        const first = yield* Release.server(folder, env)
        const gone = Effect.async<void>((resume) => {
          if (first.child.signalCode !== null) resume(Effect.void)
          else first.child.once("exit", () => resume(Effect.void))
        })
        atReceipt = () => void first.child.kill("SIGKILL")
        const at = Effect.provideService(Listening, { host: "127.0.0.1", port: first.port })
        const owner = yield* at(
          TestApp.post("/setup", {
            json: {
              setupCode,
              email: "ada@example.com",
              name: "Ada",
              password: "vial of thirty drops",
              teamName: "Ops"
            }
          })
        )
        assert.strictEqual(owner.status, 201, owner.text)
        const session = /ampoule_session=([^;]+)/.exec(owner.headers.get("set-cookie") ?? "")?.[1] ?? ""
        const webhooks = `/teams/${owner.json.team.id}/webhooks` as const
        const hook = yield* at(TestApp.post(webhooks, { session, json: { name: "hook", url } }))
        assert.strictEqual(hook.status, 201, hook.text)
        const tested = yield* at(TestApp.post(`${webhooks}/${hook.json.id}/test`, { session }))
        assert.strictEqual(tested.status, 201, tested.text)
        yield* until(
          "the receiver has it",
          Effect.sync(() => received.length === 1)
        )
        yield* gone
        assert.strictEqual(first.child.signalCode, "SIGKILL")
        assert.strictEqual(received[0].id, tested.json.eventId)

        // Delivery of the dead process: sent once, without a result. The lease is brought to its end here.
        const ahead = yield* Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const rows = yield* sql<{ readonly state: string; readonly attempts: number; readonly nextAt: Date }>`
            SELECT state, attempts, next_at FROM webhook_deliveries`
          assert.deepStrictEqual(
            rows.map(({ attempts, state }) => ({ attempts, state })),
            [{ attempts: 1, state: "pending" }]
          )
          yield* sql`UPDATE webhook_deliveries SET next_at = next_at - ${`${lease} milliseconds`}::interval`
          return rows[0].nextAt.getTime() - Date.now()
        }).pipe(Effect.provide(database), Effect.scoped)
        assert.isAtMost(ahead, lease)

        const second = yield* Release.server(folder, env)
        yield* until(
          "it is sent again",
          Effect.sync(() => received.length === 2)
        )
        assert.deepStrictEqual(received[1], received[0])
        const list = Effect.provideService(
          TestApp.get(`${webhooks}/${hook.json.id}/deliveries`, { session }),
          Listening,
          { host: "127.0.0.1", port: second.port }
        )
        yield* until(
          "it is recorded",
          Effect.map(list, ({ json }) => json.items[0].state === "delivered")
        )
        const [delivery] = (yield* list).json.items
        assert.deepStrictEqual([delivery.eventId, delivery.attempts], [tested.json.eventId, 2])
        assert.strictEqual(received.length, 2)
      }),
    180_000
  )
})
