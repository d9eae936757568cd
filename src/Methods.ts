/**
 * A service is a short `make` over module functions: each takes what the service needs as its first argument, has a
 * name that a symbol list shows, and can be read alone. `methods` fills that first argument in.
 *
 *     const rename = Effect.fnUntraced(function* (needs: Needs, teamId: TeamId, name: string) { … })
 *     const needs = { access: yield* Access, sql: yield* SqlClient.SqlClient }
 *     return methods(needs, { rename })
 *
 * A generic function loses its type parameters here: write `(…) => f(needs, …)` for it.
 */
type Method<Needs, F> = F extends (needs: Needs, ...rest: infer Rest) => infer Result
  ? (...rest: Rest) => Result
  : never

export const methods = <Needs, Functions extends Record<string, (needs: Needs, ...rest: never) => unknown>>(
  needs: Needs,
  functions: Functions
) =>
  // `Object.entries` forgets which name has which type; the mapped type restores it.
  Object.fromEntries(
    Object.entries(functions).map(([name, f]) => [name, (...rest: never) => f(needs, ...rest)])
  ) as unknown as { readonly [Name in keyof Functions]: Method<Needs, Functions[Name]> }
