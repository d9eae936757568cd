import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/ServerApi.ts"
import { Tokens } from "#src/credentials/Tokens.ts"
import * as Endpoints from "#src/http/engine/Endpoints.ts"

const revoked = { revoked: true }

export const layer = Endpoints.group(ServerApi, "apiTokens", (handlers) =>
  Effect.map(Tokens, (tokens) =>
    handlers
      .handle("create", ({ path, payload }) => tokens.create(path.teamId, payload))
      .handle("list", ({ path }) => Effect.map(tokens.list(path.teamId), (items) => ({ items })))
      .handle("update", ({ path, payload }) => tokens.update(path.teamId, path.tokenId, payload))
      .handle("rotate", ({ path }) => tokens.rotate(path.teamId, path.tokenId))
      .handle("revoke", ({ path }) => Effect.as(tokens.revoke(path.teamId, path.tokenId), revoked))
      .handle("remove", ({ path }) => Effect.as(tokens.remove(path.teamId, path.tokenId), revoked))
  )
)
