import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import { join } from "node:path"
import type { KeyContext } from "#schema/Vault.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Vault from "#src/crypto/Vault.ts"
import * as KeyFile from "#src/vault/KeyFile.ts"

const context: KeyContext = { purpose: "data-key", teamId: "t", projectId: "p", environmentId: "e", keyId: "k" }
const world = Layer.mergeAll(NodeFileSystem.layer, Crypto.Default, Logger.minimumLogLevel(LogLevel.None))

const place = Effect.map(
  Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped()),
  (folder) => join(folder, "data", "root-key")
)
const hexKey = (name: string) => createHash("sha256").update(name).digest("hex")
const idsOf = (file: string) =>
  Effect.flatMap(KeyFile.ring(file), (ring) =>
    Effect.map(ring.now, ({ byId, current }) => ({ current: current.id, ids: [...byId.keys()].sort() }))
  )
const message = (failing: Effect.Effect<unknown, { readonly message: string }, FileSystem.FileSystem | Crypto>) =>
  Effect.map(Effect.flip(failing), (error) => error.message)

layer(world)("a key file", (it) => {
  it.scoped(
    "gets a new first key that every holder of the file takes up by itself, and the old ones still unwrap",
    () =>
      Effect.gen(function* () {
        const file = yield* place
        const first = yield* KeyFile.create(file)
        const vault = yield* Vault.make(yield* KeyFile.ring(file))
        const before = yield* vault.generateDataKey(context)
        const { added, before: was } = yield* KeyFile.add(file)
        assert.strictEqual(was, first)
        assert.deepStrictEqual(yield* vault.status, { rootKeyId: added, rootKeyIds: [first, added] })
        const after = yield* vault.generateDataKey(context)
        assert.strictEqual(after.rootKeyId, added)
        assert.isTrue((yield* vault.unwrap(context, before.wrapped, first)).equals(before.key))
        // A start with the file as it is now: the same.
        const again = yield* Vault.make(yield* KeyFile.ring(file))
        assert.isTrue((yield* again.unwrap(context, before.wrapped, first)).equals(before.key))
        assert.isTrue((yield* again.unwrap(context, after.wrapped, added)).equals(after.key))
        assert.strictEqual(fs.statSync(file).mode & 0o777, 0o600)
      })
  )

  it.scoped("is looked at when a wrapped key names a root key that is not held yet", () =>
    Effect.gen(function* () {
      const file = yield* place
      yield* KeyFile.create(file)
      const slow = yield* Vault.make(yield* KeyFile.ring(file))
      yield* KeyFile.add(file)
      const quick = yield* Vault.make(yield* KeyFile.ring(file))
      const dataKey = yield* quick.generateDataKey(context)
      assert.isTrue((yield* slow.unwrap(context, dataKey.wrapped, dataKey.rootKeyId)).equals(dataKey.key))
    })
  )

  it.scoped("that is gone or unreadable wraps nothing any more; what is held still unwraps", () =>
    Effect.gen(function* () {
      const file = yield* place
      yield* KeyFile.create(file)
      const vault = yield* Vault.make(yield* KeyFile.ring(file))
      const dataKey = yield* vault.generateDataKey(context)
      const text = fs.readFileSync(file)
      fs.rmSync(file)
      assert.strictEqual((yield* Effect.flip(vault.generateDataKey(context)))._tag, "VaultUnavailable")
      assert.isTrue((yield* vault.unwrap(context, dataKey.wrapped, dataKey.rootKeyId)).equals(dataKey.key))
      fs.writeFileSync(file, "no key", { mode: 0o600 })
      assert.strictEqual((yield* Effect.flip(vault.generateDataKey(context)))._tag, "VaultUnavailable")
      fs.writeFileSync(file, text, { mode: 0o600 })
      assert.strictEqual((yield* vault.generateDataKey(context)).rootKeyId, dataKey.rootKeyId)
    })
  )

  it.scoped("may have remarks, several keys on a line, hex and base64", () =>
    Effect.gen(function* () {
      const file = yield* place
      fs.mkdirSync(join(file, ".."), { recursive: true, mode: 0o700 })
      const base64 = Buffer.from(hexKey("b"), "hex").toString("base64")
      fs.writeFileSync(file, `# ours\n\n${hexKey("a")}   # the first\n ${base64} ${hexKey("c")}\n`, { mode: 0o600 })
      const { current, ids } = yield* idsOf(file)
      assert.strictEqual(ids.length, 3)
      fs.writeFileSync(file, hexKey("a"))
      assert.deepStrictEqual(yield* idsOf(file), { current, ids: [current] })
    })
  )

  it.scoped("gives up a key that rests, never the one in use nor one in use a moment ago", () =>
    Effect.gen(function* () {
      const file = yield* place
      const first = yield* KeyFile.create(file)
      assert.include(yield* message(KeyFile.remove(file, first)), "in use")
      const { added } = yield* KeyFile.add(file)
      yield* TestClock.adjust(KeyFile.restMillis - 1)
      assert.include(yield* message(KeyFile.remove(file, first)), "try again in 1 s")
      assert.include(yield* message(KeyFile.remove(file, added)), "in use")
      assert.include(yield* message(KeyFile.remove(file, "rk_00000000")), "no key")
      yield* TestClock.adjust(1)
      const vault = yield* Vault.make(yield* KeyFile.ring(file))
      yield* KeyFile.remove(file, first)
      assert.deepStrictEqual(yield* idsOf(file), { current: added, ids: [added] })
      assert.deepStrictEqual((yield* vault.status).rootKeyIds, [added], "what runs lets go of it too")
    })
  )

  it.scoped("keeps the time of each rotation over the next ones", () =>
    Effect.gen(function* () {
      const file = yield* place
      const first = yield* KeyFile.create(file)
      yield* KeyFile.add(file)
      yield* TestClock.adjust(KeyFile.restMillis)
      const { before } = yield* KeyFile.add(file)
      yield* KeyFile.remove(file, first)
      assert.include(yield* message(KeyFile.remove(file, before)), "moment ago")
      assert.strictEqual((yield* idsOf(file)).ids.length, 2)
    })
  )

  it.scoped("is replaced as a whole: one change at a time, and one cut off harms nothing", () =>
    Effect.gen(function* () {
      const file = yield* place
      yield* KeyFile.create(file)
      const before = yield* idsOf(file)
      const exits = yield* Effect.all(
        Array.from({ length: 5 }, () => Effect.exit(KeyFile.add(file))),
        {
          concurrency: "unbounded"
        }
      )
      const done = exits.filter(({ _tag }) => _tag === "Success").length
      assert.isAtLeast(done, 1)
      const after = yield* idsOf(file)
      assert.strictEqual(after.ids.length, done + 1)
      assert.include(after.ids, before.current)
      fs.writeFileSync(`${file}.new`, hexKey("cut"), { mode: 0o600 })
      assert.include(yield* message(KeyFile.add(file)), `remove ${file}.new`)
      assert.deepStrictEqual(yield* idsOf(file), after)
    })
  )

  it.scoped("with keys that a service guards says which one is needed", () =>
    Effect.gen(function* () {
      for (const service of ["aws-kms", "transit"]) {
        const text = yield* message(KeyFile.ofSetting(Redacted.make(`${service}:abcd`), "AMPOULE_ROOT_KEY"))
        assert.include(text, `AMPOULE_KEY_PROVIDER to ${service}`)
      }
    })
  )
})
