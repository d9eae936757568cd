import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/ServerApi.ts"
import { Incidents } from "#src/secrets/Incidents.ts"
import * as Endpoints from "#src/http/engine/Endpoints.ts"

export const layer = Endpoints.group(ServerApi, "incidents", (handlers) =>
  Effect.map(Incidents, (incidents) =>
    handlers
      .handle("report", ({ path, urlParams }) => incidents.report(path.teamId, urlParams))
      .handle("list", ({ path }) => incidents.list(path.teamId))
      .handle("show", ({ path }) => incidents.show(path.teamId, path.incidentId))
      .handle("note", ({ path }) => incidents.note(path.teamId, path.incidentId))
  )
)

export const workLayer = Endpoints.group(ServerApi, "incidentWork", (handlers) =>
  Effect.map(Incidents, (incidents) =>
    handlers
      .handle("open", ({ path, payload }) => incidents.open(path.teamId, payload))
      .handle("replace", ({ path, payload }) => incidents.replace(path.teamId, path.incidentId, payload))
      .handle("ask", ({ path, payload }) => incidents.ask(path.teamId, path.incidentId, payload))
  )
)
