/**
 * Rotation of the service keys of a running server, and what is left to somebody who had them before: they read and
 * write the database.
 */
import { assert, describe, it as plainIt, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import { createHmac, createSecretKey, randomBytes } from "node:crypto"
import * as Server from "#layers/Server.ts"
import { ChangeRequest } from "#schema/ChangeRequestsApi.ts"
import { Authenticate } from "#src/credentials/Authenticate.ts"
import * as DatabaseCopy from "#src/backup/DatabaseCopy.ts"
import * as OldCredentials from "#src/credentials/OldCredentials.ts"
import { Passwords } from "#src/credentials/Passwords.ts"
import * as TokenText from "#src/credentials/TokenText.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { DataKeys } from "#src/crypto/DataKeys.ts"
import * as Instance from "#src/crypto/Instance.ts"
import { bindTo } from "#src/crypto/RewrapKeys.ts"
import { Rotation } from "#src/crypto/Rotation.ts"
import { type SealedSecret, WebhookSecrets } from "#src/webhooks/WebhookSecrets.ts"
import * as KeyGenerations from "#src/crypto/KeyGenerations.ts"
import * as KeyRing from "#src/crypto/KeyRing.ts"
import { ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import { Vault } from "#src/crypto/Vault.ts"
import { Listening } from "#src/http/engine/Server.ts"
import { RateLimits } from "#src/limits/RateLimiter.ts"
import { type AuthorizationRow, columnsOf } from "#src/rows/AuthorizationRows.ts"
import * as KeyUses from "#src/rows/KeyUses.ts"
import * as PasswordBox from "#src/rows/PasswordBox.ts"
import * as RowMac from "#src/rows/RowMac.ts"
import { Audit } from "#src/trail/Audit.ts"
import * as ServiceKeyRotation from "#src/trail/ServiceKeyRotation.ts"
import * as Entry from "#src/trail/Entry.ts"
import * as TrailVerification from "#src/trail/TrailVerification.ts"
import * as McpApp from "#test/mcp/McpApp.ts"
import * as OAuth from "#test/oauth/OAuthClient.ts"
import { freePort } from "#test/support/FreePort.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const password = "vial of thirty drops"
const serviceContext = { purpose: "service-key", teamId: "", projectId: "", environmentId: "" } as const

/** Keys of a release without generations, as its first start leaves them. */
const olderKeys = Layer.effectDiscard(
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const vault = yield* Vault
    for (const name of KeyGenerations.names) {
      const { rootKeyId, wrapped } = yield* vault.wrapBytes(
        { ...serviceContext, keyId: name },
        Redacted.make(randomBytes(32))
      )
      yield* sql`
        INSERT INTO service_keys (name, root_key_id, wrapped, created_at)
        VALUES (${name}, ${rootKeyId}, ${Buffer.from(wrapped)}, now())`
    }
  })
)

/** Several processes, as on a Postgres. */
const configAt = (baseUrl: string) =>
  TestApp.config({ baseUrl, databaseUrl: Option.some(Redacted.make("postgres://nowhere/ampoule")) })

/** A second process of the same service. */
const otherProcess = Effect.gen(function* () {
  const process = Server.layer({ host: "127.0.0.1", port: 0, traced: false }).pipe(
    Layer.provide(Layer.succeed(RateLimits, "off")),
    Layer.provide(configAt(yield* McpApp.base))
  )
  const context = yield* Layer.build(Layer.fresh(process))
  return `http://127.0.0.1:${Context.get(context, Listening).port}`
})

const appOver = <E, R>(before: Layer.Layer<never, E, R>) =>
  Layer.unwrapEffect(
    Effect.map(freePort, (port) =>
      Server.layer({ host: "127.0.0.1", port, traced: false }).pipe(
        Layer.provide(Layer.succeed(RateLimits, "off")),
        Layer.provideMerge(configAt(`http://127.0.0.1:${port}`)),
        Layer.provideMerge(Layer.provideMerge(before, TestApp.backends))
      )
    )
  )

/** Services of the server's own process, for a rotation: it looks for itself, as every process does. */
const needs = Effect.all({
  sql: SqlClient.SqlClient,
  vault: Vault,
  crypto: Crypto,
  keys: ServiceKeys,
  audit: Audit
})

const rotate = Effect.gen(function* () {
  const own = yield* needs
  yield* ServiceKeyRotation.begin(own, true)
  const agents = yield* OldCredentials.endDerived(own)
  const { done, refused } = yield* ServiceKeyRotation.reseal(own, () => Effect.void)
  const removed = yield* ServiceKeyRotation.removeUnused(own, { alone: true, refused })
  yield* own.keys.look
  return { agents, done, refused, removed }
})

const beginFor = (
  { crypto, sql, vault }: Pick<Effect.Effect.Success<typeof needs>, "crypto" | "sql" | "vault">,
  names: ReadonlyArray<KeyGenerations.ServiceKeyName>,
  generation: number
) => KeyGenerations.begin({ sql, vault }, { bytes: crypto.randomBytes(32), generation, names, now: new Date() })

const generationsOf = (name: KeyGenerations.ServiceKeyName) =>
  Effect.gen(function* () {
    const all = yield* ServiceKeyRotation.generations(yield* needs)
    return all.filter((one) => one.name === name).map(({ generation, use }) => `${generation} ${use}`)
  })

