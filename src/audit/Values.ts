/**
 * Checks the secrets against their last writes in the trail. Ciphertexts cannot be altered unnoticed, but a row could
 * point to an older, valid version. The entry of the last write names the current version.
 */

export interface LiveValue {
  readonly environmentId: string
  readonly key: string
  readonly version: number
}

interface ValueProblem extends LiveValue {
  readonly what: string
}

interface LastWrite {
  at: number
  version: number
  live: boolean
  revision: number
}

const writeActions = new Set([
  "secret.create",
  "secret.update",
  "secret.rollback",
  "secret.restore",
  "secret.rename",
  "audit.baseline"
])
/** Actions that `LastWrites.add` requires. */
export const actions: ReadonlyArray<string> = [...writeActions, "secret.delete"]

/** Actions whose entries say whether the author typed the texts. An unchanged text is one that was sent again. */
export const textActions: ReadonlyArray<string> = ["secret.create", "secret.update", "secret.unchanged"]

export interface WriteEntry {
  readonly action: string
  readonly outcome: string
  readonly environmentId?: string | undefined
  readonly keys: ReadonlyArray<string>
  readonly versions?: ReadonlyArray<number> | undefined
  /** Milliseconds. */
  readonly at?: number | undefined
  /** Revision of the environment after the write; orders writes even if clocks differ. */
  readonly revision?: number | undefined
}

/** Memory is bounded by the number of keys ever written. */
export class LastWrites {
  readonly #last = new Map<string, Map<string, LastWrite>>()

  add({ action, at = 0, environmentId, keys, outcome, revision = 0, versions = [] }: WriteEntry): void {
    if (environmentId === undefined || outcome !== "allowed" || versions.length !== keys.length) return
    if (!writeActions.has(action) && action !== "secret.delete") return
    let environment = this.#last.get(environmentId)
    if (environment === undefined) this.#last.set(environmentId, (environment = new Map()))
    for (const [i, key] of keys.entries()) {
      const existing = environment.get(key)
      if (existing !== undefined && existing.revision > revision) continue
      // A rename names the old key, then the new one.
      const live = action !== "secret.delete" && !(action === "secret.rename" && i === 0)
      environment.set(key, { version: versions[i] ?? 0, live, revision, at })
    }
  }

  /** The last write of every live key, by environment. */
  *live(): Generator<LiveValue & { readonly revision: number; readonly at: number }> {
    for (const [environmentId, keys] of this.#last) {
      for (const [key, { at, live, revision, version }] of keys) {
        if (live) yield { environmentId, key, version, revision, at }
      }
    }
  }

  /** Requires all live rows of one environment. */
  compare(environmentId: string, rows: ReadonlyArray<{ readonly key: string; readonly version: number }>) {
    const problems: Array<ValueProblem> = []
    const lastWrites = this.#last.get(environmentId) ?? new Map<string, LastWrite>()
    const present = new Set<string>()
    for (const { key, version } of rows) {
      present.add(key)
      const last = lastWrites.get(key)
      const problem = (what: string) => problems.push({ environmentId, key, version, what })
      if (last === undefined) problem("exists, but no entry records its write")
      else if (!last.live) problem("exists, although it was deleted")
      else if (last.version > version) problem(`was rolled back: its last write was version ${last.version}`)
      else if (last.version < version) problem(`is newer than its last write on record, version ${last.version}`)
    }
    for (const [key, last] of lastWrites) {
      if (last.live && !present.has(key)) {
        problems.push({
          environmentId,
          key,
          version: last.version,
          what: "is gone, but no entry records its deletion"
        })
      }
    }
    return problems
  }
}
