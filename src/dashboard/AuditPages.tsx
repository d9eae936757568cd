/** The audit trail: filtered on a page, or exported as a file. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import type { AnyApiError } from "#schema/ApiError.ts"
import { auditActions, type AuditEntry } from "#schema/Audit.ts"
import { type AuditPage, AuditQuery } from "#schema/AuditApi.ts"
import type { Project } from "#schema/ProjectsApi.ts"
import { exportLimit } from "#src/access/AuditTrail.ts"
import * as AuditExport from "./AuditExport.ts"
import * as Ui from "./Components.tsx"
import * as Form from "./Form.ts"
import * as Html from "./Html.ts"
import { Layout } from "./Layout.tsx"
import { pageWith, query } from "./Pages.ts"
import * as Paths from "./Paths.ts"
import { type AtTeam, team, type TeamVisit } from "./Routes.ts"
import * as UseCases from "./UseCases.ts"

const names = ["action", "actor", "projectId", "environment", "key", "since", "until"] as const

/** A browser's local date-time is taken as UTC, as the labels say. */
const instant = (text: string) => (/^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?$/.test(text) ? `${text}Z` : text)

/** The members of an audit query that the form fills. */
const filtersOf = (query: Form.Form): Record<string, string> =>
  Object.fromEntries(
    names.flatMap((name) => {
      const text = query.filled(name)?.trim()
      return text === undefined ? [] : [[name, name === "since" || name === "until" ? instant(text) : text]]
    })
  )

interface Shown {
  readonly visit: TeamVisit
  readonly query: Form.Form
  readonly page: AuditPage
  readonly projects: ReadonlyArray<Project>
  readonly problem: AnyApiError | undefined
}

const any = { value: "", label: "Any" }

const FilterFields = ({ problem, projects, query }: Pick<Shown, "problem" | "projects" | "query">) => {
  const value = (name: (typeof names)[number]) => query.text(name)
  const time = (name: "since" | "until") => value(name).replace(/Z$/, "")
  return (
    <div class="fields">
      <Ui.Select
        name="action"
        label="Action"
        choices={[any, ...auditActions.map((value) => ({ value, label: value }))]}
        value={value("action")}
        problem={problem}
      />
      <Ui.Select
        name="projectId"
        label="Project"
        choices={[any, ...projects.map(({ id, name }) => ({ value: id, label: name }))]}
        value={value("projectId")}
        problem={problem}
      />
      <Ui.TextField
        name="environment"
        label="Environment"
        mono
        optional
        value={value("environment")}
        problem={problem}
      />
      <Ui.TextField name="key" label="Key" mono optional value={value("key")} problem={problem} />
      <Ui.TextField
        name="since"
        label="Since (UTC)"
        type="datetime-local"
        optional
        value={time("since")}
        problem={problem}
      />
      <Ui.TextField
        name="until"
        label="Until (UTC)"
        type="datetime-local"
        optional
        value={time("until")}
        problem={problem}
      />
      <Ui.TextField
        name="actor"
        label="Actor id"
        mono
        optional
        value={value("actor")}
        hint="Select a name in the list below to fill this in."
        problem={problem}
      />
    </div>
  )
}

const FilterForm = ({ here, ...shown }: Pick<Shown, "problem" | "projects" | "query"> & { readonly here: string }) => {
  const { problem, query } = shown
  const filtered = Object.keys(filtersOf(query)).length > 0
  return (
    <form method="get" action={here} class="panel panel-slim">
      {problem?.field !== undefined && names.some((name) => name === problem.field) ? null : (
        <Ui.ProblemNote problem={problem} />
      )}
      <details class="disclosure" open={filtered}>
        <summary>Filter</summary>
        <FilterFields {...shown} />
        <div class="buttons">
          <button class="button button-primary">Filter</button>
          {filtered ? <Ui.LinkButton href={here}>Clear the filter</Ui.LinkButton> : null}
          <span class="hint">An export has at most {exportLimit.toLocaleString("en")} of the entries that match.</span>
        </div>
      </details>
    </form>
  )
}

const What = ({ entry }: { readonly entry: AuditEntry }) => (
  <>
    <code>{entry.action}</code> {entry.outcome === "denied" ? <Ui.Badge tone="danger">denied</Ui.Badge> : null}
    {entry.keys.length === 0 ? null : (
      <span class="refs hint key">
        {entry.keys.slice(0, 5).join(", ")}
        {entry.keys.length > 5 ? ` and ${entry.keys.length - 5} more` : ""}
      </span>
    )}
    {entry.target === undefined || entry.target.name === "" ? null : <span class="refs hint">{entry.target.name}</span>}
  </>
)

