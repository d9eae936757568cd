/** Keys of a project by environment, as a table for pages without a script. The island replaces it. */
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

/** Rows of one page. The island shows all rows instead. */
const pageSize = 50
/** Limit of the island, which holds all rows; a larger matrix stays a table with pages. */
const maxCells = 30_000

export interface MatrixProps extends Attempt {
  readonly visit: Visit
  readonly project: Project
  readonly environments: ReadonlyArray<ProjectEnvironment>
  readonly data: MatrixData
  readonly formats: string
  readonly page: number
  readonly words: string
  readonly show: Show
}

const linkTo = ({ data, show, words }: MatrixProps, changes: Readonly<Record<string, string>>) => {
  const members = { ...(words === "" ? {} : { q: words }), ...(show === "all" ? {} : { show }), ...changes }
  return Paths.withQuery(data.here, members)
}

const inColumn = ({ project }: MatrixProps, { slug }: MatrixColumn) =>
  Paths.environment({ projectId: project.id, slug })

const ValueCell = ({
  cell,
  column,
  row,
  matrix
}: {
  readonly matrix: MatrixProps
  readonly row: Row
  readonly column: number
  readonly cell: Cell
}) => {
  const { columns } = matrix.data
  const { name, reads, slug, writes } = columns[column]
  const [key] = row
  if (cell === 0) {
    return (
      <td class="cell-missing">
        {writes ? (
          <a href={`${inColumn(matrix, columns[column])}?panel=add&key=${key}`}>
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
      <a class="cell-link" href={Paths.key({ projectId: matrix.project.id, slug }, key)}>
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

const RowTags = ({ of, matrix, tags }: { readonly matrix: MatrixProps; readonly tags: Tags; readonly of: string }) => (
  <>
    {(tags.get(of) ?? []).map((tag) => (
      <>
        {" "}
        <a class="tag" href={Paths.withQuery(matrix.data.here, { q: `#${tag}` })}>
          {tag}
        </a>
      </>
    ))}
  </>
)

const Head = ({ matrix }: { readonly matrix: MatrixProps }) => (
  <thead>
    <tr>
      <th scope="col">Key</th>
      {matrix.data.columns.map((column, i) => (
        <th scope="col" class={column.protected ? "guarded" : undefined}>
          <span class="column-head">
            <a href={inColumn(matrix, column)}>
              <bdi>{column.name}</bdi>
            </a>
            {column.protected ? <Ui.Protected /> : null}
            <span class="hint count">{matrix.data.rows.filter((row) => row[i + 1] !== 0).length}</span>
          </span>
        </th>
      ))}
    </tr>
  </thead>
)

const Segments = ({ matrix }: { readonly matrix: MatrixProps }) => {
  const { rows } = matrix.data
  const count: Record<Show, number> = {
    all: rows.length,
    missing: rows.filter(isMissing).length,
    differs: rows.filter(differs).length
  }
  const titles: Record<Show, string> = { all: "All", missing: "Missing", differs: "Differs" }
  return (
    <nav class="segments" aria-label="Keys to show">
      {shows.map((one) => (
        <a
          href={linkTo({ ...matrix, show: one }, {})}
          aria-current={one === matrix.show ? "page" : undefined}
        >{`${titles[one]} ${count[one]}`}</a>
      ))}
    </nav>
  )
}

const Toolbar = ({ matrix }: { readonly matrix: MatrixProps }) => {
  const target = matrix.data.columns.find(({ writes }) => writes)
  return (
    <div class="toolbar">
      <form class="search" method="get" action={matrix.data.here}>
        <Icons.Search />
        <input
          type="search"
          name="q"
          value={matrix.words}
          aria-label="Filter by key or tag"
          placeholder="Filter by key or #tag"
          autocomplete="off"
          spellcheck={false}
        />
        {matrix.show === "all" ? null : <input type="hidden" name="show" value={matrix.show} />}
        <button class="hidden">Filter</button>
      </form>
      <Segments matrix={matrix} />
      {target === undefined ? null : (
        <div class="push">
          <Ui.LinkButton href={`${inColumn(matrix, target)}?panel=paste`}>Import</Ui.LinkButton>{" "}
          <Ui.AddButton href={`${inColumn(matrix, target)}?panel=add`}>Add secret</Ui.AddButton>
        </div>
      )}
    </div>
  )
}

/** Adds or removes a tag in each environment that the person may change. */
const TagFields = ({ matrix }: { readonly matrix: MatrixProps }) =>
  matrix.data.columns.some(({ waits, writes }) => writes && !waits) ? (
    <div class="inline">
      <Ui.TextField
        name="tag"
        label="Tag"
        optional
        value={matrix.form.text("tag")}
        hint="Applies in each environment that you can change. Tags are not encrypted."
        problem={matrix.problem}
      />
      <button class="button button-plain" formAction={`${matrix.data.here}/tag-keys`} name="op" value="add">
        Add tag
      </button>
      <button class="button button-plain" formAction={`${matrix.data.here}/tag-keys`} name="op" value="remove">
        Remove tag
      </button>
    </div>
  ) : null

/** Actions on the ticked rows. */
const Selected = ({ matrix }: { readonly matrix: MatrixProps }) => {
  const { columns } = matrix.data
  const writable = columns.filter(({ writes }) => writes)
  if (writable.length === 0) return null
  const choices = (of: ReadonlyArray<MatrixColumn>) => of.map(({ name, slug }) => ({ value: slug, label: name }))
  const [first] = writable
  const last = writable[writable.length - 1]
  return (
    <fieldset class="panel panel-slim section-small selected">
      <legend>Ticked keys</legend>
      {matrix.problem?.field === "tag" ? null : <Ui.ProblemNote problem={matrix.problem} />}
      <div class="inline">
        <Ui.Select
          name="from"
          label="Environment"
          choices={choices(columns)}
          value={matrix.form.filled("from") ?? first.slug}
        />
        <Ui.Select
          name="to"
          label="Copy to"
          choices={choices(writable)}
          value={matrix.form.filled("to") ?? last.slug}
        />
        <button class="button button-plain">
          <Icons.Copy /> Copy
        </button>
        <button class="button button-plain" formAction={`${matrix.data.here}/export-keys`}>
          Export
        </button>
        <button class="button button-danger-quiet" formAction={`${matrix.data.here}/delete-keys`}>
          Delete…
        </button>
      </div>
      <Ui.CheckBox name="overwrite" checked={matrix.form.has("overwrite")}>
        Replace existing keys
      </Ui.CheckBox>
      <TagFields matrix={matrix} />
    </fieldset>
  )
}

const Table = ({ matrix }: { readonly matrix: MatrixProps }) => {
  const { columns, here, rows } = matrix.data
  const tags = tagsOf(matrix.data)
  const matching = rows.filter((row) => fits(row, matrix.words, matrix.show, tags))
  const onPage = matching.slice((matrix.page - 1) * pageSize, matrix.page * pageSize)
  const ticked = new Set(matrix.form.all("key"))
  const ticks = columns.some(({ writes }) => writes)
  if (matching.length === 0) return <Ui.Empty title="No key matches" />
  return (
    <form method="post" action={`${here}/copy-keys`}>
      <div class="matrix-scroll" tabIndex={0} role="region" aria-label="Keys by environment">
        <table class="matrix">
          <caption class="hidden">Keys by environment</caption>
          <Head matrix={matrix} />
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
                    <RowTags matrix={matrix} tags={tags} of={line.row[0]} />
                  </th>
                  {cellsOf(line.row).map((cell, i) => (
                    <ValueCell matrix={matrix} row={line.row} column={i} cell={cell} />
                  ))}
                </tr>
              )
            )}
          </tbody>
        </table>
      </div>
      <Pager
        page={matrix.page}
        size={pageSize}
        total={matching.length}
        link={(n) => linkTo(matrix, { page: String(n) })}
      />
      <Selected matrix={matrix} />
    </form>
  )
}

const Steps = ({ matrix: { data } }: { readonly matrix: MatrixProps }) =>
  data.steps === undefined ? null : <FirstSteps of={data.steps} />

const NoKeys = ({ matrix }: { readonly matrix: MatrixProps }) => {
  const target = matrix.data.columns.find(({ writes }) => writes)
  if (target === undefined) return <Ui.Empty title="No secrets yet" />
  return (
    <Ui.Empty title="No secrets yet">
      <p>
        <span class="needs-script">Drop your .env file here, or paste its text anywhere on this page.</span>{" "}
        <span class="without-script">Import your .env file, or add secrets one by one.</span>
      </p>
      <div class="buttons">
        <Ui.LinkButton href={`${inColumn(matrix, target)}?panel=paste`}>Import a file</Ui.LinkButton>
        <Ui.AddButton href={`${inColumn(matrix, target)}?panel=add`}>Add secret</Ui.AddButton>
      </div>
    </Ui.Empty>
  )
}

const Content = ({ matrix }: { readonly matrix: MatrixProps }) =>
  matrix.data.rows.length === 0 ? (
    <>
      <NoKeys matrix={matrix} />
      <Steps matrix={matrix} />
    </>
  ) : (
    <>
      <Steps matrix={matrix} />
      <Toolbar matrix={matrix} />
      <Table matrix={matrix} />
    </>
  )

export const MatrixPage = (matrix: MatrixProps) => {
  const { data, environments, formats, project, visit } = matrix
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
          Values are not compared now, because there were many comparisons in the last minute or a secret was just
          saved.
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
          data-matrix={fitsScript && matrix.problem === undefined ? JSON.stringify(data) : undefined}
          data-formats={formats}
        >
          <Content matrix={matrix} />
        </div>
      )}
    </Layout>
  )
}

/** Confirmation before keys of one environment are deleted. */
export const DeletePage = ({
  column,
  keys,
  problem,
  matrix
}: Attempt & {
  readonly matrix: MatrixProps
  readonly column: MatrixColumn
  readonly keys: ReadonlyArray<readonly [key: string, version: number]>
}) => (
  <Layout
    visit={matrix.visit}
    section="projects"
    title={`Delete ${keys.length === 1 ? "a secret" : `${keys.length} secrets`}`}
    crumbs={[
      { href: Paths.home, label: "Projects" },
      { href: matrix.data.here, label: matrix.project.name }
    ]}
  >
    <form method="post" action={`${matrix.data.here}/delete-keys/confirmed`} class="panel narrow stack">
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
        <Ui.LinkButton href={matrix.data.here}>Cancel</Ui.LinkButton>
      </div>
    </form>
  </Layout>
)
