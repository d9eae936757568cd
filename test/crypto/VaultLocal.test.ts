import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, layer } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { createHash } from "node:crypto"
import { join } from "node:path"
import * as VaultLocal from "#layers/VaultLocal.ts"
import type { KeyContext } from "#schema/Vault.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { Vault } from "#src/crypto/Vault.ts"
import * as TestDatabase from "#test/support/TestDatabase.ts"
import * as World from "#test/support/World.ts"

const services = Layer.mergeAll(TestDatabase.layer, Crypto.Default, NodeFileSystem.layer)

const hexKey = (name: string) => createHash("sha256").update(name).digest("hex")
const setting = (...names: ReadonlyArray<string>) => Option.some(Redacted.make(names.map(hexKey).join("\n")))

const context = (keyId: string): KeyContext => ({
  purpose: "data-key",
  teamId: "team",
  projectId: "project",
  environmentId: "environment",
  keyId
})

/** A database that no server has started on, and a folder that is not there yet. */
const fresh = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const fs = yield* FileSystem.FileSystem
  yield* sql`TRUNCATE vault_canary, data_keys, environments, projects, teams CASCADE`
  const dataDir = join(yield* fs.makeTempDirectoryScoped(), "data")
  return { dataDir, file: join(dataDir, "root-key") }
})

const start = (dataDir: string, rootKey: VaultLocal.Options["rootKey"] = Option.none()) =>
  Effect.map(Layer.build(Layer.fresh(VaultLocal.layer({ dataDir, rootKey }))), Context.get(Vault))

/** The sentence of the refusal, which never holds a key. */
const refused = (dataDir: string, rootKey: VaultLocal.Options["rootKey"] = Option.none()) =>
  Effect.gen(function* () {
    const error = yield* Effect.flip(start(dataDir, rootKey))
    if (error._tag !== "VaultKeyWrong") return yield* Effect.dieMessage(`refused as ${error._tag}`)
    for (const word of Option.match(rootKey, {
      onNone: () => [],
      onSome: (text) => Redacted.value(text).split("\n")
    })) {
      if (word !== "") assert.notInclude(error.message, word)
    }
    return error.message
  })