/** A team with a value, people and credentials of every kind that lasts. */
const scene = Effect.gen(function* () {
  const base = yield* McpApp.base
  const passwordHash = yield* (yield* Passwords).hash(Redacted.make(password), "password")
  const owner = yield* World.person({ passwordHash })
  const project = yield* World.project({ team: yield* World.team({ owner }) })
  const session = yield* World.session(owner)
  const secret = yield* TestApp.post("/secrets", {
    session: session.text,
    json: { projectId: project.id, environment: "development", key: "K", value: "the value" }
  })
  assert.strictEqual(secret.status, 201, secret.text)
  const scopes = ["identity:read", "secrets:run", "secrets:read_values"] as const
  const { client_id: clientId } = OAuth.registered(yield* Effect.promise(() => OAuth.register(base)))
  const browser = new McpApp.Browser(session.text)
  const agent = yield* Effect.promise(async () => {
    const { challenge, verifier } = OAuth.pkce()
    const url = OAuth.authorizationUrl(base, {
      client_id: clientId,
      code_challenge: challenge,
      scope: "projects:read"
    })
    const { callback } = await McpApp.decide(browser, url, { scopes: ["projects:read"], teams: [project.team] })
    return OAuth.redeem(base, clientId, callback.searchParams.get("code") ?? "", verifier)
  })
  return {
    base,
    owner,
    project,
    session,
    clientId,
    refreshToken: OAuth.refreshTokenOf(agent),
    token: yield* World.token({ team: project.team, creator: owner }),
    unused: yield* World.token({ team: project.team, creator: owner }),
    grant: yield* World.grant({ person: owner, teams: [{ team: project.team, scopes }] })
  }
})
type Scene = Effect.Effect.Success<typeof scene>

const reads = ({ project }: Pick<Scene, "project">, asked: TestApp.Asked) =>
  Effect.map(
    TestApp.get(`/secrets/inject?projectId=${project.id}&environment=development`, asked),
    ({ status, text }) => status === 200 && text.includes("the value")
  )

const signsIn = ({ owner }: Pick<Scene, "owner">) =>
  Effect.map(TestApp.post("/auth/session", { json: { email: owner.email, password } }), ({ status }) => status === 200)

const verified = Effect.gen(function* () {
  const vault = yield* Vault
  const { problems } = yield* TrailVerification.verify({
    vault,
    keys: [],
    checkpoints: [],
    values: false,
    alone: false,
    now: Date.now(),
    progress: () => Effect.void
  })
  return problems.map(({ what }) => what)
})

const everythingGoesOn = (stage: Scene) =>
  Effect.gen(function* () {
    assert.isTrue(yield* reads(stage, { bearer: stage.token.text }), "an API token")
    assert.isTrue(yield* reads(stage, { bearer: stage.grant.text }), "a command-line login")
    assert.isTrue(yield* reads(stage, { session: stage.session.text }), "a session")
    assert.isTrue(yield* signsIn(stage), "a password")
  })

const refresh = ({ base, clientId }: Scene, token: string) => Effect.promise(() => OAuth.refresh(base, clientId, token))

describe("a generation", () => {
  const keyOf = (generation: number, instance: string | undefined): KeyRing.RingKey => ({
    generation,
    instance,
    key: createSecretKey(Buffer.alloc(32, generation))
  })
  const digestOf = (key: KeyRing.RingKey) => KeyRing.tagged(key, KeyRing.hmac(key, "row").update("text").digest())

  plainIt("is named by each digest, and one of a release before has the text and the length of that release", () => {
    const older = keyOf(1, undefined)
    const expected = createHmac("sha256", older.key).update("ampoule row v1").update("text").digest()
    assert.isTrue(digestOf(older).equals(expected))
    const [second, third] = [keyOf(2, "db"), keyOf(3, "db")]
    const ring = KeyRing.of(third, [older, second])
    for (const key of [older, second, third]) assert.strictEqual(KeyRing.madeBy(ring, digestOf(key)), key)
    assert.isUndefined(KeyRing.madeBy(KeyRing.of(third, [second]), digestOf(older)))
    assert.isUndefined(KeyRing.madeBy(KeyRing.of(second), digestOf(third)))
    // A number before a digest of a key without one, and the other way round.
    assert.isUndefined(KeyRing.madeBy(KeyRing.of(older), digestOf(keyOf(1, "db"))))
    assert.isUndefined(KeyRing.madeBy(KeyRing.of(keyOf(1, "db")), digestOf(older)))
  })

  plainIt("of another database is another text, under the same key", () => {
    const [here, there] = [keyOf(2, "here"), keyOf(2, "there")]
    assert.isFalse(digestOf(here).equals(digestOf(there)))
    const phc = "$argon2id$x"
    assert.isTrue(Either.isLeft(PasswordBox.open(KeyRing.of(there), PasswordBox.seal(KeyRing.of(here), phc))))
    assert.deepStrictEqual(
      PasswordBox.open(KeyRing.of(here), PasswordBox.seal(KeyRing.of(here), phc)),
      Either.right(phc)
    )
  })
})

describe("the uses of keys", () => {
  layer(TestApp.shared, { excludeTestServices: true })((it) => {
    it.effect("name every table with a salted hash, and every box outside of authorization rows", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const hashed = yield* sql<{ readonly tableName: string }>`
          SELECT h.table_name FROM information_schema.columns h
          JOIN information_schema.columns s ON s.table_name = h.table_name AND s.table_schema = h.table_schema
          WHERE h.table_schema = current_schema() AND h.column_name = 'hash' AND s.column_name = 'salt'`
        for (const { tableName } of hashed) {
          const condition = KeyUses.isOfOldPepper(sql, tableName as KeyUses.PepperedTable, {
            newest: 2,
            now: new Date()
          })
          yield* sql`SELECT 1 FROM ${sql(tableName)} WHERE ${condition}`
        }
        assert.isAbove(hashed.length, 12)
      })
    )
  })
})

