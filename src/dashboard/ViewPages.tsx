/** An environment seen as a whole: which secrets use which, and how it differs from another. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import { ProjectId, type SecretId } from "#schema/Ids.ts"
import { DiffQuery, type SecretCompositionGraph, type SecretDiff } from "#schema/SecretsApi.ts"
import { EnvironmentSlug } from "#schema/Values.ts"
import { Environments } from "#src/projects/Environments.ts"
import { Projects } from "#src/projects/Projects.ts"
import { Secrets } from "#src/secrets/Secrets.ts"
import { Badge, Callout, Empty, KeyName, Select, Table } from "./Components.tsx"
import * as Form from "./Form.ts"
import { layout } from "./GraphLayout.ts"
import * as Html from "./Html.ts"
import { Layout } from "./Layout.tsx"
import { type Pages, param, query } from "./Pages.ts"
import * as Paths from "./Paths.ts"
import { make as makePlace, type Place, PlacePage, PlaceTabs } from "./Place.tsx"
import { SecretValue } from "./SecretValue.tsx"
import { may, type Visit } from "./Visit.ts"

/** Beyond this a picture helps nobody; the list below it stays. */
const maxDrawn = 300
const maxLabel = 30
const height = 30
const rowGap = 44
const columnGap = 300
const width = 236
const margin = 16

