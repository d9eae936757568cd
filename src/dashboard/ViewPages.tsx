/** An environment as a whole: which secrets use which, and how it differs from another environment. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { ProjectId, type SecretId } from "#schema/Ids.ts"
import { DiffQuery } from "#schema/SecretRequests.ts"
import type { SecretCompositionGraph, SecretDiff } from "#schema/SecretResponses.ts"
import { EnvironmentSlug } from "#schema/Values.ts"
import * as Ui from "./Components.tsx"
import {
  type AtEnvironment,
  environment,
  EnvironmentFrame,
  EnvironmentTabs,
  type Location
} from "./EnvironmentFrame.tsx"
import * as Form from "./Form.ts"
import { layout } from "./GraphLayout.ts"
import { Layout } from "./Layout.tsx"
import { inTeam, query } from "./Pages.ts"
import * as Paths from "./Paths.ts"
import { type AtPerson, page, person, screen, withIds } from "./Routes.ts"
import { SecretValue } from "./SecretValue.tsx"
import * as UseCases from "./UseCases.ts"
import { may, type Visit } from "./Visit.ts"

interface Comparison {
  readonly visit: Visit
  readonly project: { readonly id: ProjectId; readonly name: string }
  readonly environments: ReadonlyArray<{ readonly slug: string; readonly name: string }>
  readonly from: string
  readonly to: string
  readonly diff: SecretDiff | null
}

type Difference = "changed" | "removed" | "added"
const rowsOf = (diff: SecretDiff) =>
  [
    ...diff.changed.map(({ key }) => ({ key, difference: "changed" as const })),
    ...diff.removed.map(({ key }) => ({ key, difference: "removed" as const })),
    ...diff.added.map(({ key }) => ({ key, difference: "added" as const }))
  ].sort((a, b) => (a.key < b.key ? -1 : 1))

const DifferenceBadge = ({
  difference,
  from,
  to
}: { readonly difference: Difference } & Pick<Comparison, "from" | "to">) =>
  difference === "changed" ? (
    <Ui.Badge tone="amber">differs</Ui.Badge>
  ) : difference === "added" ? (
    <Ui.Badge tone="ok">only in {to}</Ui.Badge>
  ) : (
    <Ui.Badge tone="danger">only in {from}</Ui.Badge>
  )

const DifferenceTable = ({ diff, from, project, to, visit }: Comparison & { readonly diff: SecretDiff }) => {
  const value = (slug: string, key: string, exists: boolean) =>
    !exists ? (
      <span class="hint">missing</span>
    ) : may(visit, "secrets:read_values") ? (
      <SecretValue action={`${Paths.environment({ projectId: project.id, slug })}/reveal`} secretKey={key} />
    ) : (
      <span class="hint">exists</span>
    )
  return (
    <Ui.Table label="Differences" kind="compared" head={["Key", "Difference", from, to]}>
      {rowsOf(diff).map(({ difference, key }) => (
        <tr>
          <th scope="row">
            <span class="key">
              <Ui.KeyName name={key} />
            </span>
          </th>
          <td>
            <DifferenceBadge difference={difference} from={from} to={to} />
          </td>
          <td data-label={from} data-secret>
            {value(from, key, difference !== "added")}
          </td>
          <td data-label={to} data-secret>
            {value(to, key, difference !== "removed")}
          </td>
        </tr>
      ))}
    </Ui.Table>
  )
}

const ComparePage = (comparison: Comparison) => {
  const { diff, environments, from, project, to, visit } = comparison
  const choices = environments.map(({ name, slug }) => ({
    value: slug,
    label: name === slug ? slug : `${name} (${slug})`
  }))
  return (
    <Layout
      visit={visit}
      section="projects"
      title={`Compare environments of ${project.name}`}
      lead="The server compares the values. This page shows which keys differ; to see how, reveal a value."
      crumbs={[
        { href: Paths.home, label: "Projects" },
        { href: Paths.environment({ projectId: project.id, slug: from }), label: project.name }
      ]}
    >
      {environments.some(({ slug }) => slug === from) ? (
        <EnvironmentTabs path={{ projectId: project.id, slug: from }} view="compare" />
      ) : null}
      <form method="get" action={Paths.compare(project.id)} class="inline panel">
        <Ui.Select name="from" label="From" choices={choices} value={from} />
        <Ui.Select name="to" label="To" choices={choices} value={to} />
        <Ui.Submit>Compare</Ui.Submit>
      </form>
      <section class="section" aria-label="Differences">
        {diff === null ? (
          <Ui.Empty title="Choose two environments and compare them" />
        ) : rowsOf(diff).length === 0 ? (
          <Ui.Empty title="No differences">
            <p>Both environments have the same keys with the same values.</p>
          </Ui.Empty>
        ) : (
          <DifferenceTable {...comparison} diff={diff} />
        )}
      </section>
    </Layout>
  )
}

/** A picture of more secrets is too large to read; the list below it shows them all. */
const maxDrawn = 300
const maxLabel = 30
const height = 30
const rowGap = 44
const columnGap = 300
const width = 236
const margin = 16

