import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/ServerApi.ts"
import { OwnSessions } from "#src/credentials/OwnSessions.ts"
import * as Endpoints from "#src/http/engine/Endpoints.ts"

export const layer = Endpoints.group(ServerApi, "mySessions", (handlers) =>
  Effect.map(OwnSessions, (sessions) =>
    handlers
      .handle("list", () => Effect.map(sessions.list(), (items) => ({ items })))
      .handle("end", ({ path }) => Effect.as(sessions.end(path.sessionId), { deleted: true }))
  )
)
