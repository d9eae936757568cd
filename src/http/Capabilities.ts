import type * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { ServerApi, servesMcp } from "#schema/Api.ts"
import { type Capabilities, limits } from "#schema/CapabilitiesApi.ts"
import { CurrentCaller } from "#schema/Caller.ts"
import { AppConfig, type Settings } from "#src/AppConfig.ts"
import manifest from "../../package.json" with { type: "json" }

/** What an acknowledged write survives: Postgres is refused at start unless it syncs, or was declared unsafe. */
export const durabilityOf = (settings: Settings): Capabilities["durability"] =>
  Option.isSome(settings.databaseUrl) && !settings.unsafeDatabase ? "power-loss" : "process-crash"

export const mcpProtocolVersions: ReadonlyArray<string> = servesMcp ? ["2026-07-28", "2025-11-25"] : []

const serves = (group: string): boolean => group in (ServerApi as unknown as HttpApi.HttpApi.AnyWithProps).groups

export const layer = HttpApiBuilder.group(ServerApi, "capabilities", (handlers) =>
  Effect.map(AppConfig, (settings) => {
    const deployment = {
      version: manifest.version,
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
    }
    return handlers.handle("read", () =>
      Effect.map(CurrentCaller, ({ teams }): Capabilities =>
        teams.length === 1 ? { ...deployment, plan: teams[0].plan } : deployment
      )
    )
  })
)
