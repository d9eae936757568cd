/** The keys of a project by environment, as a table that works without script; with script it takes its place. */
import * as Ui from "#src/dashboard/frame/Components.tsx"
import { EnvironmentPills } from "#src/dashboard/frame/EnvironmentFrame.tsx"
import { FirstSteps } from "./FirstSteps.tsx"
import * as Icons from "#src/dashboard/frame/Icons.tsx"
import { Layout } from "#src/dashboard/frame/Layout.tsx"
import type { Project, ProjectEnvironment } from "#schema/ProjectsApi.ts"
import {
  type Cell,
  cellsOf,
  differs,
  fits,
  isMissing,
  linesOf,
  type MatrixColumn,
  type MatrixData,
  markOf,
  type Row,
  type Show,
  shows,
  type Tags,
  tagsOf
} from "./Matrix.ts"
import { Pager } from "#src/dashboard/frame/Pager.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import type { Attempt } from "#src/dashboard/frame/Routes.ts"
import type { Visit } from "#src/dashboard/frame/Visit.ts"

/** With script all rows are there at once: these are drawn first, and stay without it. */
const pageSize = 50
/** More is shown page by page alone: the script holds all rows. */
const maxCells = 30_000

export interface MatrixShown extends Attempt {
  readonly visit: Visit
  readonly project: Project
  readonly environments: ReadonlyArray<ProjectEnvironment>
  readonly data: MatrixData
  readonly formats: string
  readonly page: number
  readonly words: string
  readonly show: Show
}

const linkTo = ({ data, show, words }: MatrixShown, changes: Readonly<Record<string, string>>) => {
  const members = { ...(words === "" ? {} : { q: words }), ...(show === "all" ? {} : { show }), ...changes }
  return Paths.withQuery(data.here, members)
}

const inColumn = ({ project }: MatrixShown, { slug }: MatrixColumn) =>
  Paths.environment({ projectId: project.id, slug })

const ValueCell = ({
  cell,
  column,
  row,
  shown
}: {
  readonly shown: MatrixShown
  readonly row: Row
  readonly column: number
  readonly cell: Cell
}) => {
  const { columns } = shown.data
  const { name, reads, slug, writes } = columns[column]
  const [key] = row
  if (cell === 0) {
    return (
      <td class="cell-missing">
        {writes ? (
          <a href={`${inColumn(shown, columns[column])}?panel=add&key=${key}`}>
            + Add<span class="hidden"> {`${key} to ${name}`}</span>
          </a>
        ) : (
          "missing"
        )}
      </td>
    )
  }
  const mark = markOf(row, column)
  return (
    <td>
      <a class="cell-link" href={Paths.key({ projectId: shown.project.id, slug }, key)}>
        {reads ? <span class="value-mask">••••••••</span> : <Icons.Lock />}
        <span class="hidden">{`${key} in ${name}${reads ? "" : ", not readable"}`}</span>
      </a>
      {cell[1] === 1 ? (
        <span class="mark mark-template" title="Uses other secrets">
          {"${ }"}
        </span>
      ) : null}
      {mark === undefined ? null : (
        <span class={`mark ${mark.sign === "=" ? "" : "mark-differs"}`}>
          <span aria-hidden="true">
            {mark.sign}
            {mark.letter}
          </span>
          <span class="hidden">
            {mark.sign === "=" ? ` equal to ${mark.like.map((i) => columns[i].name).join(", ")}` : " differs"}
          </span>
        </span>
      )}
    </td>
  )
}

const RowTags = ({ of, shown, tags }: { readonly shown: MatrixShown; readonly tags: Tags; readonly of: string }) => (
  <>
    {(tags.get(of) ?? []).map((tag) => (
      <>
        {" "}
        <a class="tag" href={Paths.withQuery(shown.data.here, { q: `#${tag}` })}>
          {tag}
        </a>
      </>
    ))}
  </>
)

const Head = ({ shown }: { readonly shown: MatrixShown }) => (
  <thead>
    <tr>
      <th scope="col">Key</th>
      {shown.data.columns.map((column, i) => (
        <th scope="col" class={column.protected ? "guarded" : undefined}>
          <span class="column-head">
            <a href={inColumn(shown, column)}>
              <bdi>{column.name}</bdi>
            </a>
            {column.protected ? <Ui.Protected /> : null}
            <span class="hint count">{shown.data.rows.filter((row) => row[i + 1] !== 0).length}</span>
          </span>
        </th>
      ))}
    </tr>
  </thead>
)

