import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/ServerApi.ts"
import { LeakReports } from "#src/machines/LeakReports.ts"
import * as Endpoints from "#src/http/engine/Endpoints.ts"

export const layer = Endpoints.group(ServerApi, "leakReports", (handlers) =>
  Effect.map(LeakReports, (reports) =>
    handlers
      // The signature covers the raw bytes, so only the use case decodes them.
      .handleRaw("report", ({ headers, request }) =>
        Effect.map(
          reports.report({
            identifier: headers["github-public-key-identifier"],
            signature: headers["github-public-key-signature"],
            body: Effect.map(Effect.orDie(request.arrayBuffer), (bytes) => new Uint8Array(bytes))
          }),
          // No cache, because the response repeats the reported tokens.
          (labels) => HttpServerResponse.unsafeJson(labels, { headers: { "cache-control": "no-store" } })
        )
      )
      .handle("list", ({ path }) => reports.list(path.teamId))
  )
)
