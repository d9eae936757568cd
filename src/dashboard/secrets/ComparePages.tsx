/** Comparison of two environments by key: differences, both values at once, and copies of missing keys. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { ValidationFailed } from "#schema/Errors.ts"
import { ProjectId, type SecretId } from "#schema/Ids.ts"
import type { Project, ProjectEnvironment } from "#schema/ProjectsApi.ts"
import { DiffQuery } from "#schema/SecretRequests.ts"
import { EnvironmentSlug, SecretKey } from "#schema/Values.ts"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import { EnvironmentPills } from "#src/dashboard/frame/EnvironmentFrame.tsx"
import { asJson, reveal } from "./EnvironmentPages.tsx"
import * as Form from "#src/dashboard/frame/Form.ts"
import * as Html from "#src/dashboard/frame/Html.ts"
import * as Icons from "#src/dashboard/frame/Icons.tsx"
import { Layout } from "#src/dashboard/frame/Layout.tsx"
import { bindForms, inTeam, pageNumber, query, wantsJson } from "#src/dashboard/frame/Pages.ts"
import { Pager } from "#src/dashboard/frame/Pager.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import {
  action,
  type AtPerson,
  type Attempt,
  page,
  person,
  screen,
  to as leadTo,
  withIds,
  within
} from "#src/dashboard/frame/Routes.ts"
import { SearchField } from "#src/dashboard/frame/SearchField.tsx"
import { type RevealedValue, SecretValue } from "./Value.tsx"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"
import { may, type Visit } from "#src/dashboard/frame/Visit.ts"

const pageSize = 250

type Difference = "differs" | "only-left" | "only-right" | "equal"
interface ComparedKey {
  readonly key: string
  readonly difference: Difference
  readonly left: SecretId | undefined
  readonly right: SecretId | undefined
}

interface Comparison {
  readonly visit: Visit
  readonly project: Project
  readonly environments: ReadonlyArray<ProjectEnvironment>
  readonly from: string
  readonly to: string
  /** Undefined without a second environment. */
  readonly rows: ReadonlyArray<ComparedKey> | undefined
  readonly page: number
  /** Words of the filter. */
  readonly words: string
  /** True if the list includes equal keys. */
  readonly all: boolean
}
interface ComparisonProps extends Comparison, Partial<Attempt> {
  /** Both values of a row, for a reveal without a script. */
  readonly revealed?: { readonly from: RevealedValue | undefined; readonly to: RevealedValue | undefined }
}

const linkTo = ({ all, from, project, to, words }: Comparison, changes: Readonly<Record<string, string>> = {}) => {
  const search = { from, to, ...(words === "" ? {} : { q: words }), ...(all ? { show: "all" } : {}), ...changes }
  return `${Paths.compare(project.id)}?${new URLSearchParams(search).toString()}`
}

const DifferenceBadge = ({ difference, from, to }: Pick<Comparison, "from" | "to"> & Pick<ComparedKey, "difference">) =>
  difference === "differs" ? (
    <Ui.Badge tone="amber">differs</Ui.Badge>
  ) : difference === "only-right" ? (
    <Ui.Badge tone="ok">only in {to}</Ui.Badge>
  ) : difference === "only-left" ? (
    <Ui.Badge tone="danger">only in {from}</Ui.Badge>
  ) : (
    <Ui.Badge>equal</Ui.Badge>
  )

/** One value of a row, or a button that copies the missing key. */
const Side = ({
  row,
  props,
  side
}: {
  readonly props: ComparisonProps
  readonly row: ComparedKey
  readonly side: "from" | "to"
}) => {
  const { project, revealed, visit } = props
  const [slug, other] = side === "from" ? [props.from, props.to] : [props.to, props.from]
  const missing = (side === "from" ? row.left : row.right) === undefined
  if (missing) {
    return may(visit, "secrets:write") ? (
      <Ui.Act
        action={`${Paths.compare(project.id)}/copy?from=${props.from}&to=${props.to}`}
        fields={{ key: row.key, from: other, to: slug }}
        kind="quiet"
      >
        <Icons.Copy /> Copy here
        <span class="hidden">
          : {row.key} from {other} to {slug}
        </span>
      </Ui.Act>
    ) : (
      <span class="hint">missing</span>
    )
  }
  return may(visit, "secrets:read_values") ? (
    <SecretValue
      action={`${Paths.compare(project.id)}/reveal?from=${props.from}&to=${props.to}`}
      secretKey={row.key}
      of={slug}
      revealed={revealed?.[side]}
    />
  ) : (
    <span class="hint">exists</span>
  )
}

