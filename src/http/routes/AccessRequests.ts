import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { ServerApi } from "#schema/ServerApi.ts"
import { AccessRequests } from "#src/projects/AccessRequests.ts"
import { EnvironmentAccess } from "#src/projects/EnvironmentAccess.ts"
import { acceptWaiting } from "./SecondPerson.ts"
import * as Endpoints from "#src/http/engine/Endpoints.ts"

const requestGroup = Endpoints.group(ServerApi, "accessRequests", (handlers) =>
  Effect.map(AccessRequests, (requests) =>
    handlers
      .handle("create", ({ path, payload }) => requests.create(path.envId, payload))
      .handle("listOfEnvironment", ({ path }) => requests.listOfEnvironment(path.envId))
      .handle("list", () => requests.list())
      .handle("withdraw", ({ path }) => Effect.as(requests.withdraw(path.requestId), { deleted: true }))
  )
)
const decisionGroup = Endpoints.group(ServerApi, "accessDecisions", (handlers) =>
  Effect.map(AccessRequests, (requests) =>
    handlers
      .handle("approve", ({ path }) => acceptWaiting(requests.approve(path.requestId)))
      .handle("deny", ({ path }) => requests.deny(path.requestId))
  )
)

const accessGroup = Endpoints.group(ServerApi, "environmentAccess", (handlers) =>
  Effect.map(EnvironmentAccess, (access) => handlers.handle("ofEnvironment", ({ path }) => access.show(path.envId)))
)

export const layer = Layer.mergeAll(requestGroup, decisionGroup, accessGroup)
