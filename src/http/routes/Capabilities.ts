import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/ServerApi.ts"
import type { Capabilities } from "#schema/CapabilitiesApi.ts"
import { CurrentCaller } from "#schema/Caller.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { deploymentOf } from "#src/Deployment.ts"
import * as Endpoints from "#src/http/engine/Endpoints.ts"

export const layer = Endpoints.group(ServerApi, "capabilities", (handlers) =>
  Effect.map(AppConfig, (settings) => {
    const deployment = deploymentOf(settings)
    return handlers.handle("read", () =>
      Effect.map(CurrentCaller, ({ teams }): Capabilities =>
        teams.length === 1 ? { ...deployment, plan: teams[0].plan } : deployment
      )
    )
  })
)
