/** Routes without a credential: their rate limits, and whether they refuse unknown parameters. */
import type * as HttpApi from "@effect/platform/HttpApi"
import { ServerApi } from "#schema/ServerApi.ts"

export interface OpenRoute {
  readonly limits: "none" | "address" | "address and start"
  readonly strict: boolean
}

/** Health is exempt from limits (docs/contract/rate-limits.md). */
const limitsOf = (path: string): OpenRoute["limits"] =>
  path.startsWith("/health/") ? "none" : path === "/auth/cli/device" ? "address and start" : "address"

/** Open routes by `METHOD path`. A route that declares no credential is open. */
export const openRoutes = (): ReadonlyMap<string, OpenRoute> => {
  const routes = new Map<string, OpenRoute>()
  // The class carries its groups by name; only the untyped form lets a loop read them.
  const { groups } = ServerApi as unknown as HttpApi.HttpApi.AnyWithProps
  for (const group of Object.values(groups)) {
    for (const { method, middlewares, path } of Object.values(group.endpoints)) {
      if (group.middlewares.size + middlewares.size > 0) continue
      // OAuth 2.1 section 3.1: unknown parameters are ignored.
      routes.set(`${method} ${path}`, { limits: limitsOf(path), strict: group.identifier !== "oauth" })
    }
  }
  return routes
}
