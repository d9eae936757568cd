/** The audit trail: narrowed by what one looks for, taken along as a file. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type * as Stream from "effect/Stream"
import type { AnyApiError } from "#schema/ApiError.ts"
import { type AuditEntry, auditActions } from "#schema/Audit.ts"
import { type AuditPage, AuditQuery } from "#schema/AuditApi.ts"
import type { Project } from "#schema/ProjectsApi.ts"
import { AuditTrail, exportLimit } from "#src/access/AuditTrail.ts"
import { Projects } from "#src/projects/Projects.ts"
import * as AuditExport from "./AuditExport.ts"
import { Ago, Badge, Empty, ProblemNote, Select, Table, TextField } from "./Components.tsx"
import * as Form from "./Form.ts"
import * as Html from "./Html.ts"
import { Layout } from "./Layout.tsx"
import { type Pages, query, shown } from "./Pages.ts"
import * as Paths from "./Paths.ts"
import type { Visit } from "./Visit.ts"

const names = ["action", "actor", "projectId", "environment", "key", "since", "until"] as const

/** A browser's local date-time is taken as UTC, as the labels say. */
const instant = (text: string) => (/^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?$/.test(text) ? `${text}Z` : text)

const filters = (asked: Form.Form): Record<string, string> =>
  Object.fromEntries(
    names.flatMap((name) => {
      const text = asked.filled(name)?.trim()
      return text === undefined ? [] : [[name, name === "since" || name === "until" ? instant(text) : text]]
    })
  )

const link = (path: string, chosen: Readonly<Record<string, string>>) => {
  const search = new URLSearchParams(chosen).toString()
  return search === "" ? path : `${path}?${search}`
}

