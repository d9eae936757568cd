/**
 * Where the nodes of a composition graph stand: in columns by depth, templates left of what they use, with few
 * crossings.
 */

interface Edge {
  readonly from: string
  readonly to: string
}
interface Placed {
  readonly key: string
  readonly column: number
  readonly row: number
}
export interface Layout {
  readonly nodes: ReadonlyArray<Placed>
  readonly columns: number
  readonly rows: number
}

/** So many alike are one node: a hub of hundreds would push everything else out of sight. */
const alike = 6

/**
 * Keys that use the same and are used by the same, many of them, as one: its first key stands for all. Returns what each
 * node stands for, too.
 */
export const collapsed = (edges: ReadonlyArray<Edge>) => {
  const around = new Map<string, { readonly uses: Array<string>; readonly usedBy: Array<string> }>()
  const at = (key: string) => {
    const found = around.get(key) ?? { uses: [], usedBy: [] }
    around.set(key, found)
    return found
  }
  for (const { from, to } of edges) {
    at(from).uses.push(to)
    at(to).usedBy.push(from)
  }
  const groups = new Map<string, Array<string>>()
  for (const [key, { usedBy, uses }] of [...around].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const place = `${[...uses].sort().join()} ${[...usedBy].sort().join()}`
    groups.set(place, [...(groups.get(place) ?? []), key])
  }
  const nodes = new Map<string, ReadonlyArray<string>>()
  for (const keys of groups.values()) {
    if (keys.length < alike) for (const key of keys) nodes.set(key, [key])
    else nodes.set(keys[0], keys)
  }
  return { nodes, edges: edges.filter(({ from, to }) => nodes.has(from) && nodes.has(to)) }
}

/** The references around one key: all that it builds on, and all that builds on it. */
export const around = (edges: ReadonlyArray<Edge>, key: string): ReadonlyArray<Edge> => {
  const reached = (next: (edge: Edge, at: string) => string | undefined) => {
    const found = new Set([key])
    for (const at of found) {
      for (const edge of edges) {
        const other = next(edge, at)
        if (other !== undefined) found.add(other)
      }
    }
    return found
  }
  const below = reached(({ from, to }, at) => (from === at ? to : undefined))
  const above = reached(({ from, to }, at) => (to === at ? from : undefined))
  return edges.filter(({ from, to }) => (below.has(from) && below.has(to)) || (above.has(from) && above.has(to)))
}

/** Longest path from a key to one that uses nothing. Stored graphs have no cycle; a cycle would end, too. */
const depths = (keys: ReadonlyArray<string>, uses: ReadonlyMap<string, ReadonlyArray<string>>) => {
  const found = new Map<string, number>()
  const depthOf = (key: string, path: ReadonlySet<string>): number => {
    const known = found.get(key)
    if (known !== undefined) return known
    if (path.has(key)) return 0
    const deeper = new Set(path).add(key)
    const depth = Math.max(0, ...(uses.get(key) ?? []).map((used) => depthOf(used, deeper) + 1))
    found.set(key, depth)
    return depth
  }
  for (const key of keys) depthOf(key, new Set())
  return found
}

const mean = (values: ReadonlyArray<number>, other: number) =>
  values.length === 0 ? other : values.reduce((sum, value) => sum + value, 0) / values.length

/** Only keys that an edge touches are placed; the others need no picture. */
export const layout = (edges: ReadonlyArray<Edge>): Layout => {
  const keys = [...new Set(edges.flatMap(({ from, to }) => [from, to]))].sort()
  const uses = new Map<string, Array<string>>()
  const usedBy = new Map<string, Array<string>>()
  for (const { from, to } of edges) {
    uses.set(from, [...(uses.get(from) ?? []), to])
    usedBy.set(to, [...(usedBy.get(to) ?? []), from])
  }
  const depth = depths(keys, uses)
  const deepest = Math.max(0, ...depth.values())
  const columns: Array<Array<string>> = Array.from({ length: deepest + 1 }, () => [])
  for (const key of keys) columns[deepest - (depth.get(key) ?? 0)].push(key)

  // Barycentres: each column is ordered by where its neighbours stand, back and forth a few times.
  const row = new Map<string, number>()
  const number = () =>
    columns.forEach((column) => column.forEach((key, i) => row.set(key, i - (column.length - 1) / 2)))
  number()
  for (let sweep = 0; sweep < 4; sweep++) {
    const neighbours = sweep % 2 === 0 ? usedBy : uses
    for (const column of sweep % 2 === 0 ? columns : [...columns].reverse()) {
      const weight = new Map(
        column.map((key) => [
          key,
          mean(
            (neighbours.get(key) ?? []).map((other) => row.get(other) ?? 0),
            row.get(key) ?? 0
          )
        ])
      )
      column.sort((a, b) => (weight.get(a) ?? 0) - (weight.get(b) ?? 0) || (a < b ? -1 : 1))
    }
    number()
  }
  const rows = Math.max(0, ...columns.map((column) => column.length))
  return {
    nodes: columns.flatMap((column, i) =>
      column.map((key, j) => ({ key, column: i, row: j + (rows - column.length) / 2 }))
    ),
    columns: keys.length === 0 ? 0 : columns.length,
    rows
  }
}
