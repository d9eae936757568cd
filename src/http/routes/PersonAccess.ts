import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/ServerApi.ts"
import { MemberAuthenticators } from "#src/projects/MemberAuthenticators.ts"
import { Members } from "#src/projects/Members.ts"
import { PersonAccess } from "#src/projects/PersonAccess.ts"
import * as Endpoints from "#src/http/engine/Endpoints.ts"

export const layer = Endpoints.group(ServerApi, "personAccess", (handlers) =>
  Effect.gen(function* () {
    const access = yield* PersonAccess
    const members = yield* Members
    const authenticators = yield* MemberAuthenticators

    return handlers
      .handle("show", ({ path }) => access.show(path.teamId, path.userId))
      .handle("endOne", ({ path }) =>
        Effect.as(members.endCredential(path.teamId, path.userId, path.credentialId), { deleted: true as const })
      )
      .handle("confirm", ({ path }) =>
        Effect.as(authenticators.confirm(path.teamId, path.userId, path.authenticatorId), { confirmed: true as const })
      )
      .handle("end", ({ path, payload }) => members.endAccess(path.teamId, path.userId, payload))
  })
)