// Each test goes on with the keys that the one before left.
describe("a rotation of the service keys", { shuffle: false }, () => {
  layer(appOver(olderKeys), { excludeTestServices: true, timeout: "120 seconds" })((it) => {
    it.scoped("leaves rows to the release before until it runs, and everything goes on through it", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const stage = yield* scene
        const [row] = yield* sql<{ readonly mac: Buffer; readonly hash: Buffer }>`
          SELECT mac, hash FROM api_tokens WHERE id = ${stage.token.id}`
        assert.deepStrictEqual([row.mac.length, row.hash.length], [32, 32])
        assert.deepStrictEqual(yield* generationsOf("row-seals"), ["1 writes"])
        const other = yield* otherProcess
        const { done, refused, removed } = yield* rotate
        assert.isAbove(done, 5)
        assert.deepStrictEqual(refused, [])
        assert.includeMembers(
          removed.map(({ generation, name }) => `${name} ${generation}`),
          ["row-seals 1", "password-hashes 1", "second-factors 1", "issuer-secrets 1", "audit-entries 1"]
        )
        assert.deepStrictEqual(yield* generationsOf("row-seals"), ["2 writes"])
        assert.deepStrictEqual(yield* generationsOf("credential-pepper"), ["1 verifies", "2 writes"])
        const [ledger] = yield* sql<{ readonly refuses: boolean }>`
          SELECT served_from = migration_id AS refuses FROM effect_sql_migrations WHERE name = 'service_key_generations'`
        assert.isTrue(ledger.refuses, "a program that knows no generations does not start any more")
        yield* everythingGoesOn(stage)
        yield* Effect.tryPromise(async () => {
          const answer = await fetch(`${other}/secrets/inject?projectId=${stage.project.id}&environment=development`, {
            headers: { authorization: `Bearer ${stage.token.text}` }
          })
          assert.strictEqual(answer.status, 200, "another process, which looks every five seconds")
        }).pipe(Effect.retry({ times: 100, schedule: Schedule.spaced("200 millis") }))
        const refreshed = yield* refresh(stage, stage.refreshToken)
        assert.strictEqual(refreshed.status, 200, "a random refresh token of before")
        const older = yield* sql`SELECT mac FROM memberships WHERE mac IS NOT NULL AND length(mac) <> 34`
        assert.deepStrictEqual(older, [])
        assert.deepStrictEqual(yield* verified, [])
      })
    )

    it.effect("renews the hash of a credential at its next use; the operator sees the others, and can end them", () =>
      Effect.gen(function* () {
        const own = yield* needs
        const { sql } = own
        const stage = yield* scene
        yield* rotate
        const newest = 3
        const idsOf = Effect.map(OldCredentials.find(sql, newest), ({ listed }) => listed.map(({ id }) => id))
        assert.includeMembers([...(yield* idsOf)], [stage.token.id, stage.unused.id, stage.grant.id])
        yield* everythingGoesOn(stage)
        yield* (yield* Authenticate).flushRenewals
        const remaining = yield* idsOf
        assert.include(remaining, stage.unused.id)
        assert.notIncludeMembers([...remaining], [stage.token.id])
        assert.notIncludeMembers([...remaining], [stage.grant.id])
        yield* everythingGoesOn(stage)
        assert.include(yield* generationsOf("credential-pepper"), "2 verifies")
        const ended = yield* OldCredentials.endAll(own, newest)
        assert.isAbove(ended, 0)
        const { counts } = yield* OldCredentials.find(sql, newest)
        assert.includeMembers(
          ["access tokens of agents", "codes of agents", "setup codes"],
          counts.map(({ label }) => label),
          "what ends by itself within minutes"
        )
        for (const table of ["oauth_access_tokens", "oauth_codes"]) yield* sql`DELETE FROM ${sql(table)}`
        yield* ServiceKeyRotation.removeUnused(own, { alone: true, refused: [] })
        assert.deepStrictEqual(yield* generationsOf("credential-pepper"), ["3 writes"])
        yield* own.keys.look
        assert.isFalse(yield* reads(stage, { bearer: stage.unused.text }), "a token that nobody used")
        yield* everythingGoesOn(stage)
        const [entry] = yield* sql<{ readonly n: number }>`
          SELECT count(*)::int AS n FROM audit_entries WHERE action = 'token.revoke' AND body LIKE ${`%${stage.unused.id}%`}`
        assert.strictEqual(entry.n, 1)
        assert.deepStrictEqual(yield* verified, [])
      })
    )

    it.effect("goes on where it was cut off, and gives no MAC to a row that no server wrote", () =>
      Effect.gen(function* () {
        const own = yield* needs
        const { sql } = own
        const stage = yield* scene
        const { id } = yield* World.member(stage.project.team, "member")
        yield* sql`UPDATE memberships SET role = 'owner' WHERE user_id = ${id}`
        // Cut off after the creation, and after the activation.
        yield* beginFor(own, KeyGenerations.names, 4)
        yield* own.keys.look
        assert.include(yield* generationsOf("row-seals"), "4 coming")
        yield* everythingGoesOn(stage)
        yield* ServiceKeyRotation.begin(own, true)
        assert.deepStrictEqual(yield* generationsOf("row-seals"), ["3 verifies", "4 writes"])
        assert.isTrue(ServiceKeyRotation.isUnfinished(yield* ServiceKeyRotation.generations(own)))
        // Cut off during the renewal of the rows.
        yield* ServiceKeyRotation.begin(own, true)
        assert.deepStrictEqual(yield* generationsOf("row-seals"), ["3 verifies", "4 writes"])
        yield* everythingGoesOn(stage)
        // The server writes with the newest meanwhile.
        const later = yield* World.token({ team: stage.project.team, creator: stage.owner })
        assert.isTrue(yield* reads(stage, { bearer: later.text }))
        const { refused } = yield* ServiceKeyRotation.reseal(own, () => Effect.void)
        assert.deepStrictEqual(refused, [{ table: "memberships", name: `${stage.project.team.id} ${id}` }])
        assert.deepStrictEqual(
          (yield* ServiceKeyRotation.removeUnused(own, { alone: true, refused: [] })).filter(
            ({ name }) => name === "row-seals"
          ),
          [],
          "a row needs the generation, for all that is known without a look at its MAC"
        )
        yield* ServiceKeyRotation.removeUnused(own, { alone: true, refused })
        yield* own.keys.look
        assert.deepStrictEqual(yield* generationsOf("row-seals"), ["4 writes"])
        yield* everythingGoesOn(stage)
        const forged = `The row ${stage.project.team.id} ${id} of memberships was not written by a server as it is, and grants nothing.`
        assert.deepStrictEqual(yield* verified, [forged])
      })
    )

    it.scoped("lets new data keys hold the id of the database, and a rotation of data keys replaces the others", () =>
      Effect.gen(function* () {
        const own = yield* needs
        const { sql } = own
        // As before the first rotation, when servers of the release before may start.
        yield* sql`UPDATE effect_sql_migrations SET served_from = migration_id - 1 WHERE name = 'key_instances'`
        const stage = yield* scene
        const { development } = stage.project
        const session = { session: stage.session.text }
        const hook = yield* TestApp.post(`/teams/${stage.project.team.id}/webhooks`, {
          ...session,
          json: { name: "hook", url: "https://example.com/hook" }
        })
        assert.strictEqual(hook.status, 201, hook.text)
        yield* TestApp.get(`/environments/${development.id}/keypair`, session)
        const kinds = Effect.map(
          sql<{ readonly bound: boolean }>`
            SELECT bound FROM data_keys WHERE environment_id = ${development.id} AND state = 'active'
            UNION ALL SELECT bound FROM sealing_keys WHERE environment_id = ${development.id}
            UNION ALL SELECT s.bound FROM webhook_secrets s JOIN webhooks w ON w.id = s.webhook_id
            WHERE w.team_id = ${stage.project.team.id}`,
          (rows) => rows.map(({ bound }) => bound)
        )
        assert.deepStrictEqual(yield* kinds, [false, false, false])
        yield* rotate
        const instance = yield* Instance.stored(sql)
        yield* bindTo(own, { condition: sql`NOT bound`, from: undefined, to: instance ?? "" })
        assert.deepStrictEqual(yield* kinds, [false, true, true])
        yield* everythingGoesOn(stage)
        const rotation = yield* Rotation
        yield* rotation.rotateDataKeys({ environmentId: development.id, before: new Date() }, () => Effect.void)
        assert.deepStrictEqual(yield* kinds, [true, true, true])
        yield* everythingGoesOn(stage)
        const keypair = yield* TestApp.get(`/environments/${development.id}/keypair`, session)
        assert.strictEqual(keypair.status, 200, keypair.text)
        const [secretRow] = yield* sql<SealedSecret>`
          SELECT s.id, s.bound, s.root_key_id, s.wrapped FROM webhook_secrets s JOIN webhooks w ON w.id = s.webhook_id
          WHERE w.team_id = ${stage.project.team.id}`
        const secret = yield* Effect.flatMap(WebhookSecrets, ({ open }) => open(stage.project.team.id, secretRow))
        assert.include(hook.text, new TextDecoder().decode(Redacted.value(secret)))
      })
    )
  })
})

