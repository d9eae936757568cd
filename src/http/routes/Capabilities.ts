import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/ServerApi.ts"
import type { Capabilities } from "#schema/CapabilitiesApi.ts"
import { CurrentCaller } from "#schema/Caller.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { RequestInfo } from "#src/database/RequestInfo.ts"
import { unknownAddress } from "#src/net/ForwardedFor.ts"
import { deploymentOf } from "#src/Deployment.ts"
import * as Endpoints from "#src/http/engine/Endpoints.ts"

export const layer = Endpoints.group(ServerApi, "capabilities", (handlers) =>
  Effect.map(AppConfig, (settings) => {
    const deployment = deploymentOf(settings)
    return handlers.handle("read", () =>
      Effect.zipWith(CurrentCaller, RequestInfo, ({ teams }, { ip }): Capabilities => ({
        ...deployment,
        ...(teams.length === 1 ? { plan: teams[0].plan } : {}),
        ...(ip === unknownAddress ? { clientAddress: "unreadable" as const } : {})
      }))
    )
  })
)
