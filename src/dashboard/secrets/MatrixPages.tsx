/** First page of a project: its keys by environment, and actions on several keys. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { EnvironmentNotFound, SecretNotFound, ValidationFailed } from "#schema/Errors.ts"
import { ProjectId } from "#schema/Ids.ts"
import { ChangeSecrets } from "#schema/ProjectChangesApi.ts"
import { TagSecrets } from "#schema/SecretRequests.ts"
import type { Project, ProjectEnvironment } from "#schema/ProjectsApi.ts"
import { boundedList, EnvironmentSlug, SecretKey } from "#schema/Values.ts"
import { days } from "#src/Days.ts"
import * as DotenvPrint from "#src/formats/DotenvPrint.ts"
import { maxMatrixColumns } from "#src/secrets/SecretStore.ts"
import { environment, rightsAt } from "#src/dashboard/frame/EnvironmentFrame.tsx"
import * as Form from "#src/dashboard/frame/Form.ts"
import * as Html from "#src/dashboard/frame/Html.ts"
import { isDone } from "./FirstSteps.tsx"
import { type Cell, type FirstSteps, type MatrixData, type Row, shows } from "./Matrix.ts"
import { DeletePage, MatrixPage, type MatrixProps } from "./MatrixViews.tsx"
import { inTeam, pageNumber, Pages, pageWith, param, query, wantsJson } from "#src/dashboard/frame/Pages.ts"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import {
  action,
  type AtPerson,
  type Attempt,
  person,
  screen,
  to,
  untouched,
  withIds
} from "#src/dashboard/frame/Routes.ts"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"

interface AtProject extends AtPerson {
  readonly projectId: ProjectId
}
const project = withIds(person, Schema.Struct({ projectId: ProjectId }))

type MatrixContext = Pick<MatrixData, "here" | "changes"> & {
  readonly visit: AtPerson["visit"]
  readonly project: Project
  readonly environments: ReadonlyArray<ProjectEnvironment>
}

const columnsOf = ({ environments, project, visit }: MatrixContext) =>
  environments.slice(0, maxMatrixColumns).map((environment) => {
    const { readsValues, writes } = rightsAt(visit, project, environment)
    const { name, slug } = environment
    const manages = visit.team?.role === "owner" || visit.team?.role === "admin"
    return {
      slug,
      name,
      protected: environment.protected,
      waits: environment.changes === "proposed" && !manages,
      writes,
      reads: readsValues
    }
  })

const dataOf = Effect.fnUntraced(function* (context: MatrixContext) {
  const columns = columnsOf(context)
  const { compared, rows } = yield* UseCases.secretReads.matrix(
    context.project.id,
    columns.map(({ slug }) => slug)
  )
  const data: MatrixData = {
    here: context.here,
    changes: context.changes,
    columns,
    compared,
    tags: rows.flatMap(({ key, tags }) => (tags.length === 0 ? [] : [[key, ...tags] as const])),
    rows: rows.map(({ cells, key }): Row => [
      key,
      ...cells.map((cell): Cell =>
        cell === null ? 0 : [cell.version, cell.kind === "template" ? 1 : 0, cell.like ?? -1]
      )
    ])
  }
  return data
})

const stepsPath = (projectId: ProjectId) => `${Paths.project(projectId)}/steps`

/** Age up to which a project counts as new. */
const newFor = days(1)

const stepsOf = Effect.fnUntraced(function* ({ project, visit }: MatrixContext, { columns, rows }: MatrixData) {
  const isNew = visit.now - Date.parse(project.createdAt) < newFor
  const column = columns.find(({ writes }) => writes) ?? columns.at(0)
  if (column === undefined || (rows.length > 0 && !isNew)) return {}
  const progress = yield* UseCases.firstSteps.show(project.id)
  const steps: FirstSteps = {
    ...progress,
    saved: progress.saved || rows.length > 0,
    href: stepsPath(project.id),
    login: `ampoule login --url ${visit.ui.baseUrl}`,
    run: `ampoule run --project ${project.slug} --env ${column.slug} -- npm start`
  }
  return isDone(steps) ? {} : { steps }
})

