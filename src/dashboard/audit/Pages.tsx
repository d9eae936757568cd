/** The audit trail: a filtered page, and exports. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Stream from "effect/Stream"
import type { AnyApiError } from "#schema/ApiError.ts"
import { auditActions, type AuditEntry } from "#schema/Audit.ts"
import { type AuditPage, AuditQuery, SaveAuditView } from "#schema/AuditApi.ts"
import type { Project } from "#schema/ProjectsApi.ts"
import type { Member } from "#schema/TeamsApi.ts"
import { exportLimit } from "#src/trail-use/AuditTrail.ts"
import type { AuditView } from "#src/trail-use/AuditViews.ts"
import * as AuditExport from "./Export.ts"
import { comparedWith, wordsOf } from "#src/formats/AuditWords.ts"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import * as Form from "#src/dashboard/frame/Form.ts"
import * as Html from "#src/dashboard/frame/Html.ts"
import { Layout } from "#src/dashboard/frame/Layout.tsx"
import { pageWith, query } from "#src/dashboard/frame/Pages.ts"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { SaveView, Views } from "./ViewParts.tsx"
import { action, type AtTeam, type Attempt, team, type TeamVisit, to } from "#src/dashboard/frame/Routes.ts"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"

const names = ["action", "actor", "projectId", "environment", "key", "since", "until"] as const

/** Reads a browser's local date-time as UTC, as the labels say. */
const instant = (text: string) => (/^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?$/.test(text) ? `${text}Z` : text)

/** Members of an audit query that the form fills in. */
const filtersOf = (query: Form.Form): Record<string, string> =>
  Object.fromEntries(
    names.flatMap((name) => {
      const text = query.filled(name)?.trim()
      return text === undefined ? [] : [[name, name === "since" || name === "until" ? instant(text) : text]]
    })
  )

interface TrailProps {
  readonly visit: TeamVisit
  readonly query: Form.Form
  readonly page: AuditPage
  readonly projects: ReadonlyArray<Project>
  readonly members: ReadonlyArray<Member>
  readonly views: ReadonlyArray<AuditView>
  readonly problem: AnyApiError | undefined
  /** A refused attempt to save a view. */
  readonly saving?: Attempt | undefined
}

const any = { value: "", label: "Any" }
const actionChoices = [
  any,
  ...auditActions.map((value) => ({ value, label: wordsOf(value), group: value.slice(0, value.indexOf(".")) }))
]

type Filtering = Pick<TrailProps, "members" | "page" | "problem" | "projects" | "query">

/** Choices of actors. A token, or a person who left, appears only while the list is filtered by it. */
const actorChoices = ({ members, page, query }: Filtering) => {
  const current = query.text("actor")
  const people = members.map(({ email, name, userId }) => ({ value: userId, label: `${name} (${email})` }))
  if (current === "" || people.some(({ value }) => value === current)) return [any, ...people]
  const name = page.items.find(({ actor }) => actor.id === current)?.actor.name
  return [any, ...people, { value: current, label: name ?? current }]
}

const projectChoices = (projects: ReadonlyArray<Project>) => [
  any,
  ...projects.map(({ id, name }) => ({ value: id, label: name }))
]

const Period = ({ problem, query }: Filtering) => {
  const time = (name: "since" | "until") => query.text(name).replace(/Z$/, "")
  return (
    <>
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
    </>
  )
}

const FilterForm = (props: Filtering & { readonly here: string }) => {
  const { here, problem, projects, query } = props
  const value = (name: (typeof names)[number]) => query.text(name)
  const filters = filtersOf(query)
  const folded = ["projectId", "environment", "since", "until"].some((name) => filters[name] !== undefined)
  return (
    <form method="get" action={here} class="panel panel-slim">
      {problem?.field !== undefined && names.some((name) => name === problem.field) ? null : (
        <Ui.ProblemNote problem={problem} />
      )}
      <div class="fields">
        <Ui.Select name="action" label="What" choices={actionChoices} value={value("action")} problem={problem} />
        <Ui.Select name="actor" label="Who" choices={actorChoices(props)} value={value("actor")} problem={problem} />
        <Ui.TextField name="key" label="Key" mono optional value={value("key")} problem={problem} />
      </div>
      <details class="disclosure section-small" open={folded}>
        <summary>Where and when</summary>
        <div class="fields">
          <Ui.Select
            name="projectId"
            label="Project"
            choices={projectChoices(projects)}
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
          <Period {...props} />
        </div>
      </details>
      <div class="buttons">
        <button class="button button-primary">Filter</button>
        <span class="hint">An export has at most {exportLimit.toLocaleString("en")} matching entries.</span>
      </div>
    </form>
  )
}

/** The current filters, each with a link that removes it. */
const Chips = (props: Filtering & { readonly here: string }) => {
  const { here, projects, query } = props
  const filters = filtersOf(query)
  const labelOf = (name: string, value: string) => {
    if (name === "action") return wordsOf(value)
    if (name === "actor") return actorChoices(props).find((one) => one.value === value)?.label ?? value
    if (name === "projectId") return projects.find(({ id }) => id === value)?.name ?? value
    return name === "since" || name === "until" ? `${name} ${Ui.exact(value)}` : value
  }
  const entries = Object.entries(filters)
  return entries.length === 0 ? null : (
    <ul class="pills section-small" aria-label="Current filters">
      {entries.map(([name, value]) => (
        <li>
          <a class="pill" href={Paths.withQuery(here, Object.fromEntries(entries.filter(([one]) => one !== name)))}>
            <bdi>{labelOf(name, value)}</bdi> <span aria-hidden="true">×</span>
            <span class="hidden">, remove this filter</span>
          </a>
        </li>
      ))}
      <li>
        <a class="pill" href={here}>
          Clear all
        </a>
      </li>
    </ul>
  )
}

