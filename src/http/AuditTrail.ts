import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/Api.ts"
import { Access } from "#src/access/Access.ts"
import { AuditTrail } from "#src/access/AuditTrail.ts"

export const layer = HttpApiBuilder.group(ServerApi, "audit", (handlers) =>
  Effect.gen(function* () {
    const access = yield* Access
    const trail = yield* AuditTrail

    return handlers.handle("list", ({ path, urlParams }) =>
      Effect.gen(function* () {
        const permit = yield* access.team("audit-trail:read", path.teamId, { audit: "audit.read" })
        return yield* trail.list(permit, urlParams)
      })
    )
  })
)
