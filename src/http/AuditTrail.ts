import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/Api.ts"
import { AuditTrail } from "#src/access/AuditTrail.ts"

export const layer = HttpApiBuilder.group(ServerApi, "audit", (handlers) =>
  Effect.map(AuditTrail, (trail) =>
    handlers.handle("list", ({ path, urlParams }) => trail.list(path.teamId, urlParams))
  )
)