const AuditTrailPage = ({
  asked,
  page,
  problem,
  projects,
  visit
}: {
  readonly visit: Visit
  readonly asked: Form.Form
  readonly page: AuditPage
  readonly projects: ReadonlyArray<Project>
  readonly problem?: AnyApiError | undefined
}) => {
  const team = visit.team
  if (team === null) return null
  const here = Paths.audit(team.id)
  const chosen = filters(asked)
  const nameOf = (id: string | undefined) => projects.find((project) => project.id === id)?.name
  return (
    <Layout
      visit={visit}
      section="audit"
      title="Audit trail"
      lead="Who did what, newest first. Names of keys, never values."
      actions={
        <>
          <a class="button button-plain" href={link(`${here}.csv`, chosen)} download>
            Export CSV
          </a>
          <a class="button button-plain" href={link(`${here}.jsonl`, chosen)} download>
            Export JSON lines
          </a>
        </>
      }
    >
      <form method="get" action={here} class="panel panel-slim">
        {problem?.field !== undefined && names.some((name) => name === problem.field) ? null : (
          <ProblemNote problem={problem} />
        )}
        <details class="disclosure" open={Object.keys(chosen).length > 0}>
          <summary>Filter</summary>
          <div class="fields">
            <Select
              name="action"
              label="Action"
              choices={[{ value: "", label: "Any" }, ...auditActions.map((value) => ({ value, label: value }))]}
              value={asked.text("action")}
              problem={problem}
            />
            <Select
              name="projectId"
              label="Project"
              choices={[{ value: "", label: "Any" }, ...projects.map(({ id, name }) => ({ value: id, label: name }))]}
              value={asked.text("projectId")}
              problem={problem}
            />
            <TextField
              name="environment"
              label="Environment"
              mono
              optional
              value={asked.text("environment")}
              problem={problem}
            />
            <TextField name="key" label="Key" mono optional value={asked.text("key")} problem={problem} />
            <TextField
              name="since"
              label="Since (UTC)"
              type="datetime-local"
              optional
              value={asked.text("since").replace(/Z$/, "")}
              problem={problem}
            />
            <TextField
              name="until"
              label="Until (UTC)"
              type="datetime-local"
              optional
              value={asked.text("until").replace(/Z$/, "")}
              problem={problem}
            />
            <TextField
              name="actor"
              label="Id of who did it"
              mono
              optional
              value={asked.text("actor")}
              hint="Choose a name in the list below"
              problem={problem}
            />
          </div>
          <div class="buttons">
            <button class="button button-primary">Filter</button>
            {Object.keys(chosen).length === 0 ? null : (
              <a class="button button-plain" href={here}>
                Show everything
              </a>
            )}
            <span class="hint">
              An export holds up to {exportLimit.toLocaleString("en")} entries of this selection.
            </span>
          </div>
        </details>
      </form>
      <section class="section" aria-label="Entries">
        {page.items.length === 0 ? (
          <Empty title="No entries match" />
        ) : (
          <Table label="Entries" head={["When", "Who", "What", "Where", "From"]}>
            {page.items.map((entry) => (
              <tr>
                <td class="tight" data-label="When">
                  <Ago at={entry.at} now={visit.now} />
                </td>
                <td data-label="Who">
                  <a href={link(here, { ...chosen, actor: entry.actor.id })}>{entry.actor.name ?? entry.actor.id}</a>
                  {entry.actor.type === "user" ? null : (
                    <span class="refs hint">{entry.actor.type.replace("_", " ")}</span>
                  )}
                </td>
                <td data-label="What">
                  <code>{entry.action}</code> {entry.outcome === "denied" ? <Badge tone="danger">denied</Badge> : null}
                  {entry.keys.length === 0 ? null : (
                    <span class="refs hint key">
                      {entry.keys.slice(0, 5).join(", ")}
                      {entry.keys.length > 5 ? ` and ${entry.keys.length - 5} more` : ""}
                    </span>
                  )}
                  {entry.target === undefined || entry.target.name === "" ? null : (
                    <span class="refs hint">{entry.target.name}</span>
                  )}
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
          </Table>
        )}
        {page.nextCursor === null ? null : (
          <nav class="pager" aria-label="Pages">
            <a href={link(here, chosen)}>Newest</a>
            <a href={link(here, { ...chosen, cursor: page.nextCursor })}>Earlier entries</a>
          </nav>
        )}
      </section>
    </Layout>
  )
}

const nothing: AuditPage = { items: [], nextCursor: null }

export const routes = (pages: Pages["Type"]) =>
  Effect.gen(function* () {
    const trail = yield* AuditTrail
    const projects = yield* Projects

    const view = pages.team((teamId, visit) =>
      Effect.gen(function* () {
        const asked = yield* query
        const cursor = asked.filled("cursor")
        // A filter that cannot be is told beside its field; a refusal is a page of its own.
        const found = yield* Form.decode(AuditQuery)({
          ...filters(asked),
          ...(cursor === undefined ? {} : { cursor })
        }).pipe(
          Effect.flatMap((input) => trail.list(teamId, input)),
          Effect.map(Either.right),
          Effect.catchTag("VALIDATION_FAILED", (problem) => Effect.succeed(Either.left(problem)))
        )
        const known = (yield* projects.list()).filter((project) => project.teamId === teamId)
        const problem = Either.isLeft(found) ? found.left : undefined
        return shown(
          <AuditTrailPage
            visit={visit}
            asked={asked}
            page={Either.getOrElse(found, () => nothing)}
            projects={known}
            problem={problem}
          />,
          problem
        )
      })
    )

    const file = (
      extension: "csv" | "jsonl",
      contentType: string,
      encode: (entries: Stream.Stream<AuditEntry>) => Stream.Stream<Uint8Array>
    ) =>
      pages.team((teamId, visit) =>
        Effect.gen(function* () {
          const input = yield* Form.decode(AuditQuery)(filters(yield* query))
          const entries = yield* trail.exportEntries(teamId, input)
          const day = new Date(visit.now).toISOString().slice(0, 10)
          return HttpServerResponse.stream(encode(entries), {
            contentType,
            headers: { ...Html.headers, "content-disposition": `attachment; filename="audit-${day}.${extension}"` }
          })
        })
      )

    return HttpRouter.empty.pipe(
      HttpRouter.get("/app/teams/:teamId/audit", view),
      HttpRouter.get("/app/teams/:teamId/audit.csv", file("csv", "text/csv; charset=utf-8", AuditExport.csv)),
      HttpRouter.get(
        "/app/teams/:teamId/audit.jsonl",
        file("jsonl", "application/jsonl; charset=utf-8", AuditExport.jsonLines)
      )
    )
  })
