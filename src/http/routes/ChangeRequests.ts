import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { ServerApi } from "#schema/ServerApi.ts"
import { ChangeRequests } from "#src/secrets/ChangeRequests.ts"
import * as Endpoints from "#src/http/engine/Endpoints.ts"
import { acceptWaiting } from "./SecondPerson.ts"

const requestGroup = Endpoints.group(ServerApi, "changeRequests", (handlers) =>
  Effect.map(ChangeRequests, (requests) =>
    handlers
      .handle("listOfEnvironment", ({ path }) => requests.listOfEnvironment(path.envId))
      .handle("list", () => requests.list())
      .handle("withdraw", ({ path }) => Effect.as(requests.withdraw(path.requestId), { deleted: true }))
  )
)
const decisionGroup = Endpoints.group(ServerApi, "changeDecisions", (handlers) =>
  Effect.map(ChangeRequests, (requests) =>
    handlers
      .handle("reveal", ({ path }) => requests.reveal(path.requestId))
      .handle("approve", ({ path, payload }) => acceptWaiting(requests.approve(path.requestId, payload?.digest)))
      .handle("deny", ({ path }) => requests.deny(path.requestId))
  )
)

export const layer = Layer.merge(requestGroup, decisionGroup)
