/** Entries of every read of values: the versions that were handed out. */
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { randomBytes } from "node:crypto"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { AuditEntry } from "#schema/Audit.ts"
import { CurrentCaller } from "#schema/Caller.ts"
import { type Representation, SealingKeyId, SecretKey } from "#schema/Values.ts"
import type { Audit } from "#src/trail/Audit.ts"
import * as Backup from "#src/backup/Backup.ts"
import type { Crypto } from "#src/crypto/Crypto.ts"
import { SealingKeys } from "#src/projects/SealingKeys.ts"
import * as Hpke from "#src/sealed/Hpke.ts"
import { printRecipient } from "#src/sealed/RecipientKey.ts"
import * as Rows from "#src/database/Rows.ts"
import * as Fixtures from "#test/support/Fixtures.ts"

const key = (text: string) => SecretKey.make(text)
const keys = (...texts: ReadonlyArray<string>) => texts.map(key)

const Row = Schema.Struct({ body: Schema.parseJson(AuditEntry) })
/** Entries of a team that the work left, but for those of writes. */
const entriesOf = <A, E, R>(teamId: string, work: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const all = Rows.findAll(Row, sql`SELECT body FROM audit_entries WHERE team_id = ${teamId} ORDER BY id`)
    const before = new Set((yield* all).map(({ body }) => body.id))
    yield* work
    const added = (yield* all).map(({ body }) => body).filter(({ id }) => !before.has(id))
    return added.filter(({ action }) => !["secret.create", "secret.update", "sealing_key.create"].includes(action))
  })

const temporaryFolder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "ampoule-reads-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

/** An environment in which `BASE` is at version 2, `URL` holds it, and `OTHER` does not; at revision 4. */
const environment = Effect.gen(function* () {
  const w = yield* Fixtures.world()
  const secrets = yield* Fixtures.secrets
  const at = { projectId: w.projectId, environment: w.development }
  const me = Effect.provideService(CurrentCaller, w.owner)
  const create = (name: string, value: string) =>
    secrets.create({ ...at, key: key(name), value: Redacted.make(value) }).pipe(me)
  const base = yield* create("BASE", "one")
  yield* secrets.update(base.id, { value: Redacted.make("two") }).pipe(me)
  yield* create("OTHER", "three")
  yield* create("URL", "pg://${BASE}")
  return { w, at, me, secrets }
})
type Place = Effect.Effect.Success<typeof environment>

type Services = Audit | Crypto | Scope.Scope | SealingKeys | SqlClient.SqlClient

const pair = Effect.sync(() => Redacted.make(new Uint8Array(randomBytes(32)))).pipe(Effect.flatMap(Hpke.deriveKeyPair))

/** Every way out for a value, and what the trail names of it. */
const reads = ({ at, me, secrets, w }: Place) => {
  const read = <A, E>(work: Effect.Effect<A, E, Services>, ...names: ReadonlyArray<object>) => ({
    work: Effect.asVoid(Effect.orDie(work)),
    names
  })
  const all = keys("BASE", "OTHER", "URL")
  const production = { projectId: w.projectId, environment: w.production }
  const sealed = secrets.sealedExport({ ...at, keys: keys("URL") }).pipe(me)
  const opened = Effect.flatMap(Effect.all([SealingKeys, sealed]), ([sealing, { entries, keyId }]) =>
    sealing.openIn(at, { entries, keyId: SealingKeyId.make(keyId) }).pipe(me)
  )
  const backup = Effect.gen(function* () {
    const folder = yield* temporaryFolder
    const { publicKey } = yield* pair
    yield* Backup.backup({
      file: join(folder, "a.backup"),
      recipients: [publicKey],
      release: "1.0.0",
      progress: () => Effect.void
    })
    return printRecipient(publicKey)
  })
  const inject = { action: "secret.inject", keys: all, revision: 4 }
  const url = { keys: keys("URL"), contains: { BASE: 2 } }
  return [
    read(secrets.inject(at).pipe(me), inject),
    read(secrets.resolved(at).pipe(me), inject),
    read(secrets.inject({ ...at, keys: keys("URL", "OTHER") }).pipe(me), {
      action: "secret.inject",
      keys: keys("OTHER", "URL"),
      versions: [1, 1],
      contains: { BASE: 2 }
    }),
    read(secrets.inject({ ...at, keys: keys("URL"), representation: "source" }).pipe(me), {
      action: "secret.inject",
      keys: keys("URL"),
      versions: [1],
      contains: undefined
    }),
    read(secrets.inject({ ...at, page: 3, pageSize: 1 }).pipe(me), { action: "secret.inject", ...url, revision: 4 }),
    read(secrets.inject({ ...at, page: 3, pageSize: 1, representation: "source" }).pipe(me), {
      action: "secret.inject",
      keys: keys("URL"),
      contains: undefined,
      revision: 4
    }),
    read(secrets.withValues(at).pipe(me), { action: "secret.list_values", keys: all, revision: 4 }),
    read(secrets.value({ ...at, key: key("BASE") }).pipe(me), {
      action: "secret.read",
      keys: keys("BASE"),
      versions: [2],
      contains: undefined
    }),
    read(secrets.value({ ...at, key: key("URL") }, "to try it").pipe(me), {
      action: "secret.read",
      ...url,
      versions: [1],
      reason: "to try it"
    }),
    read(secrets.value({ ...at, key: key("URL"), representation: "source" as const }).pipe(me), {
      action: "secret.read",
      keys: keys("URL"),
      versions: [1],
      contains: undefined
    }),
    read(sealed, { action: "sealed.export", ...url, revision: 4 }),
    read(
      opened,
      { action: "sealed.export", ...url, revision: 4 },
      { action: "sealed.open", keys: keys("URL"), contains: { BASE: 0 }, revision: 4 }
    ),
    read(secrets.diff({ projectId: w.projectId, sourceEnv: w.development, targetEnv: w.production }).pipe(me), {
      action: "secret.diff",
      environment: "development",
      revision: 4
    }),
    read(
      secrets
        .copy({ projectId: w.projectId, sourceEnv: w.development, targetEnv: w.production, keys: keys("BASE") })
        .pipe(me),
      {
        action: "secret.read",
        environment: "development",
        keys: keys("BASE"),
        versions: [2],
        target: { type: "environment", id: w.productionId, name: "production" }
      }
    ),
    read(
      secrets
        .createFrom({
          ...production,
          key: key("COPY"),
          copyFrom: { environment: w.development, key: key("OTHER") }
        })
        .pipe(me),
      { action: "secret.read", environment: "development", keys: keys("OTHER"), versions: [1] }
    ),
    read(
      backup,
      { action: "backup.create", environment: "development", revision: 4 },
      { action: "backup.create", environment: "staging", revision: 0 },
      { action: "backup.create", environment: "production", revision: 2 }
    )
  ]
}

