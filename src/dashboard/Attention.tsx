/** What wants somebody's attention, above the projects: leaked credentials, incidents with values left, values that are due. */
import * as Effect from "effect/Effect"
import type { ComponentChildren } from "preact"
import type { IncidentRef } from "#schema/IncidentApi.ts"
import type { LeakedCredential } from "#schema/LeakReportsApi.ts"
import { days } from "#src/Days.ts"
import * as Ui from "./Components.tsx"
import { subjectText } from "./IncidentViews.tsx"
import * as Paths from "./Paths.ts"
import * as UseCases from "./UseCases.ts"
import { may, type Visit } from "./Visit.ts"

/** For how long a leaked credential is shown. */
const shownFor = days(30)

/** Environments with values whose day has come. */
type Due = Effect.Effect.Success<ReturnType<typeof UseCases.secretReads.dueInTeam>>

export interface Attention {
  readonly due: Due
  readonly incidents: ReadonlyArray<IncidentRef>
  readonly leaked: ReadonlyArray<LeakedCredential>
}
const nothing: Attention = { due: [], incidents: [], leaked: [] }

export const attention = Effect.fnUntraced(function* (visit: Visit) {
  if (visit.team === null) return nothing
  const teamId = visit.team.id
  const due = yield* UseCases.secretReads.dueInTeam(teamId)
  if (!may(visit, "audit:read")) return { ...nothing, due }
  const { items } = yield* UseCases.leakReports.list(teamId)
  const answer: Attention = {
    due,
    leaked: items.filter(({ reportedAt }) => Date.parse(reportedAt) > visit.now - shownFor),
    // This page is there without the vault too, whose keys their notes need; the page of incidents says what is wrong.
    incidents: yield* Effect.catchAllCause(UseCases.incidents.unfinished(teamId), () => Effect.succeed([]))
  }
  return answer
})

const kinds: ReadonlyMap<string, string> = new Map([
  ["api_token", "The API token"],
  ["cli_grant", "A CLI login of"],
  ["oauth_token", "A connected agent of"],
  ["session", "A session of"],
  ["management", "A management session of"],
  ["invitation", "The invitation of"],
  ["password_reset", "A link that sets the password of"]
])

/** What leaked, as a subject of a sentence. */
export const leakedText = ({ name, person, type }: LeakedCredential): string =>
  `${kinds.get(type) ?? type} ${person ?? name}`

const counted = (n: number, one: string, more: string) => (n === 1 ? one : more.replace("N", String(n)))

const Line = ({ children }: { readonly children: ComponentChildren }) => <li>{children}</li>

export const AttentionList = ({ due, incidents, leaked, visit }: Attention & { readonly visit: Visit }) => {
  const { team } = visit
  if (team === null || due.length + incidents.length + leaked.length === 0) return null
  const here = Paths.incidents(team.id)
  return (
    <Ui.Callout tone={leaked.length + incidents.length > 0 ? "danger" : "warning"} title="Needs attention">
      <ul class="plain-list">
        {leaked.slice(0, 5).map((one) => (
          <Line>
            <a href={`${here}#leaked`}>
              <bdi>{leakedText(one)}</bdi>
            </a>{" "}
            was found in the open <Ui.Ago at={one.reportedAt} now={visit.now} />
            {one.revoked ? "; it no longer works." : ". It still works: end it."}
          </Line>
        ))}
        {leaked.length > 5 ? (
          <Line>
            <a href={`${here}#leaked`}>{leaked.length - 5} more leaked credentials</a>
          </Line>
        ) : null}
        {incidents.map((one) => (
          <Line>
            <a href={Paths.incident(team.id, one.id)}>
              Incident: <bdi>{subjectText(one.subject)}</bdi>
            </a>
            : {counted(one.out, "1 value is", "N values are")} still to be replaced.
          </Line>
        ))}
        {due.map(({ environment, project, projectId, total }) => (
          <Line>
            <a href={Paths.environment({ projectId, slug: environment })}>
              <bdi>{project}</bdi> / {environment}
            </a>
            : {counted(total, "1 value is", "N values are")} due for replacement.
          </Line>
        ))}
      </ul>
    </Ui.Callout>
  )
}
