/** Graph of the references between the secrets of an environment. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import type { SecretId } from "#schema/Ids.ts"
import type { SecretCompositionGraph } from "#schema/SecretResponses.ts"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import {
  type AtEnvironment,
  environment,
  EnvironmentFrame,
  type Location
} from "#src/dashboard/frame/EnvironmentFrame.tsx"
import { around, collapsed, layout } from "./GraphLayout.ts"
import { query } from "#src/dashboard/frame/Pages.ts"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { page, screen } from "#src/dashboard/frame/Routes.ts"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"

/** Nodes of a readable graph; the list below shows all references. */
const maxDrawn = 300
const maxLabel = 30
const height = 30
const rowGap = 44
const columnGap = 300
const width = 236
const margin = 16

const Picture = ({ graph, location }: { readonly location: Location; readonly graph: SecretCompositionGraph }) => {
  const { edges, nodes } = collapsed(graph.edges)
  const plan = layout(edges)
  const x = (column: number) => margin + column * columnGap
  const y = (row: number) => margin + row * rowGap
  const where = new Map(plan.nodes.map((node) => [node.key, node]))
  const nodeOf = new Map(graph.nodes.map((node) => [node.key, node]))
  const w = 2 * margin + (plan.columns - 1) * columnGap + width
  const h = 2 * margin + (plan.rows - 1) * rowGap + height
  return (
    <div class="graph" tabIndex={0} role="region" aria-label="Graph of the references, scrollable">
      <svg
        width={w}
        height={h}
        viewBox={`0 0 ${w} ${h}`}
        aria-label="Templates on the left, the secrets that they use on the right"
        role="group"
      >
        <defs>
          <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
            <path class="graph-arrow" d="M0 0 8 4 0 8Z" />
          </marker>
        </defs>
        {edges.map(({ from, to }) => {
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
        {plan.nodes.map(({ column, key, row }) => {
          const node = nodeOf.get(key)
          if (node === undefined) return null
          const more = (nodes.get(key)?.length ?? 1) - 1
          const label = more === 0 ? key : `${more + 1}: ${key}, …`
          return (
            <a
              class={node.kind === "template" ? "graph-node graph-template" : "graph-node"}
              href={more === 0 ? Paths.secret(location.path, node.id) : "#list"}
              aria-label={
                more === 0
                  ? `${key}, ${node.kind === "template" ? "template" : "plain text"}`
                  : `${label} Secrets with the same references`
              }
            >
              <title>{nodes.get(key)?.slice(0, 20).join(", ") ?? key}</title>
              <rect x={x(column)} y={y(row)} width={width} height={height} rx="6" />
              <text x={x(column) + 10} y={y(row) + height / 2 + 4}>
                {label.length > maxLabel ? `${label.slice(0, maxLabel - 1)}…` : label}
              </text>
            </a>
          )
        })}
      </svg>
    </div>
  )
}

/** Choice of the key that the graph starts from. */
const Start = ({
  from,
  graph,
  here
}: {
  readonly from: string
  readonly graph: SecretCompositionGraph
  readonly here: string
}) => {
  const keys = [...new Set(graph.edges.flatMap(({ from, to }) => [from, to]))].sort()
  return (
    <form method="get" action={here} class="inline section-small">
      <Ui.Select
        name="from"
        label="Start from"
        choices={[{ value: "", label: "All" }, ...keys.map((key) => ({ value: key, label: key }))]}
        value={from}
      />
      <button class="button button-plain">Show</button>
    </form>
  )
}

interface GraphProps {
  readonly location: Location
  /** All references of the environment. */
  readonly whole: SecretCompositionGraph
  /** Key that the graph starts from; empty for the whole graph. */
  readonly from: string
}

const GraphPage = ({ from, location, whole }: GraphProps) => {
  const graph = from === "" ? whole : { ...whole, edges: around(whole.edges, from) }
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
          <Start from={from} graph={whole} here={`${Paths.environment(location.path)}/graph`} />
          <div class="legend">
            <Ui.Badge tone="accent">template</Ui.Badge>
            <Ui.Badge>plain text</Ui.Badge>
            <span class="hint">
              Arrows lead from a template to the secrets that it uses.{" "}
              {from === "" ? `${graph.nodes.length - touched.size} other secrets have no references.` : null}
            </span>
          </div>
          {collapsed(graph.edges).nodes.size <= maxDrawn ? (
            <Picture location={location} graph={graph} />
          ) : (
            <Ui.Callout title="There are too many references for a graph.">
              The list below shows all of them.
            </Ui.Callout>
          )}
          <section class="section">
            <h2 id="list">As a list</h2>
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
  ({ location }: AtEnvironment) =>
    Effect.gen(function* () {
      const whole = yield* UseCases.secretReads.composition(location.query)
      const key = (yield* query).text("from")
      return { whole, from: whole.edges.some(({ from, to }) => from === key || to === key) ? key : "" }
    }),
  GraphPage
)

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get("/app/projects/:projectId/env/:slug/graph", page(environment, references))
)
