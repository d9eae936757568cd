/**
 * Fixtures that files of a process share: a server with its database costs more than most tests of a file. It is
 * started for the
 * first that needs it, on a clock that runs, and ends with the process. Tests of a shared server make what they need anew
 * (`World`), and leave its rows, its schema and its instance as others expect them.
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"

export const perProcess = <A, E>(layer: Layer.Layer<A, E>): Layer.Layer<A, E> => {
  let built: Promise<Context.Context<A>> | undefined
  // In a fiber of its own: the clock of the test that comes first is not the server's.
  const build = () =>
    Effect.runPromise(Effect.flatMap(Scope.make(), (scope) => Effect.orDie(Layer.buildWithScope(layer, scope))))
  return Layer.effectContext(Effect.promise(() => (built ??= build())))
}
