/** Secrets of webhooks follow the root key: what rotation forgets is lost with the old key. */
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, layer } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { randomBytes } from "node:crypto"
import { Crypto } from "#src/crypto/Crypto.ts"
import { DataKeys } from "#src/crypto/DataKeys.ts"
import * as RootKey from "#src/crypto/RootKey.ts"
import { Rotation } from "#src/crypto/Rotation.ts"
import { ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import * as Vault from "#src/crypto/Vault.ts"
import { type SealedSecret, WebhookSecrets } from "#src/webhooks/WebhookSecrets.ts"
import * as TestDatabase from "#test/support/TestDatabase.ts"
import * as World from "#test/support/World.ts"

const newKey = () => RootKey.rootKey(RootKey.secretKeyFrom(randomBytes(32)))

class Keys extends Context.Tag("test/WebhookKeys")<Keys, { held: RootKey.RootKeys }>() {}

const vault = Layer.effect(
  Vault.Vault,
  Effect.flatMap(Keys, (keys) =>
    Vault.make({ now: Effect.sync(() => keys.held), having: () => Effect.sync(() => keys.held) })
  )
)
const app = Layer.merge(Rotation.Default, WebhookSecrets.Default).pipe(
  Layer.provideMerge(DataKeys.Default),
  Layer.provideMerge(ServiceKeys.Default),
  Layer.provideMerge(vault),
  Layer.provideMerge(Layer.merge(Crypto.Default, TestDatabase.layer)),
  Layer.provideMerge(Layer.sync(Keys, () => ({ held: RootKey.rootKeys(newKey()) })))
)

layer(app, { excludeTestServices: true })("the secret of a webhook", (it) => {
  it.effect("opens with the new root key alone once it was wrapped again, and for its own team only", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const keys = yield* Keys
      const secrets = yield* WebhookSecrets
      const rotation = yield* Rotation
      const team = yield* World.team()
      const webhookId = yield* (yield* Crypto).uuid
      const now = new Date(yield* Clock.currentTimeMillis)
      const { sealed, text } = yield* secrets.make(team.id)
      yield* sql`
        INSERT INTO webhooks (id, team_id, name, url, enabled, created_by, created_at, updated_at)
        VALUES (${webhookId}, ${team.id}, 'hook', 'https://example.com', true, ${team.owner.id}, ${now}, ${now})`
      yield* sql`
        INSERT INTO webhook_secrets (id, webhook_id, bound, root_key_id, wrapped)
        VALUES (${sealed.id}, ${webhookId}, ${sealed.bound}, ${sealed.rootKeyId}, ${sealed.wrapped})`
      const stored = Effect.map(
        sql<SealedSecret>`SELECT id, bound, root_key_id, wrapped FROM webhook_secrets WHERE webhook_id = ${webhookId}`,
        (rows) => rows[0]
      )

      const old = keys.held.current
      const next = newKey()
      keys.held = RootKey.rootKeys(next, [old])
      // Beside it the service key whose context names the database.
      assert.strictEqual((yield* rotation.named).get(old.id), 2)
      const { remaining } = yield* rotation.rewrapAll(() => Effect.void)
      assert.strictEqual(remaining, 0)
      keys.held = RootKey.rootKeys(next)
      const row = yield* stored
      assert.strictEqual(row.rootKeyId, next.id)
      const opened = yield* secrets.open(team.id, row)
      assert.strictEqual(new TextDecoder().decode(Redacted.value(opened)), text)
      const other = yield* World.team()
      assert.strictEqual((yield* Effect.flip(secrets.open(other.id, row)))._tag, "INTEGRITY_FAILURE")
    })
  )
})
