/** Faults of a machine: a disk that is full, a clock that jumps. */
import * as Effect from "effect/Effect"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import * as Trial from "./Trial.ts"

/** Only root may mount. */
export const mayMount = process.getuid?.() === 0

/** A file system of its own, of so many megabytes, that can be filled to the last byte. */
export const disk = (megabytes: number) =>
  Effect.gen(function* () {
    const folder = yield* Trial.folderOf("disk")
    yield* Effect.acquireRelease(
      Effect.sync(() => execFileSync("mount", ["-t", "tmpfs", "-o", `size=${megabytes}m,mode=0777`, "tmpfs", folder])),
      () => Effect.sync(() => execFileSync("umount", ["-l", folder]))
    )
    const filler = path.join(folder, "filler")
    const fill = () => {
      const file = fs.openSync(filler, "a")
      try {
        for (const size of [1_048_576, 4_096]) {
          try {
            for (;;) fs.writeSync(file, Buffer.alloc(size))
          } catch (error) {
            if (!(error instanceof Error && "code" in error && error.code === "ENOSPC")) throw error
          }
        }
      } finally {
        fs.closeSync(file)
      }
    }
    return { folder, fill: Effect.sync(fill), free: Effect.sync(() => fs.rmSync(filler)) }
  })

const library = () =>
  fs
    .readdirSync("/usr/lib")
    .map((name) => `/usr/lib/${name}/faketime/libfaketimeMT.so.1`)
    .find((file) => fs.existsSync(file)) ?? "/usr/lib/faketime/libfaketimeMT.so.1"

/** A clock for programs started with `env`: libfaketime, which a file tells how far it is off. */
export const clock = Effect.gen(function* () {
  const folder = yield* Trial.folderOf("clock")
  const file = path.join(folder, "offset")
  const set = (hours: number) =>
    Effect.sync(() => {
      fs.writeFileSync(`${file}.new`, `${hours < 0 ? "" : "+"}${hours}h\n`)
      fs.renameSync(`${file}.new`, file)
    })
  yield* set(0)
  const env: Trial.Env = {
    LD_PRELOAD: library(),
    FAKETIME_TIMESTAMP_FILE: file,
    // With a cache, a clock that goes back is noticed when it has caught up.
    FAKETIME_NO_CACHE: "1",
    // Time that only passes is not set by anybody, and files have the times of the disk.
    DONT_FAKE_MONOTONIC: "1",
    NO_FAKE_STAT: "1"
  }
  return { env, set }
})