const Segments = ({ shown }: { readonly shown: MatrixShown }) => {
  const { rows } = shown.data
  const count: Record<Show, number> = {
    all: rows.length,
    missing: rows.filter(isMissing).length,
    differs: rows.filter(differs).length
  }
  const titles: Record<Show, string> = { all: "All", missing: "Missing", differs: "Differs" }
  return (
    <nav class="segments" aria-label="Which keys">
      {shows.map((one) => (
        <a
          href={linkTo({ ...shown, show: one }, {})}
          aria-current={one === shown.show ? "page" : undefined}
        >{`${titles[one]} ${count[one]}`}</a>
      ))}
    </nav>
  )
}

const Toolbar = ({ shown }: { readonly shown: MatrixShown }) => {
  const target = shown.data.columns.find(({ writes }) => writes)
  return (
    <div class="toolbar">
      <form class="search" method="get" action={shown.data.here}>
        <Icons.Search />
        <input
          type="search"
          name="q"
          value={shown.words}
          aria-label="Filter by key or tag"
          placeholder="Filter by key or #tag"
          autocomplete="off"
          spellcheck={false}
        />
        {shown.show === "all" ? null : <input type="hidden" name="show" value={shown.show} />}
        <button class="hidden">Filter</button>
      </form>
      <Segments shown={shown} />
      {target === undefined ? null : (
        <div class="push">
          <Ui.LinkButton href={`${inColumn(shown, target)}?panel=paste`}>Import</Ui.LinkButton>{" "}
          <Ui.AddButton href={`${inColumn(shown, target)}?panel=add`}>Add secret</Ui.AddButton>
        </div>
      )}
    </div>
  )
}

/** A tag goes to a key in each environment that the person may change. */
const TagFields = ({ shown }: { readonly shown: MatrixShown }) =>
  shown.data.columns.some(({ waits, writes }) => writes && !waits) ? (
    <div class="inline">
      <Ui.TextField
        name="tag"
        label="Tag"
        optional
        value={shown.form.text("tag")}
        hint="In each environment that you may change. Tags are not encrypted."
        problem={shown.problem}
      />
      <button class="button button-plain" formAction={`${shown.data.here}/tag-keys`} name="op" value="add">
        Add the tag
      </button>
      <button class="button button-plain" formAction={`${shown.data.here}/tag-keys`} name="op" value="remove">
        Take it away
      </button>
    </div>
  ) : null

/** What happens to the rows that are ticked. */
const Selected = ({ shown }: { readonly shown: MatrixShown }) => {
  const { columns } = shown.data
  const writable = columns.filter(({ writes }) => writes)
  if (writable.length === 0) return null
  const choices = (of: ReadonlyArray<MatrixColumn>) => of.map(({ name, slug }) => ({ value: slug, label: name }))
  const [first] = writable
  const last = writable[writable.length - 1]
  return (
    <fieldset class="panel panel-slim section-small selected">
      <legend>Ticked keys</legend>
      {shown.problem?.field === "tag" ? null : <Ui.ProblemNote problem={shown.problem} />}
      <div class="inline">
        <Ui.Select
          name="from"
          label="Environment"
          choices={choices(columns)}
          value={shown.form.filled("from") ?? first.slug}
        />
        <Ui.Select name="to" label="Copy to" choices={choices(writable)} value={shown.form.filled("to") ?? last.slug} />
        <button class="button button-plain">
          <Icons.Copy /> Copy
        </button>
        <button class="button button-plain" formAction={`${shown.data.here}/export-keys`}>
          Export
        </button>
        <button class="button button-danger-quiet" formAction={`${shown.data.here}/delete-keys`}>
          Delete…
        </button>
      </div>
      <Ui.CheckBox name="overwrite" checked={shown.form.has("overwrite")}>
        Replace keys that are there already
      </Ui.CheckBox>
      <TagFields shown={shown} />
    </fieldset>
  )
}

const Table = ({ shown }: { readonly shown: MatrixShown }) => {
  const { columns, here, rows } = shown.data
  const tags = tagsOf(shown.data)
  const matching = rows.filter((row) => fits(row, shown.words, shown.show, tags))
  const onPage = matching.slice((shown.page - 1) * pageSize, shown.page * pageSize)
  const ticked = new Set(shown.form.all("key"))
  const ticks = columns.some(({ writes }) => writes)
  if (matching.length === 0) return <Ui.Empty title="No key matches" />
  return (
    <form method="post" action={`${here}/copy-keys`}>
      <div class="matrix-scroll" tabIndex={0} role="region" aria-label="Keys by environment">
        <table class="matrix">
          <caption class="hidden">Keys by environment</caption>
          <Head shown={shown} />
          <tbody>
            {linesOf(onPage).map((line) =>
              "group" in line ? (
                <tr class="key-group">
                  <th scope="rowgroup" colSpan={columns.length + 1}>
                    {line.group} <span class="hint">{line.count}</span>
                  </th>
                </tr>
              ) : (
                <tr>
                  <th scope="row">
                    {ticks ? (
                      <label class="tick">
                        <input type="checkbox" name="key" value={line.row[0]} checked={ticked.has(line.row[0])} />
                        <span class="key">{line.row[0]}</span>
                      </label>
                    ) : (
                      <span class="key">{line.row[0]}</span>
                    )}
                    <RowTags shown={shown} tags={tags} of={line.row[0]} />
                  </th>
                  {cellsOf(line.row).map((cell, i) => (
                    <ValueCell shown={shown} row={line.row} column={i} cell={cell} />
                  ))}
                </tr>
              )
            )}
          </tbody>
        </table>
      </div>
      <Pager
        page={shown.page}
        size={pageSize}
        total={matching.length}
        link={(n) => linkTo(shown, { page: String(n) })}
      />
      <Selected shown={shown} />
    </form>
  )
}

