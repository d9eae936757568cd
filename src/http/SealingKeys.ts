import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/Api.ts"
import { Access } from "#src/access/Access.ts"
import { SealingKeys } from "#src/projects/SealingKeys.ts"

export const layer = HttpApiBuilder.group(ServerApi, "sealingKeys", (handlers) =>
  Effect.gen(function* () {
    const access = yield* Access
    const sealingKeys = yield* SealingKeys

    return handlers
      .handle("rotate", ({ path }) =>
        Effect.flatMap(
          access.environmentWithId("sealing-keys:manage", path.envId, { audit: "sealing_key.rotate" }),
          sealingKeys.rotate
        )
      )
      .handle("retire", ({ path }) =>
        Effect.gen(function* () {
          const intent = { audit: "sealing_key.retire" } as const
          const permit = yield* access.environmentWithId("sealing-keys:manage", path.envId, intent)
          return yield* sealingKeys.retire(permit, path.keyId)
        })
      )
  })
)