const Rows = (props: ComparisonProps & { readonly rows: ReadonlyArray<ComparedKey> }) => {
  const { from, page, project, rows, to } = props
  const linkOf = ({ key, left, right }: ComparedKey) => {
    const name = (
      <span class="key">
        <Ui.KeyName name={key} />
      </span>
    )
    const place = left === undefined ? { slug: to, id: right } : { slug: from, id: left }
    return place.id === undefined ? (
      name
    ) : (
      <a href={Paths.secret({ projectId: project.id, slug: place.slug }, place.id)}>{name}</a>
    )
  }
  return (
    <Ui.Table label="Differences" kind="compared" head={["Key", "Difference", from, to]}>
      {rows.slice((page - 1) * pageSize, page * pageSize).map((row) => (
        <tr data-filter-row={row.key} data-together>
          <th scope="row">{linkOf(row)}</th>
          <td>
            <DifferenceBadge difference={row.difference} from={from} to={to} />
          </td>
          <td data-label={from} data-secret>
            <Side props={props} row={row} side="from" />
          </td>
          <td data-label={to} data-secret>
            <Side props={props} row={row} side="to" />
          </td>
        </tr>
      ))}
    </Ui.Table>
  )
}

const ComparedList = (props: ComparisonProps & { readonly rows: ReadonlyArray<ComparedKey> }) => {
  const { all, from, page, project, rows, to, words } = props
  const differing = rows.filter(({ difference }) => difference !== "equal")
  const matching = (all ? rows : differing).filter(({ key }) => key.includes(words.toUpperCase()))
  const partial = matching.length > pageSize || words !== ""
  const count = `${differing.length} of ${rows.length} ${rows.length === 1 ? "key differs" : "keys differ"}`
  return (
    <>
      <form class="toolbar" method="get" action={Paths.compare(project.id)}>
        <input type="hidden" name="from" value={from} />
        <input type="hidden" name="to" value={to} />
        {all ? <input type="hidden" name="show" value="all" /> : null}
        <SearchField
          label="Filter by key"
          placeholder="Filter by key"
          value={words}
          filter={partial ? undefined : "whole"}
        />
        <button class={`button button-plain ${partial ? "" : "without-script"}`}>Filter</button>
        <span class="hint" data-filter-count data-all={count} role="status">
          {count}
        </span>
        {differing.length === rows.length ? null : (
          <a class="push" href={linkTo({ ...props, page: 1, all: !all })}>
            {all ? "Show only differences" : "Show equal keys too"}
          </a>
        )}
      </form>
      {matching.length > 0 ? (
        <Rows {...props} rows={matching} />
      ) : words !== "" ? (
        <Ui.Empty title="No key matches" />
      ) : (
        <Ui.Empty title="No differences">
          <p>Both environments have the same keys with the same values.</p>
        </Ui.Empty>
      )}
      <Pager page={page} size={pageSize} total={matching.length} link={(n) => linkTo(props, { page: String(n) })} />
    </>
  )
}

const ComparePage = (props: ComparisonProps) => {
  const { environments, from, project, rows, to, visit } = props
  const choices = environments.map(({ name, slug }) => ({
    value: slug,
    label: name === slug ? slug : `${name} (${slug})`
  }))
  return (
    <Layout
      visit={visit}
      section="projects"
      title={`Compare environments of ${project.name}`}
      inProject={{ id: project.id, name: project.name, view: "compare" }}
      lead="The server compares the values. Reveal one of a row to see both."
      crumbs={[{ href: Paths.home, label: "Projects" }]}
    >
      <EnvironmentPills environments={environments} project={project} current={from} />
      <Ui.ProblemNote problem={props.problem} />
      <form method="get" action={Paths.compare(project.id)} class="inline">
        <Ui.Select name="from" label="From" choices={choices} value={from} />
        <Ui.Select name="to" label="To" choices={choices} value={to} />
        <Ui.Submit>Compare</Ui.Submit>
      </form>
      <section class="section-small" aria-label="Differences">
        {rows === undefined ? <Ui.Empty title="Choose two environments" /> : <ComparedList {...props} rows={rows} />}
      </section>
    </Layout>
  )
}

interface AtProject extends AtPerson {
  readonly projectId: ProjectId
  readonly environments: ReadonlyArray<ProjectEnvironment>
  /** Slugs of the environments that the page compares. */
  readonly compared: { readonly from: string; readonly to: string }
}

/** The environments that the query names; as the page chooses them, where it names none. */
const comparedOf = (params: Form.Form, items: ReadonlyArray<ProjectEnvironment>) => {
  const from = params.filled("from") ?? items[0]?.slug ?? "development"
  return { from, to: params.filled("to") ?? items.find(({ slug }) => slug !== from)?.slug ?? from }
}

