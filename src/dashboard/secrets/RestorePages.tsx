/** Restores an environment to a moment: a preview by key, then the change. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type { AnyApiError } from "#schema/ApiError.ts"
import { RestoreEnvironment } from "#schema/SecretRequests.ts"
import type { EnvironmentRestoration } from "#schema/SecretResponses.ts"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import {
  type AtEnvironment,
  environment,
  EnvironmentFrame,
  type Location
} from "#src/dashboard/frame/EnvironmentFrame.tsx"
import * as Form from "#src/dashboard/frame/Form.ts"
import { attempt, query } from "#src/dashboard/frame/Pages.ts"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { action, page, screen, to } from "#src/dashboard/frame/Routes.ts"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"

/** Reads a browser's local date-time as UTC, as the label says. */
const instant = (text: string) => (/^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?$/.test(text) ? `${text}Z` : text)

const hrefOf = ({ path }: Location) => `${Paths.environment(path)}/restore`

export const isNothing = ({ created, deleted, renamed, updated }: EnvironmentRestoration) =>
  created.length + deleted.length + renamed.length + updated.length === 0

const Names = ({ keys, title }: { readonly title: string; readonly keys: ReadonlyArray<string> }) =>
  keys.length === 0 ? null : (
    <>
      <h3>
        {title} <span class="hint">{keys.length}</span>
      </h3>
      <Ui.Keys of={keys} />
    </>
  )

/** Effects of a restoration, by key. */
export const RestorationChanges = ({ of }: { readonly of: EnvironmentRestoration }) => (
  <>
    <Names title="These keys come back" keys={of.created} />
    <Names title="These keys get their earlier value back" keys={of.updated} />
    <Names
      title="These secrets get their earlier key back"
      keys={of.renamed.map(({ from, to }) => `${from} → ${to}`)}
    />
    <Names title="These keys are deleted; you can restore them for 30 days" keys={of.deleted} />
    <Names title="These keys cannot come back: no version from that time exists" keys={of.lost} />
    <Names
      title="These keys were removed for good: the server does not know whether they existed then"
      keys={of.unknown}
    />
  </>
)

const Preview = ({ location, preview }: { readonly location: Location; readonly preview: EnvironmentRestoration }) => (
  <section class="section panel" aria-labelledby="preview">
    <h2 id="preview">What would change</h2>
    <p>
      <strong>{location.environment.name}</strong> as it was at{" "}
      <time dateTime={preview.at}>{Ui.exact(preview.at)}</time>. The server compares versions and shows no values.
    </p>
    <RestorationChanges of={preview} />
    {isNothing(preview) ? (
      <p>Nothing: the environment has not changed since.</p>
    ) : (
      <form method="post" action={hrefOf(location)}>
        <input type="hidden" name="at" value={preview.at} />
        <input type="hidden" name="expectedRevision" value={String(preview.revision)} />
        <p>This writes new versions in one transaction. To undo it, restore a moment before it.</p>
        <div class="buttons">
          <button class="button button-danger">Restore {location.environment.slug}</button>
          <Ui.LinkButton href={hrefOf(location)}>Cancel</Ui.LinkButton>
        </div>
      </form>
    )}
  </section>
)

interface RestoreProps {
  readonly location: Location
  readonly at: string
  readonly preview: EnvironmentRestoration | undefined
  readonly problem: AnyApiError | undefined
}

const RestorePage = ({ at, location, preview, problem }: RestoreProps) => (
  <EnvironmentFrame location={location} view="deleted" title="Restore a moment">
    <section class="panel" aria-labelledby="moment">
      <h2 id="moment">Restore a moment</h2>
      <p>Every secret gets the value that it had then. Secrets that did not exist then are deleted.</p>
      {problem === undefined || problem.field === "at" ? null : <Ui.ProblemNote problem={problem} />}
      {location.writes ? (
        <form method="get" action={hrefOf(location)}>
          <Ui.TextField name="at" type="datetime-local" label="Moment (UTC)" value={at} problem={problem} />
          <Ui.Submit>Show what would change</Ui.Submit>
        </form>
      ) : (
        <p class="hint">You can read names here, but not change secrets.</p>
      )}
    </section>
    {preview === undefined ? null : <Preview location={location} preview={preview} />}
  </EnvironmentFrame>
)

/** The preview of a moment, or the problem with it. */
const previewOf = Effect.fnUntraced(function* (location: Location, at: string) {
  if (at === "" || !location.writes) return { preview: undefined, wrong: undefined }
  const preview = yield* attempt(
    Effect.flatMap(Form.decode(RestoreEnvironment)({ at: instant(at), preview: true }), (body) =>
      UseCases.secretWrites.restoreEnvironment(location.environment.id, body)
    )
  )
  return Either.isRight(preview)
    ? { preview: preview.right, wrong: undefined }
    : { preview: undefined, wrong: preview.left }
})

const moment = screen(
  ({ location }: AtEnvironment) =>
    Effect.gen(function* () {
      const at = (yield* query).text("at")
      return { at, ...(yield* previewOf(location, at)) }
    }),
  ({ at, form, location, preview, problem, wrong }) => (
    <RestorePage
      at={at === "" ? form.text("at").replace(/Z$/, "") : at}
      location={location}
      preview={preview}
      problem={problem ?? wrong}
    />
  )
)

const restore = action(environment, {
  decode: (form) =>
    Form.decode(RestoreEnvironment)({
      at: instant(form.text("at")),
      expectedRevision: Number(form.text("expectedRevision"))
    }),
  run: (body, { location }) => UseCases.secretWrites.restoreEnvironment(location.environment.id, body),
  done: (_, { location }) => to(Paths.environment(location.path), "environment-restored"),
  again: moment
})

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get("/app/projects/:projectId/env/:slug/restore", page(environment, moment)),
  HttpRouter.post("/app/projects/:projectId/env/:slug/restore", restore)
)
