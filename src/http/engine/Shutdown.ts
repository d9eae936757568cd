import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** Completes when the server begins to stop. Event streams end then, because the stop would wait for them. */
export class Shutdown extends Context.Tag("http/Shutdown")<
  Shutdown,
  { readonly deferred: Deferred.Deferred<void> }
>() {}

export const layer = Layer.effect(
  Shutdown,
  Effect.map(Deferred.make<void>(), (deferred) => ({ deferred }))
)
