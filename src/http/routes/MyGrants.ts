import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/ServerApi.ts"
import { CliGrants } from "#src/credentials/CliGrants.ts"
import * as Endpoints from "#src/http/engine/Endpoints.ts"

export const layer = Endpoints.group(ServerApi, "myGrants", (handlers) =>
  Effect.map(CliGrants, (grants) =>
    handlers
      .handle("list", () => Effect.map(grants.list(), (items) => ({ items })))
      .handle("revoke", ({ path }) => Effect.as(grants.revokeOwn(path.grantId), { deleted: true }))
  )
)
