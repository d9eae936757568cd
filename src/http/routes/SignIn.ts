import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/ServerApi.ts"
import { Identities } from "#src/openid/Identities.ts"
import { TeamSignIn } from "#src/openid/TeamSignIn.ts"
import * as Endpoints from "#src/http/engine/Endpoints.ts"

export const teamLayer = Endpoints.group(ServerApi, "teamSignIn", (handlers) =>
  Effect.map(TeamSignIn, (signIn) =>
    handlers
      .handle("get", ({ path }) => signIn.get(path.teamId))
      .handle("createIssuer", ({ path, payload }) => signIn.createIssuer(path.teamId, payload))
      .handle("updateIssuer", ({ path, payload }) => signIn.updateIssuer(path.teamId, path.issuerId, payload))
      .handle("deleteIssuer", ({ path }) =>
        Effect.as(signIn.deleteIssuer(path.teamId, path.issuerId), { deleted: true })
      )
      .handle("createRule", ({ path, payload }) => signIn.createRule(path.teamId, payload))
      .handle("deleteRule", ({ path }) => Effect.as(signIn.deleteRule(path.teamId, path.ruleId), { deleted: true }))
      .handle("require", ({ path, payload }) => signIn.require(path.teamId, payload))
  )
)

export const ownLayer = Endpoints.group(ServerApi, "mySignIns", (handlers) =>
  Effect.map(Identities, (identities) =>
    handlers
      .handle("list", () => Effect.map(identities.list(), (items) => ({ items })))
      .handle("remove", ({ path }) => Effect.as(identities.remove(path.signInId), { deleted: true }))
  )
)
