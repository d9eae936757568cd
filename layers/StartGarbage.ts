/** What the start of a server leaves behind. */
import * as Effect from "effect/Effect"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"

/**
 * Collects it, once. A server at rest allocates so little that V8 would not do it for hours; after a first collection it gives
 * memory back by itself, in small steps, when there is little to do: some 40 MB within a minute.
 */
export const collect: Effect.Effect<void> = Effect.sync(() => {
  setFlagsFromString("--expose-gc")
  const gc: unknown = runInNewContext("gc")
  // V8 takes no code from a cache that was made under other flags: what is loaded later is to find its own.
  setFlagsFromString("--no-expose-gc")
  if (typeof gc === "function") gc()
})
