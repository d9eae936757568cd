/** An environment back to a moment: what would change, by name, and then the change. */
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

/** A browser's date and time, which the page says is UTC. */
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

/** What a restoration comes to, by name alone. */
export const WhatChanges = ({ of }: { readonly of: EnvironmentRestoration }) => (
  <>
    <Names title="These keys come back" keys={of.created} />
    <Names title="These keys get their earlier value" keys={of.updated} />
    <Names title="These secrets get their earlier key" keys={of.renamed.map(({ from, to }) => `${from} → ${to}`)} />
    <Names title="These keys are deleted; you can restore them for 30 days" keys={of.deleted} />
    <Names title="These keys cannot come back: no version of that time was kept" keys={of.lost} />
    <Names
      title="These keys were removed for good: the server does not know whether they were there"
      keys={of.unknown}
    />
  </>
)

const Preview = ({ location, preview }: { readonly location: Location; readonly preview: EnvironmentRestoration }) => (
  <section class="section panel" aria-labelledby="preview">
    <h2 id="preview">What would change</h2>
    <p>
      <strong>{location.environment.name}</strong> as it was at{" "}
      <time dateTime={preview.at}>{Ui.exact(preview.at)}</time>. Values are compared by their versions; none is shown.
    </p>
    <WhatChanges of={preview} />
    {isNothing(preview) ? (
      <p>Nothing: it is as it was.</p>
    ) : (
      <form method="post" action={hrefOf(location)}>
        <input type="hidden" name="at" value={preview.at} />
        <input type="hidden" name="expectedRevision" value={String(preview.revision)} />
        <p>This writes new versions in one transaction. To undo it, go back to a moment before it.</p>
        <div class="buttons">
          <button class="button button-danger">Take {location.environment.slug} back</button>
          <Ui.LinkButton href={hrefOf(location)}>Cancel</Ui.LinkButton>
        </div>
      </form>
    )}
  </section>
)

interface Shown {
  readonly location: Location
  readonly at: string
  readonly preview: EnvironmentRestoration | undefined
  readonly problem: AnyApiError | undefined
}

const RestorePage = ({ at, location, preview, problem }: Shown) => (
  <EnvironmentFrame location={location} view="deleted" title="Back to a moment">
    <section class="panel" aria-labelledby="moment">
      <h2 id="moment">Back to a moment</h2>
      <p>Every secret gets the value that it had then. What was not there then is deleted.</p>
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

/** The preview of a moment, or what is wrong with it. */
const previewOf = Effect.fnUntraced(function* (location: Location, at: string) {
  if (at === "" || !location.writes) return { preview: undefined, wrong: undefined }
  const found = yield* attempt(
    Effect.flatMap(Form.decode(RestoreEnvironment)({ at: instant(at), preview: true }), (body) =>
      UseCases.secretWrites.restoreEnvironment(location.environment.id, body)
    )
  )
  return Either.isRight(found) ? { preview: found.right, wrong: undefined } : { preview: undefined, wrong: found.left }
})

const shown = screen(
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
  again: shown
})

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get("/app/projects/:projectId/env/:slug/restore", page(environment, shown)),
  HttpRouter.post("/app/projects/:projectId/env/:slug/restore", restore)
)
