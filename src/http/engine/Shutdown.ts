import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/**
 * Done when the server starts to stop: whatever answers without an end (event streams) ends then, or the stop would
 * wait for it.
 */
export class Shutdown extends Context.Tag("http/Shutdown")<
  Shutdown,
  { readonly deferred: Deferred.Deferred<void> }
>() {}

export const layer = Layer.effect(
  Shutdown,
  Effect.map(Deferred.make<void>(), (deferred) => ({ deferred }))
)
