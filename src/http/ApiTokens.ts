import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/Api.ts"
import type { AuditAction } from "#schema/Audit.ts"
import type { TeamId } from "#schema/Ids.ts"
import { Access } from "#src/access/Access.ts"
import { Tokens } from "#src/credentials/Tokens.ts"

export const layer = HttpApiBuilder.group(ServerApi, "apiTokens", (handlers) =>
  Effect.gen(function* () {
    const access = yield* Access
    const tokens = yield* Tokens
    const manage = (teamId: TeamId, audit: AuditAction) => access.team("tokens:manage", teamId, { audit })

    return handlers
      .handle("create", ({ path, payload }) =>
        Effect.flatMap(manage(path.teamId, "token.create"), (permit) => tokens.create(permit, payload))
      )
      .handle("list", ({ path }) =>
        Effect.map(Effect.flatMap(manage(path.teamId, "token.list"), tokens.list), (items) => ({ items }))
      )
      .handle("update", ({ path, payload }) =>
        Effect.flatMap(manage(path.teamId, "token.update"), (permit) => tokens.update(permit, path.tokenId, payload))
      )
      .handle("rotate", ({ path }) =>
        Effect.flatMap(manage(path.teamId, "token.rotate"), (permit) => tokens.rotate(permit, path.tokenId))
      )
      .handle("revoke", ({ path }) =>
        manage(path.teamId, "token.revoke").pipe(
          Effect.flatMap((permit) => tokens.revoke(permit, path.tokenId)),
          Effect.as({ revoked: true })
        )
      )
      .handle("remove", ({ path }) =>
        manage(path.teamId, "token.delete").pipe(
          Effect.flatMap((permit) => tokens.remove(permit, path.tokenId)),
          Effect.as({ revoked: true })
        )
      )
  })
)
