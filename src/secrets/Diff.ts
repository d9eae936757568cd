/** The difference of two resolved environments. It holds key names only, never values or data made from values. */

export interface Difference {
  readonly added: ReadonlyArray<{ readonly key: string }>
  readonly removed: ReadonlyArray<{ readonly key: string }>
  readonly changed: ReadonlyArray<{ readonly key: string }>
}

/**
 * `added` are keys that only the target has, `removed` keys that only the source has. The lists are sorted in byte
 * order.
 */
export const diff = (source: ReadonlyMap<string, string>, target: ReadonlyMap<string, string>): Difference => {
  const listed = (keys: ReadonlyArray<string>) => [...keys].sort().map((key) => ({ key }))
  const sourceKeys = [...source.keys()]
  return {
    added: listed([...target.keys()].filter((key) => !source.has(key))),
    removed: listed(sourceKeys.filter((key) => !target.has(key))),
    changed: listed(sourceKeys.filter((key) => target.has(key) && target.get(key) !== source.get(key)))
  }
}
