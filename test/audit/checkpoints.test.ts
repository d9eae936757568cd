/** Checkpoints of a process that ends while it writes one: the rest raises no alarm. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, layer } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Alarm from "#src/database/Alarm.ts"
import * as CheckpointFile from "#src/trail/CheckpointFile.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { Vault } from "#src/crypto/Vault.ts"
import * as TrailWorld from "./TrailWorld.ts"

const empty = { heads: [], accepted: [] }

layer(TrailWorld.layer, { excludeTestServices: true })("a file of checkpoints", (it) => {
  it.effect("verifies when the writer was cut off in the middle of one, and goes on", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const written = yield* Deferred.make<void>()
      let hangs = false
      const open: typeof fs.open = (...at) =>
        Effect.map(fs.open(...at), (file) =>
          hangs
            ? (Object.create(file, {
                sync: {
                  value: file.sync.pipe(
                    Effect.zipRight(Deferred.succeed(written, undefined)),
                    Effect.zipRight(Effect.never)
                  )
                }
              }) as typeof file)
            : file
        )
      const needs = yield* CheckpointFile.make({
        path: yield* TrailWorld.Checkpoints,
        fs: { ...fs, open },
        sql: yield* SqlClient.SqlClient,
        vault: yield* Vault,
        crypto: yield* Crypto,
        alarm: Alarm.make()
      })
      yield* CheckpointFile.write(needs, empty)
      hangs = true
      const cutOff = yield* Effect.fork(CheckpointFile.write(needs, empty))
      yield* Deferred.await(written)
      yield* Fiber.interrupt(cutOff)
      hangs = false
      yield* CheckpointFile.write(needs, empty)
      yield* CheckpointFile.write(needs, empty)
      const { problems } = yield* TrailWorld.verify()
      assert.deepStrictEqual(problems, [])
    })
  )
})
