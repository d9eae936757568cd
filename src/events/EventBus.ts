/** Notifications between processes of one service. They only say "look again", without the news itself. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"

/**
 * Topics are short, without secrets (`device:<request id>`). Delivery is best effort, so a subscriber also looks at
 * intervals. `subscribe` listens from the moment it returns until its scope closes. `listen` calls back until its
 * result is called; it costs little for each of many listeners.
 */
export class EventBus extends Context.Tag("events/EventBus")<
  EventBus,
  {
    readonly publish: (topic: string) => Effect.Effect<void>
    readonly subscribe: (topic: string) => Effect.Effect<Stream.Stream<void>, never, Scope.Scope>
    readonly listen: (topic: string, onMessage: () => void) => () => void
  }
>() {}