const Picture = ({ graph, place }: { readonly place: Place; readonly graph: SecretCompositionGraph }) => {
  const placed = layout(graph.edges)
  const x = (column: number) => margin + column * columnGap
  const y = (row: number) => margin + row * rowGap
  const where = new Map(placed.nodes.map((node) => [node.key, node]))
  const known = new Map(graph.nodes.map((node) => [node.key, node]))
  const w = 2 * margin + (placed.columns - 1) * columnGap + width
  const h = 2 * margin + (placed.rows - 1) * rowGap + height
  return (
    <div class="graph" tabIndex={0} role="region" aria-label="Picture of the references; scrolls">
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
              href={Paths.secret(place.at, node.id)}
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

const GraphPage = ({ graph, place }: { readonly place: Place; readonly graph: SecretCompositionGraph }) => {
  const touched = new Set(graph.edges.flatMap(({ from, to }) => [from, to]))
  const templates = [...new Set(graph.edges.map(({ from }) => from))]
  const link = (key: string) => {
    const id: SecretId | undefined = graph.nodes.find((node) => node.key === key)?.id
    return id === undefined ? (
      <code>{key}</code>
    ) : (
      <a href={Paths.secret(place.at, id)}>
        <code class="key">{key}</code>
      </a>
    )
  }
  return (
    <PlacePage place={place} view="graph" title="References">
      {graph.edges.length === 0 ? (
        <Empty title="No secret uses another">
          <p>
            Write <code>{"${KEY}"}</code> in a value to use another secret of this environment.
          </p>
        </Empty>
      ) : (
        <>
          <div class="legend">
            <Badge tone="accent">template</Badge>
            <Badge>plain text</Badge>
            <span class="hint">
              Arrows lead from a template to what it uses. {graph.nodes.length - touched.size} secrets stand alone.
            </span>
          </div>
          {touched.size <= maxDrawn ? (
            <Picture place={place} graph={graph} />
          ) : (
            <Callout title="There are too many references for a picture.">The list has them all.</Callout>
          )}
          <section class="section">
            <h2>As a list</h2>
            <Table label="References as a list" head={["Template", "Uses"]}>
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
            </Table>
          </section>
        </>
      )}
    </PlacePage>
  )
}

interface Compared {
  readonly visit: Visit
  readonly project: { readonly id: ProjectId; readonly name: string }
  readonly environments: ReadonlyArray<{ readonly slug: string; readonly name: string }>
  readonly from: string
  readonly to: string
  readonly diff: SecretDiff | null
}

const ComparePage = ({ diff, environments, from, project, to, visit }: Compared) => {
  const choices = environments.map(({ name, slug }) => ({
    value: slug,
    label: name === slug ? slug : `${name} (${slug})`
  }))
  const reads = may(visit, "secrets:read_values")
  const rows =
    diff === null
      ? []
      : [
          ...diff.changed.map(({ key }) => ({ key, how: "changed" as const })),
          ...diff.removed.map(({ key }) => ({ key, how: "removed" as const })),
          ...diff.added.map(({ key }) => ({ key, how: "added" as const }))
        ].sort((a, b) => (a.key < b.key ? -1 : 1))
  const value = (slug: string, key: string, there: boolean) =>
    !there ? (
      <span class="hint">not there</span>
    ) : reads ? (
      <SecretValue action={`${Paths.environment({ projectId: project.id, slug })}/reveal`} secretKey={key} />
    ) : (
      <span class="hint">there</span>
    )
  return (
    <Layout
      visit={visit}
      section="projects"
      title={`Compare environments of ${project.name}`}
      lead="Values are compared inside the server. This page knows which keys differ, not how, until you reveal one."
      crumbs={[
        { href: Paths.home, label: "Projects" },
        { href: Paths.environment({ projectId: project.id, slug: from }), label: project.name }
      ]}
    >
      {environments.some(({ slug }) => slug === from) ? (
        <PlaceTabs at={{ projectId: project.id, slug: from }} view="compare" />
      ) : null}
      <form method="get" action={Paths.compare(project.id)} class="inline panel">
        <Select name="from" label="From" choices={choices} value={from} />
        <Select name="to" label="To" choices={choices} value={to} />
        <div class="buttons">
          <button class="button button-primary">Compare</button>
        </div>
      </form>
      <section class="section" aria-label="Differences">
        {diff === null ? (
          <Empty title="Choose two environments" />
        ) : rows.length === 0 ? (
          <Empty title="No difference">
            <p>Both have the same keys with the same values.</p>
          </Empty>
        ) : (
          <Table label="Differences" kind="compared" head={["Key", "Difference", from, to]}>
            {rows.map(({ how, key }) => (
              <tr>
                <th scope="row">
                  <span class="key">
                    <KeyName name={key} />
                  </span>
                </th>
                <td>
                  {how === "changed" ? (
                    <Badge tone="amber">differs</Badge>
                  ) : how === "added" ? (
                    <Badge tone="ok">only in {to}</Badge>
                  ) : (
                    <Badge tone="danger">only in {from}</Badge>
                  )}
                </td>
                <td data-label={from} data-secret>
                  {value(from, key, how !== "added")}
                </td>
                <td data-label={to} data-secret>
                  {value(to, key, how !== "removed")}
                </td>
              </tr>
            ))}
          </Table>
        )}
      </section>
    </Layout>
  )
}

export const routes = (pages: Pages["Type"]) =>
  Effect.gen(function* () {
    const secrets = yield* Secrets
    const projects = yield* Projects
    const environments = yield* Environments
    const placeOf = yield* makePlace(pages)

    const graph = pages.person((visit) =>
      Effect.gen(function* () {
        const place = yield* placeOf(visit)
        return Html.page(<GraphPage place={place} graph={yield* secrets.composition(place.query)} />)
      })
    )

    const compare = pages.person((visit) =>
      Effect.gen(function* () {
        const projectId = yield* param("projectId", ProjectId)
        const project = yield* projects.get(projectId)
        const { items } = yield* environments.list(projectId)
        const asked = yield* query
        const from = asked.text("from") || (items[0]?.slug ?? "")
        const to = asked.text("to")
        const both = to !== "" && from !== to
        const diff = both
          ? yield* secrets.diff(yield* Form.decode(DiffQuery)({ projectId, sourceEnv: from, targetEnv: to }))
          : null
        const valid = yield* Form.decode(EnvironmentSlug)(from === "" ? "development" : from)
        return Html.page(
          <ComparePage
            visit={pages.inTeam(visit, project.teamId)}
            project={project}
            environments={items}
            from={valid}
            to={both ? to : (items.find((one) => one.slug !== from)?.slug ?? "")}
            diff={diff}
          />
        )
      })
    )

    return HttpRouter.empty.pipe(
      HttpRouter.get("/app/projects/:projectId/env/:slug/graph", graph),
      HttpRouter.get("/app/projects/:projectId/compare", compare)
    )
  })
