/** Incidents: ends a person's or a token's access, lists the values it received, and replaces them. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { IncidentId } from "#schema/Ids.ts"
import { AskForExposed, IncidentQuery, OpenIncident, ReplaceExposed } from "#schema/IncidentApi.ts"
import * as Form from "#src/dashboard/frame/Form.ts"
import * as Html from "#src/dashboard/frame/Html.ts"
import { IncidentPage, IncidentsPage, LinkPage, PreviewPage } from "./IncidentViews.tsx"
import { query } from "#src/dashboard/frame/Pages.ts"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { action, type AtTeam, page, screen, team, to, withIds } from "#src/dashboard/frame/Routes.ts"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"

interface AtIncident extends AtTeam {
  readonly incidentId: IncidentId
}
const incident = withIds(team, Schema.Struct({ incidentId: IncidentId }))

/** Subject of the form or the address. A day means its beginning. */
const subjectIn = (form: Form.Form) => {
  const since = form.filled("since")
  const day = since !== undefined && /^\d{4}-\d{2}-\d{2}$/.test(since) ? `${since}T00:00:00.000Z` : since
  const subject = (["person", "token", "grant"] as const).flatMap((name) => {
    const text = form.text(name).trim()
    return text === "" ? [] : [[name, text] as const]
  })
  return { ...Object.fromEntries(subject), ...(day === undefined ? {} : { since: day }) }
}

const all = screen(
  ({ teamId }: AtTeam) =>
    Effect.all({
      incidents: Effect.map(UseCases.incidents.list(teamId), ({ items }) => items),
      leaked: Effect.map(UseCases.leakReports.list(teamId), ({ items }) => items),
      members: UseCases.members.list(teamId)
    }),
  IncidentsPage
)

const preview = screen(
  ({ teamId }: AtTeam) =>
    Effect.gen(function* () {
      const subject = yield* Form.decode(IncidentQuery)(subjectIn(yield* query))
      return { report: yield* UseCases.incidents.report(teamId, subject) }
    }),
  PreviewPage
)

const open = action(team, {
  decode: (form) =>
    Form.decode(OpenIncident)({ ...subjectIn(form), ...(form.has("deactivate") ? { deactivate: true } : {}) }),
  run: (input, { teamId }) => UseCases.incidents.open(teamId, input),
  done: ({ id }, { teamId }) => to(Paths.incident(teamId, id), "incident-opened"),
  again: all
})

const details = screen(
  ({ incidentId, teamId }: AtIncident) =>
    Effect.all({ incident: UseCases.incidents.show(teamId, incidentId), members: UseCases.members.list(teamId) }),
  IncidentPage
)

const replace = action(incident, {
  decode: (form) =>
    Form.decode(ReplaceExposed)({ secretId: form.text("secretId"), length: Number(form.filled("length") ?? "32") }),
  run: (input, { incidentId, teamId }) => UseCases.incidents.replace(teamId, incidentId, input),
  done: (_, { incidentId, teamId }) => to(Paths.incident(teamId, incidentId), "incident-replaced"),
  again: details
})

const ask = action(incident, {
  decode: (form) => Form.decode(AskForExposed)({ secretId: form.text("secretId"), userId: form.text("userId") }),
  run: (input, { incidentId, teamId }) => UseCases.incidents.ask(teamId, incidentId, input),
  done: (link, { incidentId, visit }) => Html.page(<LinkPage visit={visit} incidentId={incidentId} link={link} />),
  again: details
})

const note = incident(({ incidentId, teamId }) =>
  Effect.map(UseCases.incidents.note(teamId, incidentId), (signed) =>
    HttpServerResponse.text(signed.note, {
      contentType: "text/plain; charset=utf-8",
      headers: {
        ...Html.headers,
        "content-disposition": `attachment; filename="incident-${incidentId}.note"`
      }
    })
  )
)

const at = "/app/teams/:teamId/incidents"
export const routes = HttpRouter.empty.pipe(
  HttpRouter.get(at, page(team, all)),
  HttpRouter.get(`${at}/new`, page(team, preview)),
  HttpRouter.post(`${at}/open`, open),
  HttpRouter.get(`${at}/:incidentId`, page(incident, details)),
  HttpRouter.get(`${at}/:incidentId/note`, note),
  HttpRouter.post(`${at}/:incidentId/replace`, replace),
  HttpRouter.post(`${at}/:incidentId/ask`, ask)
)
