/** Saved views, which are named filters of the trail: choose, save, delete. */
import type { AuditView } from "#src/trail-use/AuditViews.ts"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import type { Attempt } from "#src/dashboard/frame/Routes.ts"

type Filters = Readonly<Record<string, string>>

interface ViewProps {
  readonly here: string
  readonly views: ReadonlyArray<AuditView>
  readonly filters: Filters
  readonly saving?: Attempt | undefined
}

/** The filter as parameters of an address. */
const queryOf = ({ filter }: AuditView): Filters =>
  Object.fromEntries(Object.entries(filter).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])))

export const Views = ({ filters, here, views }: ViewProps) =>
  views.length === 0 ? null : (
    <div class="section-small views">
      <nav class="pills" aria-label="Saved views">
        {views.map((view) => {
          const href = Paths.withQuery(here, queryOf(view))
          return (
            <a class="pill" href={href} aria-current={href === Paths.withQuery(here, filters) ? "page" : undefined}>
              <bdi>{view.name}</bdi>
              {view.shared ? <span class="hidden"> (of the team)</span> : null}
            </a>
          )
        })}
      </nav>
      <details class="disclosure">
        <summary>Edit views</summary>
        <ul class="plain-list">
          {views.map(({ id, name, shared }) => (
            <li class="inline">
              <bdi>{name}</bdi> {shared ? <Ui.Badge>team</Ui.Badge> : null}
              <Ui.Act action={`${here}/views/delete`} fields={{ view: id }} kind="quiet">
                Delete<span class="hidden"> the view {name}</span>
              </Ui.Act>
            </li>
          ))}
        </ul>
      </details>
    </div>
  )

/** Form for saving the filters of the list. */
export const SaveView = ({ filters, here, saving }: ViewProps) =>
  Object.keys(filters).length === 0 ? null : (
    <details class="disclosure section-small" open={saving !== undefined}>
      <summary>Save this view</summary>
      <form method="post" action={`${here}/views`} class="panel panel-slim inline">
        {saving?.problem?.field === "name" ? null : <Ui.ProblemNote problem={saving?.problem} />}
        {Object.entries(filters).map(([name, value]) => (
          <input type="hidden" name={name} value={value} />
        ))}
        <Ui.TextField
          id="view-name"
          name="name"
          label="Name"
          value={saving?.form.text("name")}
          hint="An existing view of yours with this name is replaced."
          problem={saving?.problem}
        />
        <Ui.CheckBox name="shared" checked={saving?.form.has("shared") ?? false}>
          Share with everyone who can read this trail
        </Ui.CheckBox>
        <Ui.Submit>Save the view</Ui.Submit>
      </form>
    </details>
  )
