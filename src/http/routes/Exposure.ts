import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/ServerApi.ts"
import { Exposure } from "#src/trail-use/Exposure.ts"
import * as Endpoints from "#src/http/engine/Endpoints.ts"

export const layer = Endpoints.group(ServerApi, "exposure", (handlers) =>
  Effect.map(Exposure, (exposure) =>
    handlers
      .handle("ofSecret", ({ path, urlParams }) => exposure.ofSecret(path.secretId, urlParams))
      .handle("ofKey", ({ urlParams: { environment, key, projectId, ...query } }) =>
        exposure.ofKey({ projectId, environment, key }, query)
      )
      .handle("ofProject", ({ path, urlParams }) => exposure.ofProject(path.projectId, urlParams))
  )
)
