/**
 * A writer's knowledge of its own keys: acknowledged writes, and unanswered ones. Seen
 * again after a crash, every key is as it was acknowledged, or has an unanswered write as a whole.
 */

/** null: the key is deleted, or was never there. A deleted key keeps its last version. */
interface State {
  readonly version: number
  readonly value: string | null
}
/** A live key. */
export interface Seen {
  readonly version: number
  readonly value: string
}
/** New values of a write's keys; null deletes. */
export type Changes = ReadonlyMap<string, string | null>

const never: State = { version: 0, value: null }

const after = ({ version }: State, value: string | null): State => ({
  version: value === null ? version : version + 1,
  value
})

const isThere = (state: State, seen: Seen | undefined) =>
  state.value === null ? seen === undefined : seen?.value === state.value && seen.version === state.version

export const make = () => {
  const states = new Map<string, State>()
  let unanswered: Changes | undefined

  const stateOf = (key: string) => states.get(key) ?? never
  const accept = (changes: Changes) => {
    for (const [key, value] of changes) states.set(key, after(stateOf(key), value))
  }

  return {
    stateOf,
    /** A write is on its way. */
    sent: (changes: Changes) => void (unanswered = changes),
    acknowledged: () => {
      if (unanswered !== undefined) accept(unanswered)
      unanswered = undefined
    },
    /** It was refused, and so it must not be there. */
    refused: () => void (unanswered = undefined),
    /** Compares with the stored keys, and continues from them; returns the faults, a sentence each. */
    check: (seen: ReadonlyMap<string, Seen>): ReadonlyArray<string> => {
      const changes: Changes = unanswered ?? new Map()
      unanswered = undefined
      const keys = [...changes.keys()]
      const isApplied = keys.every((key) => isThere(after(stateOf(key), changes.get(key) ?? null), seen.get(key)))
      const isLeft = keys.every((key) => isThere(stateOf(key), seen.get(key)))
      const lost = [...states]
        .filter(([key, state]) => !changes.has(key) && !isThere(state, seen.get(key)))
        .map(([key]) => `${key} is not as it was acknowledged`)
      if (isApplied) accept(changes)
      return isApplied || isLeft ? lost : [...lost, `a write of ${keys.length} keys is there in part`]
    }
  }
}
