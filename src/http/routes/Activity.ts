import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/ServerApi.ts"
import { AuditTrail } from "#src/trail-use/AuditTrail.ts"
import * as Endpoints from "#src/http/engine/Endpoints.ts"

export const layer = Endpoints.group(ServerApi, "activity", (handlers) =>
  Effect.map(AuditTrail, (trail) =>
    handlers.handle("list", ({ path: { projectId }, urlParams }) => trail.listReachable({ ...urlParams, projectId }))
  )
)
