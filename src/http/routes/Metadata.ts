import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/ServerApi.ts"
import { AppConfig } from "#src/AppConfig.ts"
import * as Metadata from "#src/oauth/Metadata.ts"
import * as Endpoints from "#src/http/engine/Endpoints.ts"

/** Public and equal for all clients: any page may read them, any cache may keep them for an hour. */
const publicDocument = { "cache-control": "public, max-age=3600", "access-control-allow-origin": "*" }

export const layer = Endpoints.group(ServerApi, "metadata", (handlers) =>
  Effect.map(AppConfig, ({ baseUrl }) => {
    const document = (body: unknown) => Effect.succeed(HttpServerResponse.unsafeJson(body, { headers: publicDocument }))
    return handlers
      .handle("authorizationServer", () => document(Metadata.authorizationServer(baseUrl)))
      .handle("protectedResource", () => document(Metadata.protectedResource(baseUrl, baseUrl)))
      .handle("mcpProtectedResource", () => document(Metadata.protectedResource(baseUrl, `${baseUrl}/mcp`)))
  })
)