describe("a rotation beside a writer of the database", () => {
  layer(appOver(Layer.empty), { excludeTestServices: true, timeout: "120 seconds" })((it) => {
    it.effect("ends in spite of forged rows, none of which excuses a genuine one", () =>
      Effect.gen(function* () {
        const own = yield* needs
        const { sql } = own
        for (const name of KeyGenerations.names) yield* own.keys.ring(name)
        const stage = yield* scene
        const passwordHash = yield* (yield* Passwords).hash(Redacted.make(password), "password")
        const shutOut = yield* World.person({ passwordHash })
        yield* sql`UPDATE users SET mac = '' WHERE id = ${shutOut.id}`
        const mark = Buffer.concat([Buffer.from([0, 1]), randomBytes(32)])
        yield* sql`INSERT INTO sealed_tables (name, mac) VALUES ('no table', ${mark})`
        yield* sql`
          INSERT INTO totp_factors (id, user_id, sealed, confirmed, used_step, created_at, mac)
          VALUES (gen_random_uuid(), ${shutOut.id}, ${Buffer.from([2, 0, 1, 0])}, true, 0, now(), '')`
        yield* ServiceKeyRotation.begin(own, true)
        const invented = Array.from({ length: 1_000 }, (_, i) => ({ table: "users", name: `${i}` }))
        const early = yield* ServiceKeyRotation.removeUnused(own, { alone: true, refused: invented })
        for (const name of ["row-seals", "password-hashes"] as const)
          assert.notInclude(
            early.map((one) => one.name),
            name
          )
        const { refused } = yield* ServiceKeyRotation.reseal(own, () => Effect.void)
        assert.deepStrictEqual(refused, [{ table: "sealed_tables", name: "no table" }])
        yield* ServiceKeyRotation.removeUnused(own, { alone: true, refused })
        yield* own.keys.look
        for (const name of ["row-seals", "password-hashes", "second-factors"] as const)
          assert.deepStrictEqual(yield* generationsOf(name), ["2 writes"])
        yield* everythingGoesOn(stage)
      })
    )

    it.effect("keeps for a day the key of links that confirm an address", () =>
      Effect.gen(function* () {
        const own = yield* needs
        yield* own.keys.ring("sign-in-flows")
        yield* ServiceKeyRotation.begin(own, true)
        const removedAfter = (hours: number) =>
          Effect.gen(function* () {
            const activeAt = new Date(Date.now() - hours * 3_600_000)
            yield* own.sql`UPDATE service_key_generations SET active_at = ${activeAt} WHERE name = 'sign-in-flows'`
            const removed = yield* ServiceKeyRotation.removeUnused(own, { alone: true, refused: [] })
            return removed.some(({ name }) => name === "sign-in-flows")
          })
        assert.deepStrictEqual([yield* removedAfter(23), yield* removedAfter(25)], [false, true])
      })
    )
  })
})

