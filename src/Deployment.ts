/**
 * What this deployment supports, as `GET /capabilities` and the MCP tool of that name tell it
 * (docs/contract/secrets.md).
 */
import type * as HttpApi from "@effect/platform/HttpApi"
import * as Option from "effect/Option"
import { servesMcp } from "#schema/Api.ts"
import { ServerApi } from "#schema/ServerApi.ts"
import { type Capabilities, limits } from "#schema/CapabilitiesApi.ts"
import type { Settings } from "#src/AppConfig.ts"
import { commit, version } from "./Release.ts"

/** What an acknowledged write survives: Postgres is refused at start unless it syncs, or was declared unsafe. */
export const durabilityOf = (settings: Settings): Capabilities["durability"] =>
  Option.isSome(settings.databaseUrl) && !settings.unsafeDatabase ? "power-loss" : "process-crash"

/** What a start says of limits that do not hold as the contract has them; one plain line each. */
export const limitWarnings = ({ rateLimits, redisUrl, workers }: Settings): ReadonlyArray<string> => {
  if (!rateLimits) return ["Rate limits are OFF (AMPOULE_RATE_LIMITS=off): for benchmarks only."]
  if (workers === 1 || Option.isSome(redisUrl)) return []
  return [
    `Each of the ${workers} processes counts rate limits for itself, so that up to ${workers} times as much gets through: set AMPOULE_REDIS_URL to count once.`
  ]
}

/** The newest revision of each era; older ones of the second are understood too. */
export const mcpProtocolVersions: ReadonlyArray<string> = servesMcp ? ["2026-07-28", "2025-11-25"] : []

const serves = (group: string): boolean => group in (ServerApi as unknown as HttpApi.HttpApi.AnyWithProps).groups

export const deploymentOf = (settings: Settings): Capabilities => ({
  version,
  ...(commit === undefined ? {} : { commit }),
  features: {
    mcp: servesMcp,
    mcpReveal: servesMcp && settings.mcpReveal,
    sealedValues: serves("sealed"),
    deviceAuthorization: serves("device"),
    templates: true,
    versions: true,
    idempotency: true
  },
  limits,
  durability: durabilityOf(settings),
  mcpProtocolVersions,
  mcpUrl: `${settings.baseUrl}/mcp`
})
