/** Garbage of a server's start. */
import * as Effect from "effect/Effect"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"

/**
 * Collects it once. A server at rest allocates so little that V8 would not do it for hours. After a first collection V8
 * releases memory in small steps while idle: some 40 MB within a minute.
 */
export const collect: Effect.Effect<void> = Effect.sync(() => {
  setFlagsFromString("--expose-gc")
  const gc: unknown = runInNewContext("gc")
  // V8 rejects cached code that was compiled with other flags, so the flag is reset for modules loaded later.
  setFlagsFromString("--no-expose-gc")
  if (typeof gc === "function") gc()
})