describe("service keys without a server", { shuffle: false }, () => {
  const keysOnly = Layer.provideMerge(
    Layer.mergeAll(ServiceKeys.Default, olderKeys),
    Layer.provideMerge(Crypto.Default, TestApp.backends)
  )
  const services = Effect.all({ sql: SqlClient.SqlClient, vault: Vault, crypto: Crypto, keys: ServiceKeys })
  const stored = Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Effect.map(KeyGenerations.rowsOf(sql, KeyGenerations.names), (rows) =>
      rows.map(({ generation, name, state }) => `${name} ${generation} ${state}`)
    )
  )
  const complete = [...KeyGenerations.names].sort().flatMap((name) => [`${name} 1 active`, `${name} 2 active`])
  layer(keysOnly, { excludeTestServices: true })((it) => {
    it.effect("all get the generation that an interrupted creation gave to some", () =>
      Effect.gen(function* () {
        const own = yield* services
        const { sql } = own
        const some = ["audit-entries", "credential-pepper", "row-seals"] as const
        yield* beginFor(own, some, 2)
        yield* ServiceKeyRotation.begin(own, true)
        assert.deepStrictEqual([...(yield* stored)].sort(), complete)
        // An earlier program activated those of some.
        yield* sql`DELETE FROM service_key_generations WHERE name <> ALL(${some}::text[])`
        yield* ServiceKeyRotation.begin(own, true)
        assert.deepStrictEqual([...(yield* stored)].sort(), complete)
        yield* ServiceKeyRotation.begin(own, true)
        assert.deepStrictEqual([...(yield* stored)].sort(), complete)
      })
    )

    it.effect("write with no older generation when the newest does not open, and none replaces it", () =>
      Effect.gen(function* () {
        const { keys, sql, vault } = yield* services
        const refusal = Effect.map(Effect.either(keys.ring("row-seals")), (ring) =>
          Either.isLeft(ring) ? ring.left._tag : `generation ${ring.right.newest.generation}`
        )
        const before = yield* stored
        yield* sql`UPDATE service_key_generations SET wrapped = ${randomBytes(60)} WHERE name = 'row-seals'`
        assert.strictEqual(yield* refusal, "INTEGRITY_FAILURE")
        assert.isUndefined(yield* KeyGenerations.open({ sql, vault }, "row-seals"))
        assert.deepStrictEqual(yield* stored, before)
        // The other keys have a newer generation than this one.
        yield* sql`DELETE FROM service_key_generations WHERE name = 'row-seals'`
        yield* sql`UPDATE service_keys SET wrapped = ${randomBytes(60)} WHERE name = 'row-seals'`
        assert.strictEqual(yield* refusal, "INTEGRITY_FAILURE")
        assert.notInclude(yield* stored, "row-seals 2 active")
      })
    )
  })
})

/** Every row that a value needs, as a writer of the database can take it elsewhere. */
const rowsOfValue = (environmentId: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const [keys, versions] = [
      yield* sql<{ readonly id: string; readonly row: string }>`
        SELECT id, to_jsonb(d)::text AS row FROM data_keys d WHERE environment_id = ${environmentId}`,
      yield* sql<{ readonly dataKeyId: string; readonly row: string }>`
        SELECT v.data_key_id, to_jsonb(v)::text AS row FROM secret_versions v JOIN secrets s ON s.id = v.secret_id
        WHERE s.environment_id = ${environmentId}`
    ]
    return { keys, versions }
  })
type RowsOfValue = Effect.Effect.Success<ReturnType<typeof rowsOfValue>>