const Steps = ({ shown: { data } }: { readonly shown: MatrixShown }) =>
  data.steps === undefined ? null : <FirstSteps of={data.steps} />

const NoKeys = ({ shown }: { readonly shown: MatrixShown }) => {
  const target = shown.data.columns.find(({ writes }) => writes)
  if (target === undefined) return <Ui.Empty title="No secrets yet" />
  return (
    <Ui.Empty title="No secrets yet">
      <p>
        <span class="needs-script">Drop your .env here, or paste its text anywhere on this page.</span>{" "}
        <span class="without-script">Import the .env file that you have, or add secrets one by one.</span>
      </p>
      <div class="buttons">
        <Ui.LinkButton href={`${inColumn(shown, target)}?panel=paste`}>Import a file</Ui.LinkButton>
        <Ui.AddButton href={`${inColumn(shown, target)}?panel=add`}>Add secret</Ui.AddButton>
      </div>
    </Ui.Empty>
  )
}

const Content = ({ shown }: { readonly shown: MatrixShown }) =>
  shown.data.rows.length === 0 ? (
    <>
      <NoKeys shown={shown} />
      <Steps shown={shown} />
    </>
  ) : (
    <>
      <Steps shown={shown} />
      <Toolbar shown={shown} />
      <Table shown={shown} />
    </>
  )

export const MatrixPage = (shown: MatrixShown) => {
  const { data, environments, formats, project, visit } = shown
  const fitsScript = data.rows.length * data.columns.length <= maxCells
  return (
    <Layout
      visit={visit}
      section="projects"
      title={project.name}
      heading={<bdi>{project.name}</bdi>}
      inProject={{ id: project.id, name: project.name, view: "secrets" }}
      crumbs={[{ href: Paths.home, label: "Projects" }]}
      wide
    >
      <EnvironmentPills environments={environments} project={project} />
      {data.columns.length > 1 && data.rows.length > 0 && !data.compared ? (
        <p class="hint">
          Values are not compared right now: there were many comparisons in the last minute, or a secret was just saved.
        </p>
      ) : null}
      {data.columns.length === 0 ? (
        <Ui.Empty title="No environments">
          <p>
            <a href={Paths.projectSettings(project.id)}>Add one in the settings of the project.</a>
          </p>
        </Ui.Empty>
      ) : (
        <div
          id="matrix"
          data-matrix={fitsScript && shown.problem === undefined ? JSON.stringify(data) : undefined}
          data-formats={formats}
        >
          <Content shown={shown} />
        </div>
      )}
    </Layout>
  )
}

/** The last question before keys of one environment are deleted. */
export const DeletePage = ({
  column,
  keys,
  problem,
  shown
}: Attempt & {
  readonly shown: MatrixShown
  readonly column: MatrixColumn
  readonly keys: ReadonlyArray<readonly [key: string, version: number]>
}) => (
  <Layout
    visit={shown.visit}
    section="projects"
    title={`Delete ${keys.length === 1 ? "a secret" : `${keys.length} secrets`}`}
    crumbs={[
      { href: Paths.home, label: "Projects" },
      { href: shown.data.here, label: shown.project.name }
    ]}
  >
    <form method="post" action={`${shown.data.here}/delete-keys/confirmed`} class="panel narrow stack">
      <p>
        These are deleted from <bdi>{column.name}</bdi>. You can restore them for 30 days.
      </p>
      <Ui.ProblemNote problem={problem?.field === "confirm" ? undefined : problem} />
      <Ui.Keys of={keys.map(([key]) => key)} />
      <input type="hidden" name="from" value={column.slug} />
      {keys.map(([key, version]) => (
        <>
          <input type="hidden" name="key" value={key} />
          <input type="hidden" name="version" value={version} />
        </>
      ))}
      {column.protected ? <Ui.Repeat name={column.slug} problem={problem} /> : null}
      <div class="buttons">
        <button class="button button-danger">Delete</button>
        <Ui.LinkButton href={shown.data.here}>Cancel</Ui.LinkButton>
      </div>
    </form>
  </Layout>
)
