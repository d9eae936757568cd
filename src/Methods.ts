/**
 * A service is a short `make` over module functions: each takes what the service needs as its first argument, has a
 * name that a symbol list shows, and can be read alone. `methods` fills that first argument in.
 *
 *     const services = Effect.all({ access: Access, sql: SqlClient.SqlClient })
 *     type Needs = Effect.Effect.Success<typeof services>
 *     const rename = Effect.fnUntraced(function* (needs: Needs, teamId: TeamId, name: string) { … })
 *     effect: Effect.map(services, (needs) => methods(needs, { rename }))
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
    Object.entries(functions).map(([name, f]) => [name, (f as (needs: Needs) => unknown).bind(undefined, needs)])
  ) as unknown as {
    readonly [Name in keyof Functions]: Method<Needs, Functions[Name]>
  }
