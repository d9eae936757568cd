import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, layer } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import { join } from "node:path"
import * as VaultLog from "#src/vault/VaultLog.ts"
import { optional } from "#schema/Strict.ts"
import { parsed } from "#test/support/Json.ts"

const event = (key: string, outcome: VaultLog.Event["outcome"] = "done"): VaultLog.Event => ({
  operation: "unwrap",
  outcome,
  context: { purpose: "data-key", teamId: "t", projectId: "p", environmentId: "e", keyId: key },
  rootKeyId: "rk_00000000"
})

const place = Effect.map(
  Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped()),
  (folder) => join(folder, "vault", "log.jsonl")
)

const lines = (file: string) => fs.readFileSync(file, "utf8").trimEnd().split("\n")

/** Writes `n` events one after the other and closes the log. */
const writeAll = (file: string, keys: ReadonlyArray<string>, fullAt?: number) =>
  Effect.scoped(
    Effect.gen(function* () {
      const log = yield* VaultLog.open(file, fullAt)
      for (const key of keys) yield* log.append([event(key)])
      return yield* log.head
    })
  )
const names = (n: number) => Array.from({ length: n }, (_, i) => `key-${i}`)
const refused = (file: string) =>
  Effect.map(Effect.flip(VaultLog.verify(file)), (error) => (error._tag === "VaultLogBroken" ? error.line : error))

const logged = parsed(
  Schema.Struct({
    seq: Schema.Number,
    key: Schema.String,
    operation: Schema.String,
    outcome: Schema.String,
    team: optional(Schema.String),
    hash: Schema.String
  })
)

