import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/ServerApi.ts"
import { SealingKeys } from "#src/projects/SealingKeys.ts"
import * as Endpoints from "#src/http/engine/Endpoints.ts"

export const layer = Endpoints.group(ServerApi, "sealingKeys", (handlers) =>
  Effect.map(SealingKeys, (sealingKeys) =>
    handlers
      .handle("rotate", ({ path }) => sealingKeys.rotate(path.envId))
      .handle("retire", ({ path }) => sealingKeys.retire(path.envId, path.keyId))
  )
)