layer(Fixtures.secretsLayer, { timeout: 60_000 })((it) => {
  it.scoped("an answer of chosen keys says where their values hold others, at any depth", () =>
    Effect.gen(function* () {
      const { at, me, secrets } = yield* environment
      yield* secrets.create({ ...at, key: key("DEEP"), value: Redacted.make("see ${URL}!") }).pipe(me)
      const containedIn = (names: ReadonlyArray<SecretKey>, representation: Representation) =>
        Effect.gen(function* () {
          const { answer } = yield* secrets.inject({ ...at, keys: names, representation }).pipe(me)
          return answer?.value().contained
        })
      // DEEP: "see pg://two!"; URL: "pg://two".
      assert.deepStrictEqual(yield* containedIn(keys("OTHER", "DEEP", "URL"), "materialized"), {
        DEEP: [
          { start: 4, end: 12 },
          { start: 9, end: 12 }
        ],
        URL: [{ start: 5, end: 8 }]
      })
      assert.isUndefined(yield* containedIn(keys("BASE", "OTHER"), "materialized"))
      assert.isUndefined(yield* containedIn(keys("URL"), "source"))
    })
  )

  it.scoped("every read names the versions of its keys or the environment's revision", () =>
    Effect.gen(function* () {
      const place = yield* environment
      const seen = new Set<string>()
      for (const { names, work } of reads(place)) {
        const entries = yield* entriesOf(place.w.teamId, work)
        assert.deepStrictEqual(
          entries.map((entry, i) =>
            Object.fromEntries(Object.keys(names[i] ?? {}).map((k) => [k, Reflect.get(entry, k)]))
          ),
          names
        )
        for (const { action, keys, revision, versions } of entries) {
          seen.add(action)
          assert.isTrue(
            revision !== undefined || (versions !== undefined && versions.length === keys.length),
            `${action} names neither`
          )
        }
      }
      const expected = [
        "backup.create",
        "sealed.export",
        "sealed.open",
        "secret.diff",
        "secret.inject",
        "secret.list_values",
        "secret.read"
      ]
      assert.deepStrictEqual([...seen].sort(), expected)
    })
  )

  it.scoped("a backup names its recipients in the trail of each team that it holds values of", () =>
    Effect.gen(function* () {
      const place = yield* environment
      const folder = yield* temporaryFolder
      const both = [yield* pair, yield* pair].map(({ publicKey }) => publicKey)
      const options = { recipients: both, release: "1.0.0", progress: () => Effect.void }
      const entries = yield* entriesOf(place.w.teamId, Backup.backup({ file: join(folder, "b.backup"), ...options }))
      assert.deepStrictEqual(
        new Set(entries.map(({ target }) => target?.id)),
        new Set([both.map(printRecipient).join(" ")])
      )
    })
  )
})