layer(NodeFileSystem.layer)("the vault's log", (it) => {
  it.scoped("has a line for each key, whose hashes can be made without our code", () =>
    Effect.gen(function* () {
      const file = yield* place
      const head = yield* writeAll(file, names(3))
      let hash = createHash("sha256").update("ampoule vault log v1").digest("hex")
      for (const [i, line] of lines(file).entries()) {
        const { hash: said, ...body } = logged(line)
        hash = createHash("sha256").update(hash).update(JSON.stringify(body)).digest("hex")
        assert.strictEqual(said, hash)
        assert.deepInclude(body, { seq: i + 1, key: `key-${i}`, operation: "unwrap", outcome: "done", team: "t" })
      }
      assert.deepStrictEqual(head, { seq: 3, hash })
      assert.deepStrictEqual(yield* VaultLog.verify(file), head)
      assert.strictEqual(fs.statSync(file).mode & 0o777, 0o600)
    })
  )

  it.scoped("is whole and in order when many write at once", () =>
    Effect.gen(function* () {
      const file = yield* place
      const log = yield* VaultLog.open(file)
      yield* Effect.forEach(names(200), (key) => log.append([event(key), event(`${key}-b`)]), {
        concurrency: "unbounded"
      })
      const head = yield* VaultLog.verify(file)
      assert.strictEqual(head.seq, 400)
      const keys = lines(file).map((line) => logged(line).key)
      assert.sameMembers(
        keys,
        names(200).flatMap((key) => [key, `${key}-b`])
      )
    })
  )

  it.scoped.prop(
    "shows every change of a line, every line dropped, moved, doubled or put in",
    [FastCheck.nat(9), FastCheck.nat(9), FastCheck.nat(10_000)],
    ([at, other, pick]) =>
      Effect.gen(function* () {
        const file = yield* place
        yield* writeAll(file, names(10))
        const whole = lines(file)
        const rewritten = (after: ReadonlyArray<string>) =>
          Effect.zipRight(
            Effect.sync(() => fs.writeFileSync(file, `${after.join("\n")}\n`)),
            refused(file)
          )
        const line = whole[at]
        const spot = pick % line.length
        const changed = `${line.slice(0, spot)}${line[spot] === "x" ? "y" : "x"}${line.slice(spot + 1)}`
        assert.strictEqual(yield* rewritten(whole.with(at, changed)), at + 1)
        if (at < 9) assert.strictEqual(yield* rewritten(whole.toSpliced(at, 1)), at + 1)
        assert.strictEqual(yield* rewritten(whole.toSpliced(at, 0, line)), at + 2)
        if (at !== other) {
          const moved = whole.with(at, whole[other]).with(other, line)
          assert.strictEqual(yield* rewritten(moved), Math.min(at, other) + 1)
        }
        const forged = JSON.stringify({ ...logged(line), key: "another" })
        assert.strictEqual(yield* rewritten(whole.with(at, forged)), at + 1)
      }),
    { fastCheck: { numRuns: 25 } }
  )

  it.scoped("goes on after a crash that cut off its last line, at any byte", () =>
    Effect.gen(function* () {
      const file = yield* place
      yield* writeAll(file, names(3))
      const whole = fs.readFileSync(file)
      const two = lines(file).slice(0, 2).join("\n").length + 1
      for (let length = two; length < whole.length; length += 17) {
        fs.writeFileSync(file, whole.subarray(0, length))
        yield* writeAll(file, ["after"])
        const keys = lines(file).map((line) => logged(line).key)
        assert.deepStrictEqual(keys, ["key-0", "key-1", "after"])
        assert.strictEqual((yield* VaultLog.verify(file)).seq, 3)
      }
    })
  )

  it.scoped("does not go on after one that was changed", () =>
    Effect.gen(function* () {
      const file = yield* place
      yield* writeAll(file, names(3))
      fs.writeFileSync(file, fs.readFileSync(file, "utf8").replace("key-1", "key-9"))
      const error = yield* Effect.flip(writeAll(file, ["after"]))
      assert.strictEqual(error._tag, "VaultLogBroken")
    })
  )

  it.scoped("puts a full file aside and goes on in the next, as one chain over restarts", () =>
    Effect.gen(function* () {
      const file = yield* place
      for (let i = 0; i < 5; i++) yield* writeAll(file, names(7), 1_000)
      const folder = join(file, "..")
      const files = fs.readdirSync(folder)
      assert.isAbove(files.length, 3)
      assert.strictEqual((yield* VaultLog.verify(file)).seq, 35)
      // A file put aside that is missing or changed shows too.
      const aside = files.filter((name) => name !== "log.jsonl").map((name) => join(folder, name))
      const text = fs.readFileSync(aside[1])
      fs.rmSync(aside[1])
      assert.strictEqual(yield* refused(file), 1)
      fs.writeFileSync(aside[1], text)
      assert.strictEqual((yield* VaultLog.verify(file)).seq, 35)
      // Cut off between putting a file aside and the first line of the next.
      const all = fs.readFileSync(file)
      fs.writeFileSync(file, "")
      const before = yield* VaultLog.verify(file)
      yield* writeAll(file, ["next"], 1_000)
      assert.strictEqual((yield* VaultLog.verify(file)).seq, before.seq + 1)
      assert.isAtMost(before.seq, 35)
      assert.isAbove(all.length + 1, 0)
    })
  )

  it.scoped("answers nothing any more when it cannot be written", () =>
    Effect.gen(function* () {
      const file = yield* place
      const platform = yield* FileSystem.FileSystem
      let full = false
      const filling = FileSystem.FileSystem.of({
        ...platform,
        open: (...asked) =>
          Effect.map(platform.open(...asked), (handle) =>
            Object.assign(Object.create(handle), {
              writeAll: (bytes: Uint8Array) =>
                full
                  ? Effect.flip(Effect.asVoid(platform.stat("/nowhere"))).pipe(Effect.flatMap(Effect.fail))
                  : handle.writeAll(bytes)
            })
          )
      })
      const log = yield* Effect.provideService(VaultLog.open(file), FileSystem.FileSystem, filling)
      yield* log.append([event("a")])
      full = true
      assert.strictEqual((yield* Effect.flip(log.append([event("b")])))._tag, "VaultUnavailable")
      full = false
      assert.strictEqual((yield* Effect.flip(log.append([event("c")])))._tag, "VaultUnavailable")
      assert.strictEqual((yield* VaultLog.verify(file)).seq, 1)
    })
  )

  it.scoped(
    "leaves at most the half of a line behind when a write fails, with writers waiting: a restart goes on",
    () =>
      Effect.gen(function* () {
        const file = yield* place
        const platform = yield* FileSystem.FileSystem
        const writing = yield* Deferred.make<void>()
        const fail = yield* Deferred.make<void>()
        let full = false
        const filling = FileSystem.FileSystem.of({
          ...platform,
          open: (...asked) =>
            Effect.map(platform.open(...asked), (handle) =>
              Object.assign(Object.create(handle), {
                writeAll: (bytes: Uint8Array) =>
                  full
                    ? Effect.gen(function* () {
                        // Room for a part of it; then there is room again.
                        yield* handle.writeAll(bytes.subarray(0, bytes.length / 2))
                        full = false
                        yield* Deferred.succeed(writing, undefined)
                        yield* Deferred.await(fail)
                        return yield* Effect.flip(Effect.asVoid(platform.stat("/nowhere"))).pipe(
                          Effect.flatMap(Effect.fail)
                        )
                      })
                    : handle.writeAll(bytes)
              })
            )
        })
        yield* Effect.scoped(
          Effect.gen(function* () {
            const log = yield* Effect.provideService(VaultLog.open(file), FileSystem.FileSystem, filling)
            yield* log.append([event("a")])
            full = true
            const first = yield* Effect.fork(Effect.flip(log.append([event("b")])))
            yield* Deferred.await(writing)
            const second = yield* Effect.fork(Effect.flip(log.append([event("c")])))
            yield* Effect.yieldNow()
            yield* Deferred.succeed(fail, undefined)
            assert.strictEqual((yield* Fiber.join(first))._tag, "VaultUnavailable")
            assert.strictEqual((yield* Fiber.join(second))._tag, "VaultUnavailable")
          })
        )
        yield* writeAll(file, ["after"])
        assert.deepStrictEqual(
          lines(file).map((line) => logged(line).key),
          ["a", "after"]
        )
      })
  )
})
