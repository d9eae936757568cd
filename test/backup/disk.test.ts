/** A disk that fills up while a backup is written: the failure is reported, and no part of it stays. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { randomBytes } from "node:crypto"
import fs from "node:fs"
import { syncBuiltinESMExports } from "node:module"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Writable } from "node:stream"
import * as Backup from "#src/backup/Backup.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Hpke from "#src/sealed/Hpke.ts"

/** Takes so many bytes; then the disk is full, for the one write and for all others. */
const roomFor = (bytes: number) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const { createWriteStream } = fs
      const full = Object.assign(new Error("no space left on device"), { code: "ENOSPC" })
      let room = bytes
      Object.assign(fs, {
        createWriteStream: (file: string) => {
          fs.writeFileSync(file, "")
          return new Writable({
            write: (chunk: Buffer, _encoding, done) => {
              room -= chunk.length
              setImmediate(() => done(room < 0 ? full : null))
            }
          })
        }
      })
      syncBuiltinESMExports()
      return createWriteStream
    }),
    (createWriteStream) =>
      Effect.sync(() => {
        Object.assign(fs, { createWriteStream })
        syncBuiltinESMExports()
      })
  )

describe("a backup on a disk that fills up", () => {
  for (const compress of [true, false]) {
    for (const room of [0, 100_000, 300_000]) {
      it.scopedLive(
        `ends with a sentence and leaves no file, ${compress ? "" : "not "}compressed, after ${room} bytes`,
        () =>
          Effect.gen(function* () {
            const folder = yield* Effect.acquireRelease(
              Effect.sync(() => fs.mkdtempSync(join(tmpdir(), "ampoule-backup-"))),
              (made) => Effect.sync(() => fs.rmSync(made, { recursive: true, force: true }))
            )
            const file = join(folder, "one.backup")
            const { publicKey } = yield* Hpke.deriveKeyPair(Redacted.make<Uint8Array>(randomBytes(32)))
            yield* roomFor(room)
            const text = randomBytes(400_000).toString("base64")
            const outcome = yield* Backup.sealedFile(
              { kind: "ampoule-backup v1", file, recipients: [publicKey], compress },
              (write) => Effect.forEach(Array.from({ length: 50 }), () => write(text), { discard: true })
            ).pipe(Effect.flip, Effect.timeout("20 seconds"))
            assert.strictEqual(outcome._tag, "SealedFileRefused")
            assert.include(outcome.message, "cannot be written (ENOSPC)")
            assert.deepStrictEqual(fs.readdirSync(folder), [])
          }).pipe(Effect.provide(Crypto.Default))
      )
    }
  }
})
