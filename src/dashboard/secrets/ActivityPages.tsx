/** Changes of a project as sentences, each with an undo while no later change depends on it. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import type { ComponentChildren } from "preact"
import type { AnyApiError } from "#schema/ApiError.ts"
import type { AuditEntry } from "#schema/Audit.ts"
import { type AuditPage, AuditQuery } from "#schema/AuditApi.ts"
import { RouteNotFound } from "#schema/Errors.ts"
import { EnvironmentId, ProjectId } from "#schema/Ids.ts"
import type { Project, ProjectEnvironment } from "#schema/ProjectsApi.ts"
import type { EnvironmentRestoration } from "#schema/SecretResponses.ts"
import { ExpectedVersion } from "#schema/Values.ts"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import { rightsAt } from "#src/dashboard/frame/EnvironmentFrame.tsx"
import * as Form from "#src/dashboard/frame/Form.ts"
import { Layout } from "#src/dashboard/frame/Layout.tsx"
import { attempt, inTeam, param, query } from "#src/dashboard/frame/Pages.ts"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { isNothing, RestorationChanges } from "./RestorePages.tsx"
import {
  action,
  type AtPerson,
  type Attempt,
  page,
  person,
  screen,
  to,
  within,
  withIds
} from "#src/dashboard/frame/Routes.ts"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"
import type { Visit } from "#src/dashboard/frame/Visit.ts"

const maxKeys = 5

interface At {
  readonly visit: Visit
  readonly project: Project
  readonly environments: ReadonlyArray<ProjectEnvironment>
}

/** The entry as input of an undo; undefined for a denied entry, or for one without an environment. */
const writeOf = ({ action, environmentId, id, keys, outcome, versions = [] }: AuditEntry) =>
  outcome === "allowed" && Schema.is(EnvironmentId)(environmentId)
    ? { id, action, environmentId, keys, versions }
    : undefined

const environmentOf = ({ environments }: At, entry: AuditEntry) =>
  environments.find(({ id }) => id === entry.environmentId)
const writes = (at: At, entry: AuditEntry) => {
  const environment = environmentOf(at, entry)
  return environment !== undefined && rightsAt(at.visit, at.project, environment).writes
}

// --- sentences ---

const verbs: ReadonlyMap<string, string> = new Map([
  ["secret.create", "added"],
  ["secret.update", "changed"],
  ["secret.delete", "deleted"],
  ["secret.rollback", "rolled back"],
  ["secret.restore", "restored"],
  ["secret.rename", "renamed"],
  ["environment.restore", "restored"]
])

const KeyLinks = ({ at, entry }: { readonly at: At; readonly entry: AuditEntry }) => {
  const environment = environmentOf(at, entry)
  const separator = entry.action === "secret.rename" ? " to " : ", "
  return (
    <>
      {entry.keys.slice(0, maxKeys).map((key, i) => (
        <>
          {i === 0 ? "" : separator}
          {environment === undefined ? (
            <code>{key}</code>
          ) : (
            <a class="key" href={Paths.key({ projectId: at.project.id, slug: environment.slug }, key)}>
              {key}
            </a>
          )}
          {entry.keys.length === 1 && (entry.versions?.[0] ?? 0) > 0 ? (
            <span class="hint"> v{entry.versions?.[0]}</span>
          ) : null}
        </>
      ))}
      {entry.keys.length > maxKeys ? ` and ${entry.keys.length - maxKeys} more` : ""}
    </>
  )
}

/** Sentence with actor, action and place. */
const Sentence = ({ at, entry }: { readonly at: At; readonly entry: AuditEntry }) => {
  const environment = environmentOf(at, entry)
  const where =
    environment === undefined ? (
      "a deleted environment"
    ) : (
      <a href={Paths.environment({ projectId: at.project.id, slug: environment.slug })}>
        <bdi>{environment.name}</bdi>
      </a>
    )
  return (
    <>
      <strong>
        <bdi>{entry.actor.name ?? entry.actor.id}</bdi>
      </strong>{" "}
      {verbs.get(entry.action) ?? entry.action}{" "}
      {entry.action === "environment.restore" ? (
        <>
          {where} to {entry.target === undefined ? "a moment" : Ui.exact(entry.target.name)}
        </>
      ) : (
        <>
          <KeyLinks at={at} entry={entry} /> in {where}
        </>
      )}
    </>
  )
}

/** Reason of an undo, with the id of the entry that it undid. */
const undoReason = /^undo of entry ([0-9a-f-]{36})$/
const Why = ({ at, reason }: { readonly at: At; readonly reason: string }) => {
  const entry = undoReason.exec(reason)?.[1]
  return (
    <span class="refs hint">
      {entry === undefined ? (
        <>
          why: <bdi>{reason}</bdi>
        </>
      ) : (
        <>
          undid <a href={Paths.auditEntry(at.project.teamId, entry)}>an earlier change</a>
        </>
      )}
    </span>
  )
}