const Picture = ({ graph, location }: { readonly location: Location; readonly graph: SecretCompositionGraph }) => {
  const placed = layout(graph.edges)
  const x = (column: number) => margin + column * columnGap
  const y = (row: number) => margin + row * rowGap
  const where = new Map(placed.nodes.map((node) => [node.key, node]))
  const known = new Map(graph.nodes.map((node) => [node.key, node]))
  const w = 2 * margin + (placed.columns - 1) * columnGap + width
  const h = 2 * margin + (placed.rows - 1) * rowGap + height
  return (
    <div class="graph" tabIndex={0} role="region" aria-label="Picture of the references, scrollable">
      <svg
        width={w}
        height={h}
        viewBox={`0 0 ${w} ${h}`}
        aria-label="Templates on the left, what they use on the right"
        role="group"
      >
        <defs>
          <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
            <path class="graph-arrow" d="M0 0 8 4 0 8Z" />
          </marker>
        </defs>
        {graph.edges.map(({ from, to }) => {
          const a = where.get(from)
          const b = where.get(to)
          if (a === undefined || b === undefined) return null
          const [x1, y1] = [x(a.column) + width, y(a.row) + height / 2]
          const [x2, y2] = [x(b.column) - 2, y(b.row) + height / 2]
          const bend = Math.max(30, (x2 - x1) / 2)
          return (
            <path
              class="graph-edge"
              d={`M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`}
              marker-end="url(#arrow)"
            />
          )
        })}
        {placed.nodes.map(({ column, key, row }) => {
          const node = known.get(key)
          if (node === undefined) return null
          return (
            <a
              class={node.kind === "template" ? "graph-node graph-template" : "graph-node"}
              href={Paths.secret(location.path, node.id)}
              aria-label={`${key}, ${node.kind === "template" ? "template" : "plain text"}`}
            >
              <title>{key}</title>
              <rect x={x(column)} y={y(row)} width={width} height={height} rx="6" />
              <text x={x(column) + 10} y={y(row) + height / 2 + 4}>
                {key.length > maxLabel ? `${key.slice(0, maxLabel - 1)}…` : key}
              </text>
            </a>
          )
        })}
      </svg>
    </div>
  )
}

const GraphPage = ({ graph, location }: { readonly location: Location; readonly graph: SecretCompositionGraph }) => {
  const touched = new Set(graph.edges.flatMap(({ from, to }) => [from, to]))
  const templates = [...new Set(graph.edges.map(({ from }) => from))]
  const link = (key: string) => {
    const id: SecretId | undefined = graph.nodes.find((node) => node.key === key)?.id
    return id === undefined ? (
      <code>{key}</code>
    ) : (
      <a href={Paths.secret(location.path, id)}>
        <code class="key">{key}</code>
      </a>
    )
  }
  return (
    <EnvironmentFrame location={location} view="graph" title="References">
      {graph.edges.length === 0 ? (
        <Ui.Empty title="No secret uses another">
          <p>
            Write <code>{"${KEY}"}</code> in a value to use another secret of this environment.
          </p>
        </Ui.Empty>
      ) : (
        <>
          <div class="legend">
            <Ui.Badge tone="accent">template</Ui.Badge>
            <Ui.Badge>plain text</Ui.Badge>
            <span class="hint">
              Arrows lead from a template to what it uses. {graph.nodes.length - touched.size} other secrets have no
              references.
            </span>
          </div>
          {touched.size <= maxDrawn ? (
            <Picture location={location} graph={graph} />
          ) : (
            <Ui.Callout title="There are too many references for a picture.">
              The list below shows all of them.
            </Ui.Callout>
          )}
          <section class="section">
            <h2>As a list</h2>
            <Ui.Table label="References as a list" head={["Template", "Uses"]}>
              {templates.map((from) => (
                <tr>
                  <th scope="row">{link(from)}</th>
                  <td data-label="Uses">
                    <ul class="keys">
                      {graph.edges
                        .filter((edge) => edge.from === from)
                        .map(({ to }) => (
                          <li>{link(to)}</li>
                        ))}
                    </ul>
                  </td>
                </tr>
              ))}
            </Ui.Table>
          </section>
        </>
      )}
    </EnvironmentFrame>
  )
}

const references = screen(
  ({ location }: AtEnvironment) => Effect.map(UseCases.secretReads.composition(location.query), (graph) => ({ graph })),
  GraphPage
)

interface AtProject extends AtPerson {
  readonly projectId: ProjectId
}
const project = withIds(person, Schema.Struct({ projectId: ProjectId }))

const comparison = Effect.fnUntraced(function* ({ projectId, visit }: AtProject) {
  const project = yield* UseCases.projects.get(projectId)
  const { items } = yield* UseCases.environments.list(projectId)
  const params = yield* query
  const from = params.text("from") || (items[0]?.slug ?? "")
  const to = params.text("to")
  const both = to !== "" && from !== to
  const diff = both
    ? yield* UseCases.secretReads.diff(yield* Form.decode(DiffQuery)({ projectId, sourceEnv: from, targetEnv: to }))
    : null
  return {
    visit: inTeam(visit, project.teamId),
    project,
    environments: items,
    from: yield* Form.decode(EnvironmentSlug)(from === "" ? "development" : from),
    to: both ? to : (items.find((one) => one.slug !== from)?.slug ?? ""),
    diff
  }
})

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get("/app/projects/:projectId/env/:slug/graph", page(environment, references)),
  HttpRouter.get("/app/projects/:projectId/compare", page(project, screen(comparison, ComparePage)))
)
