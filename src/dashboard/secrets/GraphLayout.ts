/** Layout of a composition graph: columns by depth, templates left of the secrets that they use, with few crossings. */

interface Edge {
  readonly from: string
  readonly to: string
}
interface NodePosition {
  readonly key: string
  readonly column: number
  readonly row: number
}
export interface Layout {
  readonly nodes: ReadonlyArray<NodePosition>
  readonly columns: number
  readonly rows: number
}

/** Number of equal neighbours that become one node, because a hub with hundreds would fill the picture. */
const minGroup = 6

/**
 * Merges many keys with the same references into one node, named by the first of them. Also returns the keys of each
 * node.
 */
export const collapsed = (edges: ReadonlyArray<Edge>) => {
  const around = new Map<string, { readonly uses: Array<string>; readonly usedBy: Array<string> }>()
  const at = (key: string) => {
    const neighbours = around.get(key) ?? { uses: [], usedBy: [] }
    around.set(key, neighbours)
    return neighbours
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
    if (keys.length < minGroup) for (const key of keys) nodes.set(key, [key])
    else nodes.set(keys[0], keys)
  }
  return { nodes, edges: edges.filter(({ from, to }) => nodes.has(from) && nodes.has(to)) }
}

/** References around one key: all secrets that it uses, and all that use it, also indirectly. */
export const around = (edges: ReadonlyArray<Edge>, key: string): ReadonlyArray<Edge> => {
  const reachableBy = (next: (edge: Edge, at: string) => string | undefined) => {
    const keys = new Set([key])
    for (const at of keys) {
      for (const edge of edges) {
        const other = next(edge, at)
        if (other !== undefined) keys.add(other)
      }
    }
    return keys
  }
  const below = reachableBy(({ from, to }, at) => (from === at ? to : undefined))
  const above = reachableBy(({ from, to }, at) => (to === at ? from : undefined))
  return edges.filter(({ from, to }) => (below.has(from) && below.has(to)) || (above.has(from) && above.has(to)))
}

/** Longest path from each key to one without references. Stored graphs have no cycle, but a cycle would end too. */
const depths = (keys: ReadonlyArray<string>, uses: ReadonlyMap<string, ReadonlyArray<string>>) => {
  const depthByKey = new Map<string, number>()
  const depthOf = (key: string, path: ReadonlySet<string>): number => {
    const cached = depthByKey.get(key)
    if (cached !== undefined) return cached
    if (path.has(key)) return 0
    const deeper = new Set(path).add(key)
    const depth = Math.max(0, ...(uses.get(key) ?? []).map((used) => depthOf(used, deeper) + 1))
    depthByKey.set(key, depth)
    return depth
  }
  for (const key of keys) depthOf(key, new Set())
  return depthByKey
}

const mean = (values: ReadonlyArray<number>, other: number) =>
  values.length === 0 ? other : values.reduce((sum, value) => sum + value, 0) / values.length

/** Places only keys with references. */
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

  // Barycentres: orders each column by the rows of its neighbours, in a few sweeps back and forth.
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
