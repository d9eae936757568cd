/** The audit trail: filtered on a page, or exported as a file. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import type { AuditEntry } from "#schema/Audit.ts"
import { type AuditPage, AuditQuery } from "#schema/AuditApi.ts"
import * as AuditExport from "./AuditExport.ts"
import { AuditTrailPage, filtersOf } from "./AuditViews.tsx"
import * as Form from "./Form.ts"
import * as Html from "./Html.ts"
import { pageWith, query } from "./Pages.ts"
import { type AtTeam, team } from "./Routes.ts"
import * as UseCases from "./UseCases.ts"

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
