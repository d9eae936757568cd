import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/ServerApi.ts"
import { Waits } from "#src/access/SecondPerson.ts"
import * as Endpoints from "#src/http/engine/Endpoints.ts"
import { SecondPersonRequests } from "#src/secrets/SecondPersonRequests.ts"

/** Responds with 202 and the request's id if the action waits for a second person. */
export const acceptWaiting = <A, E, R>(work: Effect.Effect<A, E, R>) =>
  Effect.catchIf(
    work,
    (error): error is Extract<E, Waits> => error instanceof Waits,
    ({ requestId }) => Effect.succeed({ requestId })
  )

export const layer = Endpoints.group(ServerApi, "secondPerson", (handlers) =>
  Effect.map(SecondPersonRequests, (requests) =>
    handlers
      .handle("list", ({ path }) => requests.list(path.teamId))
      .handle("approve", ({ path }) => requests.approve(path.requestId))
      .handle("deny", ({ path }) => requests.deny(path.requestId))
      .handle("link", ({ path }) => requests.link(path.requestId))
  )
)
