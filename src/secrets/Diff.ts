/** What differs between two resolved environments: key names only, never a value nor anything derived from one. */

export interface Difference {
  readonly added: ReadonlyArray<{ readonly key: string }>
  readonly removed: ReadonlyArray<{ readonly key: string }>
  readonly changed: ReadonlyArray<{ readonly key: string }>
}

/** `added` is in the target only, `removed` in the source only; each sorted by key in byte order. */
export const diff = (source: ReadonlyMap<string, string>, target: ReadonlyMap<string, string>): Difference => {
  const listed = (keys: ReadonlyArray<string>) => [...keys].sort().map((key) => ({ key }))
  const sourceKeys = [...source.keys()]
  return {
    added: listed([...target.keys()].filter((key) => !source.has(key))),
    removed: listed(sourceKeys.filter((key) => !target.has(key))),
    changed: listed(sourceKeys.filter((key) => target.has(key) && target.get(key) !== source.get(key)))
  }
}
