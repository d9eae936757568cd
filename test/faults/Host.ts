/** What a machine does to the programs on it: a disk that is full. */
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