const UndoLink = ({ at, entry }: { readonly at: At; readonly entry: AuditEntry }) => (
  <a class="button button-quiet" href={`${Paths.activity(at.project.id)}/${entry.id}`}>
    Undo…<span class="hidden"> {`${verbs.get(entry.action) ?? ""} ${entry.keys.slice(0, maxKeys).join(", ")}`}</span>
  </a>
)

/** Link to rename a secret back; only a rename also rewrites the templates. */
const RenameLink = ({ at, entry }: { readonly at: At; readonly entry: AuditEntry }) => {
  const environment = environmentOf(at, entry)
  return environment === undefined ? null : (
    <a
      class="button button-quiet"
      href={`${Paths.key({ projectId: at.project.id, slug: environment.slug }, entry.keys.at(-1) ?? "")}#rename`}
    >
      Rename it back…
    </a>
  )
}

const BackLink = ({ at, entry }: { readonly at: At; readonly entry: AuditEntry }) => {
  const environment = environmentOf(at, entry)
  // The entry is written just after its change.
  const before = new Date(Date.parse(entry.at) - 1_000).toISOString()
  return environment === undefined ? null : (
    <a
      class="button button-quiet"
      href={Paths.withQuery(`${Paths.environment({ projectId: at.project.id, slug: environment.slug })}/restore`, {
        at: before.replace(/Z$/, "")
      })}
    >
      Restore to before…
    </a>
  )
}

interface Activity extends At {
  readonly changes: AuditPage
  /** Ids of the entries that can be undone now. */
  readonly open: ReadonlySet<string>
}

const Line = ({ at, entry }: { readonly at: Activity; readonly entry: AuditEntry }) => (
  <li>
    <div>
      <Sentence at={at} entry={entry} /> {entry.outcome === "denied" ? <Ui.Badge tone="danger">denied</Ui.Badge> : null}
      <span class="refs hint">
        <Ui.Ago at={entry.at} now={at.visit.now} /> · {entry.via} ·{" "}
        <a href={Paths.auditEntry(at.project.teamId, entry.id)}>entry</a>
      </span>
      {entry.reason === undefined || entry.outcome === "denied" ? null : <Why at={at} reason={entry.reason} />}
    </div>
    {entry.outcome === "denied" || !writes(at, entry) ? null : entry.action === "environment.restore" ? (
      <BackLink at={at} entry={entry} />
    ) : entry.action === "secret.rename" ? (
      <RenameLink at={at} entry={entry} />
    ) : at.open.has(entry.id) ? (
      <UndoLink at={at} entry={entry} />
    ) : null}
  </li>
)

const Frame = ({
  at: { project, visit },
  children,
  crumb = false,
  lead,
  title
}: {
  readonly at: At
  readonly title: string
  readonly lead?: ComponentChildren
  readonly crumb?: boolean
  readonly children: ComponentChildren
}) => (
  <Layout
    visit={visit}
    section="projects"
    title={title}
    lead={lead}
    inProject={{ id: project.id, name: project.name, view: "activity" }}
    crumbs={[
      { href: Paths.home, label: "Projects" },
      { href: Paths.project(project.id), label: project.name },
      ...(crumb ? [{ href: Paths.activity(project.id), label: "Activity" }] : [])
    ]}
  >
    {children}
  </Layout>
)

const ActivityPage = (at: Activity) => {
  const { changes, project } = at
  const here = Paths.activity(project.id)
  return (
    <Frame
      at={at}
      title="Activity"
      lead={
        <>
          Changes of secrets, newest first. Reads are in the{" "}
          <a href={Paths.withQuery(Paths.audit(project.teamId), { projectId: project.id })}>audit trail</a>.
        </>
      }
    >
      {changes.items.length === 0 ? (
        <Ui.Empty title={changes.nextCursor === null ? "No changes yet" : "No changes so far"} />
      ) : (
        <ol class="history activity-list panel">
          {changes.items.map((entry) => (
            <Line at={at} entry={entry} />
          ))}
        </ol>
      )}
      {changes.nextCursor === null ? null : (
        <nav class="pager" aria-label="Pages">
          <a href={here}>Newest</a>
          <a href={Paths.withQuery(here, { cursor: changes.nextCursor })}>Earlier changes</a>
        </nav>
      )}
    </Frame>
  )
}

// --- one change, and its undo ---

interface Undoing extends At {
  readonly entry: AuditEntry
  readonly environment: ProjectEnvironment
  readonly preview: EnvironmentRestoration | undefined
  /** Reason why it cannot be undone. */
  readonly wrong: AnyApiError | undefined
}

