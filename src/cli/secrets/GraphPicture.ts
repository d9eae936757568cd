/** Composition of an environment as text, Mermaid and SVG: keys and references, never a value. Pure. */

interface Graph {
  readonly nodes: ReadonlyArray<{ readonly key: string; readonly kind: string }>
  /** From the template to the key that it uses. */
  readonly edges: ReadonlyArray<{ readonly from: string; readonly to: string }>
}

const byKey = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

interface Indexed {
  readonly uses: ReadonlyMap<string, ReadonlyArray<string>>
  /** Keys with a reference in either direction. */
  readonly connected: ReadonlyArray<string>
  /** Keys that refer to others, but that no key refers to. */
  readonly tops: ReadonlyArray<string>
}

const index = ({ edges }: Graph): Indexed => {
  const uses = new Map<string, Array<string>>()
  for (const { from, to } of edges) uses.set(from, [...(uses.get(from) ?? []), to])
  for (const list of uses.values()) list.sort(byKey)
  const used = new Set(edges.map(({ to }) => to))
  return {
    uses,
    connected: [...new Set([...uses.keys(), ...used])].sort(byKey),
    tops: [...uses.keys()].filter((key) => !used.has(key)).sort(byKey)
  }
}

/** A tree under each key that no key refers to. A repeated subtree is shown once. */
export const text = (graph: Graph): string => {
  const { tops, uses } = index(graph)
  const lines: Array<string> = []
  const expanded = new Set<string>()
  const below = (key: string, indent: string) => {
    const children = uses.get(key) ?? []
    if (children.length > 0 && expanded.has(key)) {
      lines[lines.length - 1] += "  (see above)"
      return
    }
    expanded.add(key)
    children.forEach((child, i) => {
      const last = i === children.length - 1
      lines.push(`${indent}${last ? "└── " : "├── "}${child}`)
      below(child, `${indent}${last ? "    " : "│   "}`)
    })
  }
  for (const top of tops) {
    lines.push(top)
    below(top, "")
  }
  return lines.map((line) => `${line}\n`).join("")
}

export const mermaid = (graph: Graph): string => {
  const { connected } = index(graph)
  const id = (key: string) => `n${connected.indexOf(key)}`
  const kinds = new Map(graph.nodes.map(({ key, kind }) => [key, kind]))
  // Templates are rounded, literals are boxes.
  const shape = (key: string) => (kinds.get(key) === "template" ? `(["${key}"])` : `["${key}"]`)
  return [
    "flowchart LR",
    ...connected.map((key) => `  ${id(key)}${shape(key)}`),
    ...[...graph.edges]
      .sort((a, b) => byKey(a.from, b.from) || byKey(a.to, b.to))
      .map(({ from, to }) => `  ${id(from)} --> ${id(to)}`),
    ""
  ].join("\n")
}

const escape = (s: string): string =>
  s.replace(/[&<>"']/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[c] ?? "")

/**
 * Column of each key: the longest path from a key that no key refers to. References have no cycles
 * (docs/contract/secrets.md).
 */
const columns = ({ tops, uses }: Indexed): ReadonlyMap<string, number> => {
  const column = new Map<string, number>()
  const place = (key: string, at: number) => {
    if ((column.get(key) ?? -1) >= at || at > 50) return
    column.set(key, at)
    for (const child of uses.get(key) ?? []) place(child, at + 1)
  }
  for (const top of tops) place(top, 0)
  return column
}

export const svg = (graph: Graph): string => {
  const indexed = index(graph)
  const column = columns(indexed)
  const kinds = new Map(graph.nodes.map(({ key, kind }) => [key, kind]))
  const lanes: Array<Array<string>> = []
  for (const key of indexed.connected) {
    const at = column.get(key) ?? 0
    while (lanes.length <= at) lanes.push([])
    lanes[at]?.push(key)
  }
  const height = 28
  const [gapX, gapY, margin, letter] = [80, 16, 16, 7.7]
  const widths = lanes.map((lane) => Math.max(60, ...lane.map((key) => key.length * letter + 24)))
  const offsets = widths.map((_, i) => margin + widths.slice(0, i).reduce((sum, width) => sum + width + gapX, 0))
  const boxes = new Map(
    lanes.flatMap((lane, i) =>
      lane.map(
        (key, row) => [key, { x: offsets[i] ?? 0, y: margin + row * (height + gapY), width: widths[i] ?? 0 }] as const
      )
    )
  )
  const totalWidth = margin * 2 + widths.reduce((sum, width) => sum + width, 0) + gapX * Math.max(0, widths.length - 1)
  const totalHeight = margin * 2 + Math.max(1, ...lanes.map((lane) => lane.length)) * (height + gapY) - gapY
  const lines = graph.edges.flatMap(({ from, to }) => {
    const [a, b] = [boxes.get(from), boxes.get(to)]
    if (a === undefined || b === undefined) return []
    const [x1, y1, x2, y2] = [a.x + a.width, a.y + height / 2, b.x, b.y + height / 2]
    const middle = (x1 + x2) / 2
    return [`<path d="M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}" marker-end="url(#to)"/>`]
  })
  const nodes = [...boxes].map(([key, { width, x, y }]) => {
    const round = kinds.get(key) === "template" ? height / 2 : 4
    return `<rect x="${x}" y="${y}" width="${width}" height="${height}" rx="${round}"/><text x="${x + width / 2}" y="${y + 18}">${escape(key)}</text>`
  })
  const size = `${Math.ceil(totalWidth)} ${Math.ceil(totalHeight)}`
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${size}" width="${Math.ceil(totalWidth)}" height="${Math.ceil(totalHeight)}" role="img">`,
    "<title>Composition of the environment</title>",
    '<defs><marker id="to" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" fill="#777"/></marker></defs>',
    "<style>rect{fill:#fff;stroke:#444}path{fill:none;stroke:#777}text{font:12px ui-monospace,monospace;text-anchor:middle;fill:#111}</style>",
    ...lines,
    ...nodes,
    "</svg>",
    ""
  ].join("\n")
}
