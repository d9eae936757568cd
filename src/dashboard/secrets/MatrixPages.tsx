/** The page that a project opens on: its keys by environment, and what is done to several of them at once. */
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
import * as Dotenv from "#src/formats/Dotenv.ts"
import { maxMatrixColumns } from "#src/secrets/SecretStore.ts"
import { environment, rightsAt } from "#src/dashboard/frame/EnvironmentFrame.tsx"
import * as Form from "#src/dashboard/frame/Form.ts"
import * as Html from "#src/dashboard/frame/Html.ts"
import { isDone } from "./FirstSteps.tsx"
import { type Cell, type FirstSteps, type MatrixData, type Row, shows } from "./Matrix.ts"
import { DeletePage, MatrixPage, type MatrixShown } from "./MatrixViews.tsx"
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

type Asked = Pick<MatrixData, "here" | "changes"> & {
  readonly visit: AtPerson["visit"]
  readonly project: Project
  readonly environments: ReadonlyArray<ProjectEnvironment>
}

const columnsOf = ({ environments, project, visit }: Asked) =>
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

const dataOf = Effect.fnUntraced(function* (asked: Asked) {
  const columns = columnsOf(asked)
  const { compared, rows } = yield* UseCases.secretReads.matrix(
    asked.project.id,
    columns.map(({ slug }) => slug)
  )
  const data: MatrixData = {
    here: asked.here,
    changes: asked.changes,
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

/** For so long a project is new. */
const newFor = days(1)

const stepsOf = Effect.fnUntraced(function* ({ project, visit }: Asked, { columns, rows }: MatrixData) {
  const isNew = visit.now - Date.parse(project.createdAt) < newFor
  const column = columns.find(({ writes }) => writes) ?? columns.at(0)
  if (column === undefined || (rows.length > 0 && !isNew)) return {}
  const done = yield* UseCases.firstSteps.show(project.id)
  const steps: FirstSteps = {
    ...done,
    saved: done.saved || rows.length > 0,
    href: stepsPath(project.id),
    login: `ampoule login --url ${visit.ui.baseUrl}`,
    run: `ampoule run --project ${project.slug} --env ${column.slug} -- npm start`
  }
  return isDone(steps) ? {} : { steps }
})

const load = Effect.fnUntraced(function* ({ projectId, visit }: AtProject) {
  const project = yield* UseCases.projects.get(projectId)
  const { items } = yield* UseCases.environments.list(projectId)
  const asked: Asked = {
    visit: inTeam(visit, project.teamId),
    project,
    environments: items,
    here: Paths.project(projectId),
    changes: `/projects/${projectId}/changes`
  }
  const params = yield* query
  const { assets } = yield* Pages
  const data = yield* dataOf(asked)
  const shown: MatrixShown = {
    ...asked,
    ...untouched,
    data: { ...data, ...(yield* stepsOf(asked, data)) },
    formats: assets.formats.href,
    page: pageNumber(params),
    words: params.text("q").trim(),
    show: shows.find((one) => one === params.text("show")) ?? "all"
  }
  return shown
})

/** The page; its script asks for the data alone when something was saved. */
const view = project((at) =>
  Effect.gen(function* () {
    const shown = yield* load(at)
    return (yield* wantsJson)
      ? HttpServerResponse.unsafeJson(shown.data, { headers: Html.headers })
      : Html.page(<MatrixPage {...shown} />)
  })
)

/** How far the person is; the script of the page asks now and then while the steps are shown. */
const steps = project(({ projectId }) =>
  Effect.map(UseCases.firstSteps.show(projectId), (done) =>
    HttpServerResponse.unsafeJson(done, { headers: Html.headers })
  )
)

// --- several keys at once, without script ---

const Keys = boundedList(SecretKey, 1, 500).pipe(
  Schema.filter((keys) => new Set(keys).size === keys.length || "must not repeat a key")
)
const CopyForm = Schema.Struct({ keys: Keys, from: EnvironmentSlug, to: EnvironmentSlug, overwrite: Schema.Boolean })
const DeleteForm = Schema.Struct({ keys: Keys, from: EnvironmentSlug })

const noneTicked = new ValidationFailed({ field: "key", message: "Tick the keys first" })

/** Of the ticked keys, those that the environment has. */
const present = Effect.fnUntraced(function* (
  projectId: ProjectId,
  environment: EnvironmentSlug,
  keys: ReadonlyArray<SecretKey>
) {
  const { nodes } = yield* UseCases.secretReads.composition({ projectId, environment })
  const there = new Set(nodes.map(({ key }) => key))
  const found = keys.filter((key) => there.has(key))
  if (found.length === 0) {
    return yield* new ValidationFailed({ field: "key", message: "The environment has none of these keys" })
  }
  return found
})

const copy = Effect.fnUntraced(function* (form: Form.Form, { projectId }: AtProject) {
  const { from, keys, overwrite, to } = yield* Form.decode(CopyForm)({
    keys: form.all("key"),
    from: form.text("from"),
    to: form.text("to"),
    overwrite: form.has("overwrite")
  })
  const found = yield* present(projectId, from, keys)
  yield* UseCases.secretWrites.copy({ projectId, sourceEnv: from, targetEnv: to, keys: found, overwrite })
})

const again = screen(load, (shown: MatrixShown & Attempt) => <MatrixPage {...shown} />)

/** A file of the ticked keys. It leaves after its entry is committed, as each read of values does. */
const exportSelected = action(project, {
  decode: (form) =>
    form.has("key") ? Form.decode(DeleteForm)({ keys: form.all("key"), from: form.text("from") }) : noneTicked,
  run: ({ from, keys }, { projectId }) =>
    Effect.gen(function* () {
      const found = yield* present(projectId, from, keys)
      const file = Dotenv.print(yield* UseCases.secretReads.chosen({ projectId, environment: from, keys: found }))
      if (Either.isRight(file)) return { text: file.right, name: `${from}.env` }
      return yield* new ValidationFailed({ field: "key", message: `Not in a file: ${file.left.message}` })
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

/** What is to be deleted: as the page showed it, or, on the way there, as it is now. */
const deletionOf = Effect.fnUntraced(function* ({ data }: MatrixShown, form: Form.Form) {
  const { from, keys } = yield* Form.decode(DeleteForm)({ keys: form.all("key"), from: form.text("from") })
  const at = data.columns.findIndex(({ slug }) => slug === from)
  if (at < 0) return yield* new EnvironmentNotFound()
  const versions = form.all("version")
  const now = new Map(data.rows.map((row) => [row[0], row[at + 1]]))
  const deletion: Deletion = {
    column: data.columns[at],
    keys: keys.flatMap((key, i) => {
      const cell = now.get(key)
      const seen = Number(versions[i])
      if (Number.isSafeInteger(seen) && seen > 0) return [[key, seen] as const]
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

/** In which environments a tag is written: where the person may, and no approval is waited for. */
const decodeTag = Effect.fnUntraced(function* (form: Form.Form, at: AtProject) {
  if (!form.has("key")) return yield* noneTicked
  const { data } = yield* load(at)
  const environments = data.columns.filter(({ waits, writes }) => writes && !waits).map(({ slug }) => slug)
  // Whoever may write nowhere is refused by the use case.
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
    const shown = yield* load(at)
    if (!form.has("key")) return pageWith(<MatrixPage {...shown} form={form} problem={noneTicked} />, noneTicked)
    const deletion = yield* deletionOf(shown, form)
    return Html.page(<DeletePage shown={shown} {...untouched} {...deletion} />)
  })
)

const deleteSelected = action(project, {
  decode: (form, at) =>
    Effect.gen(function* () {
      const shown = yield* load(at)
      return { form, deletion: yield* deletionOf(shown, form) }
    }),
  run: ({ deletion, form }, { projectId }) => remove(projectId, form, deletion),
  done: (waits, { projectId }) => to(Paths.project(projectId), waits ? "change-waits" : "secrets-deleted"),
  again: (at, attempt) =>
    Effect.gen(function* () {
      const shown = yield* load(at)
      const deletion = yield* deletionOf(shown, attempt.form)
      return <DeletePage shown={shown} {...attempt} {...deletion} />
    })
})

/** The page of a secret by its key: the script of the matrix knows no ids. */
const byKey = environment(({ location }) =>
  Effect.gen(function* () {
    const key = yield* param("key", SecretKey)
    const { nodes } = yield* UseCases.secretReads.composition(location.query)
    const found = nodes.find((node) => node.key === key)
    return found === undefined ? yield* new SecretNotFound() : Html.seeOther(Paths.secret(location.path, found.id))
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