const load = Effect.fnUntraced(function* ({ projectId, visit }: AtProject) {
  const project = yield* UseCases.projects.get(projectId)
  const { items } = yield* UseCases.environments.list(projectId)
  const context: MatrixContext = {
    visit: inTeam(visit, project.teamId),
    project,
    environments: items,
    here: Paths.project(projectId),
    changes: `/projects/${projectId}/changes`
  }
  const params = yield* query
  const { assets } = yield* Pages
  const data = yield* dataOf(context)
  const matrix: MatrixProps = {
    ...context,
    ...untouched,
    data: { ...data, ...(yield* stepsOf(context, data)) },
    formats: assets.formats.href,
    page: pageNumber(params),
    words: params.text("q").trim(),
    show: shows.find((one) => one === params.text("show")) ?? "all"
  }
  return matrix
})

/** The page; after a save, its script requests only the data. */
const view = project((at) =>
  Effect.gen(function* () {
    const matrix = yield* load(at)
    return (yield* wantsJson)
      ? HttpServerResponse.unsafeJson(matrix.data, { headers: Html.headers })
      : Html.page(<MatrixPage {...matrix} />)
  })
)

/** Progress with the first steps, which the page's script polls. */
const steps = project(({ projectId }) =>
  Effect.map(UseCases.firstSteps.show(projectId), (progress) =>
    HttpServerResponse.unsafeJson(progress, { headers: Html.headers })
  )
)

// --- several keys at once, without a script ---

const Keys = boundedList(SecretKey, 1, 500).pipe(
  Schema.filter((keys) => new Set(keys).size === keys.length || "must not repeat a key")
)
const CopyForm = Schema.Struct({ keys: Keys, from: EnvironmentSlug, to: EnvironmentSlug, overwrite: Schema.Boolean })
const DeleteForm = Schema.Struct({ keys: Keys, from: EnvironmentSlug })

const noneTicked = new ValidationFailed({ field: "key", message: "Tick the keys first" })

/** The ticked keys that exist in the environment. */
const present = Effect.fnUntraced(function* (
  projectId: ProjectId,
  environment: EnvironmentSlug,
  keys: ReadonlyArray<SecretKey>
) {
  const { nodes } = yield* UseCases.secretReads.composition({ projectId, environment })
  const existing = new Set(nodes.map(({ key }) => key))
  const matches = keys.filter((key) => existing.has(key))
  if (matches.length === 0) {
    return yield* new ValidationFailed({ field: "key", message: "The environment has none of these keys" })
  }
  return matches
})

const copy = Effect.fnUntraced(function* (form: Form.Form, { projectId }: AtProject) {
  const { from, keys, overwrite, to } = yield* Form.decode(CopyForm)({
    keys: form.all("key"),
    from: form.text("from"),
    to: form.text("to"),
    overwrite: form.has("overwrite")
  })
  const existing = yield* present(projectId, from, keys)
  yield* UseCases.secretWrites.copy({ projectId, sourceEnv: from, targetEnv: to, keys: existing, overwrite })
})

const again = screen(load, (matrix: MatrixProps & Attempt) => <MatrixPage {...matrix} />)

/** A file of the ticked keys. Like each read of values, it is sent only after its entry is committed. */
const exportSelected = action(project, {
  decode: (form) =>
    form.has("key") ? Form.decode(DeleteForm)({ keys: form.all("key"), from: form.text("from") }) : noneTicked,
  run: ({ from, keys }, { projectId }) =>
    Effect.gen(function* () {
      const existing = yield* present(projectId, from, keys)
      const file = DotenvPrint.print(
        yield* UseCases.secretReads.chosen({ projectId, environment: from, keys: existing })
      )
      if (Either.isRight(file)) return { text: file.right, name: `${from}.env` }
      return yield* new ValidationFailed({
        field: "key",
        message: `The file cannot hold these values: ${file.left.message}`
      })
    }),
  done: ({ name, text }) =>
    HttpServerResponse.text(text, {
      contentType: "text/plain; charset=utf-8",
      headers: { ...Html.headers, "content-disposition": `attachment; filename="${name}"` }
    }),
  again
})

interface Deletion {
  readonly column: MatrixData["columns"][number]
  readonly keys: ReadonlyArray<readonly [key: string, version: number]>
}

