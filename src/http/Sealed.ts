import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/Api.ts"
import { Access } from "#src/access/Access.ts"
import { namesOf, SealingKeys } from "#src/projects/SealingKeys.ts"

export const layer = HttpApiBuilder.group(ServerApi, "sealed", (handlers) =>
  Effect.gen(function* () {
    const access = yield* Access
    const sealingKeys = yield* SealingKeys

    return handlers
      .handle("keypair", ({ path }) =>
        Effect.flatMap(
          access.environmentWithId("secrets:read", path.envId, { audit: "sealing_key.read" }),
          sealingKeys.keypair
        )
      )
      .handle("open", ({ path, payload }) =>
        Effect.gen(function* () {
          const intent = { audit: "sealed.open", keys: namesOf(payload.entries) } as const
          return yield* sealingKeys.open(yield* access.environmentWithId("secrets:run", path.envId, intent), payload)
        })
      )
  })
)