const UndoPage = (at: Undoing & Attempt) => {
  const { entry, environment, preview, problem, project, wrong } = at
  const here = `${Paths.activity(project.id)}/${entry.id}`
  const open = preview !== undefined && !isNothing(preview)
  return (
    <Frame at={at} title="Undo a change" crumb>
      <section class="panel stack narrow" aria-labelledby="what">
        <h2 id="what">The change</h2>
        <p>
          <Sentence at={at} entry={entry} />, <Ui.Ago at={entry.at} now={at.visit.now} />.
        </p>
        <Ui.ProblemNote problem={wrong ?? (problem?.field === Form.confirm ? undefined : problem)} />
        {preview === undefined ? null : isNothing(preview) ? (
          <p>There is nothing to undo: the values already equal those before the change.</p>
        ) : (
          <>
            <h2>What would change</h2>
            <RestorationChanges of={preview} />
          </>
        )}
        {preview !== undefined && open && writes(at, entry) ? (
          <form method="post" action={here}>
            <input type="hidden" name="expectedRevision" value={String(preview.revision)} />
            <p class="hint">The server writes this as a new change, which you can undo too.</p>
            {environment.protected ? <Ui.Repeat name={environment.slug} problem={problem} /> : null}
            <Ui.Submit cancel={Paths.activity(project.id)}>Undo the change</Ui.Submit>
          </form>
        ) : (
          <p>
            <a href={Paths.activity(project.id)}>Back to the activity</a>
          </p>
        )}
      </section>
    </Frame>
  )
}

// --- loading ---

interface AtProject extends AtPerson {
  readonly projectId: ProjectId
}
const inProject = withIds(person, Schema.Struct({ projectId: ProjectId }))

const locate = Effect.fnUntraced(function* ({ projectId, visit }: AtProject) {
  const project = yield* UseCases.projects.get(projectId)
  const { items } = yield* UseCases.environments.list(projectId)
  const at: At = { visit: inTeam(visit, project.teamId), project, environments: items }
  return at
})

const activity = screen(
  (at: AtProject) =>
    Effect.gen(function* () {
      const here = yield* locate(at)
      const cursor = (yield* query).filled("cursor")
      const input = yield* Form.decode(AuditQuery)(cursor === undefined ? {} : { cursor })
      const changes = yield* UseCases.auditTrail.changes(at.projectId, input)
      const candidates = changes.items.flatMap((entry) => (writes(here, entry) ? (writeOf(entry) ?? []) : []))
      return { ...here, changes, open: yield* UseCases.secretWrites.canTakeBack(at.projectId, candidates) }
    }),
  ActivityPage
)

/** An entry about an existing environment of this project. */
const change = within(inProject, (at: AtProject) =>
  Effect.gen(function* () {
    const here = yield* locate(at)
    const id = yield* param("entry", Schema.UUID)
    const { entry } = yield* UseCases.auditTrail.entry(here.project.teamId, id)
    const environment = environmentOf(here, entry)
    if (environment === undefined || entry.project !== here.project.id) return yield* new RouteNotFound()
    return { ...here, entry, environment }
  })
)
type AtChange = At & { readonly entry: AuditEntry; readonly environment: ProjectEnvironment }

const takeBack = Effect.fnUntraced(function* (
  { entry }: AtChange,
  options: { preview: boolean; expectedRevision?: number }
) {
  const write = writeOf(entry)
  if (write === undefined) return yield* new RouteNotFound()
  return yield* UseCases.secretWrites.takeBack({ ...write, ...options })
})

const undoing = screen(
  (at: AtChange) =>
    Effect.gen(function* () {
      if (!writes(at, at.entry)) return { preview: undefined, wrong: undefined }
      const preview = yield* attempt(takeBack(at, { preview: true }))
      return Either.isRight(preview)
        ? { preview: preview.right, wrong: undefined }
        : { preview: undefined, wrong: preview.left }
    }),
  UndoPage
)

const undo = action(change, {
  decode: (form, at) =>
    Effect.gen(function* () {
      const expectedRevision = yield* Form.decode(ExpectedVersion)(Number(form.text("expectedRevision")))
      // Without the right to write, the use case refuses first.
      if (at.environment.protected && writes(at, at.entry)) yield* Form.repeats(form, at.environment.slug)
      return expectedRevision
    }),
  run: (expectedRevision, at) => takeBack(at, { preview: false, expectedRevision }),
  done: (_, { environment, project }) =>
    to(Paths.environment({ projectId: project.id, slug: environment.slug }), "change-undone"),
  again: undoing
})

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get("/app/projects/:projectId/activity", page(inProject, activity)),
  HttpRouter.get("/app/projects/:projectId/activity/:entry", page(change, undoing)),
  HttpRouter.post("/app/projects/:projectId/activity/:entry", undo)
)
