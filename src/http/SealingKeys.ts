import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/Api.ts"
import { SealingKeys } from "#src/projects/SealingKeys.ts"

export const layer = HttpApiBuilder.group(ServerApi, "sealingKeys", (handlers) =>
  Effect.map(SealingKeys, (sealingKeys) =>
    handlers
      .handle("rotate", ({ path }) => sealingKeys.rotate(path.envId))
      .handle("retire", ({ path }) => sealingKeys.retire(path.envId, path.keyId))
  )
)
