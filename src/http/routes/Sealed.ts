import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/ServerApi.ts"
import { SecretStore } from "#src/secrets/SecretStore.ts"
import { SealingKeys } from "#src/projects/SealingKeys.ts"
import * as Endpoints from "#src/http/engine/Endpoints.ts"

export const layer = Endpoints.group(ServerApi, "sealed", (handlers) =>
  Effect.map(Effect.all([SealingKeys, SecretStore]), ([sealingKeys, { reads }]) =>
    handlers
      .handle("keypair", ({ path }) => sealingKeys.keypair(path.envId))
      .handle("open", ({ path, payload }) => sealingKeys.open(path.envId, payload))
      .handle("export", ({ path, payload }) => reads.sealedExportOf(path.envId, payload))
  )
)
