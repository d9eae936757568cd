/** References between keys, by names alone. */

export type KeyGraph = ReadonlyMap<string, ReadonlyArray<string>>

/** Whether all keys that a key is composed from exist, without a cycle. */
export const isResolvable = (graph: KeyGraph, key: string): boolean => {
  const done = new Set<string>()
  const visit = (at: string, path: ReadonlySet<string>): boolean => {
    if (done.has(at)) return true
    const references = graph.get(at)
    if (references === undefined || path.has(at)) return false
    const further = new Set(path).add(at)
    const ok = references.every((to) => visit(to, further))
    if (ok) done.add(at)
    return ok
  }
  return visit(key, new Set())
}

/** `keys` and every key that builds on one of them, directly or not. */
export const withDependents = (graph: KeyGraph, keys: Iterable<string>): ReadonlySet<string> => {
  const users = new Map<string, Array<string>>()
  for (const [key, references] of graph) {
    for (const to of references) {
      const keyUsers = users.get(to)
      if (keyUsers === undefined) users.set(to, [key])
      else keyUsers.push(key)
    }
  }
  const reached = new Set<string>()
  const waiting = [...keys]
  for (let key = waiting.pop(); key !== undefined; key = waiting.pop()) {
    if (reached.has(key)) continue
    reached.add(key)
    waiting.push(...(users.get(key) ?? []))
  }
  return reached
}

/** The cycles of a graph, each as its keys; a stored environment has none, since every write is checked. */
export const cyclesOf = (graph: KeyGraph): ReadonlyArray<ReadonlyArray<string>> => {
  const cycles: Array<ReadonlyArray<string>> = []
  const unresolved = new Set<string>()
  const visit = (at: string, path: ReadonlyArray<string>): void => {
    const from = path.indexOf(at)
    if (from >= 0) return void cycles.push(path.slice(from))
    if (unresolved.has(at)) return
    for (const to of graph.get(at) ?? []) visit(to, [...path, at])
    unresolved.add(at)
  }
  for (const key of graph.keys()) visit(key, [])
  return cycles
}
