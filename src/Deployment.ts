/** Features of this deployment, for `GET /capabilities` and the MCP tool of that name (docs/contract/secrets.md). */
import type * as HttpApi from "@effect/platform/HttpApi"
import * as Option from "effect/Option"
import { servesMcp } from "#schema/Api.ts"
import { ServerApi } from "#schema/ServerApi.ts"
import { type Capabilities, limits } from "#schema/CapabilitiesApi.ts"
import type { Settings } from "#src/AppConfig.ts"
import { commit, version } from "./Release.ts"

/** Durability of an acknowledged write. The start refuses a Postgres without fsync, unless a setting allows it. */
export const durabilityOf = (settings: Settings): Capabilities["durability"] =>
  Option.isSome(settings.databaseUrl) && !settings.unsafeDatabase ? "power-loss" : "process-crash"

/** Warnings of the start about limits that differ from the contract, one line each. */
export const limitWarnings = ({ rateLimits, redisUrl, workers }: Settings): ReadonlyArray<string> => {
  if (!rateLimits) return ["Rate limits are OFF (AMPOULE_RATE_LIMITS=off): for benchmarks only."]
  if (workers === 1 || Option.isSome(redisUrl)) return []
  return [
    `Each of the ${workers} processes counts rate limits for itself, so that up to ${workers} times as much gets through: set AMPOULE_REDIS_URL to count once.`
  ]
}

/** Newest revision of each era; older ones of the second are supported too. */
const mcpProtocolVersions: ReadonlyArray<string> = servesMcp ? ["2026-07-28", "2025-11-25"] : []

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