const EntryTable = ({ here, page, projects, query, visit }: Shown & { readonly here: string }) => {
  const filters = filtersOf(query)
  const nameOf = (id: string | undefined) => projects.find((project) => project.id === id)?.name
  return (
    <Ui.Table label="Entries" head={["When", "Who", "What", "Where", "From"]}>
      {page.items.map((entry) => (
        <tr>
          <td class="tight" data-label="When">
            <Ui.Ago at={entry.at} now={visit.now} />
          </td>
          <td data-label="Who">
            <a href={Paths.withQuery(here, { ...filters, actor: entry.actor.id })}>
              {entry.actor.name ?? entry.actor.id}
            </a>
            {entry.actor.type === "user" ? null : <span class="refs hint">{entry.actor.type.replace("_", " ")}</span>}
          </td>
          <td data-label="What">
            <What entry={entry} />
          </td>
          <td data-label="Where">
            {entry.project === undefined ? "" : (nameOf(entry.project) ?? "a deleted project")}
            {entry.environment === undefined ? null : <span class="refs hint">{entry.environment}</span>}
          </td>
          <td data-label="From" class="hint">
            {entry.via}
            <span class="refs">{entry.ip}</span>
          </td>
        </tr>
      ))}
    </Ui.Table>
  )
}

const AuditTrailPage = (shown: Shown) => {
  const { page, problem, projects, query, visit } = shown
  const here = Paths.audit(visit.team.id)
  const filters = filtersOf(query)
  return (
    <Layout
      visit={visit}
      section="audit"
      title="Audit trail"
      lead="Who did what, newest first. Entries hold names of keys, never values."
      actions={
        <>
          <a class="button button-plain" href={Paths.withQuery(`${here}.csv`, filters)} download>
            Export CSV
          </a>
          <a class="button button-plain" href={Paths.withQuery(`${here}.jsonl`, filters)} download>
            Export JSON lines
          </a>
        </>
      }
    >
      <FilterForm here={here} query={query} projects={projects} problem={problem} />
      <section class="section" aria-label="Entries">
        {page.items.length === 0 ? (
          <Ui.Empty title={page.nextCursor === null ? "No entries match" : "No entries match so far"} />
        ) : (
          <EntryTable here={here} {...shown} />
        )}
        {page.nextCursor === null ? null : (
          <nav class="pager" aria-label="Pages">
            <a href={Paths.withQuery(here, filters)}>Newest</a>
            <a href={Paths.withQuery(here, { ...filters, cursor: page.nextCursor })}>Earlier entries</a>
          </nav>
        )}
      </section>
    </Layout>
  )
}

const nothing: AuditPage = { items: [], nextCursor: null }

/** A filter that is not valid is shown beside its field; a refused role is the problem page. */
const entries = Effect.fnUntraced(function* ({ teamId }: AtTeam, query: Form.Form) {
  const cursor = query.filled("cursor")
  const filters = { ...filtersOf(query), ...(cursor === undefined ? {} : { cursor }) }
  return yield* Effect.flatMap(Form.decode(AuditQuery)(filters), (input) =>
    UseCases.auditTrail.list(teamId, input)
  ).pipe(
    Effect.map((page) => ({ page, problem: undefined })),
    Effect.catchTag("VALIDATION_FAILED", (problem) => Effect.succeed({ page: nothing, problem }))
  )
})

const view = team((at) =>
  Effect.gen(function* () {
    const filter = yield* query
    const { page, problem } = yield* entries(at, filter)
    const all = yield* UseCases.projects.list()
    const projects = all.filter((project) => project.teamId === at.teamId)
    return pageWith(
      <AuditTrailPage visit={at.visit} query={filter} page={page} projects={projects} problem={problem} />,
      problem
    )
  })
)

const file = (
  extension: "csv" | "jsonl",
  contentType: string,
  encode: (entries: Stream.Stream<AuditEntry>) => Stream.Stream<Uint8Array>
) =>
  team(({ teamId, visit }) =>
    Effect.gen(function* () {
      const input = yield* Form.decode(AuditQuery)(filtersOf(yield* query))
      const entries = yield* UseCases.auditTrail.exportEntries(teamId, input)
      const day = new Date(visit.now).toISOString().slice(0, 10)
      return HttpServerResponse.stream(encode(entries), {
        contentType,
        headers: { ...Html.headers, "content-disposition": `attachment; filename="audit-${day}.${extension}"` }
      })
    })
  )

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get("/app/teams/:teamId/audit", view),
  HttpRouter.get("/app/teams/:teamId/audit.csv", file("csv", "text/csv; charset=utf-8", AuditExport.csv)),
  HttpRouter.get(
    "/app/teams/:teamId/audit.jsonl",
    file("jsonl", "application/jsonl; charset=utf-8", AuditExport.jsonLines)
  )
)