/** Puts rows of one database into the places that they have in another. */
const putBack = (environmentId: string, { keys, versions }: RowsOfValue) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* sql`
      DELETE FROM secret_versions v USING secrets s WHERE s.id = v.secret_id AND s.environment_id = ${environmentId}`
    yield* sql`DELETE FROM data_keys WHERE environment_id = ${environmentId}`
    for (const { row } of keys)
      yield* sql`INSERT INTO data_keys SELECT * FROM jsonb_populate_record(NULL::data_keys, ${row}::jsonb)`
    for (const { row } of versions)
      yield* sql`INSERT INTO secret_versions SELECT * FROM jsonb_populate_record(NULL::secret_versions, ${row}::jsonb)`
    yield* sql`UPDATE environments SET revision = revision + 1 WHERE id = ${environmentId}`
  })

/** A server that starts now. Its caches are empty. */
const freshDataKeys = Effect.map(
  Layer.build(Layer.fresh(DataKeys.Default).pipe(Layer.provide(Layer.fresh(ServiceKeys.Default)))),
  (context) => Context.get(context, DataKeys)
)

for (const [origin, before] of [
  ["of this release", Layer.empty],
  ["that a release without generations made", olderKeys]
] as const)
  describe(`a copy of a database ${origin}`, () => {
    layer(appOver(before), { excludeTestServices: true, timeout: "120 seconds" })((it) => {
      it.scoped("opens no row of the original, and the original none of the copy", () =>
        Effect.gen(function* () {
          const { sql } = yield* needs
          const stage = yield* scene
          const { development, id: projectId, team } = stage.project
          const environmentId = development.id
          const place = { teamId: team.id, projectId, environmentId }
          const ownerSession = { session: stage.session.text }
          const keypair = yield* TestApp.get(`/environments/${environmentId}/keypair`, ownerSession)
          assert.strictEqual(keypair.status, 200, keypair.text)
          const sealingKey = sql<{ readonly row: string }>`
            SELECT to_jsonb(k)::text AS row FROM sealing_keys k WHERE environment_id = ${environmentId}`
          const ofOriginal = yield* rowsOfValue(environmentId)
          const [sealingKeyOfOriginal] = yield* sealingKey
          // The server of the original goes on: its service keys are in its memory.
          const original = yield* freshDataKeys
          yield* original.byId(place, [ofOriginal.keys[0].id])

          yield* sql.withTransaction(DatabaseCopy.make(() => Effect.void))
          yield* (yield* ServiceKeys).look
          // The server of the copy starts without keys of the original.
          yield* (yield* DataKeys).forget(environmentId)
          const owner = yield* World.session(stage.owner)
          const session = { session: owner.text }
          const inject = TestApp.get(`/secrets/inject?projectId=${projectId}&environment=development`, session)
          assert.isTrue(yield* reads(stage, session), "the copy has the values of the original")
          const ofCopy = yield* rowsOfValue(environmentId)
          assert.notInclude(
            ofCopy.keys.map(({ id }) => id),
            ofOriginal.keys[0].id
          )
          assert.strictEqual((yield* TestApp.get(`/environments/${environmentId}/keypair`, session)).text, keypair.text)

          // A writer of both databases: rows of the original in the copy.
          yield* putBack(environmentId, ofOriginal)
          const foreignRows = yield* inject
          assert.deepStrictEqual(TestApp.codeOf(foreignRows), [500, "INTEGRITY_FAILURE"])
          yield* putBack(environmentId, ofCopy)
          assert.isTrue(yield* reads(stage, session))
          yield* sql`
            UPDATE sealing_keys k SET wrapped_private = o.wrapped_private, bound = o.bound
            FROM jsonb_populate_record(NULL::sealing_keys, ${sealingKeyOfOriginal.row}::jsonb) o
            WHERE k.environment_id = o.environment_id`
          const other = yield* TestApp.post(`/environments/${environmentId}/sealed-values/open`, {
            ...session,
            json: { keyId: keypair.json.keyId, entries: { A: `sealed:v1:${keypair.json.keyId}:AAAA` } }
          })
          assert.deepStrictEqual(TestApp.codeOf(other), [500, "INTEGRITY_FAILURE"], other.text)

          // Rows of the copy in the original, also as keys of a release that bound none.
          const [{ id }] = ofCopy.keys
          for (const bound of [true, false]) {
            yield* sql`UPDATE data_keys SET bound = ${bound} WHERE id = ${id}`
            const result = yield* Effect.either(original.byId(place, [id]))
            assert.isTrue(Either.isLeft(result) && result.left._tag === "INTEGRITY_FAILURE", `bound: ${bound}`)
          }
        })
      )

      it.scoped("keeps earlier versions and changes that wait for an approval", () =>
        Effect.gen(function* () {
          const { sql } = yield* needs
          const stage = yield* scene
          const { development, id: projectId, team } = stage.project
          const member = yield* World.session(yield* World.member(team, "member"))
          const owner = yield* World.session(stage.owner)
          const session = { session: owner.text }
          const policy = yield* TestApp.patch(`/environments/${development.id}`, {
            ...session,
            json: { changes: "proposed" }
          })
          assert.strictEqual(policy.status, 200, policy.text)
          const proposal = yield* TestApp.post("/secrets", {
            session: member.text,
            json: { projectId, environment: "development", key: "PROPOSED", value: "next" }
          })
          assert.strictEqual(proposal.status, 202, proposal.text)
          const altered = yield* TestApp.post("/secrets", {
            session: member.text,
            json: { projectId, environment: "development", key: "ALTERED", value: "other" }
          })
          yield* sql`
            UPDATE change_requests SET sealed = set_byte(sealed, 40, 255 - get_byte(sealed, 40))
            WHERE id = ${altered.as(ChangeRequest).id}`
          yield* sql.withTransaction(DatabaseCopy.make(() => Effect.void))
          yield* (yield* ServiceKeys).look
          const stillWaiting = yield* sql`
            SELECT 1 FROM change_requests WHERE id = ${altered.as(ChangeRequest).id} AND status = 'pending'`
          assert.lengthOf(stillWaiting, 1, "a change whose box does not open is not lost")
          const later = { session: (yield* World.session(stage.owner)).text }
          const request = `/change-requests/${proposal.as(ChangeRequest).id}`
          const contents = yield* TestApp.post(`${request}/reveal`, later)
          assert.include(contents.text, "next")
          const approval = yield* TestApp.post(`${request}/approve`, { ...later, json: {} })
          assert.strictEqual(approval.status, 200, approval.text)
          assert.isTrue(yield* reads(stage, later))
        })
      )
    })
  })