/** Keys to delete, with the versions that the page showed, or the current ones for the confirmation page. */
const deletionOf = Effect.fnUntraced(function* ({ data }: MatrixProps, form: Form.Form) {
  const { from, keys } = yield* Form.decode(DeleteForm)({ keys: form.all("key"), from: form.text("from") })
  const at = data.columns.findIndex(({ slug }) => slug === from)
  if (at < 0) return yield* new EnvironmentNotFound()
  const versions = form.all("version")
  const now = new Map(data.rows.map((row) => [row[0], row[at + 1]]))
  const deletion: Deletion = {
    column: data.columns[at],
    keys: keys.flatMap((key, i) => {
      const cell = now.get(key)
      const shownVersion = Number(versions[i])
      if (Number.isSafeInteger(shownVersion) && shownVersion > 0) return [[key, shownVersion] as const]
      return cell === undefined || cell === 0 || typeof cell === "string" ? [] : [[key, cell[0]] as const]
    })
  }
  if (deletion.keys.length === 0) return yield* new SecretNotFound()
  return deletion
})

const remove = Effect.fnUntraced(function* (projectId: ProjectId, form: Form.Form, { column, keys }: Deletion) {
  if (column.protected) yield* Form.repeats(form, column.slug)
  const entries = keys.map(([key, expectedVersion]) => ({
    environment: column.slug,
    key,
    op: "delete",
    expectedVersion
  }))
  const { environments } = yield* UseCases.secretWrites.change(
    projectId,
    yield* Form.decode(ChangeSecrets)({ entries })
  )
  return environments.some(({ request }) => request !== null)
})

/** Writes a tag in all environments that the person may change without an approval. */
const decodeTag = Effect.fnUntraced(function* (form: Form.Form, at: AtProject) {
  if (!form.has("key")) return yield* noneTicked
  const { data } = yield* load(at)
  const environments = data.columns.filter(({ waits, writes }) => writes && !waits).map(({ slug }) => slug)
  // Without any writable environment, the use case refuses.
  return yield* Form.decode(TagSecrets)({
    environments: environments.length > 0 ? environments : data.columns.map(({ slug }) => slug),
    keys: form.all("key"),
    tag: form.text("tag").trim().toLowerCase(),
    op: form.text("op")
  })
})

const tagSelected = action(project, {
  decode: decodeTag,
  run: (input, { projectId }) => UseCases.secretWrites.tag(projectId, input),
  done: (_, { projectId }) => to(Paths.project(projectId), "secrets-tagged"),
  again
})

const copySelected = action(project, {
  decode: (form) => (form.has("key") ? Effect.succeed(form) : noneTicked),
  run: copy,
  done: (_, { projectId }) => to(Paths.project(projectId), "secrets-copied"),
  again
})

const askDelete = project((at) =>
  Effect.gen(function* () {
    const form = yield* Form.read
    const matrix = yield* load(at)
    if (!form.has("key")) return pageWith(<MatrixPage {...matrix} form={form} problem={noneTicked} />, noneTicked)
    const deletion = yield* deletionOf(matrix, form)
    return Html.page(<DeletePage matrix={matrix} {...untouched} {...deletion} />)
  })
)

const deleteSelected = action(project, {
  decode: (form, at) =>
    Effect.gen(function* () {
      const matrix = yield* load(at)
      return { form, deletion: yield* deletionOf(matrix, form) }
    }),
  run: ({ deletion, form }, { projectId }) => remove(projectId, form, deletion),
  done: (waits, { projectId }) => to(Paths.project(projectId), waits ? "change-waits" : "secrets-deleted"),
  again: (at, attempt) =>
    Effect.gen(function* () {
      const matrix = yield* load(at)
      const deletion = yield* deletionOf(matrix, attempt.form)
      return <DeletePage matrix={matrix} {...attempt} {...deletion} />
    })
})

/** Redirects to the page of a secret by its key, because the matrix has no ids. */
const byKey = environment(({ location }) =>
  Effect.gen(function* () {
    const key = yield* param("key", SecretKey)
    const { nodes } = yield* UseCases.secretReads.composition(location.query)
    const node = nodes.find((one) => one.key === key)
    return node === undefined ? yield* new SecretNotFound() : Html.seeOther(Paths.secret(location.path, node.id))
  })
)

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get("/app/projects/:projectId", view),
  HttpRouter.get("/app/projects/:projectId/steps", steps),
  HttpRouter.post("/app/projects/:projectId/copy-keys", copySelected),
  HttpRouter.post("/app/projects/:projectId/tag-keys", tagSelected),
  HttpRouter.post("/app/projects/:projectId/export-keys", exportSelected),
  HttpRouter.post("/app/projects/:projectId/delete-keys", askDelete),
  HttpRouter.post("/app/projects/:projectId/delete-keys/confirmed", deleteSelected),
  HttpRouter.get("/app/projects/:projectId/env/:slug/key/:key", byKey)
)