/** Guard for the pages of two environments. Their forms are bound to both. */
const project = within(withIds(person, Schema.Struct({ projectId: ProjectId })), ({ projectId }) =>
  Effect.gen(function* () {
    const { items } = yield* UseCases.environments.list(projectId)
    const compared = comparedOf(yield* query, items)
    const idOf = (slug: string) => items.find((one) => one.slug === slug)?.id ?? "none"
    yield* bindForms({ path: Paths.compare(projectId), id: `${idOf(compared.from)}+${idOf(compared.to)}` })
    return { environments: items, compared }
  })
)

/** Refuses an environment in a form that is neither of the page's two. */
const ofPage = Effect.fnUntraced(function* ({ compared }: Pick<AtProject, "compared">, field: string, slug: string) {
  if (slug === compared.from || slug === compared.to) return yield* Form.decode(EnvironmentSlug)(slug)
  return yield* new ValidationFailed({ field, message: "The page compares other environments. Load it again." })
})

/** All keys of both environments, sorted. The server compares values, which stay there. */
const rowsOf = Effect.fnUntraced(function* (query: DiffQuery) {
  const { added, changed, removed } = yield* UseCases.secretReads.diff(query)
  const idsOf = (environment: EnvironmentSlug) =>
    Effect.map(
      UseCases.secretReads.composition({ projectId: query.projectId, environment }),
      ({ nodes }) => new Map(nodes.map(({ id, key }) => [key, id]))
    )
  const leftIds = yield* idsOf(query.sourceEnv)
  const rightIds = yield* idsOf(query.targetEnv)
  const differences = new Map<string, Difference>([
    ...changed.map(({ key }) => [key, "differs"] as const),
    ...removed.map(({ key }) => [key, "only-left"] as const),
    ...added.map(({ key }) => [key, "only-right"] as const)
  ])
  const keys = [...new Set([...leftIds.keys(), ...rightIds.keys(), ...differences.keys()])].sort()
  return keys.map((key): ComparedKey => ({
    key,
    difference: differences.get(key) ?? "equal",
    left: leftIds.get(key),
    right: rightIds.get(key)
  }))
})

const comparison = Effect.fnUntraced(function* ({ compared: { from, to }, environments, projectId, visit }: AtProject) {
  const params = yield* query
  const project = yield* UseCases.projects.get(projectId)
  const rows =
    from === to
      ? undefined
      : yield* rowsOf(yield* Form.decode(DiffQuery)({ projectId, sourceEnv: from, targetEnv: to }))
  const result: Comparison = {
    visit: inTeam(visit, project.teamId),
    project,
    environments,
    from: yield* Form.decode(EnvironmentSlug)(from),
    to,
    rows,
    page: pageNumber(params),
    words: params.text("q").trim(),
    all: params.text("show") === "all"
  }
  return result
})

/** Returns one side to the script, which requests both in turn, and both sides to a plain form. */
const revealRow = project((at) =>
  Effect.gen(function* () {
    const form = yield* Form.read
    const read = Effect.fnUntraced(function* (slug: string) {
      const environment = yield* ofPage(at, "of", slug)
      return yield* reveal({ projectId: at.projectId, environment }, form)
    })
    if (yield* wantsJson) return asJson(yield* read(form.text("of")))
    const props = yield* comparison(at)
    const row = props.rows?.find(({ key }) => key === form.text("key"))
    const from = row?.left === undefined ? undefined : yield* read(props.from)
    const to = row?.right === undefined ? undefined : yield* read(props.to)
    return Html.page(<ComparePage {...props} revealed={{ from, to }} />)
  })
)

const CopyForm = Schema.Struct({ key: SecretKey, from: EnvironmentSlug, to: EnvironmentSlug })

/** Copies a value inside the server. */
const copy = action(project, {
  decode: (form, at) =>
    Effect.gen(function* () {
      const from = yield* ofPage(at, "from", form.text("from"))
      const to = yield* ofPage(at, "to", form.text("to"))
      return yield* Form.decode(CopyForm)({ key: form.text("key"), from, to })
    }),
  run: ({ from, key, to }, { projectId }) =>
    UseCases.secretWrites.copy({ projectId, sourceEnv: from, targetEnv: to, keys: [key] }),
  done: (_, { compared: { from, to }, projectId }) =>
    leadTo(
      `${Paths.compare(projectId)}?from=${encodeURIComponent(from)}&to=${encodeURIComponent(to)}`,
      "secret-copied"
    ),
  again: screen(comparison, ComparePage)
})

const at = "/app/projects/:projectId/compare"
export const routes = HttpRouter.empty.pipe(
  HttpRouter.get(at, page(project, screen(comparison, ComparePage))),
  HttpRouter.post(`${at}/reveal`, revealRow),
  HttpRouter.post(`${at}/copy`, copy)
)