describe("a copy of a database", () => {
  layer(appOver(Layer.empty), { excludeTestServices: true, timeout: "120 seconds" })((it) => {
    it.effect("makes rows and keys that the original does not believe, and keeps passwords", () =>
      Effect.gen(function* () {
        const { keys, sql, vault } = yield* needs
        const stage = yield* scene
        const original = RowMac.make(
          {
            rows: yield* keys.ring("row-seals"),
            credentials: yield* keys.ring("credential-pepper"),
            passwords: yield* keys.ring("password-hashes")
          },
          () => {}
        )
        const rowsOf = sql<AuthorizationRow<"memberships"> & { readonly mac: Buffer }>`
          SELECT ${sql.literal(columnsOf("memberships"))}, mac FROM memberships`
        for (const row of yield* rowsOf) assert.isTrue(original.isAuthentic("memberships", row))
        const [{ instanceId }] = yield* sql<{ readonly instanceId: string }>`SELECT instance_id FROM instance`
        yield* sql.withTransaction(DatabaseCopy.make(() => Effect.void))
        yield* keys.look
        assert.isTrue(yield* signsIn(stage))
        for (const asked of [
          { bearer: stage.token.text },
          { bearer: stage.grant.text },
          { session: stage.session.text }
        ]) {
          assert.isFalse(yield* reads(stage, asked))
        }
        assert.deepStrictEqual(yield* verified, [])
        // A writer of both databases takes rows of the copy to the original, and the wrapped keys with them.
        const rows = yield* rowsOf
        assert.isNotEmpty(rows)
        for (const row of rows) assert.isFalse(original.isAuthentic("memberships", row))
        assert.isDefined(yield* KeyGenerations.open({ sql, vault }, "row-seals"))
        yield* sql`UPDATE instance SET instance_id = ${instanceId}`
        assert.isUndefined(yield* KeyGenerations.open({ sql, vault }, "row-seals"))
      })
    )
  })
})

/** As releases before this one made the text of a refresh token. */
const derivedText = (key: KeyRing.RingKey, grantId: string, rotation: number) => {
  const bytes = (part: string) =>
    createHmac("sha256", key.key).update(`refresh ${part}\0${grantId}\0${rotation}`).digest()
  return TokenText.make("or", bytes("id").subarray(0, 12), bytes("secret"))
}

const noAlarm = () => {}

/** All that somebody had before the rotation: the keys themselves, and how they were wrapped. */
const stolen = Effect.gen(function* () {
  const { keys, sql } = yield* needs
  const macs = RowMac.make(
    {
      rows: yield* keys.ring("row-seals"),
      credentials: yield* keys.ring("credential-pepper"),
      passwords: yield* keys.ring("password-hashes")
    },
    noAlarm
  )
  return {
    macs,
    passwords: yield* keys.ring("password-hashes"),
    refresh: (yield* keys.ring("oauth-refresh")).newest,
    entries: (yield* keys.ring("audit-entries")).newest,
    wrapped: yield* sql<{
      readonly name: string
      readonly rootKeyId: string
      readonly wrapped: Buffer
      readonly createdAt: Date
    }>`SELECT name, root_key_id, wrapped, created_at FROM service_keys`
  }
})

/** A refresh token as a release before stored it, in the place of the agent's own. */
const withDerivedToken = (stage: Scene, { macs, refresh: key }: Effect.Effect.Success<typeof stolen>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const id = TokenText.parse(stage.refreshToken)?.id ?? ""
    const [row] = yield* sql<{ readonly grantId: string; readonly expiresAt: Date; readonly payload: object }>`
      SELECT grant_id, expires_at, payload - 'random' AS payload FROM oauth_refresh_tokens WHERE lookup_id = ${id}`
    const token = derivedText(key, row.grantId, 0)
    const salt = randomBytes(16)
    const hash = TokenText.hash(macs, "or", salt, token.secret)
    const cells = { ...row, lookupId: token.id, hash, rotation: 0 }
    const mac = macs.of("oauth_refresh_tokens", cells)
    yield* sql`DELETE FROM oauth_refresh_tokens WHERE grant_id = ${row.grantId}`
    yield* sql`
      INSERT INTO oauth_refresh_tokens (lookup_id, salt, hash, grant_id, rotation, payload, expires_at, mac)
      VALUES (${token.id}, ${salt}, ${hash}, ${row.grantId}, 0, ${JSON.stringify(row.payload)}::jsonb, ${row.expiresAt}, ${mac})`
    return TokenText.print(token)
  })