layer(services)("the local vault", (it) => {
  it.scoped("makes its root key at first start, for its own user only, and finds it again", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const { dataDir, file } = yield* fresh
      const first = yield* start(dataDir)
      const dataKey = yield* first.generateDataKey(context("1"))
      assert.strictEqual((yield* fs.stat(file)).mode & 0o777, 0o600)
      assert.strictEqual((yield* fs.stat(dataDir)).mode & 0o777, 0o700)
      const second = yield* start(dataDir)
      assert.isTrue((yield* second.unwrap(context("1"), dataKey.wrapped, dataKey.rootKeyId)).equals(dataKey.key))
      assert.deepStrictEqual(yield* second.status, { rootKeyId: dataKey.rootKeyId, rootKeyIds: [dataKey.rootKeyId] })
    })
  )

  it.scoped("takes the key from the setting and then writes no file", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const { dataDir, file } = yield* fresh
      const dataKey = yield* (yield* start(dataDir, setting("a"))).generateDataKey(context("1"))
      const again = yield* start(dataDir, setting("a"))
      assert.isTrue((yield* again.unwrap(context("1"), dataKey.wrapped, dataKey.rootKeyId)).equals(dataKey.key))
      assert.isFalse(yield* fs.exists(file))
    })
  )

  it.scoped("refuses to start with another key than the database was sealed with, and says which", () =>
    Effect.gen(function* () {
      const { dataDir } = yield* fresh
      const { rootKeyId } = yield* (yield* start(dataDir, setting("a"))).status
      const sentence = yield* refused(dataDir, setting("b"))
      assert.include(sentence, rootKeyId)
      assert.include(sentence, "AMPOULE_ROOT_KEY")
    })
  )

  it.scoped("refuses to start when its key file is gone, and makes no new one", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const { dataDir, file } = yield* fresh
      yield* start(dataDir)
      yield* fs.remove(file)
      assert.include(yield* refused(dataDir), file)
      assert.isFalse(yield* fs.exists(file))
    })
  )

  it.scoped("refuses a key file that others can read", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const { dataDir, file } = yield* fresh
      yield* start(dataDir)
      for (const mode of [0o640, 0o604, 0o620, 0o777]) {
        yield* fs.chmod(file, mode)
        assert.include(yield* refused(dataDir), "chmod 600")
      }
      yield* fs.chmod(file, 0o400)
      yield* start(dataDir)
    })
  )

  it.scoped("refuses a key that is empty, cut short or no key at all, from the setting and from the file", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const { dataDir, file } = yield* fresh
      yield* start(dataDir)
      const { length } = yield* fs.readFileString(file)
      assert.strictEqual(length, 65)
      for (const text of ["", "\n", hexKey("a").slice(1), "correct horse battery staple", `${hexKey("a")} x`]) {
        assert.include(yield* refused(dataDir, Option.some(Redacted.make(text))), "not 32 bytes")
        yield* fs.writeFileString(file, text)
        assert.include(yield* refused(dataDir), "not 32 bytes")
      }
    })
  )

  it.scoped("refuses a folder that it cannot write to", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const { dataDir } = yield* fresh
      yield* fs.writeFileString(dataDir, "a file where the folder should be")
      assert.include(yield* refused(dataDir), "cannot be read or written")
    })
  )

  it.scoped("refuses when the canary was altered or replaced", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { dataDir } = yield* fresh
      yield* start(dataDir, setting("a"))
      yield* sql`UPDATE vault_canary SET canary = set_byte(canary, 70, get_byte(canary, 70) # 1)`
      assert.include(yield* refused(dataDir, setting("a")), "does not open this database")
    })
  )

  it.scoped("lets one of two servers with different keys start on a new database, never both", () =>
    Effect.gen(function* () {
      const { dataDir } = yield* fresh
      const started = yield* Effect.all(
        ["a", "b", "c", "d"].map((name) => Effect.either(start(dataDir, setting(name)))),
        { concurrency: "unbounded" }
      )
      assert.strictEqual(started.filter(Either.isRight).length, 1)
    })
  )

  it.scoped("rotates: new key first, old one after, the old one dropped when nothing names it any more", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const crypto = yield* Crypto
      const { dataDir } = yield* fresh
      const { development } = yield* World.project()
      const environmentId = development.id
      const id = yield* crypto.uuid
      const now = new Date(0)
      const before = yield* start(dataDir, setting("old"))
      const dataKey = yield* before.generateDataKey(context(id))
      yield* sql`
        INSERT INTO data_keys (id, environment_id, generation, root_key_id, wrapped, state, created_at)
        VALUES (${id}, ${environmentId}, 1, ${dataKey.rootKeyId}, ${dataKey.wrapped}, 'active', ${now})`

      const both = yield* start(dataDir, setting("new", "old"))
      assert.isTrue((yield* both.unwrap(context(id), dataKey.wrapped, dataKey.rootKeyId)).equals(dataKey.key))
      assert.notStrictEqual((yield* both.generateDataKey(context("2"))).rootKeyId, dataKey.rootKeyId)
      // Each key alone would lose something now: new writes, or the data key that is not rewrapped yet.
      assert.include(yield* refused(dataDir, setting("old")), "does not open this database")
      assert.include(yield* refused(dataDir, setting("new")), dataKey.rootKeyId)

      const again = yield* both.rewrap(context(id), dataKey.wrapped, dataKey.rootKeyId)
      yield* sql`UPDATE data_keys SET root_key_id = ${again.rootKeyId}, wrapped = ${again.wrapped} WHERE id = ${id}`
      const after = yield* start(dataDir, setting("new"))
      assert.isTrue((yield* after.unwrap(context(id), again.wrapped, again.rootKeyId)).equals(dataKey.key))
    })
  )

  it.scoped("wraps keys of any length, bound to their purpose", () =>
    Effect.gen(function* () {
      const { dataDir } = yield* fresh
      const vault = yield* start(dataDir, setting("a"))
      const at = { ...context("ek_00000000"), purpose: "sealing-key" as const }
      const { rootKeyId, wrapped } = yield* vault.wrapBytes(at, Redacted.make(Buffer.from("a private key")))
      const opened = yield* vault.unwrapBytes(at, wrapped, rootKeyId)
      assert.strictEqual(Buffer.from(Redacted.value(opened)).toString(), "a private key")
      const moved = yield* Effect.flip(vault.unwrapBytes({ ...at, purpose: "data-key" }, wrapped, rootKeyId))
      assert.strictEqual(moved._tag, "INTEGRITY_FAILURE")
    })
  )

  it.scoped("answers for the MACs it made, also those of an older root key", () =>
    Effect.gen(function* () {
      const { dataDir } = yield* fresh
      const head = Buffer.from("head")
      const mac = yield* (yield* start(dataDir, setting("old"))).macAuditHead(head)
      const both = yield* start(dataDir, setting("new", "old"))
      assert.isTrue(yield* both.auditHeadMatches(head, mac))
      assert.isFalse(yield* both.auditHeadMatches(Buffer.from("other"), mac))
      assert.isFalse(yield* both.auditHeadMatches(head, { ...mac, rootKeyId: (yield* both.status).rootKeyId }))
      assert.isFalse(yield* both.auditHeadMatches(head, { ...mac, rootKeyId: "rk_00000000" }))
    })
  )
})
