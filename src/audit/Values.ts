/**
 * Whether the secrets stand as the trail last left them. A box cannot be altered unnoticed, but a row could be pointed
 * at an older, valid version of itself: the entry of the last write says which version it was.
 */

export interface LiveValue {
  readonly environmentId: string
  readonly key: string
  readonly version: number
}

export interface ValueProblem extends LiveValue {
  readonly what: string
}

interface Last {
  at: number
  version: number
  live: boolean
  revision: number
}

const writes = new Set([
  "secret.create",
  "secret.update",
  "secret.rollback",
  "secret.restore",
  "secret.rename",
  "audit.baseline"
])
/** Actions that `LastWrites.add` has to see. */
export const actions: ReadonlyArray<string> = [...writes, "secret.delete"]

export interface WriteEntry {
  readonly action: string
  readonly outcome: string
  readonly environmentId?: string | undefined
  readonly keys: ReadonlyArray<string>
  readonly versions?: ReadonlyArray<number> | undefined
  /** Milliseconds. */
  readonly at?: number | undefined
  /** Revision of the environment after the write: orders writes whatever the clocks say. */
  readonly revision?: number | undefined
}

/** Bounded by the number of keys ever written. */
export class LastWrites {
  readonly #last = new Map<string, Map<string, Last>>()

  add({ action, at = 0, environmentId, keys, outcome, revision = 0, versions = [] }: WriteEntry): void {
    if (environmentId === undefined || outcome !== "allowed" || versions.length !== keys.length) return
    if (!writes.has(action) && action !== "secret.delete") return
    let environment = this.#last.get(environmentId)
    if (environment === undefined) this.#last.set(environmentId, (environment = new Map()))
    for (const [i, key] of keys.entries()) {
      const known = environment.get(key)
      if (known !== undefined && known.revision > revision) continue
      // A rename names the key that is gone, then the one that is there.
      const live = action !== "secret.delete" && !(action === "secret.rename" && i === 0)
      environment.set(key, { version: versions[i] ?? 0, live, revision, at })
    }
  }

  /** The last write of every key that it left live, by environment. */
  *live(): Generator<LiveValue & { readonly revision: number; readonly at: number }> {
    for (const [environmentId, keys] of this.#last) {
      for (const [key, { at, live, revision, version }] of keys) {
        if (live) yield { environmentId, key, version, revision, at }
      }
    }
  }

  /** Takes the live rows of one environment, all of them. */
  compare(environmentId: string, rows: ReadonlyArray<{ readonly key: string; readonly version: number }>) {
    const problems: Array<ValueProblem> = []
    const known = this.#last.get(environmentId) ?? new Map<string, Last>()
    const present = new Set<string>()
    for (const { key, version } of rows) {
      present.add(key)
      const last = known.get(key)
      const problem = (what: string) => problems.push({ environmentId, key, version, what })
      if (last === undefined) problem("stands there, and no entry says that it was written")
      else if (!last.live) problem("stands there, although it was deleted")
      else if (last.version > version) problem(`was rolled back: its last write was version ${last.version}`)
      else if (last.version < version) problem(`is newer than its last write on record, version ${last.version}`)
    }
    for (const [key, last] of known) {
      if (last.live && !present.has(key)) {
        problems.push({
          environmentId,
          key,
          version: last.version,
          what: "is gone, and no entry says that it was deleted"
        })
      }
    }
    return problems
  }
}