describe("somebody who had every service key, and reads and writes the database after a rotation,", () => {
  layer(appOver(olderKeys), { excludeTestServices: true, timeout: "120 seconds" })((it) => {
    it.effect("makes no member, no token, no row of before and no refresh token that a server believes", () =>
      Effect.gen(function* () {
        const { keys, sql } = yield* needs
        const stage = yield* scene
        const before = yield* stolen
        const { macs } = before
        const attacker = yield* World.person()
        const ofAttacker = yield* World.session(attacker)
        const { id: teamId } = stage.project.team
        const now = new Date()
        const membership = {
          teamId,
          userId: attacker.id,
          role: "owner",
          active: true,
          deactivatedAt: null,
          updatedAt: now,
          ruledBy: null,
          roleLimit: null,
          breakGlass: false
        }
        const join = (mac: Buffer) => sql`
          INSERT INTO memberships (team_id, user_id, role, active, updated_at, created_at, mac)
          VALUES (${teamId}, ${attacker.id}, 'owner', true, ${now}, ${now}, ${mac})`
        const leave = sql`DELETE FROM memberships WHERE user_id = ${attacker.id}`
        /** A token that the attacker chose, in the place of one whose row nobody looks at. */
        const minted = TokenText.make("at", randomBytes(12), randomBytes(32))
        const mint = Effect.gen(function* () {
          const salt = randomBytes(16)
          const hash = TokenText.hash(macs, "at", salt, minted.secret)
          yield* sql`UPDATE api_tokens SET lookup_id = ${minted.id}, salt = ${salt}, hash = ${hash} WHERE id = ${stage.unused.id}`
          const [row] = yield* sql<never>`
            SELECT ${sql.literal(columnsOf("api_tokens"))} FROM api_tokens WHERE id = ${stage.unused.id}`
          yield* sql`UPDATE api_tokens SET mac = ${macs.of("api_tokens", row)} WHERE id = ${stage.unused.id}`
        })

        // With the keys in use, all of it works: that is what the rotation is for.
        yield* join(macs.of("memberships", membership))
        assert.isTrue(yield* reads(stage, { session: ofAttacker.text }))
        yield* leave
        yield* mint
        assert.isTrue(yield* reads(stage, { bearer: TokenText.print(minted) }))
        const another = yield* scene
        const works = yield* refresh(another, yield* withDerivedToken(another, before))
        assert.strictEqual(works.status, 200, works.text)
        const derived = yield* withDerivedToken(stage, before)
        const [saved] = yield* sql<{ readonly row: string }>`
          SELECT to_jsonb(a)::text AS row FROM api_tokens a WHERE id = ${stage.token.id}`
        const end = yield* TestApp.del(`/teams/${teamId}/api-tokens/${stage.token.id}`, { session: stage.session.text })
        assert.isBelow(end.status, 300, end.text)

        const { agents } = yield* rotate
        assert.strictEqual(agents, 1)

        yield* join(macs.of("memberships", membership))
        assert.isFalse(yield* reads(stage, { session: ofAttacker.text }), "a member")
        yield* mint
        assert.isFalse(yield* reads(stage, { bearer: TokenText.print(minted) }), "a token")
        yield* sql`DELETE FROM api_tokens WHERE id = ${stage.token.id}`
        yield* sql`INSERT INTO api_tokens SELECT * FROM jsonb_populate_record(NULL::api_tokens, ${saved.row}::jsonb)`
        assert.isFalse(yield* reads(stage, { bearer: stage.token.text }), "a row of before")
        assert.strictEqual((yield* refresh(stage, derived)).status, 400, "a refresh token")
        const rows = yield* sql<{ readonly grantId: string; readonly rotation: number }>`
          SELECT grant_id, rotation FROM oauth_refresh_tokens`
        for (const { grantId, rotation } of rows) {
          const text = TokenText.print(derivedText(before.refresh, grantId, rotation))
          assert.strictEqual((yield* refresh(another, text)).status, 400, "any refresh token")
        }
        const [{ passwordHash }] = yield* sql<{ readonly passwordHash: string }>`
          SELECT password_hash FROM users WHERE id = ${stage.owner.id}`
        assert.isTrue(Either.isLeft(PasswordBox.open(before.passwords, passwordHash)), "a password's hash")

        // The wrapped keys, put back: a server that saw them go does not take them again.
        for (const { createdAt, name, rootKeyId, wrapped } of before.wrapped) {
          yield* sql`
            INSERT INTO service_keys (name, root_key_id, wrapped, created_at)
            VALUES (${name}, ${rootKeyId}, ${wrapped}, ${createdAt}) ON CONFLICT (name) DO NOTHING`
        }
        yield* keys.look
        assert.isFalse(yield* reads(stage, { session: ofAttacker.text }), "a member, with the old keys put back")
        assert.isFalse(yield* reads(stage, { bearer: stage.token.text }), "a row of before, with the old keys put back")
        yield* sql`DELETE FROM service_keys WHERE name IN ('row-seals', 'password-hashes', 'audit-entries')`
        yield* leave
        yield* everythingGoesOn(another)

        // An entry at the end of a stream, with the MAC of before.
        const [last] = yield* sql<{ readonly stream: string; readonly seq: number; readonly hash: Buffer }>`
          SELECT stream, seq::int AS seq, hash FROM audit_entries
          ORDER BY stream DESC, seq DESC LIMIT 1`
        const old = Entry.macOf(before.entries, last.hash)
        yield* sql`UPDATE audit_entries SET mac = ${old} WHERE stream = ${last.stream}::uuid AND seq = ${last.seq}`
        assert.include(yield* verified, "is the last of its stream, and no server wrote it")
      })
    )
  })
})