const What = ({ entry, linkTo }: { readonly entry: AuditEntry; readonly linkTo: (key: string) => string }) => (
  <>
    <span title={entry.action}>{wordsOf(entry.action)}</span>{" "}
    {entry.outcome === "denied" ? <Ui.Badge tone="danger">denied</Ui.Badge> : null}
    {entry.keys.length === 0 ? null : (
      <span class="refs hint key">
        {entry.keys.slice(0, 5).map((key, i) => (
          <>
            {i === 0 ? "" : ", "}
            <a href={linkTo(key)}>{key}</a>
          </>
        ))}
        {entry.keys.length > 5 ? ` and ${entry.keys.length - 5} more` : ""}
      </span>
    )}
    {entry.compared === undefined ? null : <span class="refs hint">{comparedWith(entry.compared)}</span>}
    {entry.target === undefined || entry.target.name === "" ? null : <span class="refs hint">{entry.target.name}</span>}
  </>
)

const Where = ({ entry, project }: { readonly entry: AuditEntry; readonly project: Project | undefined }) => {
  if (entry.project === undefined) return null
  if (project === undefined) return <>a deleted project</>
  return (
    <>
      <bdi>{project.name}</bdi>
      {entry.environment === undefined ? null : (
        <span class="refs hint">
          <a href={Paths.environment({ projectId: project.id, slug: entry.environment })}>{entry.environment}</a>
        </span>
      )}
    </>
  )
}

const EntryTable = ({ here, page, projects, query, visit }: TrailProps & { readonly here: string }) => {
  const filters = filtersOf(query)
  return (
    <Ui.Table label="Entries" kind="audit" head={["When", "Who", "What", "Where", "From"]}>
      {page.items.map((entry) => (
        <tr>
          <td class="tight" data-label="When">
            <a href={Paths.auditEntry(visit.team.id, entry.id)}>
              <Ui.Ago at={entry.at} now={visit.now} />
              <span class="hidden">, the entry and its proof</span>
            </a>
          </td>
          <td data-label="Who">
            <a href={Paths.withQuery(here, { ...filters, actor: entry.actor.id })}>
              {entry.actor.name ?? entry.actor.id}
            </a>
            {entry.actor.type === "user" ? null : <span class="refs hint">{entry.actor.type.replace("_", " ")}</span>}
          </td>
          <td data-label="What">
            <What entry={entry} linkTo={(key) => Paths.withQuery(here, { ...filters, key })} />
          </td>
          <td data-label="Where">
            <Where entry={entry} project={projects.find(({ id }) => id === entry.project)} />
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

const AuditTrailPage = (props: TrailProps) => {
  const { page, query, visit } = props
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
      <Views {...props} here={here} filters={filters} />
      <FilterForm here={here} {...props} />
      <Chips here={here} {...props} />
      <SaveView {...props} here={here} filters={filters} />
      <section class="section" aria-label="Entries">
        {page.items.length === 0 ? (
          <Ui.Empty title={page.nextCursor === null ? "No entries match" : "No entries match so far"} />
        ) : (
          <EntryTable here={here} {...props} />
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

/** Shows an invalid filter beside its field. A refused role becomes the problem page. */
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

const load = Effect.fnUntraced(function* (at: AtTeam, query: Form.Form) {
  const { page, problem } = yield* entries(at, query)
  const all = yield* UseCases.projects.list()
  const props: TrailProps = {
    visit: at.visit,
    query,
    page,
    problem,
    projects: all.filter((project) => project.teamId === at.teamId),
    members: yield* UseCases.members.list(at.teamId),
    views: yield* UseCases.auditTrail.views(at.teamId)
  }
  return props
})

const view = team((at) =>
  Effect.gen(function* () {
    const filter = yield* query
    const props = yield* load(at, filter)
    return pageWith(<AuditTrailPage {...props} />, props.problem)
  })
)

const saveView = action(team, {
  decode: (form) =>
    Form.decode(SaveAuditView)({
      name: form.text("name").trim(),
      shared: form.has("shared"),
      filter: filtersOf(form)
    }),
  run: (body, { teamId }) => UseCases.auditTrail.saveView(teamId, body),
  done: (_, { teamId }, { filter }) =>
    to(Paths.withQuery(Paths.audit(teamId), filter as Record<string, string>), "view-saved"),
  again: (at, { form, problem }) =>
    Effect.map(load(at, form), (props) => <AuditTrailPage {...props} saving={{ form, problem }} />)
})

const deleteView = action(team, {
  decode: (form) => Form.decode(Schema.UUID)(form.text("view")),
  run: (id, { teamId }) => UseCases.auditTrail.deleteView(teamId, id),
  done: (_, { teamId }) => to(Paths.audit(teamId), "view-deleted")
})

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
  HttpRouter.post("/app/teams/:teamId/audit/views", saveView),
  HttpRouter.post("/app/teams/:teamId/audit/views/delete", deleteView),
  HttpRouter.get("/app/teams/:teamId/audit.csv", file("csv", "text/csv; charset=utf-8", AuditExport.csv)),
  HttpRouter.get(
    "/app/teams/:teamId/audit.jsonl",
    file("jsonl", "application/jsonl; charset=utf-8", AuditExport.jsonLines)
  )
)
